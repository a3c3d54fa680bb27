"""The leaders of partitions, and ListOffsets: one request for each leader.

ListOffsets is repeated for partitions that failed. A broker that is still reading the
metadata of remote storage answers 9 or -1. For other topics these codes mean something
else, so only the topic's settings tell the difference (KIP-1007). The settings are
looked up only after such an answer.
"""

from __future__ import annotations

import asyncio
from collections import defaultdict
from typing import TYPE_CHECKING, Any, Final

from kafka.protocol.consumer import ListOffsetsRequest

from kafkaguard._cluster.offsets import (
    EARLIEST,
    LATEST,
    MAX_TIMESTAMP,
    READ_UNCOMMITTED,
    PartitionOffset,
    lowest_version,
)
from kafkaguard._cluster.reports import TopicPartition, read_number, read_time
from kafkaguard._errors import (
    ClientProtocolError,
    KafkaGuardError,
    LeaderNotAvailableError,
    UnknownTopicOrPartitionError,
)
from kafkaguard._verdicts.classification import classify
from kafkaguard_adapters.asking.retrying import ask_until_answered

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping

    from kafkaguard._verdicts.context import TopicFacts
    from kafkaguard_adapters.asking.topic_settings import FactsOfTopics
    from kafkaguard_adapters.wire.cluster import Cluster


METADATA = "Metadata"
#: In Any, these codes mean that a replica is offline; the leader is available
#: (KAFKA-10223).
_HARMLESS = frozenset({9})


class Leaders:
    """The leader of each partition, from one MetadataResponse.

    Attributes:
        partitions: The leader's id, or the error that there is none, by partition.
        topics: Errors of whole topics, by topic.
    """

    def __init__(self, answer: Any, cluster: Cluster) -> None:
        self.partitions: dict[TopicPartition, int | KafkaGuardError] = {}
        self.topics: dict[str, KafkaGuardError] = {}
        for topic in answer.topics:
            if topic.error_code:
                self.topics[topic.name] = cluster.make(
                    topic.error_code, api=METADATA, topic=topic.name
                )
            for each in topic.partitions:
                place = TopicPartition(topic.name, each.partition_index)
                self.partitions[place] = _read_leader(place, each, cluster)
        self._cluster = cluster

    def of(self, place: TopicPartition) -> int | KafkaGuardError:
        """Return the id of a partition's leader, or the error that there is none."""
        if place in self.partitions:
            return self.partitions[place]
        if place.topic in self.topics:
            return self.topics[place.topic]
        return self._cluster.make(
            UnknownTopicOrPartitionError,
            "the topic has no such partition",
            api=METADATA,
            topic=place.topic,
            partition=place.partition,
        )

    def partitions_of(self, topic: str) -> list[TopicPartition]:
        """List a topic's partitions."""
        return [place for place in self.partitions if place.topic == topic]


def _read_leader(
    place: TopicPartition, each: Any, cluster: Cluster
) -> int | KafkaGuardError:
    leader = read_number(each.leader_id)
    if leader is not None and each.error_code in {0, *_HARMLESS}:
        return leader
    return cluster.make(
        each.error_code or LeaderNotAvailableError,
        f"no leader; replicas are on brokers {sorted(each.replica_nodes)}",
        api=METADATA,
        topic=place.topic,
        partition=place.partition,
    )


async def find_leaders(
    cluster: Cluster, topics: Iterable[str], deadline: float
) -> Leaders:
    """Request the leader of each partition of some topics."""
    return Leaders(await cluster.refresh(deadline, topics), cluster)


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
        topic_leaders: The leaders, if they are already known.
    """

    def __init__(
        self,
        cluster: Cluster,
        facts: FactsOfTopics,
        deadline: float,
        *,
        isolation: int = READ_UNCOMMITTED,
        topic_leaders: Leaders | None = None,
    ) -> None:
        self._cluster = cluster
        self._facts = facts
        self._deadline = deadline
        self._isolation = isolation
        self._leaders = topic_leaders

    async def list(
        self, times: Mapping[TopicPartition, int]
    ) -> dict[TopicPartition, PartitionOffset]:
        """List offsets.

        Args:
            times: For each partition a time in milliseconds, or one of Kafka's
                negative numbers (latest, earliest ...).
        """

        async def ask(
            places: Collection[TopicPartition], tries: int
        ) -> dict[TopicPartition, PartitionOffset]:
            return await self._ask({place: times[place] for place in places}, tries)

        return await ask_until_answered(
            times, ask, self._deadline, error_of=_find_open_error
        )

    async def _ask(
        self, times: Mapping[TopicPartition, int], tries: int
    ) -> dict[TopicPartition, PartitionOffset]:
        if self._leaders is None or tries:
            topics = {place.topic for place in times}
            try:
                self._leaders = await find_leaders(
                    self._cluster, topics, self._deadline
                )
            except KafkaGuardError as error:
                return dict.fromkeys(times, PartitionOffset(error=error))
        answers: dict[TopicPartition, PartitionOffset] = {}
        # Times that need a newer version get a request of their own, so that an old
        # broker refuses only these.
        requests: dict[tuple[int, int], dict[TopicPartition, int]] = defaultdict(dict)
        for place, time in times.items():
            leader = self._leaders.of(place)
            if isinstance(leader, KafkaGuardError):
                answers[place] = PartitionOffset(error=leader)
            else:
                lowest = lowest_version([time], self._isolation)
                requests[leader, lowest][place] = time
        for part in await asyncio.gather(
            *(self._ask_leader(*key, part) for key, part in requests.items())
        ):
            answers.update(part)
        return answers

    async def _ask_leader(
        self, leader: int, lowest: int, times: Mapping[TopicPartition, int]
    ) -> dict[TopicPartition, PartitionOffset]:
        request = _request(times, self._isolation, self._deadline)
        try:
            answer = await self._cluster.ask(
                request, leader, self._deadline, min_version=lowest
            )
        except KafkaGuardError as error:
            return dict.fromkeys(times, PartitionOffset(error=error))
        parts: dict[TopicPartition, Any] = {
            TopicPartition(topic.name, each.partition_index): each
            for topic in answer.topics
            for each in topic.partitions
        }
        facts = await self._find_facts(parts, times)
        return {
            place: self._judge(place, parts[place], leader, time, facts)
            if place in parts
            else PartitionOffset(
                error=self._make_protocol_error(
                    "leaves this partition out", place, leader
                )
            )
            for place, time in times.items()
        }

    def _make_protocol_error(
        self, problem: str, place: TopicPartition, leader: int
    ) -> KafkaGuardError:
        return self._cluster.make(
            ClientProtocolError,
            f"the answer {problem}",
            api=API,
            topic=place.topic,
            partition=place.partition,
            broker=leader,
        )

    async def _find_facts(
        self,
        parts: Mapping[TopicPartition, Any],
        times: Mapping[TopicPartition, int],
    ) -> Mapping[str, TopicFacts]:
        topics = {
            place.topic
            for place, each in parts.items()
            if each.error_code in _AMBIGUOUS or times[place] == MAX_TIMESTAMP
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
        offset = read_number(each.offset)
        if offset is None and time in _ALWAYS_THERE:
            text = f"has the marker {each.offset} in place of an offset"
            return PartitionOffset(error=self._make_protocol_error(text, place, leader))
        return PartitionOffset(
            offset,
            read_time(each.timestamp),
            is_local_only=topic.tiered if topic and time == MAX_TIMESTAMP else False,
            leader_epoch=read_number(each.leader_epoch),
        )


def _find_open_error(answer: PartitionOffset) -> KafkaGuardError | None:
    """Return the error of an answer, if it may be temporary.

    If Metadata says that a partition does not exist, this is final.
    """
    error = answer.error
    if isinstance(error, UnknownTopicOrPartitionError) and error.api == METADATA:
        return None
    return error


def _request(
    times: Mapping[TopicPartition, int], isolation: int, deadline: float
) -> Any:
    by_topic: dict[str, list[Any]] = defaultdict(list)
    for place, time in times.items():
        by_topic[place.topic].append(
            ListOffsetsRequest.ListOffsetsTopic.ListOffsetsPartition(
                partition_index=place.partition, timestamp=time
            )
        )
    topic_class = ListOffsetsRequest.ListOffsetsTopic
    seconds_left = deadline - asyncio.get_running_loop().time()
    return ListOffsetsRequest(
        isolation_level=isolation,
        topics=[
            topic_class(name=name, partitions=each) for name, each in by_topic.items()
        ],
        timeout_ms=max(1, int(seconds_left * 1000)),
    )
