"""What becomes of a failed record, and what is told about it."""

from __future__ import annotations

from dataclasses import dataclass

import pytest

from kafkaguard import Action, errors
from kafkaguard._delivery import commands as c
from kafkaguard._delivery.attempts import AttemptLimits
from kafkaguard._delivery.dead_letters import letter_for
from kafkaguard._delivery.facts import Place, Raw
from kafkaguard._delivery.report import DeliveryReport
from kafkaguard._delivery.sizes import batch_size
from kafkaguard._retries.events import RejectEvent, RetryEvent, WaitEvent
from tests.delivery.told import HERE, begun, machine_of, only, refusals, resent
from tests.delivery.world.batches import Item, Items
from tests.delivery.world.words import Letters, Limit, PlainPolicy

LETTERS = PlainPolicy(on_reject="dead_letter")
PATIENT = PlainPolicy(attempts=3, deadline=100.0)


def events(commands, kind):
    """Return the events of a kind that are told."""
    told = [each.event for each in commands if isinstance(each, c.Tell)]
    return [event for event in told if isinstance(event, kind)]


def texts(commands):
    """Return the warnings."""
    return [each.text for each in commands if isinstance(each, c.Warn)]


def refuse(machine, code=87, blame="record", **more):
    """Refuse a batch of one record; return the commands."""
    batch = begun(machine)
    return machine.failed(batch, refusals(batch, code, blame, **more), 0.0)


def outcome(commands):
    """Return the outcome of the only record that is settled."""
    return only(c.Settle, commands).record.outcome


class TestAgain:
    """Records that wait to be sent again."""

    def test_a_rescue_is_told_as_a_retry_without_a_wait(self):
        """It is the second time that the record is sent."""
        (event,) = events(refuse(machine_of(), 19, "unknown"), RetryEvent)
        assert (event.number, event.wait, event.action) == (2, 0.0, Action.RETRY)
        assert (event.policy, event.policy_id) == ("simulated", "0")

    @pytest.mark.parametrize("code", [19, 89])
    def test_an_attempt_of_the_policy_waits_as_long_as_it_is_told(self, code):
        """A throttled record is told as a wait, all others as a retry."""
        machine = machine_of(PATIENT, AttemptLimits(random=lambda: 0.5))
        told = refuse(machine, code, first_try=True)
        (event,) = events(told, RetryEvent if code == 19 else WaitEvent)
        assert event.wait == 0.05
        if code == 19:
            assert event.number == 2
            assert event.action is errors.for_code(19)(api="Produce").verdict.action
        machine.held("t", 0.0)
        assert not machine.tick(0.04)
        assert only(c.Send, machine.tick(0.05)).topic == "t"

    def test_closing_producer_makes_no_attempt(self):
        """A record that fails during close() is not sent again."""
        machine = machine_of(PATIENT, AttemptLimits())
        machine.closing(0.0)
        assert outcome(refuse(machine, 19, first_try=True)).ending == "failed"

    @pytest.mark.parametrize(
        ("policy", "code", "is_kept"),
        [(PATIENT, 19, True), (PlainPolicy(), 19, False), (PATIENT, 87, False)],
    )
    def test_record_that_send_refuses_is_kept_for_an_attempt(
        self, policy, code, is_kept
    ):
        """If the policy has one, and it may succeed."""
        error = errors.for_code(code)(api="Produce")
        assert machine_of(policy, AttemptLimits()).keeps(error) is is_kept

    def test_the_error_of_a_settled_record_says_that_it_is_the_outcome(self):
        """A retry around the send then leaves it; of a queued record it says no."""
        assert outcome(refuse(machine_of(), 19, first_try=True)).error.is_outcome
        machine = machine_of(PATIENT, AttemptLimits())
        refuse(machine, 19, first_try=True)
        [record] = machine.open_work().records
        assert not record.error.is_outcome

    def test_a_record_without_another_attempt_says_how_many_there_were(self):
        """The last error names the number of attempts and the policy."""
        policy = PlainPolicy(attempts=2, deadline=100.0)
        machine = machine_of(policy, AttemptLimits(random=lambda: 0.0))
        records, again = resent(machine, begun(machine), first_try=True)
        machine.sent("t", again.items, 0.0)
        refused = refusals(again, 19, "record", first_try=True)
        told = machine.failed(again, refused, 0.0)
        assert only(c.Settle, told).record is records[0]
        said = "2 attempts were made; policy simulated ends here (ATTEMPTS)"
        assert said in str(records[0].outcome.error)

    def test_a_producer_is_troubled_until_its_failed_records_are_settled(self):
        """A producer whose failed record is being sent again is still troubled."""
        machine = machine_of()
        _, again = resent(machine, begun(machine))
        machine.sent("t", again.items, 0.0)
        assert machine.is_troubled
        machine.accepted(again, 0.0)
        assert not machine.is_troubled

    def test_a_closing_producer_keeps_no_record_that_send_refuses(self):
        """The policy's attempts have ended, so the call raises."""
        machine = machine_of(PATIENT, AttemptLimits(random=lambda: 0.0))
        error = errors.for_code(19)(api="Produce")
        assert machine.keeps(error)
        machine.closing(0.0)
        assert not machine.keeps(error)


class TestSettled:
    """Outcomes, and who must look at them."""

    def test_a_refused_record_is_told_and_unseen(self):
        """A refused record has an event, and its error counts as unseen."""
        machine = machine_of()
        told = refuse(machine)
        (event,) = events(told, RejectEvent)
        assert (event.error, event.on_reject) == ("INVALID_RECORD", "raise")
        assert (outcome(told).ending, outcome(told).seen) == ("failed", False)
        assert machine.has_unseen()

    def test_what_is_no_refusal_has_no_such_event(self):
        """The error of a denied topic has no RejectEvent."""
        assert events(refuse(machine_of(), 29), RejectEvent) == []

    def test_a_dropped_record_is_warned_about_once_for_each_topic(self):
        """It counts as dropped, and nobody must look at it."""
        machine = machine_of(PlainPolicy(on_reject="drop"))
        told = refuse(machine)
        (text,) = texts(told)
        assert "policy simulated drops refused records of topic t" in text
        assert outcome(told).seen
        assert texts(refuse(machine)) == []
        assert machine.report(0) == DeliveryReport(dropped=2)

    @pytest.mark.parametrize(("way", "seen"), [("raise", False), ("report", True)])
    def test_what_is_in_doubt_is_counted_and_raised_or_not(self, way, seen):
        """A record in doubt is counted, and raised if the policy says so."""
        machine = machine_of(PlainPolicy(in_doubt=way))
        told = refuse(machine, 7)
        assert (outcome(told).ending, outcome(told).seen) == ("in_doubt", seen)
        assert machine.has_unseen() is not seen
        report = machine.report(0)
        assert (report.in_doubt, len(report.errors)) == (1, 0 if seen else 1)

    @pytest.mark.parametrize("is_in_flight", [True, False])
    def test_only_a_record_that_was_in_flight_leaves_a_hole(self, is_in_flight):
        """In the sequence of a transaction, until its end."""
        machine = machine_of(transactional=True)
        if is_in_flight:
            refuse(machine)
        else:
            error = errors.MessageTooLargeError(topic="t")
            machine.refused_at_once(object(), HERE, Raw(b"k", b"v"), error, 0.0)
        transaction = machine.transaction
        assert transaction.has_gap is is_in_flight
        assert transaction.failure is not None
        transaction.ends("aborted")
        assert (transaction.has_gap, transaction.failure) == (False, None)
        assert not machine.has_unseen()


@dataclass(frozen=True)
class OwnTopic(Letters):
    """A dead-letter topic that is the record's own."""

    def topic_for(self, topic):
        """Return the record's topic."""
        return topic


class Unreadable(Items):
    """A batch whose records' bytes are not available."""

    __slots__ = ()

    def raws(self):
        """Return nothing."""


class TestNoLetter:
    """Why a refused record has no dead letter."""

    def test_a_topic_is_not_its_own_dead_letter_topic(self):
        """A check of kafkaguard's own may send a record there all the same."""
        policy = PlainPolicy(on_reject="dead_letter", dead_letter=OwnTopic())
        error = outcome(refuse(machine_of(policy))).error
        assert "no dead letter was sent: dead_letter.topic is the record's own" in str(
            error
        )
        machine = machine_of(policy)
        known = object(), HERE, Raw(b"k", b"v"), errors.InvalidRecordError(topic="t")
        told = machine.refused_at_once(*known, 0.0, reason="NULL_TOPIC")
        assert c.AskSizeLimit("t") in told

    def test_a_record_without_its_bytes_is_told_so(self):
        """One that no batch had has told it already."""
        machine = machine_of(LETTERS)
        batch = Unreadable(HERE, (0, 0), 31.0)
        batch.items = [Item(Raw(b"k", b"0:good"), is_new=True)]
        machine.began(batch)
        told = machine.failed(batch, refusals(batch, 87, "record"), 0.0)
        said = "no dead letter was sent: the record's bytes cannot be read"
        assert said in str(outcome(told).error)
        error = errors.InvalidRecordError(topic="t")
        told = machine.refused_at_once(object(), HERE, None, error, 0.0)
        assert "no dead letter" not in str(outcome(told).error)

    def test_the_limit_of_the_policy_is_named(self):
        """Two records in a row are refused, and one dead letter is allowed."""
        letters = Letters(Limit(consecutive=1))
        policy = PlainPolicy(on_reject="dead_letter", dead_letter=letters)
        machine = machine_of(policy)
        refuse(machine)
        error = outcome(refuse(machine)).error
        assert "no dead letter was sent: 1 records in a row" in str(error)

    def test_a_machine_that_has_settled_all_sends_none(self):
        """No dead letter is sent after the end of the machine."""
        machine = machine_of(LETTERS)
        batch = begun(machine)
        machine.settle_all("closed", 0.0)
        told = machine.failed(batch, refusals(batch, 87, "record"), 0.0)
        said = "the producer was closed before it was confirmed"
        assert said in str(outcome(told).error)


class TestLetter:
    """What a dead letter contains."""

    def letter(self, machine, code=87, *, limit=1000, value=b"0:" + b"v" * 5000):
        """Refuse a record; return its dead letter."""
        batch = begun(machine)
        batch.items = [Item(Raw(b"k", value + b":"), is_new=True)]
        told = [*machine.failed(batch, refusals(batch, code, "record"), 0.0)]
        for topic in ("t", "t.dlq"):
            told += machine.size_limit(topic, limit, 0.0)
        return only(c.Send, told).records[0]

    @pytest.mark.parametrize(
        ("code", "traits", "most"),
        [
            (87, {}, 1000),
            (87, {"compresses": True}, None),
            (10, {"compresses": True}, 1000),
            (87, {"largest_request": 800}, 800),
            (87, {"largest_request": 1200}, 1000),
            (87, {"largest_request": 1200, "compresses": True}, 1200),
        ],
    )
    def test_it_fits_into_the_topic_and_into_a_request(self, code, traits, most):
        """Compressed, it may be smaller than its bytes; a large record was not."""
        raw = self.letter(machine_of(LETTERS, **traits), code).raw
        size = batch_size(raw.key, raw.value, raw.headers)
        assert most is None or most - 3 <= size <= most
        assert (most is None) == (len(raw.value) > 5000)

    def test_it_has_the_place_and_the_dialect(self):
        """The partition of the record, and the headers of the policy."""
        headers = dict(self.letter(machine_of(LETTERS)).raw.headers)
        assert headers["kafkaguard.partition"] == b"0"
        assert headers["kafkaguard.reason"] == b"INVALID_RECORD"
        policy = PlainPolicy(
            on_reject="dead_letter", dead_letter=Letters(None, "spring")
        )
        assert "kafka_dlt-original-topic" in dict(
            self.letter(machine_of(policy)).raw.headers
        )

    def test_it_has_the_reason_of_a_check_of_our_own(self):
        """A dead letter has the reason of the guard's check, not only the error's name."""
        machine = machine_of(LETTERS)
        error = errors.InvalidRecordError(topic="t")
        known = object(), Place("t", 5), Raw(b"k", b"v"), error
        told = machine.refused_at_once(*known, 0.0, reason="NULL_TOPIC")
        assert c.AskSizeLimit("t.dlq") in told
        told = machine.size_limit("t.dlq", None, 0.0)
        headers = dict(only(c.Send, told).records[0].raw.headers)
        assert headers["kafkaguard.reason"] == b"NULL_TOPIC"
        assert headers["kafkaguard.partition"] == b"5"

    def test_a_known_limit_is_not_asked_for_again(self):
        """The size limit of a topic is cached for a minute."""
        machine = machine_of(LETTERS)
        self.letter(machine)
        batch = begun(machine)
        told = machine.failed(batch, refusals(batch, 87, "record"), 59.0)
        assert c.AskSizeLimit("t.dlq") not in told
        batch = begun(machine)
        told = machine.failed(batch, refusals(batch, 87, "record"), 60.0)
        assert c.AskSizeLimit("t.dlq") in told

    def test_one_that_is_refused_fails_its_record(self):
        """If a dead letter is refused, its record fails with both errors."""
        machine = machine_of(LETTERS)
        letter = self.letter(machine)
        batch = Items(Place("t.dlq", 0), (0, 1), 31.0)
        batch.items = [Item(letter.raw, is_new=False, origin=letter.origin.first_token)]
        machine.began(batch)
        machine.sent("t.dlq", batch.items, 0.0)
        told = machine.failed(batch, refusals(batch, 29, "record"), 0.0)
        record = only(c.Settle, told).record
        assert (record.outcome.ending, record.letter_error.code) == ("failed", 29)
        said = "its dead letter for topic t.dlq was not delivered: TOPIC_AUTHORIZATION"
        assert said in str(record.outcome.error)

    def test_one_that_the_client_does_not_take_fails_its_record(self):
        """If the client refuses a dead letter, its record fails at once."""
        machine = machine_of(LETTERS)
        self.letter(machine)
        told = machine.sent("t.dlq", [errors.TopicAuthorizationFailedError()], 0.0)
        record = only(c.Settle, told).record
        assert (record.outcome.ending, record.letter_error.code) == ("failed", 29)
        assert not machine.is_troubled

    @pytest.mark.parametrize(
        ("now", "code", "goes_again"),
        [(29.9, 32, True), (30.0, 32, False), (0.0, 29, False)],
    )
    def test_one_goes_without_its_timestamp_while_it_has_time(
        self, now, code, goes_again
    ):
        """If its topic refuses the timestamp, and nothing else."""
        machine = machine_of(LETTERS)
        batch = begun(machine)
        batch.items = [Item(Raw(b"k", b"0:good", (), 5), is_new=True)]
        told = [*machine.failed(batch, refusals(batch, 87, "record"), 0.0)]
        told += machine.size_limit("t.dlq", None, 0.0)
        batch = Items(Place("t.dlq", 0), (0, 1), 31.0)
        batch.items = [Item(only(c.Send, told).records[0].raw, is_new=False)]
        machine.began(batch)
        machine.sent("t.dlq", batch.items, 0.0)
        told = machine.failed(batch, refusals(batch, code, "record"), now)
        assert goes_again == (c.HoldSends("t.dlq") in told)
        assert goes_again != any(isinstance(each, c.Settle) for each in told)

    def test_one_that_cannot_fit_fails_its_record(self):
        """A record whose dead letter is too large fails, and nothing is sent."""
        machine = machine_of(LETTERS)
        told = [*refuse(machine), *machine.size_limit("t.dlq", 50, 0.0)]
        record = only(c.Settle, told).record
        assert record.outcome.ending == "failed"
        assert record.letter_error.verdict.action is Action.CONFIGURE
        assert (record.letter_error.topic, record.letter_error.api) == (
            "t.dlq",
            "Produce",
        )

    def test_it_is_named_by_its_record(self):
        """A dead letter is described by its record's topic and place."""
        assert letter_for("t") == "the dead letter of a record for t"
        assert letter_for(None) == "the dead letter of a record without a topic"
