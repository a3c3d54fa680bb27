"""Encode and decode single values, from bytes with a position and an end."""

from __future__ import annotations

import struct
from dataclasses import dataclass
from operator import index
from typing import TYPE_CHECKING, Any, NoReturn, TypeVar

from kafkaguard.protocol._errors import MalformedError, ProtocolError
from kafkaguard.protocol._uuids import parse_uuid

if TYPE_CHECKING:
    from collections.abc import Callable
    from uuid import UUID


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
        for position in range(_VARINT_BYTES):
            byte = self.data[self.skip(1)]
            value |= (byte & 0x7F) << (7 * position)
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


_COMPACT_MAX = 2**31 - 2


def raise_wrong_type(expected: str, value: object) -> NoReturn:
    """Raise for a wrong type, without the value, which may be confidential."""
    raise MalformedError(f"{expected} needed, not {type(value).__name__}")


class Integer:
    """int8 to int64, and uint16 for ports."""

    def __init__(self, kind: str, layout: str) -> None:
        self.kind = kind
        self._layout = struct.Struct(f">{layout}")
        self.smallest = self._layout.size

    def read(self, source: Source) -> int:
        """Read a number."""
        start = source.skip(self.smallest)
        value: int = self._layout.unpack_from(source.data, start)[0]
        return value

    def write(self, target: bytearray, value: object) -> None:
        """Append a number."""
        if isinstance(value, bool) or not hasattr(value, "__index__"):
            raise_wrong_type("a whole number", value)
        try:
            target += self._layout.pack(index(value))
        except struct.error:
            raise MalformedError(f"{value} does not fit {self.kind}") from None


class Boolean:
    """One byte; any value but zero is true, as in Kafka itself."""

    smallest = 1

    def read(self, source: Source) -> bool:
        """Read a boolean."""
        return source.data[source.skip(1)] != 0

    def write(self, target: bytearray, value: object) -> None:
        """Append a boolean."""
        if not isinstance(value, bool):
            raise_wrong_type("True or False", value)
        target.append(value)


class Float:
    """float64."""

    smallest = 8

    def read(self, source: Source) -> float:
        """Read a number."""
        value: float = struct.unpack_from(">d", source.data, source.skip(8))[0]
        return value

    def write(self, target: bytearray, value: object) -> None:
        """Append a number."""
        if isinstance(value, bool) or not isinstance(value, (int, float)):
            raise_wrong_type("a number", value)
        try:
            target += struct.pack(">d", value)
        except struct.error:
            raise MalformedError("the number does not fit float64") from None


class Uuid:
    """16 bytes; decoded to uuid.UUID, encoded from any form."""

    smallest = 16

    def read(self, source: Source) -> UUID:
        """Read an id."""
        return parse_uuid(source.take(16))

    def write(self, target: bytearray, value: Any) -> None:
        """Append an id."""
        try:
            target += parse_uuid(value).bytes
        except ProtocolError as error:
            raise MalformedError(str(error)) from None


@dataclass(frozen=True, slots=True)
class Length:
    """The number of bytes or elements that follow; null has a length of its own.

    Attributes:
        size: Bytes of the old form; 0 for the compact form, a varint of length + 1.
        nullable: Whether null is allowed.
    """

    size: int
    nullable: bool

    @property
    def smallest(self) -> int:
        """The fewest bytes that it can take."""
        return self.size or 1

    def read(self, source: Source, unit: int) -> int | None:
        """Read a length, and check that so many units of ``unit`` bytes can be left.

        So a length of 2 GB is refused before any memory is allocated.
        """
        start = source.position
        length = self._read(source)
        if length == -1 and self.nullable:
            return None
        if length < 0:
            null = "null, which is not allowed here" if length == -1 else ""
            raise MalformedError(null or f"a negative length, {length}", start)
        if length * unit > source.left:
            raise MalformedError(
                f"a length of {length} needs at least {length * unit} bytes, and "
                f"{source.left} are left: the input is truncated, or has another "
                "version",
                start,
            )
        return length

    def _read(self, source: Source) -> int:
        if not self.size:
            return source.unsigned() - 1
        return int.from_bytes(source.take(self.size), "big", signed=True)

    def write(self, target: bytearray, length: int | None) -> None:
        """Append a length."""
        if length is None and not self.nullable:
            raise MalformedError("None, and null is not allowed here")
        maximum = 2 ** (8 * self.size - 1) - 1 if self.size else _COMPACT_MAX
        number = -1 if length is None else length
        if number > maximum:
            raise MalformedError(f"a length of {number}, and the maximum is {maximum}")
        if self.size:
            target += number.to_bytes(self.size, "big", signed=True)
        else:
            put_unsigned(target, number + 1)


class Text:
    """A string in UTF-8."""

    def __init__(self, length: Length) -> None:
        self._length = length
        self.smallest = length.smallest

    def read(self, source: Source) -> str | None:
        """Read a string."""
        size = self._length.read(source, 1)
        if size is None:
            return None
        start = source.position
        try:
            return source.take(size).decode()
        except UnicodeDecodeError as error:
            raise MalformedError("not UTF-8", start + error.start) from None

    def write(self, target: bytearray, value: object) -> None:
        """Append a string."""
        if value is None:
            return self._length.write(target, None)
        if not isinstance(value, str):
            raise_wrong_type("a string", value)
        try:
            encoded = value.encode()
        except UnicodeEncodeError:
            raise MalformedError("a lone surrogate cannot be UTF-8") from None
        self._length.write(target, len(encoded))
        target += encoded
        return None


class Blob:
    """Bytes; record batches too stay bytes."""

    def __init__(self, length: Length) -> None:
        self._length = length
        self.smallest = length.smallest

    def read(self, source: Source) -> bytes | None:
        """Read bytes."""
        size = self._length.read(source, 1)
        return None if size is None else source.take(size)

    def write(self, target: bytearray, value: object) -> None:
        """Append bytes."""
        if value is None:
            return self._length.write(target, None)
        if not isinstance(value, (bytes, bytearray, memoryview)):
            raise_wrong_type("bytes", value)
        self._length.write(target, memoryview(value).nbytes)
        target += value
        return None
