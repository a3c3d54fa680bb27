"""The size of a record in a topic: Kafka's record format, version 2.

A batch has a header of 61 bytes. A record in it has its length, attributes, two deltas,
and key, value and headers, each after its length. All numbers have variable length.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

BATCH_HEADER_BYTES = 61
#: Attributes, and the deltas of time and offset, which are 0 in the first record.
FIXED_BYTES = 3
_BITS_A_BYTE = 7
#: From each of these numbers on, the encoding is one byte longer.
NUMBER_STEPS = (1 << 6, 1 << 13, 1 << 20, 1 << 27)


def batch_size(
    key: bytes | None,
    value: bytes | None,
    headers: Sequence[tuple[str, bytes | None]],
) -> int:
    """Count the uncompressed bytes of a batch with one record.

    A broker compares this size with the topic's ``max.message.bytes``.
    """
    size = FIXED_BYTES + _size(key) + _size(value) + headers_size(headers)
    return BATCH_HEADER_BYTES + _number_size(size) + size


def headers_size(headers: Sequence[tuple[str, bytes | None]]) -> int:
    """Count the bytes of a record's headers, including the number of headers."""
    sizes = (_size(name.encode()) + _size(content) for name, content in headers)
    return _number_size(len(headers)) + sum(sizes)


def _size(data: bytes | None) -> int:
    """Count the bytes of a field and its length; null is the length -1."""
    return 1 if data is None else _number_size(len(data)) + len(data)


def _number_size(number: int) -> int:
    """Count the bytes of a non-negative number; one bit is the sign."""
    return number.bit_length() // _BITS_A_BYTE + 1
