"""Items of requests and answers, and the places of error codes in an answer."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any, Final
from uuid import UUID

from kafkaguard.testing.proxy import frames
from kafkaguard.testing.proxy.journal import code_name
from kafkaguard.testing.proxy.levels import (
    Level,
    error_field,
    field_of,
    levels,
    until_unknown,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

    Keys = tuple[tuple[Any, ...], ...]


# The values of a refused item in a broker's answer that are not schema defaults.
_REFUSED: Final[Mapping[str, Any]] = {
    "base_offset": -1,
    "committed_offset": -1,
    "high_watermark": -1,
    "low_watermark": -1,
    "node_id": -1,
    "port": -1,
    "producer_epoch": -1,
    "records": b"",
}
_TOPIC_RESOURCE: Final = 2


@dataclass(frozen=True, slots=True)
class Item:
    """An item that a request names and its answer contains.

    Attributes:
        keys: The keys that identify it, one for each level.
        topic: Its topic; the topic's id as text if the name is unknown.
        partition: Its partition.
        everything: Whether the request asks for all items, without naming them.
    """

    keys: Keys
    topic: str | None = None
    partition: int | None = None
    everything: bool = False


def _walk(
    node: Any,
    levels: tuple[Level, ...],
    entries: Callable[[Any, Level], list[Any] | None],
    names: Mapping[UUID, str],
    parent: Item,
) -> Iterator[Item]:
    """Iterate over the items below a node; a single one may mean all items."""
    level, deeper = levels[0], levels[1:]
    pairs = entries(node, level)
    if pairs is None:
        yield Item(parent.keys, parent.topic, parent.partition, everything=True)
        return
    for entry, key in pairs:
        item = _item(level, key, names, parent)
        if deeper:
            yield from _walk(entry, deeper, entries, names, item)
        else:
            yield item


def _asked_entries(node: Any, level: Level) -> list[Any] | None:
    """Return a request's entries of one level; None if it asks for all."""
    entries = getattr(node, level.asked or "")
    if entries is None:
        return None
    return [(entry, _asked_key(entry, level)) for entry in entries]


def _answered_entries(node: Any, level: Level) -> list[Any]:
    entries = getattr(node, level.answered) or []
    return [(entry, _answered_key(entry, level)) for entry in entries]


def _asked_key(entry: Any, level: Level) -> tuple[Any, ...]:
    return tuple(
        entry if name is None else getattr(entry, name) for _, name in level.keys
    )


def _answered_key(entry: Any, level: Level) -> tuple[Any, ...]:
    return tuple(getattr(entry, name) for name, _ in level.keys)


def _item(
    level: Level, key: tuple[Any, ...], names: Mapping[UUID, str], parent: Item
) -> Item:
    topic, partition = parent.topic, parent.partition
    if level.kind == "topic":
        topic = _topic_name(key, names)
    elif level.kind == "partition":
        partition = next(value for value in key if isinstance(value, int))
    elif level.kind == "resource" and _TOPIC_RESOURCE in key:
        topic = next(value for value in key if isinstance(value, str))
    return Item((*parent.keys, key), topic, partition)


def _topic_name(key: tuple[Any, ...], names: Mapping[UUID, str]) -> str:
    name = next((value for value in key if isinstance(value, str)), None)
    if name is not None:
        return name
    topic_id = next((value for value in key if isinstance(value, UUID)), None)
    return "" if topic_id is None else names.get(topic_id, str(topic_id))


def _remove(
    node: Any, levels: tuple[Level, ...], withheld: set[Keys], keys: Keys
) -> None:
    """Remove withheld items from a request, and parents that become empty."""
    level, deeper = levels[0], levels[1:]
    remaining = []
    for entry, key in _asked_entries(node, level) or []:
        here = (*keys, key)
        if deeper:
            _remove(entry, deeper, withheld, here)
            is_kept = bool(getattr(entry, deeper[0].asked or ""))
        else:
            is_kept = here not in withheld
        if is_kept:
            remaining.append(entry)
    setattr(node, level.asked or "", remaining)


def _add(node: Any, levels: tuple[Level, ...], keys: Keys, version: int) -> None:
    """Add a missing item without an error to an answer."""
    if not keys:
        return
    level, key = levels[0], keys[0]
    entries = getattr(node, level.answered) or []
    for entry in entries:
        if _answered_key(entry, level) == key:
            break
    else:
        entry = _blank_entry(level, key, version)
        entries.append(entry)
        setattr(node, level.answered, entries)
    _add(entry, levels[1:], keys[1:], version)


def _refuse(
    node: Any,
    levels: tuple[Level, ...],
    error: Mapping[str, Any],
    is_chosen: Callable[[Item], bool],
    names: Mapping[UUID, str],
    parent: Item,
) -> None:
    """Set an error in the chosen items of an answer."""
    level, deeper = levels[0], levels[1:]
    entries = getattr(node, level.answered) or []
    for index, (entry, key) in enumerate(_answered_entries(node, level)):
        item = _item(level, key, names, parent)
        if deeper:
            _refuse(entry, deeper, error, is_chosen, names, item)
        elif is_chosen(item):
            # Partitions in Metadata keep their leader: code 9 there is not a refusal.
            is_remark = level.asked is None and level.kind == "partition"
            version = entry.version
            entries[index] = entry if is_remark else _blank_entry(level, key, version)
            _set_error(entries[index], level.struct, version, level.error, error)


def _blank_entry(level: Level, key: tuple[Any, ...], version: int) -> Any:
    fields = {name: value for (name, _), value in zip(level.keys, key, strict=True)}
    return _make_blank(level.struct.data_class, level.struct, version, fields)


def _make_blank(
    data_class: Any, struct: Any, version: int, fields: Mapping[str, Any]
) -> Any:
    """Make an entry of an answer that has only its identifying fields."""
    entry = data_class(version=version, **fields)
    schema = getattr(struct, "_struct", struct)
    for name, value in _REFUSED.items():
        if name not in fields and field_of(schema, name, version) is not None:
            setattr(entry, name, value)
    return entry


def _set_error(
    entry: Any,
    struct: Any,
    version: int,
    error_field: str | None,
    error: Mapping[str, Any],
) -> None:
    """Set those fields of an error that the entry has."""
    for name, value in error.items():
        field_name = (error_field or "") if name == "error_code" else name
        schema = field_of(struct, field_name, version)
        if schema and name == "record_errors":
            entry.record_errors = [
                schema.data_class(version=version, batch_index=index) for index in value
            ]
        elif schema:
            setattr(entry, field_name, value)


# Codes that a broker sets at another place than the API's other codes.
_TOP_CODES: Final = {
    "Fetch": {
        "FETCH_SESSION_ID_NOT_FOUND",
        "FETCH_SESSION_TOPIC_ID_ERROR",
        "INVALID_FETCH_SESSION_EPOCH",
    },
    "Metadata": {"REBOOTSTRAP_REQUIRED"},
}
_INNERMOST_CODES: Final = {
    "OffsetFetch": {
        "TOPIC_AUTHORIZATION_FAILED",
        "UNKNOWN_TOPIC_ID",
        "UNKNOWN_TOPIC_OR_PARTITION",
        "UNSTABLE_OFFSET_COMMIT",
    },
}
_DEFAULT_KIND: Final = {
    "DescribeLogDirs": "top",
    "LeaveGroup": "top",
    "Metadata": "topic",
    "DescribeTopicPartitions": "topic",
    "OffsetFetch": "group",
}
#: Answers with more than the request names, so that only a broker can make them.
_BROKER_MADE: Final = {"Metadata", "DescribeTopicPartitions"}


@dataclass(frozen=True, slots=True)
class Layout:
    """The levels of an API in one version, from the outermost to the innermost."""

    api: str
    version: int
    answer: Any
    levels: tuple[Level, ...]
    top_error: str | None

    @property
    def kinds(self) -> tuple[str, ...]:
        """The places for an error, from the outermost to the innermost."""
        top = ("top",) if self.top_error else ()
        return top + tuple(level.kind for level in self.levels if level.error)

    @property
    def has_throttle(self) -> bool:
        """Whether the answer tells a client how long it is throttled."""
        return hasattr(self.blank(), "throttle_time_ms")

    def default_kind(self, code: int, *, item_wanted: bool) -> str | None:
        """Return the place where a broker sets a code; None if the API has no codes.

        Args:
            code: The error code.
            item_wanted: Whether the fault selects a certain topic or partition.
        """
        kinds = self.kinds
        if not kinds:
            return None
        name = code_name(code)
        if name in _TOP_CODES.get(self.api, ()) and "top" in kinds:
            return "top"
        if item_wanted and self.api not in _BROKER_MADE:
            return kinds[-1]
        if name in _INNERMOST_CODES.get(self.api, ()):
            return kinds[-1]
        kind = _DEFAULT_KIND.get(self.api, kinds[-1])
        return kind if kind in kinds else kinds[0]

    def needs_broker(self, kind: str) -> bool:
        """Return whether only a broker's own answer has this place."""
        if kind == "top":
            return False
        depth = self._depth(kind)
        unknown = any(level.asked is None for level in self.levels[:depth])
        return unknown or self.api in _BROKER_MADE

    def asked_items(self, body: Any, names: Mapping[UUID, str]) -> list[Item]:
        """List the items of a request; one item means all if the request names none."""
        asked_levels = until_unknown(self.levels)
        if not asked_levels:
            return [Item((), everything=True)] if self.levels else []
        return list(_walk(body, asked_levels, _asked_entries, names, Item(())))

    def blank(self) -> Any:
        """Make an answer without items and without errors."""
        return _make_blank(self.answer, self.answer, self.version, {})

    def without(self, body: Any, withheld: set[Keys]) -> None:
        """Remove items from a request."""
        _remove(body, until_unknown(self.levels), withheld, ())

    def add(self, answer: Any, items: Iterable[Item]) -> None:
        """Add missing items without errors to an answer."""
        for item in items:
            _add(answer, self.levels, item.keys, self.version)

    def refuse(
        self,
        answer: Any,
        kind: str,
        error: Mapping[str, Any],
        is_chosen: Callable[[Item], bool],
        names: Mapping[UUID, str],
    ) -> None:
        """Replace each chosen item of an answer by a broker's refusal.

        Args:
            answer: The decoded answer.
            kind: The level of the error.
            error: The fields to set if the level has them; ``error_code`` is the code.
            is_chosen: Selects the items to refuse.
            names: The topic names by id.
        """
        levels = self.levels[: self._depth(kind)]
        _refuse(answer, levels, error, is_chosen, names, Item(()))

    def refused(self, error: Mapping[str, Any]) -> Any:
        """Make an answer that refuses a request as a whole."""
        answer = self.blank()
        _set_error(
            answer, frames.struct_of(self.answer), self.version, self.top_error, error
        )
        return answer

    def clear(self, answer: Any) -> None:
        """Remove the items from an answer, or all lists if it has no items."""
        arrays = [self.levels[0].answered] if self.levels else _arrays(answer)
        for name in arrays:
            setattr(answer, name, [])

    def _depth(self, kind: str) -> int:
        return 1 + [level.kind for level in self.levels].index(kind)


@cache
def layout(api_key: int, version: int) -> Layout | None:
    """Return the layout of an API's answer; None if its schema is unknown."""
    answer = frames.answer_schema(api_key, version)
    if answer is None:
        return None
    top = error_field(frames.struct_of(answer), version)
    api = answer.__name__.removesuffix("Response")
    return Layout(api, version, answer, levels(api_key, version), top)


@cache
def kinds(api_key: int) -> tuple[str, ...]:
    """Return all places where some version of an API can have an error."""
    highest = frames.max_version(api_key)
    if highest is None:
        return ()
    places: dict[str, None] = {}
    for version in range(highest + 1):
        answer_layout = layout(api_key, version)
        places.update(dict.fromkeys(answer_layout.kinds if answer_layout else ()))
    return tuple(places)


def _arrays(answer: Any) -> list[str]:
    return [
        field.name
        for field in frames.struct_of(answer).fields.values()
        if field.is_array() and field.for_version_q(answer.version)
    ]
