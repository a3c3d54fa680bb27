"""What the machine wants to know of the cluster, on a connection of our own."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final

from kafkaguard._cluster.offsets import EARLIEST, LATEST
from kafkaguard._consuming.machine import FETCH, Refusal
from kafkaguard.errors import KafkaGuardError
from kafkaguard_adapters.asking.fetch_probe import probe
from kafkaguard_adapters.asking.leaders import leaders
from kafkaguard_adapters.asking.list_offsets import API as LIST_OFFSETS
from kafkaguard_adapters.asking.list_offsets import OffsetLister

if TYPE_CHECKING:
    from kafkaguard._cluster.reports import TopicPartition
    from kafkaguard._verdicts.verdict import TopicFacts
    from kafkaguard_adapters.asking.view import ClusterView

#: Seconds that one question may take.
QUESTION_S: Final = 5.0


def _deadline() -> float:
    return asyncio.get_running_loop().time() + QUESTION_S


async def facts_of(view: ClusterView, topic: str) -> TopicFacts:
    """Ask for a topic's settings; what cannot be had is "not known"."""
    return (await view.facts.get(view.cluster(), [topic], _deadline()))[topic]


async def range_of(view: ClusterView, place: TopicPartition) -> tuple[int, int]:
    """Ask where a log begins and ends.

    Raises:
        KafkaGuardError: Its leader cannot say.
    """
    lister = OffsetLister(view.cluster(), view.facts, _deadline())
    ends = []
    for which in (EARLIEST, LATEST):
        found = (await lister.list({place: which}))[place]
        if found.error is not None:
            raise found.error
        assert found.offset is not None
        ends.append(found.offset)
    return ends[0], ends[1]


async def probe_of(
    view: ClusterView, place: TopicPartition, position: int | None
) -> Refusal | None:
    """Read at a position, or find the log's start where there is none yet.

    Returns:
        What it is refused with; None: it can be read.
    """
    cluster, deadline = view.cluster(), _deadline()
    leader = (await leaders(cluster, [place.topic], deadline)).of(place)
    if isinstance(leader, KafkaGuardError):
        return _refusal(leader, position)
    if position is None:
        lister = OffsetLister(cluster, view.facts, deadline)
        start = (await lister.list({place: EARLIEST}))[place]
        return _refusal(start.error, None, LIST_OFFSETS)
    error = await probe(cluster, leader, place, position, deadline=deadline, facts=None)
    return _refusal(error, position)


def _refusal(
    error: KafkaGuardError | None, position: int | None, api: str = FETCH
) -> Refusal | None:
    return None if error is None else Refusal(error.code, api, position, error)
