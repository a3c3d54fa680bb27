"""The lag of a consumer's own assignment, by commits and by positions."""

from __future__ import annotations

import time
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from kafkaguard._cluster.lag import (
    GroupLag,
    LagReason,
    LagReport,
    PartitionLag,
    measure,
)
from kafkaguard_adapters.asking.cluster_calls import (
    TIMEOUT_S,
    AsyncClusterCalls,
    Isolation,
)

if TYPE_CHECKING:
    from collections.abc import Mapping

    from kafkaguard._cluster.reports import TopicPartition
    from kafkaguard_adapters.asking.cluster_view import ClusterView

#: The name of the group in the report of a consumer without a group.
NO_GROUP = ""


async def own_lag(
    view: ClusterView,
    group: str | None,
    positions: Mapping[TopicPartition, int | None],
    *,
    isolation: Isolation,
    timeout: float = TIMEOUT_S,  # noqa: ASYNC109 - limits the whole report, cancels nothing
    **more: Any,
) -> LagReport:
    """Measure the lag of a consumer.

    Args:
        view: The cluster view.
        group: The consumer's group; None: it has no group, so it commits nothing.
        positions: The position in each assigned partition.
        isolation: Which offset is the end: the high watermark or the last stable
            offset.
        timeout: Seconds for the whole report. Default: 30.
        more: Other arguments of ``lag``, if the consumer has a group.

    Returns:
        A report of one group, with the assigned partitions only.

    Raises:
        KafkaGuardError: The client was closed, or its settings cannot be used for a
            connection of the guard.
    """
    view.cluster()  # raises if the cluster cannot be used
    calls = AsyncClusterCalls()
    calls.cluster_view = view
    name = group or NO_GROUP
    if not positions:
        return LagReport({name: GroupLag(name)}, time.time())
    if not group:
        ends = await calls.end_offsets(positions, timeout, isolation=isolation)
        partitions = {
            place: measure(
                place,
                None,
                found.offset,
                position=positions[place],
                read_error=view.read_errors.get(place),
            )
            if found.offset is not None
            else PartitionLag(
                *place,
                reason=LagReason.ERROR,
                error=found.error,
                position=positions[place],
            )
            for place, found in ends.partitions.items()
        }
        return LagReport({name: GroupLag(name, partitions=partitions)}, time.time())
    topics = sorted({place.topic for place in positions})
    report = await calls.lag(
        [group], topics, isolation=isolation, timeout=timeout, **more
    )
    found_group = report.groups[group]
    own = {
        place: replace(each, position=positions[place])
        for place, each in found_group.partitions.items()
        if place in positions
    }
    return replace(report, groups={group: replace(found_group, partitions=own)})
