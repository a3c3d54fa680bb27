"""The shell of aiokafka's producer: it translates for the delivery machine.

It reports what happens to the client's batches, and executes commands on the client. It
decides nothing. There are hooks for each batch and none for each record: the
application waits on the client's own futures. The futures of a failed batch stay open
until they are settled here.
"""

from __future__ import annotations

import asyncio
import itertools
import time
from typing import TYPE_CHECKING, Any, Protocol

from aiokafka.errors import (
    InvalidProducerEpoch,
    KafkaConnectionError,
    KafkaError,
    KafkaTimeoutError,
    ProducerClosed,
    ProducerFenced,
)

from kafkaguard import _errors as e
from kafkaguard._delivery.facts import Answer, Place, Traits
from kafkaguard._delivery.report import worst
from kafkaguard_adapters.aiokafka._private.producing import (
    moving,
    reading,
    transactions,
)
from kafkaguard_adapters.aiokafka.batches import (
    Slot,
    SourceBatch,
    TakenBackError,
    Whole,
    expired,
    settle_whole,
)
from kafkaguard_adapters.aiokafka.errors import errors
from kafkaguard_adapters.producing.epochs import Epochs
from kafkaguard_adapters.producing.null_keys import LetterCheck
from kafkaguard_adapters.producing.reporting import ReportingShell

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Mapping, Sequence

    from kafkaguard._delivery.facts import Batch, Raw, SizeAnswer
    from kafkaguard._delivery.records import Record, RecordOutcome
    from kafkaguard._delivery.shell import ClientErrors
    from kafkaguard_adapters.building import Builder

#: Seconds after ``request_timeout_ms`` in which aiokafka itself may end a batch.
MARGIN_S = 1.5
#: Seconds that a dead producer's tasks have to end before they are cancelled.
STOP_S = 0.5
#: Seconds that closing a dead producer may take.
RETIRE_S = 5.0
#: Seconds that a successor has to start.
START_S = 10.0
#: The most bytes by which aiokafka overestimates the size of a record.
_ESTIMATE_BYTES = 21
_POLL_S = 0.01
#: Codes after which the sequence number of a batch cannot be set back.
_NOT_FIXED_BY_REWIND = frozenset(
    {
        e.OutOfOrderSequenceNumberError.code,
        e.InvalidProducerEpochError.code,
        e.UnknownProducerIdError.code,
    }
)


class SendChecks(moving.Gate, LetterCheck, Protocol):
    """The checks of ``send`` before a record is added to a batch."""

    async def wait_for_room(self, topic: str) -> None:
        """Wait until a record that waited for room may be added."""

    def not_sent(self, error: Exception, topic: str) -> Exception:
        """Return the error of a dead letter that the client did not accept."""


class AIOKafkaShell(ReportingShell):
    """The ``AwaitedShell`` of an ``AIOKafkaProducer``.

    Args:
        producer: The client's producer.
        builder: Builds a successor.
        size_limit: Asks the cluster for ``max.message.bytes`` of a topic.
        checks: The checks of ``send``.
        in_use: Called with each producer that is put in use, and when it dies.

    Attributes:
        producer: The producer in use.
        death: Why the producer is dead; None: it is alive.
        has_gap: Whether a transactional producer lacks sequence numbers, so that it can
            only abort.
    """

    def __init__(
        self,
        producer: Any,
        builder: Builder,
        size_limit: Callable[[str], Coroutine[Any, Any, SizeAnswer]],
        checks: SendChecks,
        in_use: Callable[[Any], None],
    ) -> None:
        self.errors: ClientErrors = errors
        self.producer = producer
        self.death: BaseException | None = None
        self.has_gap = False
        self.traits = traits_of(producer, builder)
        self._builder = builder
        self._size_limit = size_limit
        self._checks = checks
        self._in_use = in_use
        self._hooks: dict[Any, moving.Hooks] = {}
        self._open: dict[SourceBatch, None] = {}
        self._generation = -1
        self._numbers = itertools.count()
        self._epochs = Epochs()
        self._is_closed = False
        self._retired: list[Any] = []
        #: By the batch builder that the application sends as a batch.
        self._wholes: dict[Any, Whole] = {}
        #: Batches that a dead producer gave up while they were in flight.
        self._unheard: list[SourceBatch] = []
        #: Tasks that give records to the client in spite of every hold.
        self._handing: set[Any] = set()
        #: Failed futures that the application may read before the next report.
        self._unseen: list[tuple[asyncio.Future[Any], list[RecordOutcome]]] = []

    @property
    def is_transactional(self) -> bool:
        """Whether the producer has a ``transactional_id``."""
        return self.traits.transactional

    @property
    def lost_end(self) -> bool:
        """Whether a request to end the transaction has had no answer."""
        return self._hooks[self.producer].lost_end

    def forget_end(self) -> None:
        """Reset ``lost_end``, before a transaction is ended."""
        self._hooks[self.producer].lost_end = False

    # --- reports of batches -----------------------------------------------------------

    def begin_reporting(self) -> None:
        """Report the batches of the producer in use."""
        self.put_in_use(self.producer)

    def put_in_use(self, producer: Any) -> None:
        """Send with this producer from now on, and report its batches."""
        self._generation += 1
        generation = self._generation
        hooks = moving.Hooks(
            producer,
            lambda source: self._begin(producer, generation, source),
            self._checks,
        )
        self._hooks[producer] = hooks
        transactions.remember_partitions(producer)
        for source in reading.unfinished(producer):
            hooks.follow(source)
        self.producer, self.death, self.has_gap = producer, None, False
        self.watch(producer)
        self._in_use(producer)

    def watch(self, producer: Any) -> None:
        """Report a death when the sender of a started producer ends."""
        task = reading.sender_task(producer)
        if task is not None:
            task.add_done_callback(lambda task: self._sender_ended(producer, task))

    def _begin(self, producer: Any, generation: int, source: Any) -> SourceBatch | None:
        """Track a batch; None: it cannot be tracked."""
        try:
            due = time.monotonic() + self.traits.delivery_timeout + MARGIN_S
            position = (generation, next(self._numbers))
            batch = SourceBatch(self, producer, source, position, due)
            batch.whole = self._wholes.pop(reading.builder_of(source), None)
            if batch.whole is None:
                # Not 0 if the producer had the batch before it was guarded.
                batch.before = source.record_count
            self._facts.began(batch)
        except Exception as error:  # noqa: BLE001 - it must not fail a send
            self._facts.fault("a batch could not be tracked; it is sent", error)
            return None
        self._open[batch] = None
        return batch

    def batch_accepted(self, batch: SourceBatch) -> None:
        """Report that the broker accepted a batch."""
        self._open.pop(batch, None)
        if batch.whole is not None:
            settle_whole(batch.whole, batch.source.future.result(), None)
        self._facts.accepted(batch)

    def batch_failed(self, batch: SourceBatch, cause: BaseException) -> None:
        """Report that a batch has failed; first, that its producer died, if so."""
        self._open.pop(batch, None)
        if isinstance(cause, ProducerFenced) and not self.is_transactional:
            # The client names all answers 47 so. Nobody else has this producer's id.
            cause = InvalidProducerEpoch()
        try:
            self._mend(batch, cause)
            refusals = batch.refusals(cause)
            if batch.is_on_its_way and self.death is not None and not expired(refusals):
                self._unheard.append(batch)
            if batch.whole is not None:
                batch.whole.unsettled = sum(isinstance(r.token, Slot) for r in refusals)
            self._facts.failed(batch, refusals)
        except Exception as error:  # noqa: BLE001 - the client's sender must not end
            why = "the guard could not process a failed batch; its records fail"
            self._facts.fault(why, error)
            self._fail_bluntly(batch, cause)

    def _fail_bluntly(self, batch: SourceBatch, cause: BaseException) -> None:
        """Settle the futures of a batch as the client would."""
        for token in batch.tokens():
            if not isinstance(token, Slot) and not token.done():
                token.set_exception(errors.translate(cause, api="Produce"))

    def _mend(self, batch: SourceBatch, cause: BaseException) -> None:
        """Keep the sequence numbers valid after a refused batch, or report a death.

        The broker expects the number of the batch that it has not written. If it may
        have written the batch, or says that numbers are missing, only a new producer
        helps.
        """
        producer = batch.producer
        task = reading.sender_task(producer)
        if task is not None and task.done() and producer is self.producer:
            self._report_end(producer, task)
        if not reading.is_idempotent(producer) or not reading.is_numbered(batch.source):
            return
        is_odd = getattr(cause, "errno", None) in _NOT_FIXED_BY_REWIND
        if not (is_odd or batch.may_be_written()):
            moving.rewind(producer, batch.source)
        elif self.is_transactional:
            self.has_gap = True
        else:
            self._report_death(producer, cause, batch.place)

    # --- the death of a producer ------------------------------------------------------

    def _sender_ended(self, producer: Any, task: asyncio.Task[None]) -> None:
        if producer is self.producer and not self._is_closed:
            self._report_end(producer, task)

    def _report_end(self, producer: Any, task: asyncio.Task[None]) -> None:
        cause = reading.why_ended(task)
        if cause is None:
            cause = KafkaError("its background task was cancelled")
        self._report_death(producer, cause.__cause__ or cause)

    def _report_death(
        self, producer: Any, cause: BaseException, where: Place | None = None
    ) -> None:
        """Report that a producer is dead, once."""
        if producer is not self.producer or self.death is not None or self._is_closed:
            return
        self.death = cause
        if not self.is_transactional:
            moving.stop_sending(producer)
        self._facts.died(cause, where)
        self._in_use(producer)

    def shut(self) -> None:
        """Accept no more records, and send nothing more."""
        self.death = self.death or KafkaTimeoutError("the client is stuck")
        self._in_use(self.producer)
        moving.shut_intake(self.producer)
        moving.stop_sending(self.producer)

    async def hear_out(self, until: float) -> None:
        """Wait for the answers to batches in flight, until monotonic seconds."""
        dead = self.producer
        while time.monotonic() < until and (  # noqa: ASYNC110 - there is no event for it
            any(batch.is_on_its_way for batch in self._open_of(dead))
            or any(batch.late is None for batch in self._unheard)
        ):
            await asyncio.sleep(_POLL_S)

    async def stop(self) -> None:
        """Stop the client's tasks; its pending records fail."""
        await self._stop(self.producer)

    async def _stop(self, producer: Any) -> None:
        moving.shut_intake(producer)
        await moving.end(producer, self._hooks[producer].requests, STOP_S)
        error = ProducerClosed("the producer was ended")
        for batch in self._open_of(producer):
            moving.fail_batch(producer, batch.source, error)

    def answers(self, batches: Sequence[Batch]) -> Mapping[Batch, Answer]:
        """Return the answers that came after batches were given up."""
        return {
            batch: batch.late
            for batch in batches
            if isinstance(batch, SourceBatch) and batch.late is not None
        }

    async def put_successor_in_use(self, locking_out: Batch | None) -> None:
        """Build a successor and put it in use.

        With the dead producer's id and a newer epoch, it fences the requests that are
        still in flight: a paused broker may keep a request in its buffers for long.
        """
        dead = self.producer
        successor = self._builder.build()
        await self._start(successor)
        if isinstance(locking_out, SourceBatch) and reading.is_idempotent(successor):
            identity = reading.next_identity(locking_out.producer, self._epochs)
            if identity is not None:
                moving.take_identity(successor, identity)
        if self._is_closed:
            await self._close(successor)
            raise ProducerClosed("the producer was closed meanwhile")
        self._retired.append(dead)
        self._unheard.clear()
        self.put_in_use(successor)

    async def renew(self, within: float) -> None:
        """Put a new producer in use that takes over a ``transactional_id``.

        Args:
            within: Seconds that the new producer has to start.

        Raises:
            Exception: The producer cannot be built, or cannot take over the id.
        """
        old = self.producer
        successor = self._builder.build()
        await self._start(successor, within)
        self._retired.append(old)
        self.put_in_use(successor)

    async def _start(self, producer: Any, within: float = START_S) -> None:
        try:
            async with asyncio.timeout(within):
                await producer.start()
        except BaseException as error:
            await self._close(producer)
            if isinstance(error, TimeoutError):
                raise KafkaConnectionError(
                    f"a new producer did not start within {within:g} s"
                ) from error
            raise

    async def _close(self, producer: Any) -> None:
        """Close a producer that is not used any more."""
        hooks = self._hooks.pop(producer, None)
        try:
            await moving.end(producer, hooks.requests if hooks else set(), STOP_S)
            await moving.close(producer, RETIRE_S)
        except Exception as error:  # noqa: BLE001 - it is not used any more
            self._facts.fault("a dead producer could not be closed", error)

    async def retire(self) -> None:
        """Close the dead producers."""
        while self._retired:
            await self._close(self._retired.pop())

    def may_build_later(self, error: BaseException) -> bool:
        """Return whether building a producer may succeed later."""
        return isinstance(error, OSError) or bool(getattr(error, "retriable", False))

    # --- giving records to the client -------------------------------------------------

    async def hand_over(self, record: Record, deadline: float) -> Any:
        """Give a record to the client in spite of every hold; return its future.

        Raises:
            Exception: The client did not accept the record.
        """
        (topic, partition), raw = record.place, record.raw
        assert raw is not None
        if record.is_letter:
            await self._checks.check_letter(topic, raw.key)
        producer, task = self.producer, asyncio.current_task()
        self._handing.add(task)
        try:
            async with asyncio.timeout(max(0.0, deadline - time.monotonic())):
                await moving.wait_for_topic(producer, topic)
                return await self._hooks[producer].add(
                    moving.place_of(producer, topic, partition, raw),
                    raw.key,
                    raw.value,
                    max(0.0, deadline - time.monotonic()),
                    raw.timestamp_ms,
                    list(raw.headers),
                )
        except TimeoutError as error:
            late = KafkaTimeoutError(f"topic {topic} was not known in time")
            if record.is_letter:
                raise self._checks.not_sent(late, topic) from error
            raise late from error
        except Exception as error:
            if record.is_letter:
                raise self._checks.not_sent(error, topic) from error
            raise
        finally:
            self._handing.discard(task)

    async def add(self, *record: Any) -> Any:
        """Give a record to the client in spite of every hold; may wait for room."""
        return await self._hooks[self.producer].add(*record)

    async def add_batch(self, builder: Any, tp: Any, within: float) -> Any:
        """Give the application's own batch to the client in spite of every hold."""
        future = reading.loop_of(self.producer).create_future()
        self._wholes[builder] = Whole(future)
        try:
            add = self._hooks[self.producer].add_batch
            client_future = await add(builder, tp, within)
        finally:
            self._wholes.pop(builder, None)
        client_future.add_done_callback(_silence)  # the application has the other one
        return future

    def send_now(self) -> None:
        """Send the records in the accumulator now, without lingering."""
        moving.end_linger(self.producer)

    async def wait_for_room(self, topic: str) -> None:
        """Wait until a record that waited for room may be added."""
        handing = self._handing  # mostly empty; the task costs a system call
        if not handing or asyncio.current_task() not in handing:
            await self._checks.wait_for_room(topic)

    def size_alone(self, raw: Raw) -> int:
        """Return the bytes of a batch with this record only, compressed."""
        return reading.size_alone(self.producer, raw)

    async def ask_size_limit(self, topic: str) -> SizeAnswer:
        """Look up ``max.message.bytes``; None if it is unknown after a few seconds."""
        return await self._size_limit(topic)

    def take_back(self, behind: Batch) -> None:
        """Fail the unsent batches of the partition behind a failed batch."""
        for batch in list(self._open):
            if batch.place == behind.place and not reading.is_numbered(batch.source):
                error = TakenBackError("the batch waited behind one that has failed")
                moving.fail_batch(batch.producer, batch.source, error)

    def fail_batch(self, batch: Batch) -> None:
        """Fail a batch; if it was not sent yet, it will never be sent."""
        if isinstance(batch, SourceBatch):
            error = KafkaTimeoutError("request_timeout_ms is over")
            moving.fail_batch(batch.producer, batch.source, error)

    # --- the application's futures ----------------------------------------------------

    def settle(self, record: Record) -> None:
        """Settle the application's future with the record's outcome."""
        token, outcome = record.first_token, record.outcome
        assert outcome is not None
        if isinstance(token, Slot):
            if token.whole is not None:
                self._settle_part(token.whole, record)
            return
        assert isinstance(token, asyncio.Future)
        if token.done():  # cancelled by the application
            return
        if outcome.error is None:
            token.set_result(_metadata_of(record))
            return
        token.set_exception(outcome.error)
        self._note(token, [outcome])

    def _settle_part(self, whole: Whole, record: Record) -> None:
        """Settle the application's own batch when all its records are settled."""
        whole.records.append(record)
        whole.unsettled -= 1
        if whole.unsettled or whole.future.done():
            return
        outcomes = [each.outcome for each in whole.records if each.outcome]
        error = worst(o.error for o in outcomes if o.error is not None)
        first = min(whole.records, key=lambda each: each.index)
        settle_whole(whole, None if error else _metadata_of(first), error)
        if error is not None:
            self._note(whole.future, [o for o in outcomes if o.error is not None])

    def _note(self, future: asyncio.Future[Any], outcomes: list[RecordOutcome]) -> None:
        if all(outcome.seen for outcome in outcomes):
            moving.forgive(future)
        else:
            self._unseen.append((future, outcomes))

    def note_seen(self) -> None:
        """Mark the failures that the application has read as seen."""
        for future, outcomes in self._unseen:
            if moving.was_seen(future):
                for outcome in outcomes:
                    outcome.seen = True

    def note_reported(self) -> None:
        """Mark all failures until now as reported."""
        told, self._unseen = self._unseen, []
        for future, _ in told:
            moving.forgive(future)

    # --- the end ----------------------------------------------------------------------

    def stop_replacing(self) -> None:
        """Put no successor in use any more."""
        self._is_closed = True

    async def close(self, within: float) -> None:
        """Stop the client within seconds; none of its tasks is left then."""
        self.stop_replacing()
        producer = self.producer
        hooks = self._hooks[producer]
        is_stopped = False
        try:
            if self.death is None:
                async with asyncio.timeout(within):
                    await producer.stop()
                is_stopped = True
        finally:
            await moving.end(producer, hooks.requests, STOP_S)
            if not is_stopped:  # a cancelled stop() leaves its connections open
                await moving.close(producer, within)
            moving.fail_metadata_waiters(producer)
            await self.retire()

    def _open_of(self, producer: Any) -> list[SourceBatch]:
        return [batch for batch in self._open if batch.producer is producer]


def traits_of(producer: Any, builder: Builder) -> Traits:
    """Return what aiokafka's producer can do and report with these settings."""
    is_transactional = reading.transactional_id(producer) is not None
    return Traits(
        client=errors.client,
        delivery_timeout=reading.delivery_timeout(producer),
        timeout_setting="request_timeout_ms",
        largest_request=reading.largest_request(producer) - _ESTIMATE_BYTES,
        compresses=reading.compresses(producer),
        transactional=is_transactional,
        hears_late=not is_transactional,
        replaceable=builder.can_build,
        takes_back=True,
        margin=MARGIN_S,
    )


def _silence(future: asyncio.Future[Any]) -> None:
    """Read a future's exception, so that asyncio does not log it as never read."""
    if not future.cancelled():
        future.exception()


def _metadata_of(record: Record) -> Any:
    """Return the metadata of a delivered record."""
    outcome, token = record.outcome, record.token
    if outcome is not None and outcome.offset is not None:
        topic, partition = record.place
        return moving.metadata_at(topic, partition or 0, outcome.offset)
    if isinstance(token, asyncio.Future) and token.done():
        return token.result()
    return None
