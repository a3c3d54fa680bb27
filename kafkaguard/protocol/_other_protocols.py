"""Recognise bytes of other protocols, such as TLS and HTTP.

A message begins with its size in four bytes. A broker reads the first four bytes of
other protocols as a size too. So "GET " becomes ``Invalid receive (size = 1195725856)``
in its log.
"""

from __future__ import annotations

from typing import Final

_SIZE_BYTES: Final = 4
_HTTP: Final = (
    *(b"GET ", b"HEAD", b"POST", b"PUT ", b"DELE", b"PATC", b"OPTI", b"TRAC"),
    *(b"CONN", b"PRI "),
)
#: The first two bytes of TLS records: the record's type and the major version.
_TLS: Final = {
    b"\x14\x03": "TLS",
    b"\x15\x03": "TLS (an alert)",
    b"\x16\x03": "TLS (a handshake)",
    b"\x17\x03": "TLS (encrypted data)",
}
_OTHERS: Final = {b"HTTP": "HTTP (a web server's answer)", b"SSH-": "SSH"}


def name_protocol(first: bytes) -> str | None:
    """Name the protocol of some bytes; None if it is unknown or Kafka's.

    Args:
        first: The first bytes, at least four.
    """
    if first[:_SIZE_BYTES] in _HTTP:
        return "HTTP (a request)"
    return _OTHERS.get(first[:_SIZE_BYTES]) or _TLS.get(first[:2])


def name_protocol_of_size(size: int) -> str | None:
    """Do the same for bytes that were read as a size."""
    if not -(2**31) <= size < 2**32:
        return None
    return name_protocol((size % 2**32).to_bytes(_SIZE_BYTES, "big"))
