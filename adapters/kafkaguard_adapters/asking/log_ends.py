"""Start and end offsets of logs, for all groups at once."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from typing import TYPE_CHECKING, Any, Final, TypeVar

from kafkaguard._cluster.offsets import (
    EARLIEST,
    LATEST,
    READ_COMMITTED,
    READ_UNCOMMITTED,
)
from kafkaguard_adapters.asking.fetch_probe import (
    make_answer_error,
    peek_ends,
    read_next_records,
)
from kafkaguard_adapters.asking.list_offsets import OffsetLister
from kafkaguard_adapters.asking.retrying import halve

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable, Mapping

    from kafkaguard._cluster.offsets import PartitionOffset
    from kafkaguard._cluster.reports import TopicPartition
    from kafkaguard._errors import KafkaGuardError
    from kafkaguard_adapters.asking.fetch_probe import Next
    from kafkaguard_adapters.asking.list_offsets import Leaders
    from kafkaguard_adapters.asking.topic_settings import FactsOfTopics
    from kafkaguard_adapters.wire.cluster import Cluster

ValueT = TypeVar("ValueT")
_KINDS: Final = {
    "log_start": (EARLIEST, READ_UNCOMMITTED),
    "high_watermark": (LATEST, READ_UNCOMMITTED),
    "last_stable": (LATEST, READ_COMMITTED),
}


class Logs:
    """Start and end offsets, and next records, of the logs of partitions.

    Args:
        cluster: The cluster.
        leaders: The leaders of the partitions.
        facts: Looks up facts about topics.
        deadline: The deadline, in seconds on the event loop's clock.
        isolation: Which offset is the end: 0 is the high watermark, 1 the last stable
            offset.
    """

    def __init__(
        self,
        cluster: Cluster,
        leaders: Leaders,
        facts: FactsOfTopics,
        deadline: float,
        isolation: int,
    ) -> None:
        self.leaders = leaders
        self.ends: dict[TopicPartition, PartitionOffset] = {}
        self.columns: dict[TopicPartition, dict[str, int | None]] = defaultdict(dict)
        #: The error, if a column of a partition is not known.
        self.errors: dict[TopicPartition, KafkaGuardError] = {}
        self.next: dict[tuple[TopicPartition, int], Next | KafkaGuardError] = {}
        self._cluster = cluster
        self._facts = facts
        self._deadline = deadline
        self._isolation = isolation

    async def read_ends(self) -> None:
        """Read the end, by the isolation level, of each partition that has a leader."""
        led = self.leaders.partitions.items()
        places = [place for place, leader in led if isinstance(leader, int)]
        self.ends = await self._list(places, LATEST, self._isolation)

    def end(self, place: TopicPartition) -> int | None:
        """Return the end, by the isolation level; None if it is not known."""
        entry = self.ends.get(place)
        return None if entry is None else entry.offset

    async def peek(self) -> None:
        """Fill all columns with one Fetch for each leader, where Read is allowed."""
        ends = {p: e.offset for p, e in self.ends.items() if e.offset is not None}
        for place, offsets in (await self._ask_leaders(ends, self._peek_at)).items():
            self.columns[place].update(offsets)

    async def _peek_at(self, leader: int, ends: Mapping[TopicPartition, int]) -> Any:
        return await peek_ends(self._cluster, leader, ends, self._deadline)

    async def fill(self, column: str, places: Iterable[TopicPartition]) -> None:
        """Fill a column where it is empty, with one ListOffsets for each leader."""
        empty_places = [
            p for p in places if column not in self.columns[p] and p in self.ends
        ]
        kind = _KINDS[column]
        if kind == (LATEST, self._isolation):
            answers = self.ends
        else:
            answers = await self._list(empty_places, *kind)
        for place in empty_places:
            answer = answers[place]
            self.columns[place][column] = answer.offset
            if answer.error is not None:
                self.errors[place] = answer.error

    async def read_next(self, positions: Iterable[tuple[TopicPartition, int]]) -> None:
        """Read the timestamp of the next record at each position.

        A request can name a partition only once. So positions in the same partition are
        read one after the other.
        """
        turns: list[dict[TopicPartition, int]] = []
        count: dict[TopicPartition, int] = defaultdict(int)
        for place, offset in dict.fromkeys(positions):
            end = self.end(place)
            if end is None or offset >= end:
                continue
            if count[place] == len(turns):
                turns.append({})
            turns[count[place]][place] = offset
            count[place] += 1
        for turn in turns:
            records = await self._ask_leaders(turn, self._read_next_at)
            self.next.update({(p, turn[p]): record for p, record in records.items()})

    async def _read_next_at(
        self, leader: int, offsets: Mapping[TopicPartition, int]
    ) -> Mapping[TopicPartition, Next | KafkaGuardError]:
        spans = {
            place: (
                max(offset, self.columns[place].get("log_start") or 0),
                self.end(place) or 0,
            )
            for place, offset in offsets.items()
        }
        records = await read_next_records(
            self._cluster, leader, spans, self._deadline, isolation=self._isolation
        )
        return await self._judge(leader, records)

    async def _judge(
        self, leader: int, records: Mapping[TopicPartition, Next | int]
    ) -> dict[TopicPartition, Next | KafkaGuardError]:
        refused_topics = {
            place.topic for place, each in records.items() if isinstance(each, int)
        }
        facts = await self._facts.get(self._cluster, refused_topics, self._deadline)
        return {
            place: make_answer_error(
                self._cluster, leader, place, each, facts[place.topic]
            )
            if isinstance(each, int)
            else each
            for place, each in records.items()
        }

    async def _list(
        self, places: Iterable[TopicPartition], when: int, isolation: int
    ) -> dict[TopicPartition, PartitionOffset]:
        lister = OffsetLister(
            self._cluster,
            self._facts,
            halve(self._deadline),
            isolation=isolation,
            topic_leaders=self.leaders,
        )
        return await lister.list(dict.fromkeys(places, when))

    async def _ask_leaders(
        self,
        offsets: Mapping[TopicPartition, int],
        ask: Callable[
            [int, Mapping[TopicPartition, int]],
            Awaitable[Mapping[TopicPartition, ValueT]],
        ],
    ) -> dict[TopicPartition, ValueT]:
        by_leader: dict[int, dict[TopicPartition, int]] = defaultdict(dict)
        for place, offset in offsets.items():
            leader = self.leaders.of(place)
            if isinstance(leader, int):
                by_leader[leader][place] = offset
        parts = await asyncio.gather(*(ask(*each) for each in by_leader.items()))
        return {place: value for part in parts for place, value in part.items()}
