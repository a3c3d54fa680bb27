"""The shell of kafka-python's producer: it translates for the delivery machine.

The shell reports facts about the client's batches and executes commands; it decides
nothing. There is one callback for each batch and none for a record: the outcome of a
record follows from its batch. A batch is tracked from the moment when the client makes
it.
"""

from __future__ import annotations

import itertools
import threading
import time
import weakref
from functools import partial
from typing import TYPE_CHECKING, Any, Protocol

from kafka.errors import IllegalStateError, KafkaTimeoutError, RetriableError

from kafkaguard._delivery.facts import Answer, Place, Traits
from kafkaguard_adapters.kafka_python._private import moving, reading
from kafkaguard_adapters.kafka_python.batches import LoneRecord, SourceBatch, reason_of
from kafkaguard_adapters.kafka_python.errors import errors
from kafkaguard_adapters.kafka_python.future import record_of
from kafkaguard_adapters.producing.epochs import Epochs
from kafkaguard_adapters.producing.null_keys import LetterCheck
from kafkaguard_adapters.producing.reporting import ReportingShell
from kafkaguard_adapters.wire.io_thread import run

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Mapping, Sequence
    from contextlib import AbstractContextManager

    from kafkaguard._delivery.facts import Batch, Raw, SizeAnswer
    from kafkaguard._delivery.records import Record
    from kafkaguard._delivery.shell import ClientErrors
    from kafkaguard_adapters.building import Builder

#: Seconds that kafka-python has, after ``delivery_timeout_ms``, to expire a batch
#: itself.
MARGIN_S = 1.0
#: Seconds that a dead producer's thread has to end before the guard stops waiting.
STOP_S = 0.75
#: Seconds that closing a dead producer may take.
RETIRE_S = 5.0
#: Seconds that a new producer has to get its own id before it takes over another id.
IDENTITY_S = 5.0
_POLL_S = 0.01
#: The most bytes by which kafka-python overestimates the size of a record.
_ESTIMATE_BYTES = 21


class SendChecks(LetterCheck, Protocol):
    """The checks and errors of ``send``, for dead letters."""

    def check_appends_of(self, producer: Any) -> None:
        """Check the records of a client that is put in use."""

    def not_sent(self, error: Exception, topic: str) -> Exception:
        """Make the error for a record that the client did not take."""


class Dying:
    """State of a producer that has died, kept until its successor is in use.

    Attributes:
        accepted: The base offset of each batch of the client that the broker accepted
            after the producer had given it up; None if the answer had none.
        refusals: For each batch that the broker refused likewise: a function from a
            record's index to its exception.
        in_flight: Batches that the producer gave up while they were in flight.
    """

    def __init__(self, producer: Any) -> None:
        self.accepted: dict[Any, int | None] = {}
        self.refusals: dict[Any, Callable[[int], BaseException]] = {}
        self.in_flight: list[SourceBatch] = []
        moving.report_late_acceptances(producer, self.accepted.__setitem__)
        moving.report_late_refusals(producer, self.refusals.__setitem__)


class KafkaPythonShell(ReportingShell):
    """The shell of a ``KafkaProducer``.

    Args:
        producer: The client's producer.
        builder: Builds the producer's successor.
        size_limit: Asks the cluster for ``max.message.bytes`` of a topic.
        checks: The checks and errors of ``send``, for dead letters.

    Attributes:
        producer: The producer in use.
    """

    def __init__(
        self,
        producer: Any,
        builder: Builder,
        size_limit: Callable[[str], Coroutine[Any, Any, SizeAnswer]],
        checks: SendChecks,
    ) -> None:
        self.errors: ClientErrors = errors
        self.producer = producer
        self.traits = traits_of(producer)
        self._builder = builder
        self._size_limit = size_limit
        self._checks = checks
        #: Open batches, by the client's future of the batch. Written without a lock.
        self._open: dict[Any, SourceBatch] = {}
        self._generation = -1
        self._numbers = itertools.count()
        self._epochs = Epochs()
        #: A producer that did not take over a ``transactional.id`` in time.
        self._unready: Any = None
        #: Guards ``_dying``, ``_is_closed`` and which producer is in use. It is
        #: entered again if a batch of the new producer has failed already.
        self._lock = threading.RLock()
        self._dying: Dying | None = None
        self._retired: list[Any] = []
        self._is_closed = False
        #: Held while batches are failed, so that two threads never fail the same batch.
        self._giving_up = threading.Lock()

    @property
    def is_transactional(self) -> bool:
        """Whether the producer has a ``transactional.id``."""
        return self.traits.transactional

    # --- facts about batches ------------------------------------------------------

    def begin_reporting(self) -> None:
        """Report the batches of the producer in use."""
        self.put_in_use(self.producer)

    def put_in_use(self, producer: Any) -> None:
        """Send with this producer from now on, and report its batches."""
        self._generation += 1
        begin = self._begin_weakly(producer, self._generation)
        moving.report_batches(producer, begin)
        moving.report_retries(producer, self._make_retry_note())
        moving.note_requests(producer)
        if reading.is_idempotent(producer):
            moving.keep_numbers(producer, self._make_doubt())
        self._checks.check_appends_of(producer)
        for source in reading.unfinished(producer):
            if source.produce_future not in self._open:
                begin(source, before=len(reading.records_in(source)))
        self.producer = producer

    def _begin_weakly(self, producer: Any, generation: int) -> Callable[..., None]:
        """Return a function that begins a batch, with weak references only.

        So the client's thread does not keep the shell or the producer alive.
        """
        shell_ref, producer_ref = weakref.ref(self), weakref.ref(producer)

        def begin(source: Any, before: int = 0) -> None:
            shell, client = shell_ref(), producer_ref()
            if shell is None or client is None:
                return
            try:
                shell._begin(client, generation, source, before)  # noqa: SLF001 - a method of the same class
            except Exception as error:  # noqa: BLE001 - a send must not fail for it
                shell._facts.fault("a batch could not be tracked; it is sent", error)  # noqa: SLF001 - a method of the same class

        return begin

    def _make_retry_note(self) -> Callable[[Any, BaseException, bool], None]:
        """Return a function that keeps the end of a batch's attempt, for its verdict.

        It has only a reference to the open batches, which do not keep the shell alive.
        """
        unfinished = self._open

        def note(source: Any, cause: BaseException, answered: bool) -> None:
            batch = unfinished.get(source.produce_future)
            if batch is not None:
                batch.is_tried_again(cause, answered=answered)

        return note

    def _make_doubt(self) -> Callable[[Any], bool]:
        """Return a function that tells whether a batch may have been written before."""
        unfinished = self._open

        def may_be_written(source: Any) -> bool:
            batch = unfinished.get(source.produce_future)
            return batch is not None and batch.earlier is not None

        return may_be_written

    def _begin(self, producer: Any, generation: int, source: Any, before: int) -> None:
        """Begin to track a batch. The client calls this while it holds its own lock."""
        due = source.created + self.traits.delivery_timeout + MARGIN_S
        parent = self._parent_of(source) if reading.is_part(source) else None
        if parent is None:
            position: tuple[int, ...] = (generation, next(self._numbers))
        else:
            first = reading.records_in(source)[0]
            position = (*parent.position, parent.inners.index(first))
        batch = SourceBatch(producer, source, position, due, parent)
        batch.before = before
        self._open[batch.result] = batch
        if parent is not None:
            parent.in_parts += len(batch.inners)
            if parent.in_parts >= len(parent.inners):
                self._open.pop(parent.result, None)
        self._facts.began(batch)
        # The future of a batch never fails: its value has the outcome of each record.
        batch.result.add_callback(partial(self._done, batch))

    def _parent_of(self, source: Any) -> SourceBatch:
        """Find the batch that was split, and of which this batch is a part."""
        place = Place(*source.topic_partition)
        first = reading.records_in(source)[0]
        wholes = (
            batch
            for batch in list(self._open.values())
            if batch.place == place and first in batch.inners
        )
        return max(wholes, key=lambda batch: len(batch.position))

    def _done(self, batch: SourceBatch, _: Any = None) -> None:
        """Report the outcome of a batch. A second report changes nothing."""
        try:
            self._report_end(batch)
        finally:  # not before: a batch that is not in _open must have been reported
            self._open.pop(batch.result, None)

    def _report_end(self, batch: SourceBatch) -> None:
        base_offset, _timestamp, error_at = batch.result.value
        if error_at is None:
            batch.base_offset = base_offset + batch.before
            self._facts.accepted(batch)
            return
        refusals = batch.refusals()
        if not self.is_transactional:
            self._check_death(batch, refusals[0].cause if refusals else None)
        self._facts.failed(batch, refusals)

    def report_early(self, inner: Any, raw: Raw | None = None) -> None:
        """Report the outcome of a failed record's batch, before the client's callback.

        Args:
            inner: The client's future of the record.
            raw: The record's bytes, if it was in no batch.
        """
        batch = self._open.get(reading.result_of(inner))
        if batch is not None:
            if batch.result.is_done:
                self._done(batch)
            return
        with self._lock:
            if record_of(inner) is None and inner.failed():
                lone = LoneRecord(inner, raw)
                self._facts.began(lone)
                self._facts.failed(lone, lone.refusals())

    def report_ended(self) -> None:
        """Report all batches with an outcome, without waiting for client callbacks."""
        for batch in list(self._open.values()):
            if batch.result.is_done:
                self._done(batch)

    # --- the death of a producer --------------------------------------------------

    def _check_death(self, batch: SourceBatch, cause: BaseException | None) -> None:
        """Report the death of a producer, if it has died by a failed batch or before.

        If the failed batch leaves a gap in the sequence numbers, the producer is
        stopped from sending, because it would lose its id or fail other batches. Java's
        client raises its epoch instead.
        """
        producer, where = batch.producer, None
        death = _cause_of_death(producer)
        if not reading.was_given_up(batch.result):
            where = batch.place
            if death is None and reading.breaks_sequence(producer, batch.source):
                moving.stop_sending(producer)
                death = cause
        if death is not None:
            self.report_death(producer, death, where)
        if batch.was_in_flight() and producer is self.producer and self._dying:
            self._dying.in_flight.append(batch)

    def report_death(
        self, producer: Any, cause: BaseException, where: Place | None = None
    ) -> None:
        """Report the death of the producer in use, with its partition if known."""
        with self._lock:
            if producer is not self.producer:
                return
            if self._dying is None:
                self._dying = Dying(producer)
        self._facts.died(cause, where)

    def report_if_dead(self, producer: Any) -> bool:
        """Return whether a producer can deliver nothing any more; report it if so."""
        if self.is_transactional:
            return False
        cause = _cause_of_death(producer)
        if cause is not None:
            self.report_death(producer, cause)
        return cause is not None

    def shut(self) -> None:
        """Let the client take no more records and send no more batches."""
        with self._lock:
            if self._dying is None:
                self._dying = Dying(self.producer)
        moving.stop_sending(self.producer)
        moving.shut_intake(self.producer)

    def hear_out(self, until: float) -> None:
        """Wait for the answers to batches that were sent, until monotonic seconds."""
        dead = self.producer
        sent = [b for b in self._open_of(dead) if reading.was_sent(b.source)]
        self.await_batches(sent, until)
        in_flight = [] if self._dying is None else self._dying.in_flight
        while time.monotonic() < until and not all(
            reading.is_answered(dead, batch.source.topic_partition)
            for batch in in_flight
        ):
            time.sleep(_POLL_S)

    def stop(self) -> None:
        """Stop the client, and fail the records that it still holds."""
        dead = self.producer
        error = IllegalStateError("Producer is closed forcefully.")
        with self._giving_up:
            moving.shut(dead)
            for batch in self._open_of(dead):
                if not reading.was_sent(batch.source):
                    # A batch that cannot be encoded would end the client's thread.
                    moving.fail_batch(dead, batch.source, error)
            moving.stop(dead, STOP_S)
            moving.fail_metadata_waiters(dead)
        for batch in self._open_of(dead):
            if not batch.result.is_done:
                with self._giving_up:
                    moving.fail_batch(dead, batch.source, error)
            self._done(batch)

    def answers(self, batches: Sequence[Batch]) -> Mapping[Batch, Answer]:
        """Return the answers to batches that came after the client gave them up."""
        answers: dict[Batch, Answer] = {}
        if self._dying is None:
            return answers
        for batch in batches:
            assert isinstance(batch, SourceBatch)
            if batch.source in self._dying.accepted:
                base = self._dying.accepted[batch.source]
                answers[batch] = Answer(None if base is None else base + batch.before)
            elif (error_at := self._dying.refusals.get(batch.source)) is not None:
                answers[batch] = Answer(refusals=batch.late_refusals(error_at))
        return answers

    def put_successor_in_use(self, locking_out: Batch | None) -> None:
        """Build a successor and put it in use.

        Args:
            locking_out: A batch that may still be in flight, or None. The successor
                then uses the dead producer's id with a newer epoch, so the broker
                refuses this batch. Otherwise the broker could write it much later, for
                example after a pause of the broker's process.

        Raises:
            Exception: The successor cannot be built, or the producer was closed.
        """
        dead = self.producer
        successor = self._builder.build()
        if isinstance(locking_out, SourceBatch):
            identity = reading.next_identity(dead, locking_out.source, self._epochs)
            if identity is not None and reading.is_idempotent(successor):
                moving.take_identity(successor, identity, IDENTITY_S)
        with self._lock:
            if not self._is_closed:
                self._dying = None
                self.put_in_use(successor)
                self._retired.append(dead)
                return
        _close(successor)
        raise IllegalStateError("the producer was closed meanwhile")

    def renew(self, prepare: Callable[[Any], None]) -> None:
        """Put a new producer in use that takes over a ``transactional.id``.

        Args:
            prepare: Lets the new producer take over the id.

        Raises:
            Exception: The new producer cannot be built, or cannot take over.
        """
        old, unready = self.producer, self._unready
        successor = unready or self._builder.build()
        self._unready = None
        try:
            if unready is None:
                prepare(successor)
            else:
                successor.init_transactions()  # waits for the request of the last time
        except KafkaTimeoutError:
            # The brokers may have given it the next epoch, so that no other could have.
            self._unready = successor
            raise
        except BaseException:
            _close(successor)
            raise
        # Without the lock: nothing else replaces a transactional producer. Also while
        # it is closed, because ``close`` may have to end a transaction in this way.
        self.put_in_use(successor)
        self._retired.append(old)

    def retire(self) -> None:
        """Close the dead producers, but not the serialisers that the successor uses."""
        while self._retired:
            _close(self._retired.pop())

    def may_build_later(self, error: BaseException) -> bool:
        """Return whether building a producer may succeed later, after this error."""
        return isinstance(error, (RetriableError, OSError))

    # --- giving records to the client ---------------------------------------------

    def hand_over(self, record: Record, deadline: float) -> Any:
        """Give a record to the client. Holds do not apply.

        Args:
            record: The record.
            deadline: In monotonic seconds.

        Returns:
            The client's future.

        Raises:
            Exception: The client did not take the record.
        """
        topic, raw = record.place.topic, record.raw
        assert raw is not None
        if record.is_letter:
            self._checks.check_letter(topic, raw.key)
        while True:
            producer = self.producer
            try:
                return self._hand_to(producer, record.place, raw, deadline)
            except Exception as error:
                if producer is not self.producer:
                    continue  # the producer was replaced meanwhile
                self.report_if_dead(producer)
                if record.is_letter:
                    raise self._checks.not_sent(error, topic) from error
                raise

    @staticmethod
    def _hand_to(producer: Any, place: Place, raw: Raw, deadline: float) -> Any:
        topic, partition = place
        moving.wait_for_topic(producer, topic, deadline - time.monotonic())
        if partition is None:
            return moving.send_bytes(producer, topic, raw)
        return moving.append(producer, topic, partition, raw)

    def send_now(self) -> None:
        """Send the records in the client's buffer without waiting for ``linger_ms``."""
        moving.end_linger(self.producer)

    def sending_now(self) -> AbstractContextManager[None]:
        """Ignore ``linger_ms`` while the caller waits."""
        return moving.flushing(self.producer)

    def await_batches(self, batches: Sequence[Batch], deadline: float) -> None:
        """Wait for the outcome of batches, until monotonic seconds."""
        for batch in batches:
            if isinstance(batch, SourceBatch):
                batch.result.wait(max(0.0, deadline - time.monotonic()))

    def size_alone(self, raw: Raw) -> int:
        """Return the size in bytes of a batch with this record only, compressed."""
        return reading.size_alone(self.producer, raw)

    def ask_size_limit(self, topic: str) -> SizeAnswer:
        """Look up ``max.message.bytes``; None if it is not available within 3 s."""
        return run(self._size_limit(topic))

    def take_back(self, behind: Batch) -> None:
        """Fail the batches that wait behind a failed batch and were never sent."""
        error = IllegalStateError("the batch waited behind one that has failed")
        for batch in list(self._open.values()):
            if batch.place == behind.place:
                with self._giving_up:
                    moving.take_back(batch.producer, batch.source, error)

    def fail_batch(self, batch: Batch) -> None:
        """Fail a batch. If it was not sent yet, it is never sent."""
        if isinstance(batch, SourceBatch) and not batch.result.is_done:
            error = KafkaTimeoutError("delivery_timeout_ms is over")
            with self._giving_up:
                moving.fail_batch(batch.producer, batch.source, error)

    def attach(self, record: Record) -> None:
        """Let the guarded future read the outcome from the guard's record."""
        moving.attach(record.first_token, record)

    def settle(self, record: Record) -> None:
        """Do nothing: the guarded future reads the outcome."""

    def is_own_thread(self) -> bool:
        """Return whether the caller is the client's own thread."""
        return reading.is_sender_thread(self.producer)

    # --- the end ------------------------------------------------------------------

    def close(self, within: float, *, null_logger: bool = False) -> None:
        """Close the client within a number of seconds."""
        self.stop_replacing()
        try:
            self.producer.close(within, null_logger)
        finally:
            moving.fail_metadata_waiters(self.producer)
            if self._unready is not None:
                _close(self._unready)

    def stop_replacing(self) -> None:
        """Put no successor in use after this call."""
        with self._lock:
            self._is_closed = True

    def _open_of(self, producer: Any) -> list[SourceBatch]:
        return [b for b in list(self._open.values()) if b.producer is producer]


def traits_of(producer: Any) -> Traits:
    """Return what a producer of kafka-python can do and report, by its settings."""
    config = producer.config
    is_idempotent = reading.is_idempotent(producer)
    is_transactional = bool(config["transactional_id"])
    return Traits(
        client=errors.client,
        delivery_timeout=config["delivery_timeout_ms"] / 1000,
        timeout_setting="delivery_timeout_ms",
        largest_request=config["max_request_size"] - _ESTIMATE_BYTES,
        compresses=bool(config["compression_type"]),
        transactional=is_transactional,
        hears_late=is_idempotent and not is_transactional,
        takes_back=not is_transactional,
        margin=MARGIN_S,
    )


def _cause_of_death(producer: Any) -> BaseException | None:
    """Return why a producer can deliver nothing any more; None if it can."""
    cause = reading.cause_of_death(producer)
    return None if cause is None else reason_of(cause, producer)


def _close(dead: Any) -> None:
    """Close a producer that is not used any more, but not its serialisers."""
    moving.stop(dead, STOP_S)
    moving.detach_serializers(dead)
    dead.close(timeout=RETIRE_S)
