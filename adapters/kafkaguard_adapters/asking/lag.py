"""``lag``: committed offsets first, then end offsets, for many groups at once.

The order matters. If the ends were read first, a busy group could commit an offset
beyond the end that was read.
"""

from __future__ import annotations

import asyncio
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from kafkaguard._cluster.lag import (
    GroupLag,
    LagReason,
    LagReport,
    PartitionLag,
    TimeReason,
    measure,
    time_facts,
)
from kafkaguard._cluster.offsets import READ_COMMITTED, READ_UNCOMMITTED
from kafkaguard._cluster.reports import TopicPartition
from kafkaguard._errors import (
    CorruptMessageError,
    KafkaGuardError,
    TopicAuthorizationFailedError,
    UnknownTopicOrPartitionError,
)
from kafkaguard_adapters.asking.group_members import Described, describe
from kafkaguard_adapters.asking.groups import (
    Committed,
    CommittedReader,
    list_groups,
    sees_all_groups,
    sort_by_coordinator,
)
from kafkaguard_adapters.asking.list_offsets import find_leaders
from kafkaguard_adapters.asking.log_ends import Logs
from kafkaguard_adapters.asking.retrying import halve

if TYPE_CHECKING:
    from collections.abc import Mapping

    from kafkaguard._verdicts.context import TopicFacts
    from kafkaguard_adapters.asking.fetch_probe import Next
    from kafkaguard_adapters.asking.topic_settings import FactsOfTopics
    from kafkaguard_adapters.wire.cluster import Cluster

#: Optional columns, and the requests that each of them costs.
COLUMNS: Final = {
    "log_start": (
        "one empty Fetch for each leader; without Read, one ListOffsets for each leader"
    ),
    "last_stable": "the same Fetch; without Read, one ListOffsets for each leader",
    "time": (
        "that Fetch, and for each leader one that reads a batch of each lagging "
        "partition"
    ),
    "members": "one or two requests for each coordinator",
    "facts": "one DescribeConfigs, cached for five minutes",
}
_FROM_FETCH: Final = frozenset({"log_start", "last_stable", "time"})

#: A topic that does not exist. A broker says so only to a user who may Describe all
#: topics, and denies it to others.
_NO_TOPIC: Final = "__kafkaguard-no-topic"

Answers = dict[str, Committed | KafkaGuardError]


@dataclass(frozen=True, slots=True)
class Question:
    """The arguments of a call of ``lag``.

    Attributes:
        groups: Names of groups; None: all.
        topics: Names of topics; None: those that a group has committed.
        isolation: Which offset is the end: 0 is the high watermark, 1 the last stable
            offset.
        assume: Where a consumer without a commit begins: ``"earliest"``, ``"latest"``,
            or None if it is not known.
        columns: Names of :data:`COLUMNS`.
        stable: Wait until pending transactional commits have ended.
    """

    groups: tuple[str, ...] | None = None
    topics: frozenset[str] | None = None
    isolation: int = READ_UNCOMMITTED
    assume: str | None = None
    columns: frozenset[str] = frozenset()
    stable: bool = False

    def includes(self, committed: Committed | KafkaGuardError) -> bool:
        """Return whether a group belongs in the report."""
        if self.groups is not None or isinstance(committed, KafkaGuardError):
            return True
        return bool(self.topics_of(committed))

    def topics_of(self, committed: Committed | KafkaGuardError) -> set[str]:
        """Return the topics of a group that belong in the report."""
        if isinstance(committed, KafkaGuardError):
            return set()
        committed_topics = {place.topic for place in committed.places}
        if self.topics is None:
            return committed_topics
        return (
            committed_topics & self.topics if self.groups is None else set(self.topics)
        )


async def read_lag(
    cluster: Cluster,
    facts: FactsOfTopics,
    question: Question,
    deadline: float,
    read_errors: Mapping[TopicPartition, KafkaGuardError],
) -> LagReport:
    """Read the lag of groups; see :meth:`AsyncReportCalls.lag`."""
    if not cluster.addresses:
        await cluster.refresh(deadline)
    states: dict[str, str] = {}
    broker_errors: dict[int, KafkaGuardError] = {}
    sees_all = None
    if question.groups is None:
        (states, broker_errors), sees_all = await asyncio.gather(
            list_groups(cluster, halve(deadline)),
            sees_all_groups(cluster, halve(deadline)),
        )
    reader = CommittedReader(cluster, halve(deadline), stable=question.stable)
    committed = await reader.read(
        states if question.groups is None else question.groups
    )
    topics = sorted(
        {t for each in committed.values() for t in question.topics_of(each)}
    )
    probed = topics if question.topics is not None else [*topics, _NO_TOPIC]
    topic_leaders = await find_leaders(cluster, probed, deadline)
    sees_all_topics = None
    if _NO_TOPIC in topic_leaders.topics:
        refusal = topic_leaders.topics[_NO_TOPIC]
        sees_all_topics = not isinstance(refusal, TopicAuthorizationFailedError)
    logs = Logs(cluster, topic_leaders, facts, deadline, question.isolation)
    await logs.read_ends()
    await _fill_columns(logs, question, committed)
    topic_facts: Mapping[str, TopicFacts] = {}
    if "facts" in question.columns:
        topic_facts = await facts.get(cluster, topics, deadline)
    described = await _describe(cluster, committed, question, logs, deadline)
    join = _Join(question, logs, topic_facts, read_errors, time.time())
    groups = {
        name: join.group(name, each, described.get(name), states.get(name))
        for name, each in committed.items()
        if question.includes(each)
    }
    return LagReport(
        groups,
        join.now,
        broker_errors,
        sees_all,
        _list_committed_topics(committed),
        sees_all_topics,
    )


def _list_committed_topics(committed: Answers) -> frozenset[str]:
    return frozenset(
        place.topic
        for each in committed.values()
        if isinstance(each, Committed)
        for place in each.places
    )


def _list_positions(
    committed: Answers, question: Question
) -> list[tuple[TopicPartition, int]]:
    return [
        (place, offset)
        for each in committed.values()
        if isinstance(each, Committed)
        for place, offset in each.offsets.items()
        if question.topics is None or place.topic in question.topics
    ]


async def _fill_columns(logs: Logs, question: Question, committed: Answers) -> None:
    columns = question.columns
    positions = _list_positions(committed, question)
    if columns & _FROM_FETCH:
        await logs.peek()
    if "log_start" in columns or question.assume == "earliest":
        await logs.fill("log_start", logs.ends)
    else:
        await logs.fill("log_start", _find_open(logs, committed, question))
    if "last_stable" in columns:
        await logs.fill("last_stable", logs.ends)
        await logs.fill("high_watermark", logs.ends)
    elif question.isolation == READ_COMMITTED:
        # Only the high watermark tells whether a commit is beyond the last stable
        # offset or beyond the end of the log.
        beyond = {place for place, at in positions if at > (logs.end(place) or at)}
        await logs.fill("high_watermark", beyond)
    if "time" in columns:
        await logs.read_next(positions)


def _find_open(
    logs: Logs, committed: Answers, question: Question
) -> set[TopicPartition]:
    """Find the partitions in which a group is behind the end.

    Retention may have removed the records in between. Only the start offset of the log
    tells how many are left.
    """
    return {
        place
        for each in committed.values()
        if isinstance(each, Committed)
        for topic in question.topics_of(each)
        for place in logs.leaders.partitions_of(topic)
        if (end := logs.end(place)) and each.offsets.get(place, 0) < end
    }


async def _describe(
    cluster: Cluster,
    committed: Answers,
    question: Question,
    logs: Logs,
    deadline: float,
) -> dict[str, Described]:
    """Describe the groups whose report needs it.

    These are all groups if members were asked for. Otherwise they are the groups
    without a commit, and the groups that are behind, because lag of a topic that the
    group no longer reads is not the group's own lag.
    """
    selected = {
        group: each
        for group, each in committed.items()
        if isinstance(each, Committed)
        and (
            "members" in question.columns
            or not each.offsets
            or _find_open(logs, {group: each}, question)
        )
    }
    return await describe(cluster, sort_by_coordinator(selected), deadline)


class _Join:
    """Joins the answers of coordinators and leaders."""

    def __init__(
        self,
        question: Question,
        logs: Logs,
        facts: Mapping[str, TopicFacts],
        read_errors: Mapping[TopicPartition, KafkaGuardError],
        now: float,
    ) -> None:
        self._question = question
        self._logs = logs
        self._facts = facts
        self._read_errors = read_errors
        self.now = now

    def group(
        self,
        name: str,
        committed: Committed | KafkaGuardError,
        described: Described | None,
        state: str | None,
    ) -> GroupLag:
        """Return the lag of one group."""
        if isinstance(committed, KafkaGuardError):
            return GroupLag(name, state, committed)
        described = described or Described()
        places = self._places(committed)
        partitions = {
            place: self._partition(place, committed, described) for place in places
        }
        return GroupLag(name, state or described.state, None, partitions)

    def _places(self, committed: Committed) -> list[TopicPartition]:
        """List the committed partitions, and the others of the same topics."""
        topics = self._question.topics_of(committed)
        with_commit = (p for p in committed.places if p.topic in topics)
        others = (
            p for topic in topics for p in self._logs.leaders.partitions_of(topic)
        )
        places = sorted({*with_commit, *others})
        empty = topics - {place.topic for place in places}
        return places + [TopicPartition(topic, 0) for topic in sorted(empty)]

    def _partition(
        self, place: TopicPartition, committed: Committed, described: Described
    ) -> PartitionLag:
        offset = committed.offsets.get(place)
        end = self._logs.end(place)
        columns: dict[str, Any] = dict(self._logs.columns.get(place, {}))
        columns["marker"] = committed.markers.get(place)
        if "members" in self._question.columns:
            columns["member"] = described.members.get(place)
        columns["read_error"] = self._read_errors.get(place)
        if place.topic in self._facts:
            columns["compacted"] = self._facts[place.topic].compacted
            columns["tiered"] = self._facts[place.topic].tiered
        reason, error = self._find_error(place, committed, offset)
        if reason is not None or end is None:
            return PartitionLag(*place, offset, end, None, reason, error, **columns)
        columns.update(self._measure_time(place, offset, end))
        return measure(
            place,
            offset,
            end,
            assume=self._question.assume,
            is_left=described.has_left(place.topic),
            error=self._logs.errors.get(place),
            **columns,
        )

    def _find_error(
        self, place: TopicPartition, committed: Committed, offset: int | None
    ) -> tuple[LagReason | None, KafkaGuardError | None]:
        """Return the reason and the error if the lag of a partition is not known."""
        leader = self._logs.leaders.of(place)
        if isinstance(leader, UnknownTopicOrPartitionError):
            return LagReason.GONE, None
        if isinstance(leader, KafkaGuardError):
            denied = place not in self._logs.leaders.partitions
            return (LagReason.ERROR if denied else LagReason.NO_LEADER), leader
        end = self._logs.ends[place]
        error = committed.errors.get(place) or end.error
        if error is None and offset is not None and offset < (end.offset or 0):
            # Without the log's start offset, it is not known how much of the lag is
            # still in the log.
            is_known = self._logs.columns[place].get("log_start") is not None
            error = None if is_known else self._logs.errors.get(place)
        return (None if error is None else LagReason.ERROR), error

    def _measure_time(
        self, place: TopicPartition, offset: int | None, end: int
    ) -> dict[str, Any]:
        if "time" not in self._question.columns or offset is None:
            return {}
        if offset >= end:
            return {"has_record": False, "time_lag": 0.0}
        return _describe_record(self._logs.next.get((place, offset)), self.now)


def _describe_record(
    record: Next | KafkaGuardError | None, now: float
) -> dict[str, Any]:
    """Return the facts about the next record, or the reason that there are none."""
    if record is None:
        return {"time_reason": TimeReason.NO_ANSWER}
    if isinstance(record, TopicAuthorizationFailedError):
        return {"time_reason": TimeReason.NOT_ALLOWED}  # the guard, not the group
    if isinstance(record, KafkaGuardError):
        is_corrupt = isinstance(record, CorruptMessageError)
        reason = TimeReason.UNREADABLE if is_corrupt else TimeReason.NO_ANSWER
        return {"read_error": record, "time_reason": reason}
    if not record.exists:
        return {"has_record": False, "time_lag": 0.0}
    return time_facts(record.timestamp, now, is_of_batch=record.is_of_batch)
