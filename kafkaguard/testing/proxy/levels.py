"""Which array of an answer corresponds to which array of the request.

Most requests name items (topics and their partitions, groups, resources). The answer
repeats them, each with an error code. One table says which array of an answer belongs
to which array of the request. Everything else is read from Kafka's own schemas.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from itertools import takewhile
from typing import TYPE_CHECKING, Any, Final

from kafkaguard._verdicts.apis import API_KEYS
from kafkaguard.testing.proxy import frames

if TYPE_CHECKING:
    from collections.abc import Iterator

# kind:asked>answered; "-" if only the broker knows the items. Alternatives for older
# versions follow after a bar. The first alternative whose arrays all exist is used.
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

_KEYS: Final = {
    *("name", "topic", "topic_name", "topic_id"),
    *("index", "partition", "partition_index", "partition_id"),
    *("group_id", "member_id", "group_instance_id", "key"),
    *("transactional_id", "producer_id"),
    *("resource_type", "resource_name", "feature", "user", "log_dir"),
}
_ASKED_AS: Final = {"partition_index": "partition", "user": "name"}
_ERROR_CODES: Final = ("error_code", "partition_error_code")


@dataclass(frozen=True, slots=True)
class Level:
    """One array of an answer and the array of the request that it answers."""

    kind: str
    asked: str | None
    answered: str
    struct: Any
    keys: tuple[tuple[str, str | None], ...]
    error: str | None


@cache
def levels(api_key: int, version: int) -> tuple[Level, ...]:
    """Return the levels of an API in a version, from the outermost; empty: no items."""
    request = frames.struct_of(frames.request_schema(api_key, version))
    answer = frames.struct_of(frames.answer_schema(api_key, version))
    rows = _rows().get(api_key, ())
    return next(filter(None, (_bind(r, request, answer, version) for r in rows)), ())


def until_unknown(levels: tuple[Level, ...]) -> tuple[Level, ...]:
    """Return the levels that a request names."""
    return tuple(takewhile(lambda level: level.asked is not None, levels))


def error_field(struct: Any, version: int) -> str | None:
    """Return the name of a schema's error code field."""
    names = (name for name in _ERROR_CODES if field_of(struct, name, version))
    return next(names, None)


def field_of(struct: Any, name: str, version: int) -> Any:
    """Return a field of a schema, or None if the version does not have it."""
    field = struct.fields.get(name)
    return field if field is not None and field.for_version_q(version) else None


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
    """Find a row's arrays in the schemas of a version; empty if one is missing."""
    levels: list[Level] = []
    for kind, asked, answered in row:
        answered_in = field_of(answered_in, answered, version)
        is_asked = asked != "-"
        asked_in = field_of(asked_in, asked, version) if is_asked else None
        if answered_in is None or (is_asked and asked_in is None):
            return ()
        keys = tuple(_key_fields(answered_in, asked_in, version))
        error = error_field(answered_in, version)
        levels.append(
            Level(kind, asked if is_asked else None, answered, answered_in, keys, error)
        )
    return tuple(levels)


def _key_fields(
    answered: Any, asked: Any, version: int
) -> Iterator[tuple[str, str | None]]:
    """Pair identifying fields of answer and request; None: a scalar in the request."""
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
