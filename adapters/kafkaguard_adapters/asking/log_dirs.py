"""``log_dirs``: sends DescribeLogDirs to all brokers at once."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, Final

from kafka.protocol.admin import DescribeClusterRequest, DescribeLogDirsRequest

from kafkaguard._cluster import log_dirs as answers
from kafkaguard.errors import KafkaGuardError

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping

    from kafkaguard._cluster.log_dirs import BrokerLogDirs, LogDirsReport
    from kafkaguard_adapters.wire.cluster import Cluster

_BROKERS: Final = 1
#: From this version on, DescribeCluster also lists fenced brokers (KIP-1073).
_FIRST_FENCED: Final = 2


async def log_dirs(
    cluster: Cluster,
    topics: Iterable[str] | Mapping[str, Collection[int]] | None,
    brokers: Iterable[int] | None,
    timeout: float,  # noqa: ASYNC109 - for all brokers; each has its own outcome
    max_version: int | None,
) -> LogDirsReport:
    """Ask brokers for their log directories; see :meth:`AsyncReportCalls.log_dirs`."""
    deadline = asyncio.get_running_loop().time() + timeout
    wanted = await _wanted(cluster, topics, deadline)
    asked = sorted(cluster.addresses) if brokers is None else list(brokers)
    asking = asyncio.gather(
        *(_of_broker(cluster, each, wanted, deadline, max_version) for each in asked)
    )
    absent = await _absent(cluster, deadline) if brokers is None else set()
    found = {each.broker: each for each in await asking}
    if isinstance(absent, KafkaGuardError):
        return answers.LogDirsReport(found, absent)
    away = {each: answers.read_absence(each, cluster.make) for each in absent}
    return answers.LogDirsReport(dict(sorted({**away, **found}.items())))


async def _absent(cluster: Cluster, deadline: float) -> set[int] | KafkaGuardError:
    """Find the brokers that belong to the cluster but are not in its Metadata."""
    present = set(cluster.addresses)
    try:
        version = await cluster.version(DescribeClusterRequest, None, deadline)
        find = _registered if version >= _FIRST_FENCED else _with_replicas
        return await find(cluster, deadline) - present
    except KafkaGuardError as error:
        error.add_note("So brokers may be missing from this report.")
        return error


async def _registered(cluster: Cluster, deadline: float) -> set[int]:
    request = DescribeClusterRequest(
        endpoint_type=_BROKERS, include_fenced_brokers=True
    )
    answer = await cluster.ask(request, None, deadline)
    if answer.error_code:
        raise cluster.make(answer.error_code, api="DescribeCluster")
    return {each.broker_id for each in answer.brokers}


async def _with_replicas(cluster: Cluster, deadline: float) -> set[int]:
    """Find the brokers that have replicas of the topics that this user may see."""
    metadata = await cluster.refresh(deadline, None)
    return {
        broker
        for topic in metadata.topics
        for partition in topic.partitions
        for broker in partition.replica_nodes
    }


async def _wanted(
    cluster: Cluster,
    topics: Iterable[str] | Mapping[str, Collection[int]] | None,
    deadline: float,
) -> dict[str, list[int]] | None:
    """Return the partitions that are asked for, by topic; None: all."""
    names = [] if topics is None else list(topics)
    metadata = await cluster.refresh(deadline, names)
    if topics is None:
        return None
    if hasattr(topics, "items"):
        return {name: list(indexes) for name, indexes in topics.items()}
    found = {
        topic.name: [each.partition_index for each in topic.partitions]
        for topic in metadata.topics
    }
    return {name: found.get(name, []) for name in names}


async def _of_broker(
    cluster: Cluster,
    broker: int,
    wanted: dict[str, list[int]] | None,
    deadline: float,
    max_version: int | None,
) -> BrokerLogDirs:
    request = _request(wanted)
    try:
        answer = await cluster.ask(request, broker, deadline, max_version=max_version)
    except KafkaGuardError as error:
        return answers.read_failure(broker, request.API_VERSION, error)
    return answers.read_answer(broker, request.API_VERSION, answer, cluster.make)


def _request(wanted: dict[str, list[int]] | None) -> Any:
    named = DescribeLogDirsRequest.DescribableLogDirTopic
    if wanted is None:
        return DescribeLogDirsRequest(topics=None)
    return DescribeLogDirsRequest(
        topics=[named(topic=name, partitions=parts) for name, parts in wanted.items()]
    )
