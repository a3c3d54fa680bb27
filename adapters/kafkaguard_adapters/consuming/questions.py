"""Requests for the consumer machine, on the guard's own connections."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from kafkaguard._cluster.offsets import EARLIEST, LATEST
from kafkaguard._consuming.machine import FETCH, LIST_OFFSETS, ReadRefusal
from kafkaguard._errors import KafkaGuardError
from kafkaguard_adapters.asking.cluster_calls import AsyncReportCalls
from kafkaguard_adapters.asking.fetch_probe import probe
from kafkaguard_adapters.asking.list_offsets import OffsetLister, find_leaders

if TYPE_CHECKING:
    from collections.abc import Mapping

    from kafkaguard._cluster.reports import TopicPartition
    from kafkaguard._consuming.machine import Reset
    from kafkaguard._verdicts.context import TopicFacts
    from kafkaguard_adapters.asking.cluster_view import ClusterView

#: Seconds that one request may take.
QUESTION_S: Final = 5.0


def _deadline() -> float:
    return asyncio.get_running_loop().time() + QUESTION_S


async def ask_facts(view: ClusterView, topic: str) -> TopicFacts:
    """Look up facts about a topic; settings that are not available are not known."""
    return (await view.facts.get(view.cluster(), [topic], _deadline()))[topic]


async def ask_range(view: ClusterView, place: TopicPartition) -> tuple[int, int]:
    """Return the first offset and the end offset of a log.

    Raises:
        KafkaGuardError: The offsets cannot be looked up.
    """
    lister = OffsetLister(view.cluster(), view.facts, _deadline())
    ends = []
    for time in (EARLIEST, LATEST):
        answer = (await lister.list({place: time}))[place]
        if answer.error is not None:
            raise answer.error
        assert answer.offset is not None
        ends.append(answer.offset)
    return ends[0], ends[1]


_RESETS: Final[Mapping[str, Reset]] = {
    **dict.fromkeys(("earliest", "beginning", "smallest"), "earliest"),
    **dict.fromkeys(("latest", "end", "largest"), "latest"),
    **dict.fromkeys(("none", "error"), "none"),
}


def reset_of(setting: object) -> Reset | None:
    """Return what a client's ``auto_offset_reset`` means; None: not known."""
    return _RESETS.get(str(setting))


@dataclass(frozen=True, slots=True)
class Origin:
    """Where a consumer without a position begins.

    Attributes:
        group: The group whose committed offset it uses; None: it has no group.
        is_earliest: Whether it begins at the start of the log if there is no commit;
            otherwise it begins at the end.
    """

    group: str | None = None
    is_earliest: bool = False


async def _find_committed(
    view: ClusterView, place: TopicPartition, group: str | None
) -> int | None:
    if group is None:
        return None
    calls = AsyncReportCalls()
    calls.cluster_view = view
    report = await calls.lag([group], [place.topic], timeout=QUESTION_S)
    partition_lag = report.groups[group].partitions.get(place)
    return None if partition_lag is None else partition_lag.committed


async def ask_probe(
    view: ClusterView, place: TopicPartition, position: int | None, origin: Origin
) -> ReadRefusal | None:
    """Read at a position, or where the consumer begins if it has no position yet.

    Returns:
        The refusal, or None if the partition can be read.
    """
    cluster, deadline = view.cluster(), _deadline()
    leader = (await find_leaders(cluster, [place.topic], deadline)).of(place)
    if isinstance(leader, KafkaGuardError):
        return _refusal(leader, position)
    if position is None:
        position = await _find_committed(view, place, origin.group)
    if position is None:
        lister = OffsetLister(cluster, view.facts, deadline)
        first = (await lister.list({place: EARLIEST}))[place]
        if first.error is not None or first.offset is None or not origin.is_earliest:
            return _refusal(first.error, None, LIST_OFFSETS)
        position = first.offset
    error = await probe(cluster, leader, place, position, deadline=deadline, facts=None)
    return _refusal(error, position)


def _refusal(
    error: KafkaGuardError | None, position: int | None, api: str = FETCH
) -> ReadRefusal | None:
    return None if error is None else ReadRefusal(error.code, api, position, error)
