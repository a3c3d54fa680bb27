"""The delivery machine: all decisions about records that are sent.

The machine has no I/O, lock, clock, thread or client. A driver holds one lock around
it, reports to it what the client reports (one method for each fact), and executes the
commands that these methods return. The life of a refused batch::

    failed()    each record is judged (`judging`) and settled, dead-lettered or queued
    held()      no send of the topic is running; the topic's open batches end
    sent()      the queued records were handed over in the old order (`resends`)
    accepted()  they are settled as delivered, and the topic's sends are freed

Times are monotonic seconds.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kafkaguard._delivery import commands
from kafkaguard._delivery.attempts import Attempts
from kafkaguard._delivery.client_life import ANSWER_S, ClientLife
from kafkaguard._delivery.counters import Counters
from kafkaguard._delivery.facts import HandOverStoppedError
from kafkaguard._delivery.in_flight import InFlight
from kafkaguard._delivery.judging import (
    Judge,
    Judgement,
    RefusalFacts,
    conclude,
    ends_all,
    is_about_records,
    is_too_large,
)
from kafkaguard._delivery.outbox import Outbox
from kafkaguard._delivery.outcomes import Outcomes
from kafkaguard._delivery.records import Record, Work
from kafkaguard._delivery.resend_queue import ResendQueue
from kafkaguard._delivery.resends import Resends
from kafkaguard._delivery.size_limits import SizeLimits
from kafkaguard._delivery.table import (
    ClientEvent,
    ClientState,
    RecordEvent,
    RecordState,
    TopicEvent,
)
from kafkaguard._delivery.topic_round import DRAIN_S
from kafkaguard._delivery.transaction import Transaction
from kafkaguard._errors import (
    ClientTimeoutError,
    InvalidRecordKeyError,
    MessageTooLargeError,
)
from kafkaguard._retries.events import RecreateEvent

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Mapping, Sequence

    from kafkaguard._delivery.attempts import AttemptLimits
    from kafkaguard._delivery.commands import Command
    from kafkaguard._delivery.facts import (
        Answer,
        Batch,
        Place,
        Raw,
        Refusal,
        SizeAnswer,
        Traits,
    )
    from kafkaguard._delivery.report import DeliveryReport
    from kafkaguard._delivery.shell import ClientErrors, Policy
    from kafkaguard._errors import KafkaGuardError
    from kafkaguard._retries.machine import OnReject
    from kafkaguard._verdicts.context import TopicFacts

_NOTHING: tuple[Command, ...] = ()


class DeliveryMachine:
    """Decides about the records of one producer.

    Args:
        traits: The client's traits.
        policy: The policy.
        errors: Makes the client's errors.
        size_alone: ``ProducerShell.size_alone``, which does no I/O.
        facts: Returns the facts about a topic that are known now, without a look-up.
        shared: The limits that the policy's attempts share with other producers. None:
            this machine makes no attempts for the policy; its owner makes them.

    Attributes:
        totals: Records by topic and outcome, and under "held" the seconds that sends
            waited. Others read it without the driver's lock.
        holds: The topics whose sends wait; with None in it, all sends wait. A send
            reads it without the lock: ``if machine.holds and ...``.
        transaction: The state of the producer's transactions.
    """

    def __init__(
        self,
        traits: Traits,
        policy: Policy,
        errors: ClientErrors,
        *,
        size_alone: Callable[[Raw], int | None],
        facts: Callable[[str], TopicFacts | None] = lambda _: None,
        shared: AttemptLimits | None = None,
    ) -> None:
        self._traits = traits
        self._policy = policy
        self._topic_facts = facts
        self._outbox = outbox = Outbox(policy, traits.client)
        self._judge = Judge(traits, errors)
        self._in_flight = InFlight()
        self._counters = Counters(transactional=traits.transactional)
        self.totals = self._counters.totals
        self.transaction = Transaction(self._counters)
        self._size_limits = SizeLimits(size_alone)
        self._client = ClientLife()
        self._attempts = Attempts(traits, shared, outbox.tell)
        self._queue = ResendQueue(self._client, outbox)
        self._outcomes = Outcomes(
            traits,
            policy,
            errors,
            self._counters,
            self.transaction,
            self._size_limits,
            self._attempts,
            queue=self._queue,
            in_flight=self._in_flight,
            outbox=outbox,
        )
        self._resends = Resends(
            policy,
            self._judge,
            self._in_flight,
            self._size_limits,
            self._attempts,
            self._queue,
            self._outcomes,
            outbox,
        )
        self.holds = self._queue.holds
        #: Records in flight whose dying client gave them up, by their batch.
        self._unanswered: dict[Batch, list[Record]] = {}
        self._is_closing = self._has_settled_all = False

    def _continue(self, now: float) -> Sequence[Command]:
        """Do what has become possible, and return all commands."""
        if self._queue.topics:
            if self._client.state is ClientState.LOST:
                self._lose_waiting(now)
            self._resends.go_on(now)
        return self._outbox.take()

    # --- batches ----------------------------------------------------------------------

    def began(self, batch: Batch) -> None:
        """Add a batch that the client has begun."""
        self._in_flight.begin(batch)

    def accepted(self, batch: Batch, now: float) -> Sequence[Command]:
        """Handle a batch whose records the broker has all accepted.

        Args:
            batch: The batch. A batch that has ended is ignored.
            now: The time.
        """
        if batch.ended is not None:
            return _NOTHING
        self._attempts.succeeded(now)
        self._client.mark_working()
        if not (self._queue.topics or self._in_flight.resent or self._outbox):
            batch.ended = "accepted"
            self._counters.count_batch(batch, batch.count)
            self._in_flight.end(batch)
            return _NOTHING
        return self._end_or_defer(batch, (), now)

    def delivered_so_far(self, batch: Batch, count: int) -> None:
        """Count the records of an open batch that have been delivered so far.

        Args:
            batch: The batch. A batch that has ended is ignored.
            count: How many; none of them was sent again.
        """
        if batch.ended is None:
            self._counters.count_batch(batch, count)

    def failed(
        self, batch: Batch, refusals: Sequence[Refusal], now: float
    ) -> Sequence[Command]:
        """Handle a batch of which some records failed; the others were accepted.

        Args:
            batch: The batch. A batch that has ended is ignored.
            refusals: One for each record that has failed.
            now: The time.
        """
        if batch.ended is not None:
            return _NOTHING
        return self._end_or_defer(batch, refusals, now)

    def _end_or_defer(
        self, batch: Batch, refusals: Sequence[Refusal], now: float
    ) -> Sequence[Command]:
        topic = self._queue.topics.get(batch.place.topic)
        if topic is not None and topic.is_sending:
            # The batch may contain records whose new tokens are not known yet.
            topic.deferred.append((batch, refusals))
        else:
            self._end_batch(batch, refusals, now)
        if refusals and self._needs_take_back(batch):
            self._outbox.emit(commands.TakeBack(batch))
        return self._continue(now)

    def _needs_take_back(self, batch: Batch) -> bool:
        """Return whether batches waiting in the client would overtake this one."""
        is_held = batch.place.topic in self.holds and None not in self.holds
        return self._traits.takes_back and is_held

    def _end_batch(self, batch: Batch, refusals: Sequence[Refusal], now: float) -> None:
        # Before `ended` is set: `settle` would drop the batch from its line before
        # its failed records are known.
        self._accept(batch, {refusal.index for refusal in refusals})
        batch.ended = "failed" if refusals else "accepted"
        if refusals:
            refusals = sorted(refusals, key=lambda each: each.index)
            records = self._failed_records(batch, refusals)
            for record, refusal in zip(records, refusals, strict=True):
                self._judge_record(record, batch, refusal, now)
        self._in_flight.end(batch)

    def _accept(self, batch: Batch, failed: set[int]) -> None:
        """Count a batch's accepted records, and settle those that were sent again."""
        resent = 0
        if self._in_flight.resent:
            for index, record in self._in_flight.take_resent(batch, failed):
                resent += 1
                self._count_returned(record)
                if record.state is RecordState.SETTLED:
                    continue  # settled before, by settle_all
                if record.is_letter:
                    self._outcomes.letter_delivered(record, batch, index)
                else:
                    self._outcomes.settle(record, "delivered")
        delivered = batch.count - len(failed)
        self._counters.count_batch(batch, delivered, resent)

    def _count_returned(self, record: Record) -> None:
        topic = self._queue.topics.get(record.place.topic)
        if topic is not None and topic.away:
            topic.away -= 1

    def _failed_records(
        self, batch: Batch, refusals: Sequence[Refusal]
    ) -> list[Record]:
        """Return the failed records: known ones that were sent again, or new ones."""
        raws = batch.raws()
        records = []
        for refusal in refusals:
            record = self._in_flight.resent.pop(refusal.token, None)
            if record is None:
                raw = None if raws is None else raws[refusal.index]
                record = self._new_record(batch, refusal, raw)
            else:
                batch.ranks[refusal.index] = record.rank
                self._count_returned(record)
                if record.state is RecordState.AGAIN:
                    record.happens(RecordEvent.FAILED)
            records.append(record)
        return records

    def _new_record(self, batch: Batch, refusal: Refusal, raw: Raw | None) -> Record:
        place = batch.place
        if refusal.partition is not None:
            place = place._replace(partition=refusal.partition)
        record = Record(refusal.token, batch, refusal.index, place, batch.due, raw)
        batch.unsettled += 1
        self._outcomes.take_in(record)
        return record

    # --- one failed record ------------------------------------------------------------

    def _judge_record(
        self, record: Record, batch: Batch, refusal: Refusal, now: float
    ) -> None:
        """Judge a failed record, and decide what happens to it."""
        if record.state is RecordState.SETTLED:
            return  # settled before, by settle_all
        facts = self._facts_of(record, batch, refusal, now)
        judgement = self._judge.judge(refusal, facts)
        error = record.error = judgement.error
        if error.verdict.written == "no":
            batch.unwritten.add(refusal.index)
        if isinstance(error, InvalidRecordKeyError):
            self._outbox.emit(commands.ForgetFacts(record.place.topic))
        if refusal.blame == "unknown" and is_too_large(refusal):
            # Before the batch's records are sent again, those above the topic's limit
            # are ended.
            self._resends.oversize.add(record.place.topic)
        if self._needs_size_limit(refusal):
            record.refusal = refusal
            self._outcomes.ask_size(record)
        elif judgement.in_flight and self._may_be_answered():
            record.happens(RecordEvent.AWAIT_ANSWER)
            self._unanswered.setdefault(batch, []).append(record)
        else:
            self._decide(record, batch, judgement, now, is_mate=refusal.blame == "mate")

    def _facts_of(
        self, record: Record, batch: Batch, refusal: Refusal, now: float
    ) -> RefusalFacts:
        topic, is_final = record.place.topic, self._traits.transactional
        fits = None
        if refusal.blame == "unknown" or is_final:
            fits = self._size_limits.fits(topic, record.raw)
        is_alone = record.is_alone or (is_final and batch.is_lone)
        return RefusalFacts(
            record.place,
            batch.count,
            is_alone,
            self._topic_facts(topic),
            fits,
            self._is_closing,
            has_time=batch.is_capped and record.due > now,
            is_part=batch.parent is not None,
        )

    def _needs_size_limit(self, refusal: Refusal) -> bool:
        """Return whether only sizes can show which record of a batch is to blame.

        No record of a transaction is sent again, so no second attempt shows it.
        """
        return (
            self._traits.transactional
            and refusal.sent == "answered"
            and is_too_large(refusal)
            and not self._is_closing
        )

    def _may_be_answered(self) -> bool:
        traits = self._traits
        return (
            traits.hears_late
            and not (self._is_closing or traits.transactional)
            and self._client.may_answer
        )

    def _decide(
        self,
        record: Record,
        batch: Batch,
        judgement: Judgement,
        now: float,
        *,
        is_mate: bool = False,
    ) -> None:
        error = judgement.error
        if error.verdict.written != "no":
            record.doubt = record.doubt or error
            self._client.keep_in_doubt(batch)
        if judgement.client_failed or judgement.may_be_rescued:
            self._outcomes.give_time(record, error)
        record.client_failures += judgement.client_failed
        # With `rescue: never`, only the policy's attempts can send this record again.
        is_for_policy = judgement.may_be_tried or (
            judgement.client_failed and self._policy.rescue == "never"
        )
        if is_for_policy and self._queue_attempt(record, error, now):
            record.is_suspect = False
            return
        if batch is not record.batch and not judgement.client_failed:
            record.resend_count += 1
        if self._is_rescued(record, judgement, now):
            record.is_suspect = record.resend_count > 0 and not is_mate
            self._outcomes.queue_rescue(record, now)
            return
        if _is_oversize(record, error):
            self._resends.oversize.add(record.place.topic)
            if not self._is_closing:
                self._outcomes.ask_size(record)  # for the text of the error
                return
        if judgement.client_failed and record.due <= now:
            error = self._judge.make_late(error)
        if judgement.last_verdict is not None:
            conclude(error, judgement.last_verdict)
        self._outcomes.end(record, error, now)

    def _queue_attempt(
        self, record: Record, error: KafkaGuardError, now: float
    ) -> bool:
        """Queue a record for the policy's next attempt; return whether it has one."""
        if self._is_closing or record.raw is None or record.doubt is not None:
            return False
        return self._outcomes.queue_attempt(record, error, now)

    def _is_rescued(self, record: Record, judgement: Judgement, now: float) -> bool:
        """Return whether a record is sent again without an attempt of the policy."""
        if (
            self._is_closing
            or self._traits.transactional
            or record.raw is None
            or record.due <= now
        ):
            return False
        if judgement.error.verdict.written != "no":
            is_wanted = self._outcomes.in_doubt(judgement.error) == "resend"
            return is_wanted and not record.resend_count
        if self._policy.rescue == "never":
            return False
        if judgement.client_failed:
            return True
        return judgement.may_be_rescued and not record.is_alone

    # --- records that send() itself refuses -------------------------------------------

    def on_reject(self, error: KafkaGuardError) -> OnReject:
        """Return what the policy does with a record that failed with this error.

        A shell calls this before it serialises the record for :meth:`refused_at_once`.
        If the result is ``"raise"``, the shell raises the error and calls
        :meth:`raised`.
        """
        return self._outcomes.on_reject(error)

    def refused_at_once(
        self,
        token: Hashable,
        place: Place,
        raw: Raw | None,
        error: KafkaGuardError,
        now: float,
        *,
        reason: str | None = None,
    ) -> Sequence[Command]:
        """Handle a record that ``send`` refuses before the client has it.

        Args:
            token: The token of the application's future.
            place: The record's topic and partition.
            raw: The record's bytes; None: they are unavailable, and the error says so.
            error: Why it is refused.
            now: The time.
            reason: The reason for the dead letter's headers, if kafkaguard's own check
                refused the record. Default: the reason of the error.
        """
        due = now + self._traits.delivery_timeout
        record = Record(token, None, 0, place, due, raw)
        record.error, record.reason = error, reason
        self._outcomes.take_in(record)
        if not (self.keeps(error) and self._queue_attempt(record, error, now)):
            self._outcomes.end(record, error, now)
        return self._continue(now)

    def keeps(self, error: KafkaGuardError) -> bool:
        """Return whether a record that ``send`` refuses waits for another attempt.

        A shell calls this before it serialises the record for :meth:`refused_at_once`.
        """
        return not self._is_closing and self._outcomes.allows(error)

    def wait_after(
        self, call: Record, error: KafkaGuardError, now: float
    ) -> float | None:
        """Return the seconds that a refused call waits before its next attempt.

        For a client whose ``send`` itself waits and tries again; the machine does not
        keep such a record.

        Args:
            call: A record for the call: its ``due`` is the start of the call plus the
                client's delivery timeout.
            error: Why nothing was sent.
            now: The time.

        Returns:
            The seconds, or None if there is no further attempt.
        """
        return None if self._is_closing else self._outcomes.wait_after(call, error, now)

    def raised(self, error: KafkaGuardError) -> Sequence[Command]:
        """Handle an error that ``send`` raises; the error is in no report."""
        self._outcomes.tell_rejected(error, "raise")
        return self._outbox.take()

    # --- the client -------------------------------------------------------------------

    def died(
        self, cause: BaseException, place: Place | None, now: float
    ) -> Sequence[Command]:
        """Handle the death of the client in use."""
        if self._client.is_alive and self._is_worth_replacing(cause):
            self._die(cause, place, now)
        return self._continue(now)

    def _is_worth_replacing(self, cause: BaseException) -> bool:
        traits = self._traits
        return (
            traits.replaceable
            and not (traits.transactional or self._is_closing)
            and not ends_all(cause)
        )

    def _die(
        self,
        cause: BaseException,
        place: Place | None,
        now: float,
        *,
        is_late: bool = False,
    ) -> None:
        if place is not None and is_about_records(cause):
            # So that one bad record after the other is refused.
            self._client.mark_working()
        self._client.die(cause, place, is_late=is_late)
        self._queue.died()
        self._outbox.emit(commands.Shut())
        self._outbox.tell(RecreateEvent, None if place is None else place.topic)
        self._outbox.emit(commands.HearOut(now + ANSWER_S))

    def heard_out(self, now: float) -> Sequence[Command]:
        """Reply to HearOut."""
        self._client.happens(ClientEvent.HEARD_OUT)
        self._outbox.emit(commands.Stop())
        return self._continue(now)

    def stopped(self, now: float) -> Sequence[Command]:
        """Reply to Stop: the dead client has reported the end of all its batches."""
        if self._unanswered:
            self._client.happens(ClientEvent.ANSWERS_MISSING)
            self._outbox.emit(commands.AskAnswers(tuple(self._unanswered)))
        else:
            self._client.happens(ClientEvent.STOPPED)
            self._replace(now)
        return self._continue(now)

    def answered(
        self, answers: Mapping[Batch, Answer], now: float
    ) -> Sequence[Command]:
        """Reply to AskAnswers; a batch without an answer may be left out."""
        unanswered, self._unanswered = self._unanswered, {}
        for batch, records in unanswered.items():
            self._decide_by_answer(batch, records, answers.get(batch), now)
        self._client.happens(ClientEvent.ANSWERED)
        self._replace(now)
        return self._continue(now)

    def _replace(self, now: float) -> None:
        """Replace the client, at once or later."""
        if self._client.replaces_at_once(now, is_closing=self._is_closing):
            self._outbox.emit(commands.Replace(self._client.locking_out))
        elif self.lost is not None:
            self._outbox.emit(commands.FreeSends(None))

    def _decide_by_answer(
        self, batch: Batch, records: list[Record], answer: Answer | None, now: float
    ) -> None:
        """Decide about the records of a batch that was in flight."""
        refusals = {} if answer is None else {r.token: r for r in answer.refusals}
        for record in records:
            if record.state is not RecordState.UNANSWERED:
                continue  # settled before, by settle_all
            record.happens(RecordEvent.FAILED)
            if answer is not None and answer.base_offset is not None:
                self._settle_written(record, batch, answer.base_offset)
            elif refusal := refusals.get(record.token):
                self._judge_record(record, batch, refusal, now)
            else:
                assert record.error is not None
                self._decide(record, batch, Judgement(record.error), now)

    def _settle_written(self, record: Record, batch: Batch, base_offset: int) -> None:
        index = record.index
        if batch is not record.batch:  # it was sent again
            index = next(i for i, rank in batch.ranks.items() if rank == record.rank)
        if record.is_letter:
            self._outcomes.letter_delivered(record, batch, index)
        else:
            self._outcomes.settle(record, "delivered", offset=base_offset + index)

    def replaced(self, now: float) -> Sequence[Command]:
        """Reply to Replace: a successor is in use."""
        self._client.revive()
        death = self._client.describe_death()
        text = f"the producer was dead and was replaced: {death}"
        self._outbox.warn("producer_replaced", text)
        self._queue.replaced(now)
        self._outbox.emit(commands.FreeSends(None))
        return self._continue(now)

    def not_replaced(
        self, error: BaseException, now: float, *, may_build_later: bool, awaited: bool
    ) -> Sequence[Command]:
        """Reply to Replace.

        Args:
            error: Why there is no successor.
            now: The time.
            may_build_later: Whether building one may succeed later.
            awaited: Whether sends wait for a successor.
        """
        is_awaited = awaited or any(self._queue.records())
        is_final = self._is_closing or not (may_build_later and is_awaited)
        self._client.fail(error, now, is_final=is_final)
        if is_final:
            self._outbox.emit(commands.FreeSends(None))
        return self._continue(now)

    def drop_waiting(self, why: str, now: float) -> Sequence[Command]:
        """End the records that wait to be sent again, without dead letters.

        Args:
            why: Why they are not sent again.
            now: The time.
        """
        for record in list(self._queue.records()):
            if record.state is RecordState.QUEUED:
                self._outcomes.give_up(record, why)
        return self._continue(now)

    def _lose_waiting(self, now: float) -> None:
        """End the records that wait for a successor, because there will be none."""
        for record in list(self._queue.records()):
            if record.state is RecordState.QUEUED:
                self._outcomes.not_sent_again(record, self._client.error, now)
        self._queue.drop_all()

    def wanted(self, now: float) -> Sequence[Command]:
        """Try to build a client again: a send waits while :attr:`lost`."""
        if self._client.state is ClientState.LOST and not self._is_closing:
            self._client.happens(ClientEvent.WANTED)
            self._try_again(now)
        return self._continue(now)

    def _try_again(self, now: float) -> None:
        if self._client.state is ClientState.PAUSED and now >= self._client.not_before:
            self._client.happens(ClientEvent.PAUSE_OVER)
            self._outbox.emit(commands.Replace(self._client.locking_out))

    @property
    def lost(self) -> BaseException | None:
        """Why there is no client and none is being built; None if there is one."""
        return self._client.error if self._client.state is ClientState.LOST else None

    # --- replies for a topic ----------------------------------------------------------

    def held(self, topic: str, now: float) -> Sequence[Command]:
        """Reply to HoldSends: no send of the topic is running."""
        self._resends.held(topic, now)
        return self._continue(now)

    def sent(
        self, topic: str, handed: Sequence[Hashable | BaseException], now: float
    ) -> Sequence[Command]:
        """Reply to Send: each record's new token, or why the client did not accept it.

        Batches of this topic that end between the command and this reply are kept, and
        are processed here. So a shell may report them in any order.
        """
        topic_round = self._queue.topics[topic]
        topic_round.happens(TopicEvent.HANDED_OVER)
        topic_round.until = now + DRAIN_S
        topic_round.away = 0
        for record, token in zip(topic_round.group, handed, strict=True):
            if isinstance(token, BaseException):
                self._not_handed_over(record, token, now, topic_round.was_interrupted)
                continue
            topic_round.away += 1
            self._in_flight.resent[token] = record
            if record.state is RecordState.SENDING:
                record.happens(RecordEvent.HANDED_OVER)
                record.token = token
        topic_round.group = ()
        fails_batches = self._traits.fails_batches
        self._in_flight.cap_deadlines(topic, fails_batches=fails_batches)
        deferred, topic_round.deferred = topic_round.deferred, []
        for batch, refusals in deferred:
            if batch.ended is None:
                self._end_batch(batch, refusals, now)
        if self._has_settled_all:
            self._queue.abandon()
        elif not self._client.is_alive:
            self._queue.stall(topic_round)
        elif topic_round.away:
            self._outbox.emit(commands.SendNow())
        return self._continue(now)

    def stops_hand_over(self, topic: str) -> bool:
        """Return whether a driver should hand over no more records of a Send.

        A batch of the topic has failed meanwhile. Records that the client gets later
        would overtake those of the batch; they are handed over again after them. The
        driver replies with :class:`HandOverStoppedError` for each. It may call this
        without its lock.
        """
        topic_round = self._queue.topics.get(topic)
        return (
            topic_round is not None
            and any(refusals for _, refusals in topic_round.deferred)
            and not self._is_closing
        )

    def _not_handed_over(
        self, record: Record, why: BaseException, now: float, was_interrupted: bool
    ) -> None:
        if record.state is not RecordState.SENDING:
            return  # settled before, by settle_all
        record.happens(RecordEvent.NOT_HANDED_OVER)
        if record.due <= now:
            self._resends.expire(record, now)
        elif (
            was_interrupted or isinstance(why, HandOverStoppedError)
        ) and not self._is_closing:
            # Sent by the successor, or after the others.
            self._outcomes.queue_rescue(record, now)
        else:
            self._end_not_taken(record, why, now)

    def _end_not_taken(self, record: Record, why: BaseException, now: float) -> None:
        error = self._judge.make_not_taken(why, record)
        if self._queue_attempt(record, error, now):
            return
        if record.is_letter:
            self._outcomes.end(record, error, now)
        else:
            self._outcomes.not_sent_again(record, why, now)

    def size_limit(
        self, topic: str, answer: SizeAnswer, now: float
    ) -> Sequence[Command]:
        """Reply to AskSizeLimit.

        Args:
            topic: The topic.
            answer: What the driver has found out about it.
            now: The time.
        """
        self._size_limits.remember(topic, answer, now)
        for record in list(self._outcomes.open):
            if record.state is RecordState.SIZING and record.place.topic == topic:
                if record.is_letter:
                    self._outcomes.topic_looked_up(record)
                else:
                    self._decide_by_size(record, now)
        return self._continue(now)

    def _decide_by_size(self, record: Record, now: float) -> None:
        batch, refusal = record.batch, record.refusal
        if batch is not None and refusal is not None:
            facts = self._facts_of(record, batch, refusal, now)
            record.error = self._judge.judge(refusal, facts).error
        error = record.error
        assert error is not None
        if error.code is not None:  # this record is to blame
            error.summary = self._size_limits.describe(record.place.topic, record.raw)
        self._outcomes.end(record, error, now)

    # --- time and the end -------------------------------------------------------------

    def next_due(self) -> float | None:
        """Return when ``tick`` must be called next, or None."""
        dues = list(self._resends.dues())
        if (first := self._in_flight.next_due()) is not None:
            dues.append(first)
        if self._client.state is ClientState.PAUSED:
            dues.append(self._client.not_before)
        return min(dues, default=None)

    def tick(self, now: float) -> Sequence[Command]:
        """Do what is due."""
        overdue = self._in_flight.take_overdue(now)
        if overdue and not self._traits.fails_batches:
            self._end_late(overdue, now)
            overdue = [batch for batch in overdue if batch.due <= now]
        if overdue:
            stuck = [batch for batch in overdue if not batch.waits]
            cause = ClientTimeoutError("the client is stuck")
            if stuck and self._client.is_alive and self._is_worth_replacing(cause):
                self._die(cause, stuck[0].place, now, is_late=True)
            self._outbox.emit(commands.FailBatches(tuple(overdue)))
        self._resends.expire_all(now)
        self._try_again(now)
        return self._continue(now)

    def _end_late(self, overdue: Sequence[Batch], now: float) -> None:
        """End the records whose time is over and that the client cannot give back.

        Only records that were sent again are known one by one; the client itself lets
        the others expire.
        """
        traits = self._traits
        why = f"no outcome within {traits.delivery_timeout:g} s"
        for batch in overdue:
            for record in self._in_flight.late_records(batch, now):
                if record.state is RecordState.AGAIN:
                    self._outcomes.end_in_flight(record, why)

    def closing(self, now: float) -> Sequence[Command]:
        """Send no failed record again: the producer is closing."""
        self._is_closing = True
        return self._continue(now)

    def settle_all(self, why: str, now: float) -> Sequence[Command]:
        """Settle all open records, because the driver stops waiting for them."""
        self._is_closing = True
        self._outcomes.settle_all(why, now)
        if self._client.state is ClientState.PAUSED:
            self._client.happens(ClientEvent.NEVER)
        self._has_settled_all = True
        self._queue.abandon()
        self._outbox.emit(commands.FreeSends(None))
        return self._continue(now)

    # --- transactions -----------------------------------------------------------------

    def recreated(self) -> Sequence[Command]:
        """Handle a new client that takes over the ``transactional.id``."""
        self._outbox.tell(RecreateEvent, None)
        return self._outbox.take()

    # --- what the driver asks ---------------------------------------------------------

    def open_work(self) -> Work:
        """Return all batches and records without an outcome, for ``count_open``."""
        records = (each for each in self._outcomes.open if not each.is_letter)
        return Work(tuple(self._in_flight.open), tuple(records))

    def count_open(self, work: Work) -> int:
        """Count the records of ``work`` that have no outcome yet."""
        fresh, failed = self._in_flight.count_open(work.batches)
        before = sum(record.outcome is None for record in work.records)
        return fresh + failed + before

    def pending(self) -> int:
        """Count the records that have no outcome yet."""
        return self.count_open(self.open_work())

    @property
    def longest_s(self) -> float:
        """The longest time in seconds until a record's outcome, without a margin."""
        return self._traits.delivery_timeout + self._attempts.longest_s

    @property
    def is_troubled(self) -> bool:
        """Whether a failed record is not settled, or the client is being replaced."""
        return bool(self.holds or self._queue.topics or self._outcomes.open)

    def failed_and_open(self) -> int:
        """Count the records that have failed and have no outcome yet.

        Called without the driver's lock; the copy is one step of the interpreter.
        """
        return sum(not record.is_letter for record in self._outcomes.open.copy())

    def has_unseen(self) -> bool:
        """Whether a report would have errors that the application has not checked."""
        return self._counters.has_unseen

    def report(self, pending: int) -> DeliveryReport:
        """Return the counts since the last report."""
        return self._counters.report(pending)


def _is_oversize(record: Record, error: KafkaGuardError) -> bool:
    """Return whether a record of the application was refused for its size."""
    is_too_large = isinstance(error, MessageTooLargeError)
    return is_too_large and error.verdict.written == "no" and not record.is_letter
