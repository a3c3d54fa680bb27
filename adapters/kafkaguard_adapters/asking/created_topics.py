"""Compare an existing topic with the topic that a caller asked for.

Of a creation that is repeated, because its answer was lost, "exists already" says only
that there is a topic of that name: it may be somebody else's.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from kafka.protocol.admin import DescribeConfigsRequest

from kafkaguard.errors import KafkaGuardError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from kafkaguard_adapters.asking.answers import MetadataPartition
    from kafkaguard_adapters.asking.cluster_view import ClusterView
    from kafkaguard_adapters.wire.cluster import Cluster

_TOPIC: Final = 2
#: Seconds for the look.
_TIMEOUT_S: Final = 5.0


class AskedTopic(NamedTuple):
    """A topic as it was asked for.

    Attributes:
        name: Its name.
        partitions: How many; below 1: as many as the broker likes.
        replicas: How many of each partition; below 1 likewise.
        settings: What it is set to beside the broker's defaults.
    """

    name: str
    partitions: int
    replicas: int
    settings: Mapping[str, Any]


async def differences(view: ClusterView, asked: Sequence[AskedTopic]) -> str | None:
    """Say how topics differ from what was asked for.

    Returns:
        What differs; an empty text where nothing does; None: it could not be found out.
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
    partitions: Sequence[MetadataPartition] | None,
    settings: Mapping[str, str | None],
) -> Iterator[str]:
    """Say how one topic differs; what is not told does not."""
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
    """Write a value as Kafka does."""
    return str(value).lower() if isinstance(value, bool) else str(value)
