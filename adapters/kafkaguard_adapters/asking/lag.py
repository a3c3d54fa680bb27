"""``lag``: committed offsets first, then the ends of the logs, for many groups at once.

The order matters: read the other way round, a busy group would be ahead of the end.
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
    measure,
)
from kafkaguard._cluster.offsets import READ_COMMITTED, READ_UNCOMMITTED
from kafkaguard._cluster.reports import TopicPartition
from kafkaguard.errors import KafkaGuardError, UnknownTopicOrPartitionError
from kafkaguard_adapters.asking.group_members import Described, describe
from kafkaguard_adapters.asking.groups import (
    Committed,
    CommittedReader,
    by_coordinator,
    list_groups,
)
from kafkaguard_adapters.asking.leaders import leaders
from kafkaguard_adapters.asking.log_ends import Logs

if TYPE_CHECKING:
    from collections.abc import Mapping

    from kafkaguard._verdicts.verdict import TopicFacts
    from kafkaguard_adapters.asking.topic_settings import FactsOfTopics
    from kafkaguard_adapters.wire.cluster import Cluster

#: Columns beyond committed, end and lag, and what each costs.
COLUMNS: Final = {
    "log_start": "one empty Fetch a leader; without Read, one ListOffsets a leader",
    "last_stable": "the same Fetch; without Read, one ListOffsets a leader",
    "time": "that Fetch, and one a leader that reads a batch of each lagging partition",
    "members": "one or two requests a coordinator",
    "facts": "one DescribeConfigs, remembered for five minutes",
}
_FROM_FETCH: Final = frozenset({"log_start", "last_stable", "time"})

Answers = dict[str, Committed | KafkaGuardError]


@dataclass(frozen=True, slots=True)
class Question:
    """What is to be read.

    Attributes:
        groups: Which groups; None: all.
        topics: Which topics; None: those that a group has committed.
        isolation: Which end counts: 0 is the high watermark, 1 the last stable offset.
        assume: Where a reader without a commit begins, if anywhere.
        columns: Names of :data:`COLUMNS`.
        stable: Wait for transactional commits to be decided.
    """

    groups: tuple[str, ...] | None = None
    topics: frozenset[str] | None = None
    isolation: int = READ_UNCOMMITTED
    assume: str | None = None
    columns: frozenset[str] = frozenset()
    stable: bool = False

    def is_meant(self, committed: Committed | KafkaGuardError) -> bool:
        """Say whether a group belongs in the report; one that is not told of does."""
        if self.groups is not None or isinstance(committed, KafkaGuardError):
            return True
        return bool(self.topics_of(committed))

    def topics_of(self, committed: Committed | KafkaGuardError) -> set[str]:
        """Say which topics of a group are meant."""
        if isinstance(committed, KafkaGuardError):
            return set()
        own = {place.topic for place in (*committed.offsets, *committed.errors)}
        if self.topics is None:
            return own
        return own & self.topics if self.groups is None else set(self.topics)


async def read_lag(
    cluster: Cluster,
    facts: FactsOfTopics,
    question: Question,
    deadline: float,
    read_errors: Mapping[TopicPartition, KafkaGuardError],
) -> LagReport:
    """Read the lag of groups; see :meth:`~._calls.AsyncReportCalls.lag`."""
    if not cluster.addresses:
        await cluster.refresh(deadline)
    states: dict[str, str] = {}
    broker_errors: dict[int, KafkaGuardError] = {}
    if question.groups is None:
        states, broker_errors = await list_groups(cluster, _half(deadline))
    waits = deadline if question.stable else _half(deadline)
    reader = CommittedReader(cluster, waits, stable=question.stable)
    committed = await reader.read(
        states if question.groups is None else question.groups
    )
    topics = sorted(
        {t for each in committed.values() for t in question.topics_of(each)}
    )
    found = await leaders(cluster, topics, deadline)
    logs = Logs(cluster, found, facts, deadline, question.isolation)
    await logs.read_ends()
    await _fill_columns(logs, question, _positions(committed, question))
    known: Mapping[str, TopicFacts] = {}
    if "facts" in question.columns:
        known = await facts.get(cluster, topics, deadline)
    described = await _describe(cluster, committed, question, deadline)
    join = _Join(question, logs, known, read_errors, time.time())
    groups = {
        name: join.group(name, each, described.get(name), states.get(name))
        for name, each in committed.items()
        if question.is_meant(each)
    }
    return LagReport(groups, join.now, broker_errors)


def _half(deadline: float) -> float:
    """Give a step half of the time, so that a silent broker leaves some for others."""
    now = asyncio.get_running_loop().time()
    return now + (deadline - now) / 2


def _positions(
    committed: Answers, question: Question
) -> list[tuple[TopicPartition, int]]:
    return [
        (place, offset)
        for each in committed.values()
        if isinstance(each, Committed)
        for place, offset in each.offsets.items()
        if question.topics is None or place.topic in question.topics
    ]


async def _fill_columns(
    logs: Logs, question: Question, positions: list[tuple[TopicPartition, int]]
) -> None:
    columns = question.columns
    if columns & _FROM_FETCH:
        await logs.peek()
    if "log_start" in columns or question.assume == "earliest":
        await logs.fill("log_start", logs.ends)
    if "last_stable" in columns:
        await logs.fill("last_stable", logs.ends)
        await logs.fill("high_watermark", logs.ends)
    elif question.isolation == READ_COMMITTED:
        # Beyond the last stable offset, or beyond the end? Only this tells.
        beyond = {place for place, at in positions if at > (logs.end(place) or at)}
        await logs.fill("high_watermark", beyond)
    if "time" in columns:
        await logs.read_next(positions)


async def _describe(
    cluster: Cluster, committed: Answers, question: Question, deadline: float
) -> dict[str, Described]:
    """Describe groups, where members are asked for or there is nothing else to say."""
    meant = {
        group: each
        for group, each in committed.items()
        if isinstance(each, Committed)
        and ("members" in question.columns or not each.offsets)
    }
    return await describe(cluster, by_coordinator(meant), deadline)


class _Join:
    """Puts what coordinators and leaders have said together."""

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
        """Join one group."""
        if isinstance(committed, KafkaGuardError):
            return GroupLag(name, state, committed)
        described = described or Described()
        places = self._places(committed)
        partitions = {
            place: self._partition(place, committed, described) for place in places
        }
        return GroupLag(name, state or described.state, None, partitions)

    def _places(self, committed: Committed) -> list[TopicPartition]:
        """List what was committed, and what else the same topics have."""
        topics = self._question.topics_of(committed)
        own = (p for p in (*committed.offsets, *committed.errors) if p.topic in topics)
        others = (
            p for topic in topics for p in self._logs.leaders.partitions_of(topic)
        )
        places = sorted({*own, *others})
        empty = topics - {place.topic for place in places}
        return places + [TopicPartition(topic, 0) for topic in sorted(empty)]

    def _partition(
        self, place: TopicPartition, committed: Committed, described: Described
    ) -> PartitionLag:
        offset = committed.offsets.get(place)
        known: dict[str, Any] = dict(self._logs.columns.get(place, {}))
        known["member"] = described.members.get(place)
        known["read_error"] = self._read_errors.get(place)
        if place.topic in self._facts:
            known["compacted"] = self._facts[place.topic].compacted
            known["tiered"] = self._facts[place.topic].tiered
        reason, error = self._trouble(place, committed)
        if reason is not None:
            end = self._logs.end(place)
            return PartitionLag(*place, offset, end, None, reason, error, **known)
        end = self._logs.end(place)
        assert end is not None
        known.update(self._time(place, offset, end))
        return measure(place, offset, end, assume=self._question.assume, **known)

    def _trouble(
        self, place: TopicPartition, committed: Committed
    ) -> tuple[LagReason | None, KafkaGuardError | None]:
        """Find out why there is no lag to measure."""
        leader = self._logs.leaders.of(place)
        if isinstance(leader, UnknownTopicOrPartitionError):
            return LagReason.GONE, None
        if isinstance(leader, KafkaGuardError):
            denied = place not in self._logs.leaders.partitions
            return (LagReason.ERROR if denied else LagReason.NO_LEADER), leader
        error = committed.errors.get(place) or self._logs.ends[place].error
        return (None if error is None else LagReason.ERROR), error

    def _time(
        self, place: TopicPartition, offset: int | None, end: int
    ) -> dict[str, Any]:
        if "time" not in self._question.columns or offset is None:
            return {}
        if offset >= end:
            return {"time_lag": 0.0}
        record = self._logs.next.get((place, offset))
        if record is None:
            return {}
        if isinstance(record, KafkaGuardError):
            return {"read_error": record}
        if record.timestamp is None:
            return {"time_lag": 0.0}
        written = record.timestamp / 1000
        return {"next_timestamp": written, "time_lag": max(0.0, self.now - written)}
