"""A consumer's own look-ups of offsets for tiered topics (KIP-1007).

For other topics, the client itself looks the offsets up. For tiered topics, the guard
looks them up on its own connection, where an error code of 9 or -1 stays with its
partition. Partitions with these codes are retried, the others have their offsets, and
the error lists the partitions that are still not ready at the end.
"""

from __future__ import annotations

import asyncio
from copy import copy
from typing import TYPE_CHECKING, Any, Final

from kafkaguard._cluster.offsets import ISOLATION_LEVELS, OffsetsReport
from kafkaguard._cluster.reports import as_partition
from kafkaguard._common.logs import Log
from kafkaguard._errors import (
    ClientClosedError,
    KafkaGuardError,
    RemoteStorageNotReadyError,
)
from kafkaguard_adapters.asking.list_offsets import OffsetLister

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from kafkaguard_adapters.asking.cluster_view import ClusterView

_log = Log("remote_storage")

#: Seconds for the look-up whether topics are tiered.
_LOOK_UP_S: Final = 5.0


class TieredOffsets:
    """Looks up offsets of tiered topics.

    Args:
        view: The cluster view.
        isolation: The client's isolation level, which determines the end offset.
    """

    def __init__(self, view: ClusterView, isolation: str) -> None:
        self._view = view
        self._isolation = ISOLATION_LEVELS[isolation]
        self._has_warned = False

    async def find(
        self, times: Mapping[Any, int], seconds: float
    ) -> OffsetsReport | None:
        """Look up offsets; None if no topic is known to be tiered.

        Also None if these are not partitions, which the client refuses by itself.

        Args:
            times: A time in milliseconds, or one of Kafka's negative numbers, by any
                client's ``TopicPartition``.
            seconds: The longest wait for partitions that are not ready.

        Raises:
            RemoteStorageNotReadyError: Some partitions are not ready in time; the
                error's ``report`` has the offsets of the others.
            KafkaGuardError: A broker refuses the request.
        """
        try:
            places = {as_partition(each): when for each, when in times.items()}
        except TypeError:
            return None  # the client raises its own error
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
                raise _attach_report(report, error)
        report.raise_for_errors()
        return report

    async def find_times(
        self, times: Mapping[Any, Any], seconds: float
    ) -> OffsetsReport | None:
        """Look up offsets by time, as :meth:`find`; None if the client refuses a time.

        Args:
            times: Milliseconds since 1970, by any client's ``TopicPartition``.
            seconds: As for :meth:`find`.
        """
        try:
            whole = {place: int(time) for place, time in times.items()}
        except (TypeError, ValueError):
            return None
        if any(time < 0 for time in whole.values()):
            return None
        return await self.find(whole, seconds)

    async def _is_tiered(self, topics: set[str], deadline: float) -> bool:
        try:
            cluster = self._view.cluster()
        except ClientClosedError:
            return False  # the client raises its own error
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
                "remote_storage_not_awaited",
                "look-ups of offsets do not wait for remote storage: %s",
                error,
                error=error,
            )


def offsets_of(report: OffsetsReport, partitions: Iterable[Any]) -> dict[Any, int]:
    """Return the offsets by the same objects with which the caller asked for them."""
    offsets = report.offsets
    return {each: offsets[as_partition(each)] for each in partitions}


def _attach_report(
    report: OffsetsReport, error: RemoteStorageNotReadyError
) -> RemoteStorageNotReadyError:
    """Return a copy of an error that carries the report of all partitions."""
    error_copy = copy(error)
    error_copy.report = report
    return error_copy
