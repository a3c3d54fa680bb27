"""Reads of kafka-python: the answer to each, and held partitions that are left out.

Answers are parsed on the thread that polls. The client's own thread chooses the
partitions to fetch, and notices broken connections and start offsets that cannot be
looked up. So the set of held partitions is never changed in place, and facts from the
client's thread are queued.
"""

# ruff: noqa: SLF001 - this module is for the use of private attributes

from __future__ import annotations

from collections import deque
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Any, NoReturn

from kafka.errors import Cancelled, KafkaError

from kafkaguard._cluster.offsets import LATEST
from kafkaguard._cluster.reports import TopicPartition
from kafkaguard._consuming.machine import (
    FENCED_INSTANCE,
    LIST_OFFSETS,
    OUT_OF_RANGE,
    ReadRefusal,
)
from kafkaguard_adapters.consuming.answers_shell import AnswersShell, KeptPauses
from kafkaguard_adapters.kafka_python._private.consuming.decoding import (
    UndecodedError,
    decoded,
)
from kafkaguard_adapters.kafka_python.errors import errors

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator

    from kafkaguard._consuming.commands import Command
    from kafkaguard._errors import KafkaGuardError

_MS = 1000


class KafkaPythonConsumerShell(AnswersShell):
    """The shell of a ``KafkaConsumer``; it replaces some of the client's methods.

    Args:
        consumer: The client's consumer.
        keeps_pauses: Whether the application's pauses outlive a rebalance.
    """

    def __init__(self, consumer: Any, *, keeps_pauses: bool = False) -> None:
        super().__init__(reads_followers=bool(consumer.config["client_rack"]))
        self._subscription = consumer._subscription
        if keeps_pauses:
            KeptPauses(consumer._subscription)
        self._coordinator = consumer._coordinator
        fetcher = consumer._fetcher
        self._decoding = fetcher.config
        self._cluster = fetcher._manager.cluster
        self._failures: deque[KafkaGuardError] = deque()
        #: Ends of logs at which reading begins, from the client's own thread.
        self._starts: deque[tuple[TopicPartition, int]] = deque()
        self._ended: KafkaGuardError | None = None
        self._fetch_records = fetcher.fetch_records
        self._parse = fetcher._parse_fetched_data
        self._fetchable = fetcher._fetchable_partitions
        self._handle_error = fetcher._handle_fetch_error
        self._read_starts = fetcher._handle_list_offsets_response
        self._startless = consumer._subscription.partitions_needing_reset
        self._read_heartbeat = self._coordinator._handle_heartbeat_response
        self._coordinator._handle_heartbeat_response = self._note_heartbeat
        fetcher.fetch_records = self._fetch
        fetcher._parse_fetched_data = self._parse_answer
        fetcher._fetchable_partitions = self._choose
        fetcher._handle_fetch_error = self._note_error
        fetcher._handle_list_offsets_response = self._note_starts
        consumer._subscription.partitions_needing_reset = self._choose_startless
        consumer._subscription.next_offset_reset_retry_time = self._next_look_up

    # --- commands of the driver -------------------------------------------------------

    def assignment(self) -> Collection[TopicPartition]:
        """Return the assigned partitions."""
        return frozenset(self._subscription.assignment)

    def fail(self, place: TopicPartition, error: KafkaGuardError) -> None:  # noqa: ARG002 - the error names the partition
        """Raise an error from the poll that is running, or from the next one."""
        self._failures.append(error)

    def end(self, error: KafkaGuardError) -> None:
        """Let each poll raise an error, before the client would join its group."""
        self._ended = error
        self._coordinator.poll = self._raise_end

    def _raise_end(self, *_: Any, **__: Any) -> NoReturn:
        assert self._ended is not None
        raise self._ended.with_traceback(None)

    def was_fenced(self) -> KafkaGuardError:
        """Record that another member has this one's place; return the error."""
        instance = self._coordinator.group_instance_id
        self.driver.fenced(errors.fenced("group_instance_id", instance))
        assert self._ended is not None
        return self._ended.with_traceback(None)

    def wake(self) -> None:
        """Do nothing: the next fetch comes within ``fetch_max_wait_ms``."""

    # --- replacements of the fetcher's methods ----------------------------------------

    def _fetch(
        self,
        max_records: int | None = None,
        update_offsets: bool = True,
        timeout_ms: float | None = None,
    ) -> Any:
        """Make the due steps, fetch, and return in time for the next step."""
        driver = self.driver
        driver.tick()
        if self._coordinator._join_task is not None:
            self._finish_join()
        if self._cluster.unauthorized_topics:
            self._note_denied()
        self._raise_failure()
        if self._held and timeout_ms is not None:
            timeout_ms = min(timeout_ms, driver.seconds_left() * _MS)
        try:
            return self._fetch_records(max_records, update_offsets, timeout_ms)
        except UndecodedError as stop:
            error = stop.passed(self._subscription)
            raise error from stop.__cause__
        finally:
            if self._starts:  # before a record that follows them is handed out
                self.group_starts.found(dict(self._pop_starts()))
            driver.tell()

    def _pop_starts(self) -> Iterator[tuple[TopicPartition, int]]:
        while self._starts:
            yield self._starts.popleft()

    def _finish_join(self) -> None:
        """Have the client look at the answer to its join, which it has forgotten.

        A topic that changed makes the client join again only until the leader has
        assigned partitions, which is before the join is over. If a poll ends between
        the two, the client fetches without its partitions, for good.
        """
        self._coordinator.request_rejoin()

    def _note_denied(self) -> None:
        """Report topics that the user may not see; the client only logs them."""
        topics = {place.topic for place in self._subscription.assignment}
        topics.update(self._subscription.subscription or ())
        self.driver.denied(topics & set(self._cluster.unauthorized_topics))

    def _parse_answer(self, completed_fetch: Any) -> Any:
        """Report an answer's error code before the client discards it."""
        code = completed_fetch.partition_data.error_code
        place = completed_fetch.topic_partition
        if not code:
            if self.driver.machine.is_waiting(place):
                self.read_again(place, completed_fetch.fetched_offset)
            part = self._parse(completed_fetch)
            if part:
                part.record_iterator = decoded(
                    part.record_iterator, part, completed_fetch, self._decoding
                )
            return part
        if self._is_left_to_client(place, completed_fetch):
            return self._parse(completed_fetch)
        position = completed_fetch.fetched_offset
        self.driver.refused(
            TopicPartition(*place), ReadRefusal(code, position=position)
        )
        if code == OUT_OF_RANGE:
            if completed_fetch.metric_aggregator:
                completed_fetch.metric_aggregator.record(place, 0, 0)
        else:
            with suppress(KafkaError):  # refreshes metadata and validates positions
                self._parse(completed_fetch)
        self._raise_failure()
        return None

    def _is_left_to_client(self, place: Any, completed_fetch: Any) -> bool:
        """Return whether an answer is left to the client."""
        if not self._subscription.is_fetchable(place):
            return True
        position = self._subscription.assignment[place].position
        if position is None or position.offset != completed_fetch.fetched_offset:
            return True
        is_out_of_range = completed_fetch.partition_data.error_code == OUT_OF_RANGE
        return is_out_of_range and self.lets_client_reset(place)

    def _choose(self) -> list[Any]:
        """Choose the partitions to fetch; this runs on the client's own thread."""
        places: list[Any] = self._fetchable()
        held = self._held
        return [each for each in places if each not in held] if held else places

    def _note_error(self, node_id: Any, exception: BaseException) -> None:
        """Queue a failed fetch from a broker; runs on the client's own thread."""
        self._handle_error(node_id, exception)
        if not isinstance(exception, Cancelled):
            self.driver.later(lambda *_: self._broker_away(node_id, exception))

    def _note_heartbeat(self, response: Any, send_time: Any) -> Any:
        """Queue that this member is fenced; runs on the client's own thread.

        The client only stops its heartbeats then, and goes on reading.
        """
        if response.error_code == FENCED_INSTANCE:
            self.driver.later(self.note_fenced)
        return self._read_heartbeat(response, send_time)

    def note_fenced(self, *_: Any) -> list[Command]:
        """Record what another thread has queued: this member is fenced."""
        self.was_fenced()
        return []

    def _note_starts(self, response: Any) -> Any:
        """Queue start offsets, and their errors; runs on the client's own thread."""
        for topic in response.topics:
            for each in topic.partitions:
                place = TopicPartition(topic.name, each.partition_index)
                if not each.error_code:
                    self._note_start(place, each.offset)
                else:
                    refusal = ReadRefusal(each.error_code, LIST_OFFSETS)
                    self.driver.later(partial(self._start_refused, place, refusal))
        return self._read_starts(response)

    def _note_start(self, place: TopicPartition, offset: int | None) -> None:
        """Queue the end of a log if that is where the client begins to read."""
        state = self._subscription.assignment.get(place)
        if offset is None or state is None or state.reset_strategy != LATEST:
            return
        if self.begins(place):
            self._starts.append((place, offset))

    def _start_refused(
        self, place: TopicPartition, refusal: ReadRefusal, *_: Any
    ) -> Any:
        """Report a partition without a start offset.

        The answer may also belong to a look-up by the user. So this checks that the
        partition has no position.
        """
        if place in self._startless_now() and place not in self._held:
            self.driver.refused(place, refusal)
        return []

    def _startless_now(self) -> dict[Any, float | None]:
        """Return the partitions without a start offset, and the next look-up's time."""
        return {
            place: state.next_allowed_retry_time
            for place, state in list(self._subscription.assignment.items())
            if state.awaiting_reset
        }

    def _choose_startless(self) -> set[Any]:
        """Choose partitions whose start to look up; may run on the client's thread."""
        places: set[Any] = self._startless() - self._held
        return places

    def _next_look_up(self) -> float | None:
        """Return when to look up the next start offset; None if none is needed."""
        times = (
            at
            for place, at in self._startless_now().items()
            if at is not None and place not in self._held
        )
        return min(times, default=None)

    def _broker_away(self, node_id: Any, exception: BaseException) -> list[Command]:
        """Report the partitions that a broker leads as refused."""
        for place in list(self._subscription.assignment):
            if (
                self._cluster.leader_for_partition(place) != node_id
                or place in self._held
            ):
                continue
            error = errors.translate(
                exception, api="Fetch", topic=place.topic, partition=place.partition
            )
            position = self._subscription.assignment[place].position
            at = None if position is None else position.offset
            refusal = ReadRefusal(None, position=at, error=error)
            self.driver.refused(TopicPartition(*place), refusal)
        return []

    def _raise_failure(self) -> None:
        if self._failures:
            raise self._failures.popleft()
        if self._ended is not None:
            self._raise_end()
