"""What a cluster knows about topics: their leaders, and two of their settings."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kafka.protocol.admin import DescribeConfigsRequest

from kafkaguard._cluster.numbers import known
from kafkaguard._cluster.reports import TopicPartition
from kafkaguard._verdicts.topic_facts import NOTHING_KNOWN, TopicFactsCache
from kafkaguard._verdicts.verdict import TopicFacts
from kafkaguard.errors import (
    KafkaGuardError,
    LeaderNotAvailableError,
    UnknownTopicOrPartitionError,
)

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable

    from kafkaguard_adapters.wire.cluster import Cluster

METADATA = "Metadata"
_TOPIC = 2
_CLEANUP = "cleanup.policy"
_REMOTE = "remote.storage.enable"
#: In Metadata these say that a replica is away; the leader is fine (KAFKA-10223).
_HARMLESS = frozenset({9})


class Leaders:
    """Which broker leads which partition, as one MetadataResponse has it.

    Attributes:
        partitions: The leader's id, or why there is none, by partition.
        topics: Errors of whole topics.
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
        """Return a partition's leader, or the error that there is none."""
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
    """Ask which broker leads which partition of some topics."""
    return Leaders(await cluster.refresh(deadline, topics), cluster)


class FactsOfTopics:
    """Looks settings of topics up, many at once, and keeps them for a while.

    A look-up is advisory: what cannot be had is "not known".

    Args:
        cache: What is known already.
    """

    def __init__(self, cache: TopicFactsCache | None = None) -> None:
        self._cache = cache or TopicFactsCache()

    async def get(
        self, cluster: Cluster, topics: Collection[str], deadline: float
    ) -> dict[str, TopicFacts]:
        """Return what is known about topics; one DescribeConfigs for all others."""
        missing = [topic for topic in topics if self._cache.get(topic) is None]
        if missing:
            for topic, facts in (await _ask(cluster, missing, deadline)).items():
                self._cache.remember(topic, facts)
        return {topic: self._cache.get(topic) or NOTHING_KNOWN for topic in topics}


async def _ask(
    cluster: Cluster, topics: Collection[str], deadline: float
) -> dict[str, TopicFacts]:
    resource = DescribeConfigsRequest.DescribeConfigsResource
    request = DescribeConfigsRequest(
        resources=[
            resource(
                resource_type=_TOPIC,
                resource_name=topic,
                configuration_keys=[_CLEANUP, _REMOTE],
            )
            for topic in topics
        ]
    )
    try:
        answer = await cluster.ask(request, None, deadline)
    except KafkaGuardError:
        return {}
    return {
        each.resource_name: _facts({c.name: c.value or "" for c in each.configs})
        for each in answer.results
        if not each.error_code
    }


def _facts(configs: dict[str, str]) -> TopicFacts:
    return TopicFacts(
        compacted="compact" in configs.get(_CLEANUP, ""),
        tiered=configs.get(_REMOTE) == "true",
    )
