"""Items of requests and answers: find, remove, add and refuse."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final
from uuid import UUID

from kafkaguard.testing.proxy.levels import Level, field_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

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


def walk(
    node: Any,
    levels: tuple[Level, ...],
    entries: Callable[[Any, Level], list[Any] | None],
    names: Mapping[UUID, str],
    parent: Item,
) -> Iterator[Item]:
    """Iterate over the items below a node; a single one may mean all items."""
    level, deeper = levels[0], levels[1:]
    found = entries(node, level)
    if found is None:
        yield Item(parent.keys, parent.topic, parent.partition, everything=True)
        return
    for entry, key in found:
        item = _item(level, key, names, parent)
        if deeper:
            yield from walk(entry, deeper, entries, names, item)
        else:
            yield item


def asked_entries(node: Any, level: Level) -> list[Any] | None:
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
        entry if asked is None else getattr(entry, asked) for _, asked in level.keys
    )


def _answered_key(entry: Any, level: Level) -> tuple[Any, ...]:
    return tuple(getattr(entry, answered) for answered, _ in level.keys)


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


def remove(
    node: Any, levels: tuple[Level, ...], withheld: set[Keys], keys: Keys
) -> None:
    """Remove withheld items from a request, and parents that become empty."""
    level, deeper = levels[0], levels[1:]
    kept = []
    for entry, key in asked_entries(node, level) or []:
        here = (*keys, key)
        if deeper:
            remove(entry, deeper, withheld, here)
            keep = bool(getattr(entry, deeper[0].asked or ""))
        else:
            keep = here not in withheld
        if keep:
            kept.append(entry)
    setattr(node, level.asked or "", kept)


def add(node: Any, levels: tuple[Level, ...], keys: Keys, version: int) -> None:
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
    add(entry, levels[1:], keys[1:], version)


def refuse(
    node: Any,
    levels: tuple[Level, ...],
    error: Mapping[str, Any],
    chosen: Callable[[Item], bool],
    names: Mapping[UUID, str],
    parent: Item,
) -> None:
    """Set an error in the chosen items of an answer."""
    level, deeper = levels[0], levels[1:]
    entries = getattr(node, level.answered) or []
    for index, (entry, key) in enumerate(_answered_entries(node, level)):
        item = _item(level, key, names, parent)
        if deeper:
            refuse(entry, deeper, error, chosen, names, item)
        elif chosen(item):
            # Partitions in Metadata keep their leader: code 9 there is not a refusal.
            remark = level.asked is None and level.kind == "partition"
            version = entry.version
            entries[index] = entry if remark else _blank_entry(level, key, version)
            set_error(entries[index], level.struct, version, level.error, error)


def _blank_entry(level: Level, key: tuple[Any, ...], version: int) -> Any:
    fields = {name: value for (name, _), value in zip(level.keys, key, strict=True)}
    return blank(level.struct.data_class, level.struct, version, fields)


def blank(data_class: Any, struct: Any, version: int, fields: Mapping[str, Any]) -> Any:
    """Make an entry of an answer that has only its identifying fields."""
    entry = data_class(version=version, **fields)
    schema = getattr(struct, "_struct", struct)
    for name, value in _REFUSED.items():
        if name not in fields and field_of(schema, name, version) is not None:
            setattr(entry, name, value)
    return entry


def set_error(
    entry: Any,
    struct: Any,
    version: int,
    error_field: str | None,
    error: Mapping[str, Any],
) -> None:
    """Set those fields of an error that the entry has."""
    for name, value in error.items():
        wanted = (error_field or "") if name == "error_code" else name
        schema = field_of(struct, wanted, version)
        if schema and name == "record_errors":
            entry.record_errors = [
                schema.data_class(version=version, batch_index=index) for index in value
            ]
        elif schema:
            setattr(entry, wanted, value)
