"""ListOffsets: one request for each leader, repeated for partitions that failed.

A broker that is still reading the metadata of remote storage answers 9 or -1. For other
topics these codes mean something else, so only the topic's settings tell the difference
(KIP-1007). The settings are looked up only after such an answer.
"""

from __future__ import annotations

import asyncio
from collections import defaultdict
from typing import TYPE_CHECKING, Any, Final

from kafka.protocol.consumer import ListOffsetsRequest

from kafkaguard._cluster.numbers import known, known_time
from kafkaguard._cluster.offsets import (
    EARLIEST,
    LATEST,
    MAX_TIMESTAMP,
    READ_UNCOMMITTED,
    PartitionOffset,
    lowest_version,
)
from kafkaguard._cluster.reports import TopicPartition
from kafkaguard._verdicts.classification import classify
from kafkaguard.errors import (
    ClientProtocolError,
    KafkaGuardError,
    UnknownTopicOrPartitionError,
)
from kafkaguard_adapters.asking.leaders import METADATA, Leaders, leaders
from kafkaguard_adapters.asking.retrying import ask_until_answered

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from kafkaguard._verdicts.context import TopicFacts
    from kafkaguard_adapters.asking.topic_settings import FactsOfTopics
    from kafkaguard_adapters.wire.cluster import Cluster

API: Final = "ListOffsets"
#: Codes that a broker answers for a tiered topic while remote storage is not ready.
_AMBIGUOUS: Final = frozenset({9, -1})
#: Times for which every log has an offset; for other times there may be no record.
_ALWAYS_THERE: Final = frozenset({LATEST, EARLIEST})


class OffsetLister:
    """Lists offsets of partitions.

    Args:
        cluster: The cluster.
        facts: Looks up facts about topics.
        deadline: The deadline, in seconds on the event loop's clock.
        isolation: Which offset is the end: 0 is the high watermark, 1 the last stable
            offset.
        known: The leaders, if they are already known.
    """

    def __init__(
        self,
        cluster: Cluster,
        facts: FactsOfTopics,
        deadline: float,
        *,
        isolation: int = READ_UNCOMMITTED,
        known: Leaders | None = None,
    ) -> None:
        self._cluster = cluster
        self._facts = facts
        self._deadline = deadline
        self._isolation = isolation
        self._leaders = known

    async def list(
        self, wanted: Mapping[TopicPartition, int]
    ) -> dict[TopicPartition, PartitionOffset]:
        """List offsets.

        Args:
            wanted: For each partition a time in milliseconds, or one of Kafka's
                negative numbers (latest, earliest ...).
        """

        async def ask(
            places: Collection[TopicPartition], tries: int
        ) -> dict[TopicPartition, PartitionOffset]:
            return await self._ask({place: wanted[place] for place in places}, tries)

        return await ask_until_answered(
            wanted, ask, self._deadline, error_of=_open_error
        )

    async def _ask(
        self, wanted: Mapping[TopicPartition, int], tries: int
    ) -> dict[TopicPartition, PartitionOffset]:
        if self._leaders is None or tries:
            topics = {place.topic for place in wanted}
            try:
                self._leaders = await leaders(self._cluster, topics, self._deadline)
            except KafkaGuardError as error:
                return dict.fromkeys(wanted, PartitionOffset(error=error))
        answers: dict[TopicPartition, PartitionOffset] = {}
        # Times that need a newer version get a request of their own, so that an old
        # broker refuses only these.
        requests: dict[tuple[int, int], dict[TopicPartition, int]] = defaultdict(dict)
        for place, time in wanted.items():
            leader = self._leaders.of(place)
            if isinstance(leader, KafkaGuardError):
                answers[place] = PartitionOffset(error=leader)
            else:
                least = lowest_version([time], self._isolation)
                requests[leader, least][place] = time
        for part in await asyncio.gather(
            *(self._ask_leader(*who, part) for who, part in requests.items())
        ):
            answers.update(part)
        return answers

    async def _ask_leader(
        self, leader: int, least: int, wanted: Mapping[TopicPartition, int]
    ) -> dict[TopicPartition, PartitionOffset]:
        request = _request(wanted, self._isolation, self._deadline)
        try:
            answer = await self._cluster.ask(
                request, leader, self._deadline, min_version=least
            )
        except KafkaGuardError as error:
            return dict.fromkeys(wanted, PartitionOffset(error=error))
        found: dict[TopicPartition, Any] = {
            TopicPartition(topic.name, each.partition_index): each
            for topic in answer.topics
            for each in topic.partitions
        }
        facts = await self._facts_for(found, wanted)
        return {
            place: self._judge(place, found[place], leader, time, facts)
            if place in found
            else PartitionOffset(
                error=self._unusable("leaves this partition out", place, leader)
            )
            for place, time in wanted.items()
        }

    def _unusable(
        self, what: str, place: TopicPartition, leader: int
    ) -> KafkaGuardError:
        return self._cluster.make(
            ClientProtocolError,
            f"the answer {what}",
            api=API,
            topic=place.topic,
            partition=place.partition,
            broker=leader,
        )

    async def _facts_for(
        self,
        found: Mapping[TopicPartition, Any],
        wanted: Mapping[TopicPartition, int],
    ) -> Mapping[str, TopicFacts]:
        topics = {
            place.topic
            for place, each in found.items()
            if each.error_code in _AMBIGUOUS or wanted[place] == MAX_TIMESTAMP
        }
        return await self._facts.get(self._cluster, topics, self._deadline)

    def _judge(
        self,
        place: TopicPartition,
        each: Any,
        leader: int,
        time: int,
        facts: Mapping[str, TopicFacts],
    ) -> PartitionOffset:
        topic = facts.get(place.topic)
        if each.error_code:
            verdict = classify(each.error_code, api=API, facts=topic)
            error = self._cluster.make(
                verdict.error_class,
                code=each.error_code,
                api=API,
                topic=place.topic,
                partition=place.partition,
                broker=leader,
                verdict=verdict,
            )
            return PartitionOffset(error=error)
        offset = known(each.offset)
        if offset is None and time in _ALWAYS_THERE:
            text = f"has the marker {each.offset} in place of an offset"
            return PartitionOffset(error=self._unusable(text, place, leader))
        return PartitionOffset(
            offset,
            known_time(each.timestamp),
            is_local_only=topic.tiered if topic and time == MAX_TIMESTAMP else False,
            leader_epoch=known(each.leader_epoch),
        )


def _open_error(answer: PartitionOffset) -> KafkaGuardError | None:
    """Return the error of an answer, if it may be temporary.

    If Metadata says that a partition does not exist, this is final.
    """
    error = answer.error
    if isinstance(error, UnknownTopicOrPartitionError) and error.api == METADATA:
        return None
    return error


def _request(
    wanted: Mapping[TopicPartition, int], isolation: int, deadline: float
) -> Any:
    by_topic: dict[str, list[Any]] = defaultdict(list)
    for place, time in wanted.items():
        by_topic[place.topic].append(
            ListOffsetsRequest.ListOffsetsTopic.ListOffsetsPartition(
                partition_index=place.partition, timestamp=time
            )
        )
    named = ListOffsetsRequest.ListOffsetsTopic
    left = deadline - asyncio.get_running_loop().time()
    return ListOffsetsRequest(
        isolation_level=isolation,
        topics=[named(name=name, partitions=each) for name, each in by_topic.items()],
        timeout_ms=max(1, int(left * 1000)),
    )
