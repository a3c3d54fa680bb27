"""The thread that repairs: records sent again, a dead producer replaced.

The sequence of events, for the default (idempotent) producer::

    [sender thread]   the broker refuses a batch; the producer is dead for good
    [sender thread]   failed(): decided by `_decisions`, the gate closed, the thread
                      started
    [any thread]      send() waits at the gate
    [this thread]     requests on their way are answered, or not in time
    [this thread]     the dead producer is stopped and gives up all it holds
    [this thread]     a new producer is built and takes its place
    [this thread]     records that were certainly not written are handed over again,
                      in their old order
    [this thread]     the gate is opened, the dead producer is closed

Since new records wait at the gate, no later record of a key can overtake one that is
sent again. Records accepted before that are looked up in their batches.
"""

from __future__ import annotations

import logging
import threading
import time
from typing import TYPE_CHECKING, Any

from kafka.errors import IllegalStateError, KafkaTimeoutError

from kafkaguard_adapters.kafka_python import _failures, _successor
from kafkaguard_adapters.kafka_python._answers import await_answers
from kafkaguard_adapters.kafka_python._backlog import Backlog
from kafkaguard_adapters.kafka_python._callbacks import Callbacks
from kafkaguard_adapters.kafka_python._death import death_of, died_of
from kafkaguard_adapters.kafka_python._decisions import Decisions
from kafkaguard_adapters.kafka_python._gate import (
    Gate,
    Limit,
    still_closed,
    without_successor,
)
from kafkaguard_adapters.kafka_python._private import moving, reading
from kafkaguard_adapters.kafka_python._rescue import Resender
from kafkaguard_adapters.kafka_python._successor import ANSWER_S, Succession

if TYPE_CHECKING:
    from collections.abc import Callable

    from kafkaguard.errors import KafkaGuardError
    from kafkaguard_adapters.kafka_python._answers import Unanswered
    from kafkaguard_adapters.kafka_python._backlog import Oversize
    from kafkaguard_adapters.kafka_python._death import Death
    from kafkaguard_adapters.kafka_python._fate import Fate
    from kafkaguard_adapters.kafka_python._oversize import SizeLimits
    from kafkaguard_adapters.kafka_python._rescue import Rescue
    from kafkaguard_adapters.kafka_python._session import Session
    from kafkaguard_adapters.kafka_python._tracking import TrackedBatch

_log = logging.getLogger("kafkaguard.producer")


class Recovery:
    """Repairs what can be repaired.

    Args:
        session: What is repaired.
        limits: Says how large a record may be.
        rescue: Send records again that failed only with their batch.
        resend_in_doubt: Also those that may have been written.
    """

    def __init__(
        self,
        session: Session,
        limits: SizeLimits,
        *,
        rescue: bool,
        resend_in_doubt: bool,
    ) -> None:
        self._session = session
        self._limits = limits
        self._backlog = backlog = Backlog()
        self._changed = backlog.changed
        self._closing = backlog.closing
        self._decisions = Decisions(
            session, backlog, rescue=rescue, resend_in_doubt=resend_in_doubt
        )
        self._succession = Succession(session.builder, self._is_awaited, self._closing)
        self._callbacks = Callbacks(session.teller.tell)
        self._resender = Resender(session, self._end_rescue, self._put_back)
        self._gate = Gate(self._changed)
        self._thread: threading.Thread | None = None
        self._retired: list[Any] = []
        #: Held while batches are given up, which the client must not do as well.
        self._giving_up = threading.Lock()
        self.rounds = 0

    # --- called by the tracker, under its lock --------------------------------------

    def failed(self, batch: TrackedBatch, fates: list[Fate]) -> list[Fate]:
        """Decide about the records of a failed batch, and start the repair.

        Returns:
            The fates that failed for good and whose callbacks are due at once.
        """
        fates = sorted(fates, key=lambda each: each.index)
        judged = self._decisions.judge(batch, fates)
        with self._changed:
            self._notice(batch, fates[0])
            return self._start(self._decisions.decide(batch, judged))

    def _start(self, failed: list[Fate]) -> list[Fate]:
        """Let the thread do what there is to do; it then runs the callbacks, too."""
        if self._closing.is_set() or self._backlog.is_empty:
            return failed
        self._callbacks.add(failed)
        self._run_thread(repairs=self._backlog.needs_repair)
        return []

    # --- the death of a producer ------------------------------------------------------

    def _notice(self, batch: TrackedBatch, fate: Fate) -> None:
        """See whether the producer in use has died of this batch, or before."""
        in_use = self._session.producer
        if batch.producer in (None, in_use) and not self._session.is_transactional:
            self._backlog.take_note(died_of(in_use, batch, fate))

    # --- called by the watch ----------------------------------------------------------

    def next_due(self) -> float | None:
        """Return when the next record must have its outcome, in monotonic seconds."""
        # In this order, since a record goes from a batch to the rescues.
        dues = [batch.due for batch in self._session.tracker.batches()]
        with self._changed:
            dues += [rescue.batch.due for rescue in self._backlog.rescues]
        return min(dues, default=None)

    def expire(self) -> None:
        """Settle the records whose time is over; their producer is stuck."""
        tracker = self._session.tracker
        tracker.settle_done()
        now = time.monotonic()
        overdue = [batch for batch in tracker.batches() if batch.due <= now]
        self._condemn_stuck(overdue)
        error = KafkaTimeoutError("delivery_timeout_ms is over")
        with self._giving_up:
            for batch in overdue:
                moving.give_up(batch.producer, batch.source, batch.result, error)
        self._drop_overdue_rescues()
        tracker.settle_done()

    def _condemn_stuck(self, overdue: list[TrackedBatch]) -> None:
        in_use = self._session.producer
        mine = [batch for batch in overdue if batch.producer is in_use]
        if not mine or self._session.is_transactional:
            return
        with self._changed:
            stuck = KafkaTimeoutError("it is stuck")
            self._backlog.take_note(death_of(in_use, stuck, mine[0].topic_partition))
            if self._backlog.death is not None:
                moving.silence(in_use)
                self._run_thread(repairs=True)

    def _drop_overdue_rescues(self) -> None:
        with self._changed:
            waiting = self._backlog.rescues
            overdue = [rescue for rescue in waiting if rescue.is_overdue]
            dropped = set(overdue)
            self._backlog.rescues = [r for r in waiting if r not in dropped]
            for rescue in overdue:
                self._resender.expire(rescue)
        for batch in {rescue.batch for rescue in overdue}:
            self._session.tracker.resolve(batch)

    # --- called by the application's threads -----------------------------------------

    def wait_at_gate(self, timeout: float | None = None) -> None:
        """Let a send wait until the repair is done.

        Args:
            timeout: Seconds to wait at most. Default: ``max_block_ms``, which holds in
                any case.

        Raises:
            KafkaGuardError: It takes longer, or it failed.
        """
        if self.is_own_thread():
            return
        limit = Limit.of(self._session.producer, timeout)
        if not self._gate.wait(limit.seconds):
            raise still_closed(limit, self._succession.error)

    def _is_awaited(self) -> bool:
        return bool(self._backlog.rescues) or self._gate.has_waiters

    def wait(self, timeout: float) -> bool:
        """Wait until no record waits for the repair, and all is told.

        Returns:
            Whether that is so.
        """
        if self.is_own_thread():
            return True
        end = time.monotonic() + timeout
        with self._changed:
            settled = self._changed.wait_for(lambda: not self._backlog.held(), timeout)
        return settled and self._callbacks.wait(max(0.0, end - time.monotonic()))

    def pending(self) -> int:
        """Count the records that wait for the repair."""
        with self._changed:
            return self._backlog.held()

    def close(self, timeout: float) -> None:
        """Take on no more work; what is not repaired within the time is given up."""
        with self._changed:
            self._closing.set()
            thread = self._thread
        if thread is None or self.is_own_thread():
            return
        thread.join(timeout)
        if thread.is_alive():
            self._give_up(IllegalStateError("the producer was closed meanwhile"))

    def is_worth_waiting(self) -> bool:
        """Tell whether a send that came to a dead producer finds another one soon."""
        return not (self._closing.is_set() or self.is_own_thread())

    def is_own_thread(self) -> bool:
        """Tell whether the caller is the one who repairs, or whom that waits for."""
        return threading.current_thread() is self._thread or (
            reading.is_sender_thread(self._session.producer)
        )

    # --- the thread -------------------------------------------------------------------

    def _run_thread(self, *, repairs: bool) -> None:
        if repairs:
            self._session.gate = self.wait_at_gate
            self._gate.is_closed = True
            if self._backlog.death is not None:
                # Later records must not come into a batch that stands before others.
                moving.refuse(self._backlog.death.producer)
        if self._thread is None:
            self._thread = threading.Thread(
                target=self._run, name="kafkaguard-recovery", daemon=True
            )
            self._thread.start()

    def _run(self) -> None:
        try:
            while self._has_work():
                self._work()
        except Exception as error:  # noqa: BLE001 - whatever it is, nobody may hang
            self._could_not_replace(error)

    def _has_work(self) -> bool:
        with self._changed:
            if self._backlog.needs_repair:
                return True
            if self._gate.is_closed:
                self._open_gate(None)
            self._changed.notify_all()
            if self._retired or not self._backlog.is_empty:
                return True
            self._thread = None
            return False

    def _open_gate(self, gate: Callable[[float | None], None] | None) -> None:
        self._session.gate = gate
        self._gate.open()

    def _work(self) -> None:
        """Do the most urgent thing."""
        if self._gate.is_closed:
            self._repair()
        elif self._backlog.unanswered:
            self._settle_unanswered()
        elif self._backlog.oversize:
            self._explain(self._backlog.oversize[0])
        else:
            _successor.retire(self._retired.pop())

    def _repair(self) -> None:
        backlog = self._backlog
        if backlog.death is not None:
            self._replace(backlog.death)
        with self._changed:
            backlog.in_hand, backlog.rescues = backlog.rescues, []
            too_large = {o.batch.topic_partition.topic for o in backlog.oversize}
            self.rounds += 1
        self._resender.send(backlog.in_hand, too_large)
        backlog.in_hand = []

    def _explain(self, refused: Oversize) -> None:
        self._limits.explain(refused.batch, refused.error)
        with self._changed:
            if not refused.fate.is_decided:
                self._end(refused)
            self._backlog.oversize = self._backlog.oversize[1:]
            self._changed.notify_all()

    def _end(self, refused: Oversize) -> None:
        fate = refused.fate
        if self._decisions.end(refused.batch, fate, refused.error, refused.record):
            self.now_due(fate)

    def _end_rescue(self, rescue: Rescue, error: KafkaGuardError) -> None:
        with self._changed:
            fate = rescue.fate
            if self._decisions.end(rescue.batch, fate, error, rescue.record):
                self.now_due(fate)

    def _put_back(self, rescue: Rescue) -> bool:
        """Let a record wait for the successor of the producer in use, if that died."""
        with self._changed:
            if self._backlog.death is None or self._closing.is_set():
                return False
            self._backlog.rescues.append(rescue)
            return True

    def now_due(self, fate: Fate) -> None:
        """Run the callbacks of a record that has failed for good."""
        self._callbacks.add([fate])

    def _replace(self, death: Death) -> None:
        dead, tracker = death.producer, self._session.tracker
        self._session.teller.recreated(death.where and death.where.topic)
        self._session.teller.tell()
        _successor.hear_out(tracker, dead)
        await_answers(self._backlog.unanswered, ANSWER_S)
        with self._giving_up:
            _successor.end(tracker, dead)
        self._settle_unanswered()
        successor = self._succession.build(dead)
        _successor.take_over(successor, death.identity)
        if not self._put_in_use(successor, dead):
            _successor.retire(successor)
            raise IllegalStateError("the producer was closed meanwhile")
        _log.warning("the producer was dead and was replaced: %s", death)

    def _put_in_use(self, successor: Any, dead: Any) -> bool:
        with self._changed:
            if self._closing.is_set():
                return False
            self._session.put_in_use(successor)
            self._backlog.death = None
            self._retired.append(dead)
        return True

    def _settle_unanswered(self) -> None:
        """Decide about what was on its way; its producer hears nothing more."""
        with self._changed:
            unanswered = list(self._backlog.unanswered)
        for each in unanswered:
            self._settle_unanswered_batch(each)
        with self._changed:
            self._backlog.unanswered = self._backlog.unanswered[len(unanswered) :]
            self._changed.notify_all()

    def _settle_unanswered_batch(self, unanswered: Unanswered) -> None:
        batch = unanswered.batch
        base = unanswered.base_offset(self._confirmed_before(batch))
        left = [each for each in unanswered.failures if not each[0].is_decided]
        if base is not None:
            for fate, _ in left:
                written = moving.delivered(fate.inner, base)
                self._session.tracker.confirm(fate, written)
        elif (tell := self._refusal_of(batch)) is not None:
            judged = [
                (fate, _failures.judge_late_refusal(batch, fate, tell))
                for fate, _ in left
            ]
            with self._changed:
                self._callbacks.add(self._decisions.decide(batch, judged))
        else:
            for fate, error in left:
                self._leave_in_doubt(batch, fate, error)

    def _refusal_of(self, batch: TrackedBatch) -> Callable[[int], BaseException] | None:
        death = self._backlog.death
        return None if death is None else death.refusals.get(batch.source)

    def _leave_in_doubt(
        self, batch: TrackedBatch, fate: Fate, error: KafkaGuardError
    ) -> None:
        with self._changed:
            if self._decisions.leave_in_doubt(batch, fate, error):
                self.now_due(fate)

    def _confirmed_before(self, batch: TrackedBatch) -> int | None:
        """Return the last offset confirmed before a batch, if that is known."""
        end = self._session.tracker.end_before(batch)
        death = self._backlog.death
        if end is None and death is not None and batch.producer is death.producer:
            return death.acked.get(batch.topic_partition, -1)
        return end

    # --- a producer that cannot be replaced -------------------------------------------

    def _could_not_replace(self, error: BaseException) -> None:
        if not self._closing.is_set():
            _log.error(
                "the producer is dead and could not be replaced (%s); the next send "
                "tries it again",
                error,
            )
        self._give_up(error)
        with self._changed:
            self._thread = None
            self._changed.notify_all()

    def _give_up(self, error: BaseException) -> None:
        """Fail what waits for the repair."""
        self._settle_unanswered()
        backlog = self._backlog
        with self._changed:
            waiting = [*backlog.in_hand, *backlog.rescues]
            backlog.in_hand, backlog.rescues = [], []
            oversize, backlog.oversize = backlog.oversize, []
            for rescue in waiting:
                if not rescue.fate.is_decided:
                    self._resender.fail(rescue, error)
            for refused in oversize:
                self._end(refused)
            self._open_gate(None if backlog.death is None else self._try_again)
        for batch in {rescue.batch for rescue in waiting}:
            self._session.tracker.resolve(batch)

    def _try_again(self, timeout: float | None = None) -> None:
        """A gate: let the sends wait for another attempt to replace the producer."""
        if self.is_own_thread():
            return
        with self._changed:
            if not self._closing.is_set():
                self._run_thread(repairs=True)
        self.wait_at_gate(timeout)
        if self._session.gate is not None and not self._closing.is_set():
            raise without_successor(self._succession.error)
