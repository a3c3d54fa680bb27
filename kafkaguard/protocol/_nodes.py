"""Encode and decode arrays and structs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

from kafkaguard._common.closest import did_you_mean
from kafkaguard.protocol._errors import MalformedError
from kafkaguard.protocol._scalars import put_unsigned, raise_wrong_type

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from kafkaguard.protocol._scalars import Length, Source

#: The key in a struct's content for tags that its schema does not know.
UNKNOWN_TAGS = "unknown_tags"
_TAG_MAX = 2**31 - 1


class Node(Protocol):
    """A part of a layout."""

    @property
    def smallest(self) -> int:
        """The fewest bytes that it can take."""

    def read(self, source: Source) -> Any:
        """Read a value."""

    def write(self, target: bytearray, value: Any) -> None:
        """Append a value."""


class Array:
    """An array: the number of elements, then the elements."""

    def __init__(self, length: Length, element: Node) -> None:
        self._length = length
        self._element = element
        self.smallest = length.smallest

    def read(self, source: Source) -> list[Any] | None:
        """Read a list."""
        # Elements of size 0 count as one byte, so that the number is limited.
        count = self._length.read(source, max(1, self._element.smallest))
        if count is None:
            return None
        values: list[Any] = []
        read = self._element.read
        try:
            for _ in range(count):
                values.append(read(source))  # noqa: PERF401 - its length names the culprit
        except MalformedError as problem:
            raise problem.inside(f"[{len(values)}]") from None
        return values

    def write(self, target: bytearray, value: object) -> None:
        """Append a list."""
        if value is None:
            return self._length.write(target, None)
        if not isinstance(value, (list, tuple)):
            raise_wrong_type("a list", value)
        self._length.write(target, len(value))
        for place, element in enumerate(value):
            try:
                self._element.write(target, element)
            except MalformedError as problem:
                raise problem.inside(f"[{place}]") from None
        return None


class Nullable:
    """A struct that may be null: the byte before it says so (KIP-893)."""

    smallest = 1

    def __init__(self, struct: Struct) -> None:
        self._struct = struct

    def read(self, source: Source) -> dict[str, Any] | None:
        """Read a struct or None."""
        null = source.data[source.skip(1)] > 0x7F  # noqa: PLR2004 - a negative int8
        return None if null else self._struct.read(source)

    def write(self, target: bytearray, value: object) -> None:
        """Append a struct or None."""
        target.append(0xFF if value is None else 1)
        if value is not None:
            self._struct.write(target, value)


@dataclass(frozen=True, slots=True)
class Slot:
    """A field of a struct.

    Attributes:
        name: The key in the content.
        node: The encoding of its value.
        default: Makes the default value.
        written: The default as bytes; None if this version cannot encode it.
    """

    name: str
    node: Node
    default: Callable[[], Any]
    written: bytes | None

    def write(self, target: bytearray, content: Mapping[str, Any]) -> None:
        """Append the field's value from the content, or its default."""
        if self.name not in content and self.written is not None:
            target += self.written
            return
        try:
            self.node.write(target, content.get(self.name))
        except MalformedError as problem:
            raise problem.inside(self.name) from None

    def bytes_of(self, content: Mapping[str, Any]) -> bytes:
        """Encode the field alone."""
        target = bytearray()
        self.write(target, content)
        return bytes(target)


@dataclass(frozen=True, slots=True)
class Absent:
    """A field that this version lacks and that is not ignorable.

    Attributes:
        slot: The field in another version.
        versions: The versions that have it, for the error text.
    """

    slot: Slot
    versions: str

    def check(self, content: Mapping[str, Any]) -> None:
        """Raise an error if the content has another value than the default."""
        if self.slot.name not in content:
            return
        if self.slot.bytes_of(content) != self.slot.written:
            raise MalformedError(
                f"this version lacks the field, which only {self.versions} have, and "
                "its value must not be lost: leave it out, or write another version"
            ).inside(self.slot.name)


class Struct:
    """Fields in their order; in flexible versions, tagged fields follow.

    Args:
        placed: Fields without a tag.
        tagged: Fields with a tag; None if the version is not flexible.
        absent: Fields of other versions that are not ignorable.
        names: The allowed keys of content, in all versions.
    """

    def __init__(
        self,
        placed: Sequence[Slot],
        tagged: Mapping[int, Slot] | None,
        absent: Sequence[Absent],
        names: frozenset[str],
    ) -> None:
        self._placed = placed
        self._tagged = None if tagged is None else dict(sorted(tagged.items()))
        self._absent = absent
        self._names = names | {UNKNOWN_TAGS}
        sizes = sum(slot.node.smallest for slot in placed)
        self.smallest = sizes + (tagged is not None)

    def read(self, source: Source) -> dict[str, Any]:
        """Read the fields of this version; missing tags get their defaults."""
        content: dict[str, Any] = {}
        for slot in self._placed:
            try:
                content[slot.name] = slot.node.read(source)
            except MalformedError as problem:
                raise problem.inside(slot.name) from None
        if self._tagged is not None:
            content |= {slot.name: slot.default() for slot in self._tagged.values()}
            self._read_tags(self._tagged, source, content)
        return content

    def _read_tags(
        self, slots: Mapping[int, Slot], source: Source, content: dict[str, Any]
    ) -> None:
        unknown: dict[int, bytes] = {}
        previous = -1
        for _ in range(source.unsigned()):
            start = source.position
            tag, size = source.unsigned(), source.unsigned()
            if tag <= previous:
                raise MalformedError(f"tag {tag} after tag {previous}", start)
            if size > source.left:
                raise MalformedError(
                    f"tag {tag} claims {size} bytes, {source.left} are left", start
                )
            previous = tag
            if tag in slots:
                _read_known(slots[tag], size, source, content)
            else:
                unknown[tag] = source.take(size)
        if unknown:
            content[UNKNOWN_TAGS] = unknown

    def write(self, target: bytearray, value: object) -> None:
        """Append a struct."""
        if not isinstance(value, Mapping):
            raise_wrong_type("a dict", value)
        if not self._names.issuperset(value):
            self._refuse_unknown(value)
        for slot in self._placed:
            slot.write(target, value)
        for absent in self._absent:
            absent.check(value)
        self._write_tags(target, value)

    def _refuse_unknown(self, content: Mapping[str, Any]) -> None:
        name = str(next(key for key in content if key not in self._names))
        hint = did_you_mean(name, self._names) or f"; known: {sorted(self._names)}"
        raise MalformedError(f"no version has this field{hint}").inside(name)

    def _write_tags(self, target: bytearray, content: Mapping[str, Any]) -> None:
        tags = _unknown_tags(content)
        if self._tagged is None:
            if tags:
                problem = MalformedError("this version is not flexible: it has no tags")
                raise problem.inside(UNKNOWN_TAGS)
            return
        for tag, slot in self._tagged.items():
            if tag in tags:
                problem = MalformedError(f"tag {tag} is the field {slot.name}")
                raise problem.inside(UNKNOWN_TAGS)
            encoded = slot.bytes_of(content)
            if encoded != slot.written:
                tags[tag] = encoded
        put_unsigned(target, len(tags))
        for tag, encoded in sorted(tags.items()):
            put_unsigned(target, tag)
            put_unsigned(target, len(encoded))
            target += encoded


def _read_known(slot: Slot, size: int, source: Source, content: dict[str, Any]) -> None:
    try:
        content[slot.name] = source.within(size, slot.node.read)
    except MalformedError as problem:
        raise problem.inside(slot.name) from None


def _unknown_tags(content: Mapping[str, Any]) -> dict[int, bytes]:
    unknown = content.get(UNKNOWN_TAGS) or {}
    if not isinstance(unknown, Mapping) or not all(map(_is_tag, unknown.items())):
        problem = MalformedError("a dict from tag numbers to bytes needed")
        raise problem.inside(UNKNOWN_TAGS)
    return {tag: bytes(value) for tag, value in unknown.items()}


def _is_tag(item: tuple[object, object]) -> bool:
    tag, value = item
    number = isinstance(tag, int) and not isinstance(tag, bool) and 0 <= tag <= _TAG_MAX
    return number and isinstance(value, (bytes, bytearray, memoryview))
