"""Where each API names its items, and where its answer has their errors.

Most requests name items (topics and their partitions, groups, resources) and the answer
repeats them, each with an error code. One table says which array of the request is
answered by which array of the answer; all else is read from Kafka's own schemas.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any, Final
from uuid import UUID

from kafkaguard._apis import API_KEYS
from kafkaguard.testing import _frames
from kafkaguard.testing._journal import code_name

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

    Keys = tuple[tuple[Any, ...], ...]

# kind:asked>answered; "-" where only the broker knows the items. Alternatives of older
# versions stand behind a bar, and the first whose arrays all exist is taken.
_TABLE: Final = """
Produce            topic:topic_data>responses partition:partition_data>partition_responses
Fetch              topic:topics>responses partition:partitions>partitions
ListOffsets        topic:topics>topics partition:partitions>partitions
Metadata           topic:topics>topics partition:->partitions
OffsetCommit       topic:topics>topics partition:partitions>partitions
OffsetFetch        group:groups>groups topic:topics>topics partition:partition_indexes>partitions | topic:topics>topics partition:partition_indexes>partitions
FindCoordinator    key:coordinator_keys>coordinators
LeaveGroup         member:members>members
DescribeGroups     group:groups>groups
DeleteGroups       group:groups_names>results
CreateTopics       topic:topics>topics
DeleteTopics       topic:topics>responses | topic:topic_names>responses
DeleteRecords      topic:topics>topics partition:partitions>partitions
CreatePartitions   topic:topics>results
OffsetForLeaderEpoch topic:topics>topics partition:partitions>partitions
AddPartitionsToTxn transaction:transactions>results_by_transaction topic:topics>topic_results partition:partitions>results_by_partition | topic:v3_and_below_topics>results_by_topic_v3_and_below partition:partitions>results_by_partition
TxnOffsetCommit    topic:topics>topics partition:partitions>partitions
WriteTxnMarkers    transaction:markers>markers topic:topics>topics partition:partition_indexes>partitions
DescribeConfigs    resource:resources>results
AlterConfigs       resource:resources>responses
IncrementalAlterConfigs resource:resources>responses
DescribeLogDirs    dir:->results
AlterReplicaLogDirs topic:->results partition:->partitions
ElectLeaders       topic:topic_partitions>replica_election_results partition:partitions>partition_result
AlterPartitionReassignments topic:topics>responses partition:partitions>partitions
OffsetDelete       topic:topics>topics partition:partitions>partitions
DescribeProducers  topic:topics>topics partition:partition_indexes>partitions
DescribeTransactions transaction:transactional_ids>transaction_states
DescribeTopicPartitions topic:topics>topics partition:->partitions
DescribeQuorum     topic:topics>topics partition:partitions>partitions
DescribeUserScramCredentials user:users>results
AlterUserScramCredentials user:->results
UpdateFeatures     feature:feature_updates>results
CreateAcls         acl:->results
DeleteAcls         filter:->filter_results
AlterClientQuotas  entry:->entries
"""  # noqa: E501 - a table has one row a line

# What a broker fills in where it refuses an item, other than the schema's defaults.
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
_KEYS: Final = {
    *("name", "topic", "topic_name", "topic_id"),
    *("index", "partition", "partition_index", "partition_id"),
    *("group_id", "member_id", "group_instance_id", "key"),
    *("transactional_id", "producer_id"),
    *("resource_type", "resource_name", "feature", "user", "log_dir"),
}
_ASKED_AS: Final = {"partition_index": "partition", "user": "name"}
_ERROR_CODES: Final = ("error_code", "partition_error_code")
_TOPIC_RESOURCE: Final = 2

# Codes that a broker puts elsewhere than where the API's others go.
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
#: Answers that say more than was asked for, so that only a broker can give them.
_BROKER_MADE: Final = {"Metadata", "DescribeTopicPartitions"}


@dataclass(frozen=True, slots=True)
class Item:
    """Something that a request names and its answer speaks about.

    Attributes:
        keys: What identifies it, level by level.
        topic: Its topic; the text of the topic's id where the name is not known.
        partition: Its partition.
        everything: The request asks for all there are, without naming them.
    """

    keys: Keys
    topic: str | None = None
    partition: int | None = None
    everything: bool = False


@dataclass(frozen=True, slots=True)
class Level:
    """One array of an answer and the array of the request that it answers."""

    kind: str
    asked: str | None
    answered: str
    struct: Any
    keys: tuple[tuple[str, str | None], ...]
    error: str | None


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
        """Where an error can be put, from the outermost place to the innermost."""
        top = ("top",) if self.top_error else ()
        return top + tuple(level.kind for level in self.levels if level.error)

    def default_kind(self, code: int, *, item_wanted: bool) -> str | None:
        """Return where a broker puts a code; None where the API answers without one.

        Args:
            code: The error code.
            item_wanted: The fault is about a certain topic or partition.
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
        wanted = _DEFAULT_KIND.get(self.api, kinds[-1])
        return wanted if wanted in kinds else kinds[0]

    def needs_broker(self, kind: str) -> bool:
        """Tell whether only a broker's own answer has the place of an error."""
        if kind == "top":
            return False
        depth = self._depth(kind)
        unknown = any(level.asked is None for level in self.levels[:depth])
        return unknown or self.api in _BROKER_MADE

    def asked_items(self, body: Any, names: Mapping[UUID, str]) -> list[Item]:
        """List what a request names, with everything where it names nothing."""
        known = _until_unknown(self.levels)
        if not known:
            return [Item((), everything=True)] if self.levels else []
        return list(_walk(body, known, _asked_entries, names, Item(())))

    def answered_items(self, body: Any, names: Mapping[UUID, str]) -> list[Item]:
        """List what an answer speaks about."""
        return list(_walk(body, self.levels, _answered_entries, names, Item(())))

    def blank(self) -> Any:
        """Make an answer without items and without errors."""
        return _blank(self.answer, self.answer, self.version, {})

    def without(self, body: Any, withheld: set[Keys]) -> None:
        """Take items out of a request."""
        _remove(body, _until_unknown(self.levels), withheld, ())

    def add(self, answer: Any, items: Iterable[Item]) -> None:
        """Add to an answer the items that it lacks, without errors."""
        for item in items:
            _add(answer, self.levels, item.keys, self.version)

    def refuse(
        self,
        answer: Any,
        kind: str,
        error: Mapping[str, Any],
        chosen: Callable[[Item], bool],
        names: Mapping[UUID, str],
    ) -> None:
        """Replace each chosen item of an answer by what a broker says to refuse it.

        Args:
            answer: The decoded answer.
            kind: The level at which the error is put.
            error: Fields to set where the level has them; ``error_code`` is the code.
            chosen: Says which items are refused.
            names: The names of topic ids.
        """
        levels = self.levels[: self._depth(kind)]
        _refuse(answer, levels, error, chosen, names, Item(()))

    def refused(self, error: Mapping[str, Any]) -> Any:
        """Make an answer that refuses a request as a whole."""
        answer = self.blank()
        _set(answer, self.answer._struct, self.version, self.top_error, error)  # noqa: SLF001 - the schema
        return answer

    def clear(self, answer: Any) -> None:
        """Empty an answer: of its items, else of every list that it has."""
        arrays = [self.levels[0].answered] if self.levels else _arrays(answer)
        for name in arrays:
            setattr(answer, name, [])

    def _depth(self, kind: str) -> int:
        return 1 + [level.kind for level in self.levels].index(kind)


@cache
def layout(api_key: int, version: int) -> Layout | None:
    """Return the layout of an API's answer; None where its schema is not known."""
    request = _frames.request_schema(api_key, version)
    answer = _frames.answer_schema(api_key, version)
    if answer is None:
        return None
    levels: tuple[Level, ...] = ()
    for row in _rows().get(api_key, ()):
        bound = _bind(row, request._struct, answer._struct, version)  # noqa: SLF001 - the schema
        if bound:
            levels = bound
            break
    top = _error_field(answer._struct, version)  # noqa: SLF001 - the schema
    api = answer.__name__.removesuffix("Response")
    return Layout(api, version, answer, levels, top)


@cache
def kinds(api_key: int) -> tuple[str, ...]:
    """Return every place where some version of an API can have an error."""
    highest = _frames.max_version(api_key)
    if highest is None:
        return ()
    found: dict[str, None] = {}
    for version in range(highest + 1):
        place = layout(api_key, version)
        found.update(dict.fromkeys(place.kinds if place else ()))
    return tuple(found)


@cache
def _rows() -> dict[int, list[list[tuple[str, str, str]]]]:
    rows = {}
    for line in _TABLE.strip().splitlines():
        api, _, alternatives = line.partition(" ")
        rows[API_KEYS[api]] = [
            [_cell(cell) for cell in alternative.split()]
            for alternative in alternatives.split("|")
        ]
    return rows


def _cell(cell: str) -> tuple[str, str, str]:
    kind, _, arrays = cell.partition(":")
    asked, _, answered = arrays.partition(">")
    return kind, asked, answered


def _bind(
    row: list[tuple[str, str, str]], asked_in: Any, answered_in: Any, version: int
) -> tuple[Level, ...]:
    """Find a row's arrays in the schemas of a version; nothing if one is missing."""
    levels: list[Level] = []
    for kind, asked, answered in row:
        answered_in = _array(answered_in, answered, version)
        known = asked != "-"
        asked_in = _array(asked_in, asked, version) if known else None
        if answered_in is None or (known and asked_in is None):
            return ()
        keys = tuple(_key_fields(answered_in, asked_in, version))
        error = _error_field(answered_in, version)
        levels.append(
            Level(kind, asked if known else None, answered, answered_in, keys, error)
        )
    return tuple(levels)


def _array(struct: Any, name: str, version: int) -> Any:
    field = struct.fields.get(name)
    return field if field is not None and field.for_version_q(version) else None


def _key_fields(
    answered: Any, asked: Any, version: int
) -> Iterator[tuple[str, str | None]]:
    """Pair each identifying field of an answer with the request's; None: a scalar."""
    for field in answered.fields.values():
        if field.name not in _KEYS or not field.for_version_q(version):
            continue
        if asked is None:
            yield field.name, field.name
        elif not asked.is_struct_array():
            yield field.name, None
            return
        elif field.name in asked.fields:
            if asked.fields[field.name].for_version_q(version):
                yield field.name, field.name
        elif _ASKED_AS.get(field.name) in asked.fields:
            yield field.name, _ASKED_AS[field.name]


def _error_field(struct: Any, version: int) -> str | None:
    for name in _ERROR_CODES:
        field = struct.fields.get(name)
        if field is not None and field.for_version_q(version):
            return name
    return None


def _until_unknown(levels: tuple[Level, ...]) -> tuple[Level, ...]:
    for depth, level in enumerate(levels):
        if level.asked is None:
            return levels[:depth]
    return levels


def _walk(
    node: Any,
    levels: tuple[Level, ...],
    entries: Callable[[Any, Level], list[Any] | None],
    names: Mapping[UUID, str],
    parent: Item,
) -> Iterator[Item]:
    level, deeper = levels[0], levels[1:]
    found = entries(node, level)
    if found is None:
        yield Item(parent.keys, parent.topic, parent.partition, everything=True)
        return
    for entry, key in found:
        item = _item(level, key, names, parent)
        if deeper:
            yield from _walk(entry, deeper, entries, names, item)
        else:
            yield item


def _asked_entries(node: Any, level: Level) -> list[Any] | None:
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


def _remove(
    node: Any, levels: tuple[Level, ...], withheld: set[Keys], keys: Keys
) -> None:
    level, deeper = levels[0], levels[1:]
    kept = []
    for entry, key in _asked_entries(node, level) or []:
        here = (*keys, key)
        if deeper:
            _remove(entry, deeper, withheld, here)
            keep = bool(getattr(entry, deeper[0].asked or ""))
        else:
            keep = here not in withheld
        if keep:
            kept.append(entry)
    setattr(node, level.asked or "", kept)


def _add(node: Any, levels: tuple[Level, ...], keys: Keys, version: int) -> None:
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
    chosen: Callable[[Item], bool],
    names: Mapping[UUID, str],
    parent: Item,
) -> None:
    level, deeper = levels[0], levels[1:]
    entries = getattr(node, level.answered) or []
    for index, (entry, key) in enumerate(_answered_entries(node, level)):
        item = _item(level, key, names, parent)
        if deeper:
            _refuse(entry, deeper, error, chosen, names, item)
        elif chosen(item):
            # Metadata's partitions keep their leader: 9 there is a remark, no refusal.
            remark = level.asked is None and level.kind == "partition"
            version = entry.version
            entries[index] = entry if remark else _blank_entry(level, key, version)
            _set(entries[index], level.struct, version, level.error, error)


def _blank_entry(level: Level, key: tuple[Any, ...], version: int) -> Any:
    fields = {name: value for (name, _), value in zip(level.keys, key, strict=True)}
    return _blank(level.struct.data_class, level.struct, version, fields)


def _blank(
    data_class: Any, struct: Any, version: int, fields: Mapping[str, Any]
) -> Any:
    entry = data_class(version=version, **fields)
    schema = getattr(struct, "_struct", struct)
    for name, value in _REFUSED.items():
        if name not in fields and _array(schema, name, version) is not None:
            setattr(entry, name, value)
    return entry


def _set(
    entry: Any,
    struct: Any,
    version: int,
    error_field: str | None,
    error: Mapping[str, Any],
) -> None:
    """Set the fields of an error as far as the entry has them."""
    for name, value in error.items():
        wanted = (error_field or "") if name == "error_code" else name
        schema = _array(struct, wanted, version)
        if schema and name == "record_errors":
            entry.record_errors = [
                schema.data_class(version=version, batch_index=index) for index in value
            ]
        elif schema:
            setattr(entry, wanted, value)


def _arrays(answer: Any) -> list[str]:
    return [
        field.name
        for field in answer._struct.fields.values()  # noqa: SLF001 - the schema
        if field.is_array() and field.for_version_q(answer.version)
    ]
