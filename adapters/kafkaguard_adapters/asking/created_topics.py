"""Compare an existing topic with the topic that a caller asked for.

If a CreateTopics request is repeated because its answer was lost, "already exists" says
only that there is a topic of that name. Somebody else may have created it.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from kafka.protocol.admin import DescribeConfigsRequest

from kafkaguard.errors import KafkaGuardError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from kafkaguard_adapters.asking.cluster_view import ClusterView
    from kafkaguard_adapters.wire.cluster import Cluster

_TOPIC: Final = 2
#: Seconds for the comparison.
_TIMEOUT_S: Final = 5.0


class AskedTopic(NamedTuple):
    """A topic as the caller asked for it.

    Attributes:
        name: The name of the topic.
        partitions: The number of partitions; below 1: the broker's default.
        replicas: The number of replicas of each partition; below 1: the broker's
            default.
        settings: Settings that differ from the broker's defaults.
    """

    name: str
    partitions: int
    replicas: int
    settings: Mapping[str, Any]


async def differences(view: ClusterView, asked: Sequence[AskedTopic]) -> str | None:
    """Describe how existing topics differ from the topics that were asked for.

    Returns:
        The differences; an empty text if there are none; None if the topics could not
        be looked up.
    """
    deadline = asyncio.get_running_loop().time() + _TIMEOUT_S
    try:
        cluster = view.cluster()
        answer = await cluster.refresh(deadline, [topic.name for topic in asked])
        settings = await _settings(cluster, asked, deadline)
    except KafkaGuardError:
        return None
    there = {topic.name: topic.partitions for topic in answer.topics}
    return "; ".join(
        text
        for topic in asked
        for text in _of(topic, there.get(topic.name), settings.get(topic.name, {}))
    )


async def _settings(
    cluster: Cluster, asked: Sequence[AskedTopic], deadline: float
) -> dict[str, dict[str, str | None]]:
    resources: list[Any] = [
        (_TOPIC, topic.name, list(topic.settings)) for topic in asked if topic.settings
    ]
    if not resources:
        return {}
    answer = await cluster.ask(
        DescribeConfigsRequest(resources=resources), None, deadline
    )
    return {
        result.resource_name: {each.name: each.value for each in result.configs}
        for result in answer.results
        if not result.error_code
    }


def _of(
    asked: AskedTopic,
    partitions: Sequence[Any] | None,
    settings: Mapping[str, str | None],
) -> Iterator[str]:
    """Yield the differences of one topic; settings that are not known are skipped."""
    if not partitions:
        yield f"topic {asked.name} does not exist"
        return
    if 0 < asked.partitions != len(partitions):
        yield f"topic {asked.name} has {len(partitions)} partitions, not " + str(
            asked.partitions
        )
    replicas = sorted({len(each.replica_nodes) for each in partitions})
    if asked.replicas > 0 and replicas != [asked.replicas]:
        found = " or ".join(map(str, replicas))
        yield f"topic {asked.name} has {found} replicas, not {asked.replicas}"
    for name, value in asked.settings.items():
        if name in settings and settings[name] != _written(value):
            yield f"{name} of topic {asked.name} is {settings[name]}, not " + _written(
                value
            )


def _written(value: Any) -> str:
    """Write a value as Kafka writes it."""
    return str(value).lower() if isinstance(value, bool) else str(value)
