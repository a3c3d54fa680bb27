"""Fetches of aiokafka: the answer to each, and partitions that are left out.

The fetcher sends through a stand-in for its client, which reads each answer first. The
guard removes the errors that it handles from the answer, because the fetcher would only
log the error, reset the offset, or fetch again at once. When the fetcher chooses what
to fetch, the guard hides held partitions. So the client's own pauses are not used.
"""

# ruff: noqa: SLF001 - this module exists to use private attributes

from __future__ import annotations

from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

from aiokafka.errors import KafkaError
from aiokafka.protocol.fetch import FetchRequest
from aiokafka.protocol.offset import OffsetRequest
from aiokafka.structs import TopicPartition as ClientPartition

from kafkaguard._cluster.offsets import LATEST
from kafkaguard._cluster.reports import TopicPartition
from kafkaguard._common.logs import Log
from kafkaguard._consuming.machine import (
    FETCH,
    LIST_OFFSETS,
    OUT_OF_RANGE,
    ReadRefusal,
)
from kafkaguard._errors.base import Action
from kafkaguard_adapters.aiokafka.errors import errors
from kafkaguard_adapters.consuming.answers_shell import AnswersShell, KeptPauses

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping

    from kafkaguard._errors import KafkaGuardError
    from kafkaguard_adapters.aiokafka._private.consuming.reading import Reading

_log = Log("consumer")
#: Least seconds that the fetcher sleeps between two rounds.
_SHORTEST_S = 0.001


class _AnswerReader:
    """Stands in for the fetcher's client, and gives each answer to the shell first."""

    def __init__(self, client: Any, shell: AIOKafkaConsumerShell) -> None:
        self._client = client
        self._shell = shell

    def __getattr__(self, name: str) -> Any:
        return getattr(self._client, name)

    async def send(self, node_id: Any, request: Any, **options: Any) -> Any:
        """Send a request, as the client does."""
        try:
            response = await self._client.send(node_id, request, **options)
        except KafkaError as error:
            if isinstance(request, FetchRequest):
                self._shell.broken(request, error)
            raise
        if isinstance(request, FetchRequest):
            self._shell.fetched(request, response)
        elif isinstance(request, OffsetRequest):
            self._shell.listed(response)
        return response


class AIOKafkaConsumerShell(AnswersShell):
    """The shell of an ``AIOKafkaConsumer`` that was started.

    Args:
        consumer: The client's consumer.
        keeps_pauses: Whether the application's pauses outlive a rebalance.
    """

    #: Knows the reads that wait.
    reading: Reading

    def __init__(self, consumer: Any, *, keeps_pauses: bool = False) -> None:
        super().__init__(reads_followers=bool(consumer._client_rack))
        self._client = consumer._client
        self._subscription = consumer._subscription
        if keeps_pauses:
            KeptPauses(consumer._subscription)
        self.commits_itself: bool = consumer._enable_auto_commit
        self._fetcher = fetcher = consumer._fetcher
        self._choose = fetcher._get_actions_per_node
        fetcher._get_actions_per_node = self._get_actions
        fetcher._client = _AnswerReader(fetcher._client, self)

    # --- commands of the driver -------------------------------------------------------

    def assignment(self) -> Collection[TopicPartition]:
        """Return the assigned partitions."""
        assigned: Collection[TopicPartition] = self._subscription.assigned_partitions()
        return assigned

    def fail(self, place: TopicPartition, error: KafkaGuardError) -> None:
        """Let the next read of a partition raise an error."""
        fetcher = self._fetcher
        partition = ClientPartition(*place)
        if partition in fetcher._records:
            return
        fetcher._set_error(partition, error)
        for waiter in list(fetcher._fetch_waiters):
            fetcher._notify(waiter)

    def end(self, error: KafkaGuardError) -> None:
        """Let each read raise an error."""
        self.reading.end(error)

    def wake(self) -> None:
        """Wake up the fetcher, so that it does what is due."""
        self._fetcher._notify(self._fetcher._wait_consume_future)

    def positions(self) -> dict[TopicPartition, int | None]:
        """Return the position of each partition; None: not known yet."""
        positions = {}
        for place in self._subscription.assigned_partitions():
            state = self._subscription.subscription.assignment.state_value(place)
            at = state.position if state.has_valid_position else None
            positions[TopicPartition(*place)] = at
        return positions

    # --- calls of the fetcher ---------------------------------------------------------

    def _get_actions(self, assignment: Any) -> Any:
        """Do what is due, and let the fetcher choose among partitions not held."""
        try:
            visible, limit = self._hide_held(assignment)
        except Exception:  # noqa: BLE001 - else the fetcher would end
            _log.exception(
                "consumer_guard_failed",
                "the guard failed (a bug in kafkaguard: report it); the consumer reads "
                "on without it",
            )
            return self._choose(assignment)
        fetches, resets, timeout, *rest = self._choose(visible)
        return fetches, resets, max(_SHORTEST_S, min(timeout, limit)), *rest

    def _hide_held(self, assignment: Any) -> tuple[Any, float]:
        driver = self.driver
        driver.tick()
        denied = self._client.cluster.unauthorized_topics
        if denied:
            driver.denied({place.topic for place in assignment.tps} & set(denied))
        if not self._held:
            return assignment, driver.seconds_left()
        free = [place for place in assignment.tps if place not in self._held]
        view = SimpleNamespace(tps=free, state_value=assignment.state_value)
        return view, driver.seconds_left()

    # --- answers ----------------------------------------------------------------------

    def fetched(self, request: Any, response: Any) -> None:
        """Remove the errors that the guard handles from the answer to a Fetch."""
        try:
            positions = dict(_offsets(request))
            response.topics = [
                (
                    topic,
                    [
                        each
                        for each in parts
                        if not self._is_handled(topic, each, positions)
                    ],
                )
                for topic, parts in response.topics
            ]
        except Exception:  # noqa: BLE001 - else the fetcher would end
            _log.exception(
                "consumer_guard_failed",
                "the guard failed (a bug in kafkaguard: report it); the consumer reads "
                "on without it",
            )

    def _is_handled(self, topic: str, each: Any, positions: Mapping[Any, int]) -> bool:
        """Return whether the guard handles a partition of an answer."""
        place, code = TopicPartition(topic, each[0]), each[1]
        position = positions[place]
        if not code:
            if self.driver.machine.is_waiting(place):
                self.read_again(place, position)
            return False
        if not self._is_current(place, position):
            return False
        if code == OUT_OF_RANGE and self.lets_client_reset(place):
            return False
        self._refused(place, ReadRefusal(code, position=position))
        return True

    def _is_current(self, place: Any, position: int) -> bool:
        if place not in self._subscription.assigned_partitions():
            return False
        state = self._subscription.subscription.assignment.state_value(place)
        return bool(state.has_valid_position and state.position == position)

    def _refused(self, place: TopicPartition, refusal: ReadRefusal) -> None:
        self.driver.refused(place, refusal)
        error = self.driver.machine.waiting().get(place)
        if error is not None and error.verdict.action is Action.REFRESH:
            self._client.force_metadata_update()

    def listed(self, response: Any) -> None:
        """Record the answer to ListOffsets; the fetcher fails all for one error."""
        starts = {}
        for topic, parts in response.topics:
            for each in parts:
                place = TopicPartition(topic, each[0])
                if place not in self._subscription.assigned_partitions():
                    continue
                if each[1]:
                    self._refused(place, ReadRefusal(each[1], LIST_OFFSETS))
                elif self._begins_at_the_end(place) and isinstance(each[-1], int):
                    starts[place] = each[-1]
        self.group_starts.found(starts)

    def _begins_at_the_end(self, place: TopicPartition) -> bool:
        """Return whether the client looks up the end of a log to begin there."""
        state = self._subscription.subscription.assignment.state_value(place)
        is_look_up = state.awaiting_reset and state.reset_strategy == LATEST
        return bool(is_look_up and self.begins(place))

    def broken(self, request: Any, error: KafkaError) -> None:
        """Record that a Fetch got no answer from a broker."""
        for place, position in _offsets(request):
            if self._is_current(place, position):
                guard_error = errors.translate(
                    error, api=FETCH, topic=place.topic, partition=place.partition
                )
                self.driver.refused(
                    place, ReadRefusal(None, FETCH, position, guard_error)
                )


def _offsets(request: Any) -> Iterator[tuple[TopicPartition, int]]:
    for topic, parts in request.topics:
        for partition, position, _ in parts:
            yield TopicPartition(topic, partition), position
