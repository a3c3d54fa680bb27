"""Outcomes of failed records: queued, dead-lettered, dropped, or settled."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kafkaguard._delivery import commands, dead_letters
from kafkaguard._delivery.attempts import NEVER, describe
from kafkaguard._delivery.facts import Place
from kafkaguard._delivery.judging import (
    INVALID_TIMESTAMP,
    MESSAGE_TOO_LARGE,
    add_words,
    is_rejected,
    make_unanswered,
    may_be_set_aside,
    may_be_tried,
)
from kafkaguard._delivery.records import Record, RecordOutcome
from kafkaguard._delivery.report import SupersededError
from kafkaguard._delivery.table import RecordEvent, RecordState
from kafkaguard._delivery.topic_round import DRAIN_S
from kafkaguard._errors import (
    KafkaGuardError,
    MessageTooLargeError,
)
from kafkaguard._errors.base import Action
from kafkaguard._retries.backoff import doubled
from kafkaguard._retries.events import (
    DeadLetterEvent,
    RejectEvent,
    RetryEvent,
    WaitEvent,
)

if TYPE_CHECKING:
    from kafkaguard._delivery.attempts import Attempts
    from kafkaguard._delivery.counters import Counters
    from kafkaguard._delivery.facts import Batch, Traits
    from kafkaguard._delivery.in_flight import InFlight
    from kafkaguard._delivery.outbox import Outbox
    from kafkaguard._delivery.records import Ending
    from kafkaguard._delivery.resend_queue import ResendQueue
    from kafkaguard._delivery.shell import ClientErrors, Policy
    from kafkaguard._delivery.size_limits import SizeLimits
    from kafkaguard._delivery.transaction import Transaction
    from kafkaguard._retries.machine import InDoubt, OnReject, Ruling, Step

#: Seconds between attempts outside the policy's; they grow up to `DRAIN_S`.
FIRST_GAP_S = 0.05
_NO_BYTES = "the record's bytes cannot be read"
_CLOSED = "the producer was closed before it was confirmed"


class Outcomes:
    """All failed records and dead letters that are not settled.

    Args:
        traits: The client's traits.
        policy: The policy.
        errors: Makes the client's errors.
        counters: Counts the outcomes.
        transaction: Is told which records of a transaction have failed.
        size_limits: The size limits of topics.
        attempts: The policy's attempts and waits.
        queue: The records that wait to be sent again.
        in_flight: Batches in their order.
        outbox: Takes the commands.

    Attributes:
        open: The records that are not settled.
    """

    def __init__(  # noqa: PLR0913 - the parts of the machine that it uses
        self,
        traits: Traits,
        policy: Policy,
        errors: ClientErrors,
        counters: Counters,
        transaction: Transaction,
        size_limits: SizeLimits,
        attempts: Attempts,
        *,
        queue: ResendQueue,
        in_flight: InFlight,
        outbox: Outbox,
    ) -> None:
        self.open: dict[Record, None] = {}
        self._traits = traits
        self._policy = policy
        self._errors = errors
        self._counters = counters
        self._transaction = transaction
        self._size_limits = size_limits
        self._attempts = attempts
        self._queue = queue
        self._in_flight = in_flight
        self._outbox = outbox
        self._letters = 0
        self._is_closed = False
        self._warned: set[str] = set()

    # --- which records there are ------------------------------------------------------

    def take_in(self, record: Record) -> None:
        """Add a record."""
        self.open[record] = None
        if not record.is_letter:
            self._outbox.emit(commands.Attach(record))

    # --- what becomes of one ----------------------------------------------------------

    def queue_rescue(self, record: Record, now: float) -> None:
        """Queue a record for its topic's next round, outside the policy's attempts.

        A record waits longer each time if it was refused again, and cannot be sent
        alone while a partition of its topic has no leader; or if again and again only
        its client is to blame, as a broker says.
        """
        record.happens(RecordEvent.QUEUE)
        topic = record.place.topic
        number = record.resend_count + 2  # the first attempt is number 1
        singles = record.singles if record.is_suspect else 0
        times = max(singles, record.client_failures)
        gap = doubled(FIRST_GAP_S, times, DRAIN_S) if times > 1 else 0.0
        self._outbox.tell(
            RetryEvent, topic, number=number, wait=gap, action=Action.RETRY
        )
        self._queue.add(record, now + gap)

    def queue_attempt(self, record: Record, error: KafkaGuardError, now: float) -> bool:
        """Queue a record for the policy's next attempt.

        Args:
            record: The record, which was not written.
            error: Why it failed.
            now: The time.

        Returns:
            Whether the policy has another attempt. If it has made some, the error says
            that there is none.
        """
        ruling = self._ruling(error)
        step = self._step(record, error, now)
        if step.kind != "again":
            if record.retry is not None:
                add_words(error, describe(step, record.retry, self._policy.name))
            return False
        assert record.retry is not None
        record.happens(RecordEvent.QUEUE)
        topic = record.place.topic
        if ruling.action is Action.WAIT:
            self._outbox.tell(WaitEvent, topic, wait=step.wait)
        else:
            number = record.retry.attempts + 1
            action = ruling.action
            self._outbox.tell(
                RetryEvent, topic, number=number, wait=step.wait, action=action
            )
        self._queue.add(record, now + step.wait)
        return True

    def _step(self, record: Record, error: KafkaGuardError, now: float) -> Step:
        if not may_be_tried(error):
            return NEVER
        return self._attempts.failed(record, error, self._ruling(error), now)

    def allows(self, error: KafkaGuardError) -> bool:
        """Return whether the policy retries a record that failed with this error."""
        return may_be_tried(error) and self._attempts.allows(self._ruling(error))

    def wait_after(
        self, call: Record, error: KafkaGuardError, now: float
    ) -> float | None:
        """Return the seconds until a call's next attempt, or None if there is none."""
        step = self._step(call, error, now)
        topic = call.place.topic
        self._attempts.handed_over(topic)
        if step.kind != "again":
            return None
        self._outbox.tell(WaitEvent, topic, wait=step.wait)
        return step.wait

    def give_time(self, record: Record, error: KafkaGuardError) -> None:
        """Give a waiting record the policy's time, if that is longer."""
        self._attempts.extend(record, self._ruling(error))

    def ask_size(self, record: Record) -> None:
        """Let a record wait until its topic's limit is known."""
        record.happens(RecordEvent.ASK_SIZE)
        self.ask_size_limit(record.place.topic)

    def ask_size_limit(self, topic: str) -> None:
        """Request a topic's limit, unless it is being looked up."""
        if topic not in self._size_limits.pending:
            self._size_limits.pending.add(topic)
            self._outbox.emit(commands.AskSizeLimit(topic))

    def end(self, record: Record, error: KafkaGuardError, now: float) -> None:
        """End a record that is not sent again: fail, dead-letter or drop it."""
        if record.origin is not None:
            if self._may_go_without_time(record, error, now):
                self.build_letter(record, refusal=error.code)
            elif self._may_be_missing(error):
                record.error = error
                self.ask_size(record)
            else:
                self._letter_failed(record, error)
            return
        if record.doubt is not None and error.verdict.written == "no":
            error = record.doubt
        on_reject = self.on_reject(error)
        self.tell_rejected(error, on_reject)
        if on_reject == "drop":
            self._warn_of_drops(error)
            self.settle(record, "dropped", error)
        elif on_reject == "dead_letter":
            self._dead_letter(record, error, now)
        else:
            self.fail(record, error)

    def fail(self, record: Record, error: KafkaGuardError) -> None:
        """Settle a record as failed or in doubt."""
        if isinstance(error, SupersededError):
            self._counters.count_superseded()
        if self._traits.transactional:
            self._transaction.fail(error, in_flight=record.batch is not None)
        written = error.verdict.written
        self.settle(record, "failed" if written == "no" else "in_doubt", error)

    def settle(
        self,
        record: Record,
        ending: Ending,
        error: KafkaGuardError | None = None,
        offset: int | None = None,
    ) -> None:
        """Give a record its final outcome, once."""
        record.happens(RecordEvent.SETTLE)
        if error is not None:
            error.is_outcome = True
        is_handled = ending in ("dead_lettered", "dropped") or (
            error is not None
            and ending == "in_doubt"
            and self.in_doubt(error) == "report"
        )
        record.outcome = RecordOutcome(ending, error, offset, seen=is_handled)
        del self.open[record]
        batch = record.batch
        if batch is not None:
            batch.unsettled -= 1
            if not batch.unsettled and batch.ended is not None:
                self._in_flight.drop_ended(batch.place)
        if not record.is_letter:
            self._counters.count_outcome(record.outcome, record.place.topic)
            self._counters.maybe_twice += (
                ending == "delivered" and record.doubt is not None
            )
            self._outbox.emit(commands.Settle(record))

    def on_reject(self, error: KafkaGuardError) -> OnReject:
        """Return what the policy does with a record that failed with this error."""
        if not may_be_set_aside(error):
            return "raise"
        ruling = self._ruling(error)
        return ruling.on_reject if ruling.action is Action.REJECT else "raise"

    def in_doubt(self, error: KafkaGuardError) -> InDoubt:
        """Return what the policy does with a record that may have been written."""
        ruling = self._ruling(error)
        is_doubt = error.verdict.action is Action.IN_DOUBT
        return ruling.in_doubt if is_doubt else "raise"

    def _ruling(self, error: KafkaGuardError) -> Ruling:
        return self._policy.ruling(
            error.verdict, self._outbox.context(error.topic), error
        )

    # --- dead letters -----------------------------------------------------------------

    def _dead_letter(self, record: Record, error: KafkaGuardError, now: float) -> None:
        why = self._claim_letter(record, error)
        if why is not None:
            if record.raw is not None or record.batch is not None:
                add_words(error, f"no dead letter was sent: {why}")
            self.fail(record, error)
            return
        record.happens(RecordEvent.SET_ASIDE)
        record.error = error
        topic = self._policy.dead_letter.topic_for(error.topic or "")
        self._letters += 1
        due = now + self._traits.delivery_timeout
        letter = Record(
            None, None, self._letters, Place(topic), due, record.raw, origin=record
        )
        self.take_in(letter)
        if self._size_limits.is_known(topic, now):
            self.topic_looked_up(letter)
        else:
            self.ask_size(letter)

    def _claim_letter(self, record: Record, error: KafkaGuardError) -> str | None:
        """Count a dead letter; if there can be none, return why, and count nothing."""
        if self._is_closed:
            return _CLOSED
        if record.raw is None:
            return _NO_BYTES
        topic = self._policy.dead_letter.topic_for(error.topic or "")
        if topic == error.topic and record.reason is None:
            return (
                "dead_letter.topic is the record's own topic, which would refuse it "
                "again: name another topic"
            )
        return self._counters.letters.count_letter(
            self._policy.dead_letter.limit, record
        )

    def _may_go_without_time(
        self, letter: Record, error: KafkaGuardError, now: float
    ) -> bool:
        """Return whether only a dead letter's timestamp was refused."""
        assert letter.raw is not None
        return (
            error.code == INVALID_TIMESTAMP
            and letter.raw.timestamp_ms is not None
            and letter.doubt is None
            and now < letter.due
        )

    def _may_be_missing(self, error: KafkaGuardError) -> bool:
        """Return whether a dead letter may have failed for want of its topic."""
        is_unclear = error.verdict.retriable or error.verdict.written == "maybe"
        return is_unclear and not self._is_closed

    def topic_looked_up(self, letter: Record) -> None:
        """Continue with a dead letter whose topic was looked up.

        This is before it is sent, and again if it was not delivered: the topic may have
        been deleted meanwhile.
        """
        why = self._size_limits.missing(letter.place.topic) or letter.error
        if why is None:
            self.build_letter(letter)
        else:
            self._letter_failed(letter, why)

    def build_letter(self, letter: Record, *, refusal: int | None = None) -> None:
        """Build a dead letter, with the size limit of its topic.

        Args:
            letter: The dead letter.
            refusal: The code with which its topic has refused it before.
        """
        record, topic = letter.origin, letter.place.topic
        assert record is not None
        assert record.raw is not None
        assert record.error is not None
        raw = record.raw
        is_unwritable = raw.timestamp_ms in self._traits.unwritable_times
        if is_unwritable or INVALID_TIMESTAMP in (record.error.code, refusal):
            raw = dead_letters.without_time(raw)
        try:
            letter.raw = dead_letters.letter(
                raw,
                dead_letters.refusal_facts(
                    record.error,
                    partition=record.place.partition,
                    reason=record.reason,
                ),
                topic=topic,
                size_limit=self._room(topic, record.error),
                errors=self._errors,
                dialect=self._policy.dead_letter.headers,
            )
        except MessageTooLargeError as error:
            self._letter_failed(letter, error)
            return
        letter.happens(RecordEvent.QUEUE)
        self._queue.add(letter)

    def _room(self, topic: str, error: KafkaGuardError) -> int | None:
        """Return the size limit of a dead letter in bytes, or None.

        If the client compresses batches, the topic's limit counts only for records that
        were too large, because other letters may fit when they are compressed.
        """
        most, client = self._size_limits.most(topic), self._traits.largest_request
        if self._traits.compresses and error.code != MESSAGE_TOO_LARGE:
            most = None
        limits = [limit for limit in (most, client) if limit is not None]
        return min(limits, default=None)

    def letter_delivered(self, letter: Record, batch: Batch, index: int) -> None:
        """Settle the record whose dead letter was delivered."""
        origin, topic = letter.origin, letter.place.topic
        assert origin is not None
        assert origin.error is not None
        self.settle(letter, "delivered")
        where = [f"topic {topic}"]
        for name, number in zip(
            ("partition", "offset"), batch.where(index), strict=True
        ):
            if number is not None:
                where.append(f"{name} {number}")
        add_words(origin.error, f"its dead letter is in {', '.join(where)}")
        self._outbox.tell(
            DeadLetterEvent,
            origin.error.topic,
            error=origin.error.name,
            dead_letter_topic=topic,
        )
        self.settle(origin, "dead_lettered", origin.error)

    def _letter_failed(
        self, letter: Record, why: object, *, was_sent: bool = False
    ) -> None:
        origin = letter.origin
        assert origin is not None
        assert origin.error is not None
        if isinstance(why, KafkaGuardError):
            origin.letter_error = why
        self._counters.letters.undo_letter()
        self.settle(letter, "failed")
        add_words(
            origin.error,
            f"its dead letter for topic {letter.place.topic} "
            f"{'may not have been' if was_sent else 'was not'} delivered: {why}",
        )
        self.fail(origin, origin.error)

    # --- the end ----------------------------------------------------------------------

    def settle_all(self, why: str, now: float) -> None:
        """Settle all open records because the producer ends."""
        self._is_closed = True
        for record in sorted(self.open, key=lambda each: not each.is_letter):
            if record.state is RecordState.SETTLED:
                continue  # it is settled together with its dead letter
            if record.is_letter or record.state in (
                RecordState.SENDING,
                RecordState.AGAIN,
            ):
                self.end_in_flight(record, why)
            elif record.state is RecordState.UNANSWERED:
                assert record.error is not None
                self.fail(record, record.error)
            else:
                self.not_sent_again(record, why, now)

    def end_in_flight(self, record: Record, why: str) -> None:
        """End a record that was sent again and is still on its way."""
        if record.is_letter:
            self._letter_failed(record, why, was_sent=True)
        else:
            self.fail(record, self._doubtful(record, why))

    def not_sent_again(self, record: Record, why: object, now: float) -> None:
        """End a record that could not be sent again."""
        if record.origin is not None:
            self._letter_failed(record, why)
            return
        assert record.error is not None
        add_words(record.error, f"it could not be sent again: {why}")
        self.end(record, record.error, now)

    def give_up(self, record: Record, why: str) -> None:
        """End a record that waits to be sent again: the application wants no more."""
        if record.origin is not None:
            self._letter_failed(record, why)
            return
        error = record.doubt or record.error
        assert error is not None
        add_words(error, f"it could not be sent again: {why}")
        self.fail(record, error)

    def _doubtful(self, record: Record, why: str) -> KafkaGuardError:
        return make_unanswered(
            self._errors,
            f"it was sent again and got no answer ({why}): it may have been written",
            api="Produce",
            topic=record.place.topic,
            partition=record.place.partition,
        )

    # --- telling ----------------------------------------------------------------------

    def tell_rejected(self, error: KafkaGuardError, on_reject: OnReject) -> None:
        """Tell the event of a refused record; other failures have no such event."""
        if is_rejected(error):
            self._outbox.tell(
                RejectEvent, error.topic, error=error.name, on_reject=on_reject
            )

    def _warn_of_drops(self, error: KafkaGuardError) -> None:
        topic = error.topic or ""
        if topic not in self._warned:
            self._warned.add(topic)
            self._outbox.warn(
                "records_dropped",
                f"policy {self._policy.name} drops refused records of topic {topic}; "
                f"the first one failed with {error.name}. Later ones are only counted, "
                "as dropped in the report",
                topic,
            )
