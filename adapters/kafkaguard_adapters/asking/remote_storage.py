"""Watch for consumers that wait for remote storage (KIP-1007).

No request is sent while positions move. If a position does not move, the guard checks
the partition on a connection of its own: is the topic tiered, is there more to read,
and what does the broker answer to a Fetch at this position?
"""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING, Any, Final

from kafkaguard._cluster.offsets import LATEST
from kafkaguard._cluster.remote_storage import PATIENCE_S, Progress, RemoteStorageEvent
from kafkaguard._cluster.reports import as_partition, read_position
from kafkaguard._common.arguments import hook, seconds
from kafkaguard._common.logs import Log
from kafkaguard._errors import KafkaGuardError, RemoteStorageNotReadyError
from kafkaguard_adapters.asking.fetch_probe import probe
from kafkaguard_adapters.asking.list_offsets import OffsetLister, find_leaders

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from kafkaguard._cluster.reports import TopicPartition
    from kafkaguard_adapters.asking.cluster_calls import AsyncReportCalls, ReportCalls
    from kafkaguard_adapters.wire.cluster import Cluster

_log = Log("remote_storage")

#: Seconds that one check may take.
CHECK_S: Final = 5.0


class RemoteStorageWatch:
    """Reports when a consumer waits for remote storage, and when it continues.

    The errors that it finds are also the ``read_error`` in the lag of the same client.

    Args:
        client: A guarded client.
        on_event: Called with each event. Its exceptions are logged.
        patience: Seconds without progress until a partition is checked.
        clock: Returns monotonic seconds.

    Raises:
        TypeError: ``patience`` is not a number, or ``on_event`` not a function.
        ValueError: ``patience`` is not above 0, or has no end.
    """

    def __init__(
        self,
        client: ReportCalls | AsyncReportCalls,
        on_event: Callable[[RemoteStorageEvent], object] | None = None,
        *,
        patience: float = PATIENCE_S,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._on_event = hook("on_event", on_event)
        self._progress = Progress(seconds("RemoteStorageWatch(): patience", patience))
        self._clock = clock
        self._view = client.cluster_view

    async def look(self, positions: Mapping[Any, int]) -> list[RemoteStorageEvent]:
        """Check a consumer's positions. Call this regularly, for example at each poll.

        Args:
            positions: The offset of the next record to read, for each assigned
                partition that is not paused, by any client's ``TopicPartition``. None
                or a negative offset means that the position is not known yet.

        Returns:
            An event for each partition whose state has changed since the last call.
        """
        offsets = {
            as_partition(each): offset
            for each, at in positions.items()
            if (offset := read_position(at)) is not None
        }
        standing = self._progress.note(offsets, self._clock())
        errors: dict[TopicPartition, KafkaGuardError] = {}
        if standing:
            try:
                errors = await self._find_errors(
                    {place: offsets[place] for place in standing}
                )
            except KafkaGuardError as error:
                _log.warning(
                    "readers_stand",
                    "readers make no progress, and the cluster does not answer: %s",
                    error,
                    error=error,
                )
                return []
        return self._update_errors(offsets, standing, errors)

    async def _find_errors(
        self, positions: Mapping[TopicPartition, int]
    ) -> dict[TopicPartition, KafkaGuardError]:
        """Return the errors of the positions for which remote storage is not ready."""
        cluster = self._view.cluster()
        deadline = asyncio.get_running_loop().time() + CHECK_S
        topics = {place.topic for place in positions}
        facts = await self._view.facts.get(cluster, topics, deadline)
        tiered = {p: at for p, at in positions.items() if facts[p.topic].tiered}
        if not tiered:
            return {}
        topic_leaders = await find_leaders(
            cluster, {place.topic for place in tiered}, deadline
        )
        lister = OffsetLister(
            cluster, self._view.facts, deadline, topic_leaders=topic_leaders
        )
        ends = await lister.list(dict.fromkeys(tiered, LATEST))
        behind = {
            place: at
            for place, at in tiered.items()
            if (end := ends[place].offset) is not None and at < end
        }
        answers = await asyncio.gather(
            *(
                self._probe(cluster, topic_leaders.of(place), place, at, deadline)
                for place, at in behind.items()
            )
        )
        return {
            place: error
            for place, error in zip(behind, answers, strict=True)
            if isinstance(error, RemoteStorageNotReadyError)
        }

    async def _probe(
        self,
        cluster: Cluster,
        leader: int | KafkaGuardError,
        place: TopicPartition,
        at: int,
        deadline: float,
    ) -> KafkaGuardError | None:
        if isinstance(leader, KafkaGuardError):
            return leader
        facts = await self._view.facts.get(cluster, [place.topic], deadline)
        return await probe(
            cluster, leader, place, at, deadline=deadline, facts=facts[place.topic]
        )

    def _update_errors(
        self,
        positions: Mapping[TopicPartition, int],
        standing: Mapping[TopicPartition, float],
        errors: Mapping[TopicPartition, KafkaGuardError],
    ) -> list[RemoteStorageEvent]:
        read_errors = self._view.read_errors
        places = [
            place for place in positions if (place in errors) != (place in read_errors)
        ]
        events = []
        for place in places:
            error = errors.get(place)
            if error is None:
                read_errors.pop(place, None)
            else:
                read_errors[place] = error
            events.append(
                RemoteStorageEvent(
                    *place, positions[place], standing.get(place, 0.0), error
                )
            )
        for event in events:
            self._report(event)
        return events

    def _report(self, event: RemoteStorageEvent) -> None:
        if event.error is not None:
            _log.warning(
                "remote_storage_not_ready",
                "%s",
                event.error,
                topic=event.topic,
                partition=event.partition,
                offset=event.position,
                error=event.error,
            )
        if self._on_event is None:
            return
        try:
            self._on_event(event)
        except Exception:  # noqa: BLE001 - the hook is the user's
            _log.exception(
                "remote_storage_hook_raised",
                "the hook for remote storage raised an exception; reading continues",
                topic=event.topic,
            )
