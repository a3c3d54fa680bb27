"""What is done when a batch is refused: records sent again, a dead producer replaced.

The sequence of events, for the default (idempotent) producer::

    [sender thread]   the broker refuses a batch; the producer is dead for good
    [sender thread]   failed(): outcomes decided, the gate closed, the thread started
    [any thread]      send() waits at the gate
    [this thread]     the dead producer gives up all it holds
    [this thread]     a new producer is built and takes its place
    [this thread]     records that were certainly not written are handed over again,
                      in their old order
    [this thread]     the gate is opened
    [this thread]     callbacks are run, the dead producer is closed

Callbacks do not run in the dead producer's own thread: one that sends the record to
another topic would wait there for metadata that only this very thread can fetch.

Since new records wait at the gate, no later record of a key can overtake one that is
sent again. Records accepted before that are looked up in their batches.
"""

from __future__ import annotations

import logging
import threading
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from kafka.errors import IllegalStateError

from kafkaguard._delivery import SupersededError
from kafkaguard.errors import ClientClosedError, ClientTimeoutError, KafkaGuardError
from kafkaguard_adapters.kafka_python import _failures, _insides, errors

if TYPE_CHECKING:
    from collections.abc import Callable

    from kafkaguard_adapters.kafka_python._future import GuardedFuture
    from kafkaguard_adapters.kafka_python._insides import RawRecord
    from kafkaguard_adapters.kafka_python._session import Session
    from kafkaguard_adapters.kafka_python._tracking import TrackedBatch

_log = logging.getLogger("kafkaguard.producer")

#: Seconds that batches have to come to an end before records are sent again.
SETTLE_S = 5.0
#: Seconds that a dead producer's thread has to end.
RETIRE_S = 5.0
#: Seconds until building a producer is tried again after it failed.
REBUILD_AFTER_S = 1.0


@dataclass(frozen=True, slots=True)
class Rescue:
    """A record that is going to be sent again."""

    batch: TrackedBatch
    index: int
    future: GuardedFuture
    record: RawRecord
    error: KafkaGuardError


class Recovery:
    """Decides about failed batches, and repairs what can be repaired.

    Args:
        session: What is repaired.
        rescue: Send records again that failed only with their batch.
        resend_in_doubt: Also those that may have been written.
    """

    def __init__(
        self, session: Session, *, rescue: bool, resend_in_doubt: bool
    ) -> None:
        self._session = session
        self._rescue = rescue
        self._resend_in_doubt = resend_in_doubt
        self._changed = threading.Condition()
        self._thread: threading.Thread | None = None
        self._rescues: list[Rescue] = []
        self._in_hand: list[Rescue] = []
        self._dead: Any = None
        self._due: list[GuardedFuture] = []
        self._firing = False
        self._retired: list[Any] = []
        self._repairing = False
        self._closed = False
        self._failed_at = 0.0
        self.rounds = 0

    # --- called by the tracker, under its lock --------------------------------------

    def failed(
        self, batch: TrackedBatch, futures: list[GuardedFuture]
    ) -> list[GuardedFuture]:
        """Decide about the records of a failed batch.

        Returns:
            The futures that failed for good and whose callbacks are due at once.
        """
        transactional = self._session.is_transactional
        records = None if transactional else _insides.records_of(batch.source)
        failed, rescues = [], []
        for future in sorted(futures, key=lambda each: each.index):
            failure = _failures.judge(batch, future, transactional=transactional)
            if _failures.is_null_key_refusal(failure.error):
                self._session.cache.drop(batch.topic_partition.topic)
            record = records[future.index] if records else None
            if self._accepts(future, failure, record):
                future.hold()
                rescues.append(
                    Rescue(batch, future.index, future, record, failure.error)  # type: ignore[arg-type]  # not None where it was accepted
                )
            else:
                future.fail(failure.error)
                failed.append(future)
        batch.held = batch.held or bool(rescues)
        batch.resolved = not batch.held
        return [] if self._begin(batch.producer, rescues, failed) else failed

    def _accepts(
        self,
        future: GuardedFuture,
        failure: _failures.Failure,
        record: RawRecord | None,
    ) -> bool:
        return (
            self._rescue
            and not self._closed
            and not future.was_rescued
            and _failures.may_send_again(
                failure, record, resend_in_doubt=self._resend_in_doubt
            )
        )

    def _begin(
        self, producer: Any, rescues: list[Rescue], failed: list[GuardedFuture]
    ) -> bool:
        """Start to repair, if there is anything to repair."""
        with self._changed:
            dies = self._is_dying(producer)
            if self._closed or not (rescues or dies):
                return False
            if dies:
                self._dead = self._session.producer
            self._rescues += rescues
            self._due += failed
            self._start()
            return True

    def _is_dying(self, producer: Any) -> bool:
        """Tell whether the producer in use is dead and may be replaced."""
        in_use = self._session.producer
        if producer not in (None, in_use) or self._session.is_transactional:
            return False
        cause = _insides.cause_of_death(in_use)
        return cause is not None and not _failures.ends_all(cause)

    def _start(self) -> None:
        self._session.gate = self.wait_at_gate
        self._repairing = True
        if self._thread is None:
            self._thread = threading.Thread(
                target=self._run, name="kafkaguard-recovery", daemon=True
            )
            self._thread.start()

    # --- called by the application's threads -----------------------------------------

    def wait_at_gate(self) -> None:
        """Let a send wait until the repair is done.

        Raises:
            KafkaGuardError: It takes longer than ``max_block_ms``, or it failed.
        """
        if self._is_own_thread():
            return
        limit = self._session.producer.config["max_block_ms"] / 1000
        with self._changed:
            done = self._changed.wait_for(lambda: not self._repairing, limit)
        if not done:
            raise errors.make(
                ClientTimeoutError,
                f"the producer is being replaced and {limit:g} s (max_block_ms) were "
                "not enough; nothing was sent: send the same record again",
            )

    def wait(self, timeout: float) -> bool:
        """Wait until all is repaired and told; tell whether that is so."""
        if self._is_own_thread():
            return True
        with self._changed:
            return self._changed.wait_for(self._is_idle, timeout)

    def _is_idle(self) -> bool:
        return not (self._repairing or self._due or self._firing)

    def pending(self) -> int:
        """Count the records that wait to be sent again."""
        with self._changed:
            return len(self._rescues) + len(self._in_hand)

    def close(self, timeout: float) -> None:
        """Take on no more work, and wait until dead producers are closed."""
        with self._changed:
            self._closed = True
            thread = self._thread
        if thread is not None and not self._is_own_thread():
            thread.join(timeout)

    def _is_own_thread(self) -> bool:
        return threading.current_thread() is self._thread or (
            _insides.is_sender_thread(self._session.producer)
        )

    # --- the thread -------------------------------------------------------------------

    def _run(self) -> None:
        try:
            while self._has_work():
                self._work()
        except Exception as error:  # noqa: BLE001 - whatever it is, nobody may hang
            _log.exception("a dead producer could not be replaced")
            self._give_up(error)

    def _has_work(self) -> bool:
        with self._changed:
            if self._rescues or self._dead is not None:
                return True
            self._open_gate(None)
            if self._due or self._retired:
                return True
            self._thread = None
            return False

    def _open_gate(self, gate: Callable[[], None] | None) -> None:
        self._repairing = False
        self._session.gate = gate
        self._changed.notify_all()

    def _work(self) -> None:
        """Do the most urgent thing."""
        if self._repairing:
            self._repair()
        elif self._due:
            self._fire()
        else:
            self._retire(self._retired.pop())

    def _repair(self) -> None:
        if self._dead is not None:
            self._replace(self._dead)
        with self._changed:
            self._in_hand, self._rescues = self._rescues, []
            self.rounds += 1
        self._send_again(self._in_hand)
        self._in_hand = []

    def _fire(self) -> None:
        with self._changed:
            due, self._due, self._firing = self._due, [], True
        for future in due:
            future.fire()
        with self._changed:
            self._firing = False
            self._changed.notify_all()

    def _replace(self, dead: Any) -> None:
        self._let_finish(
            self._session.tracker.batches(dead), time.monotonic() + SETTLE_S
        )
        successor = self._session.builder.build(dead)
        with self._changed:
            if self._closed:
                self._retire(successor)
                raise IllegalStateError("the producer was closed meanwhile")
            self._session.producer = successor
            self._dead = None
            self._retired.append(dead)
        _log.warning(
            "the producer was dead (%s) and was replaced",
            type(_insides.cause_of_death(dead)).__name__,
        )

    def _retire(self, dead: Any) -> None:
        try:
            _insides.stop(dead, RETIRE_S)
            _insides.detach_serializers(dead)
            dead.close(timeout=RETIRE_S)
        except Exception:  # noqa: BLE001 - it is dead in any case
            _log.exception("a dead producer could not be closed")

    def _give_up(self, error: BaseException) -> None:
        with self._changed:
            open_ones = [r for r in self._in_hand if not r.future.is_decided]
            rescues = [*open_ones, *self._rescues]
            self._in_hand, self._rescues = [], []
            self._failed_at = time.monotonic()
            reason = str(error) or type(error).__name__

            def refuse() -> None:
                self._try_once_more(reason)

            for rescue in rescues:
                self._fail(rescue, error)
            self._open_gate(refuse if self._dead is not None else None)
            self._thread = None
        for batch in {rescue.batch for rescue in rescues}:
            self._session.tracker.resolve(batch)
        self._fire()

    def _try_once_more(self, reason: str) -> None:
        """Replace the dead producer after all, or say why that is not possible."""
        if self._is_own_thread():
            return
        with self._changed:
            rested = time.monotonic() - self._failed_at >= REBUILD_AFTER_S
            if rested and not self._closed:
                self._start()
        if rested:
            self.wait_at_gate()
        if self._session.gate is not None:
            raise errors.make(
                ClientClosedError,
                f"the producer is dead and could not be replaced: {reason}; nothing "
                "was sent",
            )

    # --- sending again ----------------------------------------------------------------

    def _send_again(self, rescues: list[Rescue]) -> None:
        """Hand records over again in their old order.

        Those without a key come last and on their own, since the broker may refuse
        them with all that is in the same batch. New records still wait at the gate.
        """
        rescues.sort(key=lambda rescue: (rescue.batch.number, rescue.index))
        later = self._later_batches(rescues)
        for keyless in (False, True):
            for rescue in rescues:
                if (rescue.record.key is None) == keyless:
                    self._try_again(rescue, later[rescue.batch.topic_partition])
            batches = self._session.tracker.batches()
            self._let_finish(batches, time.monotonic() + SETTLE_S)
        for batch in {rescue.batch for rescue in rescues}:
            self._session.tracker.resolve(batch)

    def _later_batches(
        self, rescues: list[Rescue]
    ) -> dict[Any, list[tuple[int, set[bytes | None] | None]]]:
        """Find what was accepted after the refused batches, partition by partition."""
        first: dict[Any, TrackedBatch] = {}
        for rescue in rescues:
            first.setdefault(rescue.batch.topic_partition, rescue.batch)
        later = {tp: self._session.tracker.later(batch) for tp, batch in first.items()}
        deadline = time.monotonic() + SETTLE_S
        self._let_finish([b for line in later.values() for b in line], deadline)
        return {
            tp: [
                (b.number, b.keys()) for b in line if b.accepted or not b.result.is_done
            ]
            for tp, line in later.items()
        }

    def _let_finish(self, batches: list[TrackedBatch], deadline: float) -> None:
        with _insides.flushing(self._session.producer):
            for batch in batches:
                batch.result.wait(max(0.0, deadline - time.monotonic()))
        self._session.tracker.settle_done()

    def _try_again(
        self, rescue: Rescue, later: list[tuple[int, set[bytes | None] | None]]
    ) -> None:
        key = rescue.record.key
        if key is not None and any(
            number > rescue.batch.number and (keys is None or key in keys)
            for number, keys in later
        ):
            self._fail_with(rescue, _superseded(rescue))
            return
        try:
            self._hand_over(rescue)
        except Exception as error:  # noqa: BLE001 - it becomes the record's outcome
            self._fail(rescue, error)

    def _hand_over(self, rescue: Rescue) -> None:
        producer = self._session.producer
        place = rescue.batch.topic_partition
        producer.partitions_for(place.topic)
        rescue.future.follow(_insides.append(producer, place, rescue.record))
        self._session.tracker.add(producer, rescue.future)

    def _fail(self, rescue: Rescue, why: BaseException) -> None:
        error = rescue.error
        error.summary = f"{error.summary}; it could not be sent again: {why}"
        self._fail_with(rescue, error)

    def _fail_with(self, rescue: Rescue, error: KafkaGuardError) -> None:
        rescue.future.fail(error)
        self._due.append(rescue.future)


def _superseded(rescue: Rescue) -> KafkaGuardError:
    error = errors.make(
        SupersededError,
        "it failed only with its batch, but a later record of its key was accepted "
        "or is on its way, so it was not sent again",
        api="Produce",
        topic=rescue.error.topic,
        partition=rescue.error.partition,
    )
    error.__cause__ = rescue.error
    return error
