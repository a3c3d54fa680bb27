"""Parse hexadecimal digits, as copied from a terminal."""

from __future__ import annotations

import re

# xxd and tcpdump write "00000010: 003e 0004  .>..", hexdump -C "00000010  00 3e  |.>|".
_COLON = re.compile(r"^\s*(?:0x)?[0-9a-fA-F]{4,16}: ?")
_CANONICAL = re.compile(r"^[0-9a-fA-F]{8,16}(?=  |$)")
_DECORATION = re.compile(r"0x|\\x|[\s:,-]")


def from_hex(text: str) -> bytes | None:
    """Parse hexadecimal digits, plain or as xxd, hexdump -C or tcpdump -X print them.

    Returns:
        The bytes; None if the text contains anything else.
    """
    lines = text.strip("\r\n").splitlines()
    canonical = any(_CANONICAL.match(line) and "  " in line for line in lines)
    digits = "".join(_digits(line, canonical=canonical) for line in lines)
    try:
        return bytes.fromhex(_DECORATION.sub("", digits)) or None
    except ValueError:
        return None


def _digits(line: str, *, canonical: bool) -> str:
    if canonical:
        return _CANONICAL.sub("", line).partition("|")[0]
    if _COLON.match(line):
        return re.split(r"\s{2,}", _COLON.sub("", line).strip())[0]
    return line


def is_text(data: bytes) -> bool:
    """Return whether this is text: Kafka messages always have a zero byte."""
    return data.isascii() and b"\0" not in data
