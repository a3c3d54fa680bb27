"""``log_dirs``: DescribeLogDirs to all brokers at once."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from kafka.protocol.admin import DescribeLogDirsRequest

from kafkaguard import _log_dirs
from kafkaguard.errors import KafkaGuardError

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping

    from kafkaguard._log_dirs import BrokerLogDirs, LogDirsReport
    from kafkaguard_adapters._cluster import Cluster


async def log_dirs(
    cluster: Cluster,
    topics: Iterable[str] | Mapping[str, Collection[int]] | None,
    brokers: Iterable[int] | None,
    timeout: float,  # noqa: ASYNC109 - of all brokers, and each answers for itself
    max_version: int | None,
) -> LogDirsReport:
    """Ask brokers for their log directories; see :class:`~._calls.ReportCalls`."""
    deadline = asyncio.get_running_loop().time() + timeout
    wanted = await _wanted(cluster, topics, deadline)
    asked = sorted(cluster.addresses) if brokers is None else list(brokers)
    answers = await asyncio.gather(
        *(_of_broker(cluster, each, wanted, deadline, max_version) for each in asked)
    )
    return _log_dirs.LogDirsReport({each.broker: each for each in answers})


async def _wanted(
    cluster: Cluster,
    topics: Iterable[str] | Mapping[str, Collection[int]] | None,
    deadline: float,
) -> dict[str, list[int]] | None:
    """Say which partitions are asked for; None: all that there are."""
    if isinstance(topics, str):
        topics = [topics]
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
        return _log_dirs.read_failure(broker, request.API_VERSION, error)
    return _log_dirs.read_answer(broker, request.API_VERSION, answer, cluster.make)


def _request(wanted: dict[str, list[int]] | None) -> Any:
    named = DescribeLogDirsRequest.DescribableLogDirTopic
    if wanted is None:
        return DescribeLogDirsRequest(topics=None)
    return DescribeLogDirsRequest(
        topics=[named(topic=name, partitions=parts) for name, parts in wanted.items()]
    )
