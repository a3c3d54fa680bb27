"""The leaders of partitions."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kafkaguard._cluster.numbers import known
from kafkaguard._cluster.reports import TopicPartition
from kafkaguard.errors import (
    KafkaGuardError,
    LeaderNotAvailableError,
    UnknownTopicOrPartitionError,
)

if TYPE_CHECKING:
    from collections.abc import Iterable

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
                self.partitions[place] = _leader(place, each, cluster)
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


def _leader(
    place: TopicPartition, each: Any, cluster: Cluster
) -> int | KafkaGuardError:
    leader = known(each.leader_id)
    if leader is not None and each.error_code in {0, *_HARMLESS}:
        return leader
    return cluster.make(
        each.error_code or LeaderNotAvailableError,
        f"no leader; replicas are on brokers {sorted(each.replica_nodes)}",
        api=METADATA,
        topic=place.topic,
        partition=place.partition,
    )


async def leaders(cluster: Cluster, topics: Iterable[str], deadline: float) -> Leaders:
    """Request the leader of each partition of some topics."""
    return Leaders(await cluster.refresh(deadline, topics), cluster)
