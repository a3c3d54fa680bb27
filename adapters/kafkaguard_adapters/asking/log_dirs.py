"""``log_dirs``: sends DescribeLogDirs to all brokers at once."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, Final

from kafka.protocol.admin import DescribeClusterRequest, DescribeLogDirsRequest

from kafkaguard._cluster import log_dirs as answers
from kafkaguard._errors import KafkaGuardError

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
    selection = await _select_partitions(cluster, topics, deadline)
    broker_ids = sorted(cluster.addresses) if brokers is None else list(brokers)
    asking = asyncio.gather(
        *(
            _ask_broker(cluster, each, selection, deadline, max_version)
            for each in broker_ids
        )
    )
    absent_brokers = await _find_absent(cluster, deadline) if brokers is None else set()
    reports = {each.broker: each for each in await asking}
    if isinstance(absent_brokers, KafkaGuardError):
        return answers.LogDirsReport(reports, absent_brokers)
    absence_reports = {
        each: answers.read_absence(each, cluster.make) for each in absent_brokers
    }
    return answers.LogDirsReport(dict(sorted({**absence_reports, **reports}.items())))


async def _find_absent(cluster: Cluster, deadline: float) -> set[int] | KafkaGuardError:
    """Find the brokers that belong to the cluster but are not in its Metadata."""
    present = set(cluster.addresses)
    try:
        version = await cluster.version(DescribeClusterRequest, None, deadline)
        find = _find_registered if version >= _FIRST_FENCED else _find_with_replicas
        return await find(cluster, deadline) - present
    except KafkaGuardError as error:
        error.add_note("So brokers may be missing from this report.")
        return error


async def _find_registered(cluster: Cluster, deadline: float) -> set[int]:
    request = DescribeClusterRequest(
        endpoint_type=_BROKERS, include_fenced_brokers=True
    )
    answer = await cluster.ask(request, None, deadline)
    if answer.error_code:
        raise cluster.make(answer.error_code, api="DescribeCluster")
    return {each.broker_id for each in answer.brokers}


async def _find_with_replicas(cluster: Cluster, deadline: float) -> set[int]:
    """Find the brokers that have replicas of the topics that this user may see."""
    metadata = await cluster.refresh(deadline, None)
    return {
        broker
        for topic in metadata.topics
        for partition in topic.partitions
        for broker in partition.replica_nodes
    }


async def _select_partitions(
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
    partitions = {
        topic.name: [each.partition_index for each in topic.partitions]
        for topic in metadata.topics
    }
    return {name: partitions.get(name, []) for name in names}


async def _ask_broker(
    cluster: Cluster,
    broker: int,
    selection: dict[str, list[int]] | None,
    deadline: float,
    max_version: int | None,
) -> BrokerLogDirs:
    request = _request(selection)
    try:
        answer = await cluster.ask(request, broker, deadline, max_version=max_version)
    except KafkaGuardError as error:
        return answers.read_failure(broker, request.API_VERSION, error)
    return answers.read_answer(broker, request.API_VERSION, answer, cluster.make)


def _request(selection: dict[str, list[int]] | None) -> Any:
    topic_class = DescribeLogDirsRequest.DescribableLogDirTopic
    if selection is None:
        return DescribeLogDirsRequest(topics=None)
    return DescribeLogDirsRequest(
        topics=[
            topic_class(topic=name, partitions=parts)
            for name, parts in selection.items()
        ]
    )
