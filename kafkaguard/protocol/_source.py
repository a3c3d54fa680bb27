"""Bytes with a position and an end."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

from kafkaguard.protocol._errors import MalformedError

if TYPE_CHECKING:
    from collections.abc import Callable

T = TypeVar("T")

_VARINT_BYTES = 5
# Kafka's lengths and tags are signed int32, and never negative.
_VARINT_MAX = 2**31 - 1


class Source:
    """The bytes of a message that are not read yet."""

    __slots__ = ("data", "end", "position")

    def __init__(self, data: bytes) -> None:
        self.data = data
        self.position = 0
        self.end = len(data)

    @property
    def left(self) -> int:
        """The number of bytes that are left."""
        return self.end - self.position

    def take(self, size: int) -> bytes:
        """Read ``size`` bytes."""
        start = self.skip(size)
        return self.data[start : start + size]

    def skip(self, size: int) -> int:
        """Skip ``size`` bytes, and return the position where they start."""
        start = self.position
        if size > self.end - start:
            raise MalformedError(
                f"{size} bytes needed, {self.end - start} are left: the input is "
                "truncated, or has another version",
                start,
            )
        self.position = start + size
        return start

    def unsigned(self) -> int:
        """Read an unsigned varint of at most 31 bits."""
        start = self.position
        value = 0
        for index in range(_VARINT_BYTES):
            byte = self.data[self.skip(1)]
            value |= (byte & 0x7F) << (7 * index)
            if byte < 0x80:  # noqa: PLR2004 - the bit that says "more"
                break
        else:
            raise MalformedError("a varint of more than 5 bytes", start)
        if value > _VARINT_MAX:
            raise MalformedError("a varint of more than 31 bits", start)
        return value

    def within(self, size: int, read: Callable[[Source], T]) -> T:
        """Read a value that must take exactly ``size`` bytes."""
        end = self.end
        self.end = self.position + size
        value = read(self)
        self.finish()
        self.end = end
        return value

    def finish(self) -> None:
        """Raise an error if bytes are left."""
        if self.left:
            raise MalformedError(
                f"{self.left} bytes too many: the input is longer than the message, or "
                "has another version",
                self.position,
            )


def put_unsigned(target: bytearray, value: int) -> None:
    """Append an unsigned varint."""
    while value > 0x7F:  # noqa: PLR2004 - seven bits a byte
        target.append(value & 0x7F | 0x80)
        value >>= 7
    target.append(value)
