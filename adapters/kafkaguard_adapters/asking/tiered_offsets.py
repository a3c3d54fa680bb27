"""A consumer's own look-ups of offsets for tiered topics (KIP-1007).

Of plain topics they are the client's. Of tiered ones they are made on a connection of
our own, where an answer of 9 or -1 keeps its partition and its meaning: the partitions
concerned wait, the others have their offsets, and what is left over is told apart.
"""

from __future__ import annotations

import asyncio
import logging
from copy import copy
from typing import TYPE_CHECKING, Any, Final

from kafkaguard._cluster.offsets import ISOLATION_LEVELS, OffsetsReport
from kafkaguard._cluster.reports import as_partition
from kafkaguard.errors import (
    ClientClosedError,
    KafkaGuardError,
    RemoteStorageNotReadyError,
)
from kafkaguard_adapters.asking.list_offsets import OffsetLister

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from kafkaguard_adapters.asking.cluster_view import ClusterView

_log = logging.getLogger("kafkaguard.remote_storage")

#: Seconds for finding out whether topics are tiered.
_LOOK_UP_S: Final = 5.0


class TieredOffsets:
    """Looks offsets of tiered topics up.

    Args:
        view: The cluster view.
        isolation: What the end is, in the client's own word.
    """

    def __init__(self, view: ClusterView, isolation: str) -> None:
        self._view = view
        self._isolation = ISOLATION_LEVELS[isolation]
        self._has_warned = False

    async def find(
        self, wanted: Mapping[Any, int], seconds: float
    ) -> OffsetsReport | None:
        """Look offsets up; None: no topic is tiered, as far as one can know.

        Args:
            wanted: A time in milliseconds, or one of Kafka's negative numbers, by any
                client's ``TopicPartition``.
            seconds: How long partitions may be waited for.

        Raises:
            RemoteStorageNotReadyError: Some are not ready in time; its ``report`` has
                the others.
            KafkaGuardError: A broker refuses.
        """
        places = {as_partition(each): when for each, when in wanted.items()}
        deadline = asyncio.get_running_loop().time() + seconds
        if not await self._is_tiered({place.topic for place in places}, deadline):
            return None
        view = self._view
        lister = OffsetLister(
            view.cluster(), view.facts, deadline, isolation=self._isolation
        )
        report = OffsetsReport(await lister.list(places))
        for error in report.errors:
            if isinstance(error, RemoteStorageNotReadyError):
                raise _with(report, error)
        report.raise_for_errors()
        return report

    async def _is_tiered(self, topics: set[str], deadline: float) -> bool:
        try:
            cluster = self._view.cluster()
        except ClientClosedError:
            return False  # the client says so in its own way
        except KafkaGuardError as error:
            self._warn(error)
            return False
        soon = asyncio.get_running_loop().time() + _LOOK_UP_S
        facts = await self._view.facts.get(cluster, topics, min(soon, deadline))
        return any(each.tiered for each in facts.values())

    def _warn(self, error: KafkaGuardError) -> None:
        if not self._has_warned:
            self._has_warned = True
            _log.warning(
                "look-ups of offsets do not wait for remote storage: %s", error
            )


def offsets_of(report: OffsetsReport, partitions: Iterable[Any]) -> dict[Any, int]:
    """Return offsets by the very objects that were asked for."""
    offsets = report.offsets
    return {each: offsets[as_partition(each)] for each in partitions}


def _with(
    report: OffsetsReport, error: RemoteStorageNotReadyError
) -> RemoteStorageNotReadyError:
    """Make an error that carries a report which has the errors of its partitions."""
    raised = copy(error)
    raised.report = report
    return raised
