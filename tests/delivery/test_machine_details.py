"""Single facts and replies of the machine: what each of them changes."""

from __future__ import annotations

import pytest
from kafka.errors import IllegalStateError, for_code

from kafkaguard import Action, errors
from kafkaguard._delivery import commands as c
from kafkaguard._delivery.dead_letters import NO_ROOM
from kafkaguard._delivery.facts import HandOverStoppedError, Place, Raw, Refusal
from kafkaguard._delivery.judging import Judge, RefusalFacts
from kafkaguard._delivery.report import CallbackError, DeliveryReport
from kafkaguard._delivery.sizes import NUMBER_STEPS, headers_size
from kafkaguard._delivery.topic_round import DRAIN_S
from tests.delivery.told import (
    HERE,
    begun,
    machine_of,
    only,
    record_of,
    refusals,
    resent,
    traits,
)
from tests.delivery.world.batches import Item, Items
from tests.delivery.world.words import PlainErrors, PlainPolicy


class TestBatches:
    """Batches that are accepted, or fail."""

    def test_records_that_were_counted_while_a_batch_was_open_count_once(self):
        """The rest counts when the batch is accepted."""
        machine = machine_of()
        batch = begun(machine, 5)
        machine.delivered_so_far(batch, 2)
        machine.accepted(batch, 0.0)
        assert machine.report(0) == DeliveryReport(delivered=5)

    @pytest.mark.parametrize(("fails", "end"), [(False, "accepted"), (True, "failed")])
    @pytest.mark.parametrize("is_troubled", [False, True])
    def test_a_batch_has_its_end(self, is_troubled, fails, end):
        """Whether another batch of its topic has failed before or not."""
        machine = machine_of()
        if is_troubled:
            first = begun(machine)
            machine.failed(first, refusals(first, 19), 0.0)
        batch = begun(machine)
        if fails:
            machine.failed(batch, refusals(batch, 10), 0.0)
        else:
            machine.accepted(batch, 0.0)
        assert end == batch.ended

    def test_a_refusal_that_blames_nobody_is_tried_again(self):
        """A broker that lacks replicas says nothing about the record."""
        machine = machine_of()
        batch = begun(machine)
        assert c.HoldSends("t") in machine.failed(batch, refusals(batch, 19), 0.0)
        assert machine.pending() == 1

    def test_the_time_of_a_resent_record_does_not_end_newer_ones_in_its_batch(self):
        """The batch is failed at the older record's deadline; the newer one goes on."""
        machine = machine_of()
        [old], again = resent(machine, begun(machine))
        again.due = again.next_check = 90.0
        again.items.append(Item(Raw(b"k", b"9:good"), is_new=True))
        machine.sent("t", again.items[:1], 1.0)
        assert machine.next_due() <= old.due
        machine.tick(old.due)
        expired = refusals(again, 7, "client", "never", expired=True)
        told = machine.failed(again, expired, old.due)
        assert only(c.Settle, told).record is old
        assert machine.pending() == 1

    @pytest.mark.parametrize("is_delivered", [True, False])
    def test_a_resent_record_ends_in_time_in_a_client_that_keeps_it(self, is_delivered):
        """It is in doubt, whatever its client says of it later; nothing is replaced."""
        machine = machine_of(fails_batches=False)
        [old], again = resent(machine, begun(machine))
        again.due = again.next_check = 90.0
        again.items.append(Item(Raw(b"k", b"9:good"), is_new=True))
        machine.sent("t", again.items[:1], 1.0)
        assert machine.next_due() <= old.due
        assert not any(isinstance(each, c.Settle) for each in machine.tick(1.0))
        told = machine.tick(old.due)
        assert only(c.Settle, told).record is old
        assert old.outcome.ending == "in_doubt"
        assert not any(isinstance(each, (c.FailBatches, c.Shut)) for each in told)
        if is_delivered:
            machine.accepted(again, 40.0)
        else:
            (refusal, _) = refusals(again, 10, "record")
            machine.failed(again, [refusal], 40.0)
        report = machine.report(machine.pending())
        assert (report.delivered, report.in_doubt, report.pending) == (1, 1, 0)

    def test_what_comes_too_late_is_told_as_it_came(self):
        """The broker's answer goes before the time that is over."""
        machine = machine_of()
        batch = begun(machine)
        told = machine.failed(batch, refusals(batch, 87, "record"), 99.0)
        assert only(c.Settle, told).record.outcome.error.code == 87


def test_delivered_records_of_an_open_batch_are_counted_once():
    """Not again when the batch ends, and not after that."""
    machine = machine_of()
    batch = begun(machine, 3)
    machine.delivered_so_far(batch, 2)
    assert machine.report(0).delivered == 2
    machine.accepted(batch, 0.0)
    assert machine.report(0).delivered == 1
    machine.delivered_so_far(batch, 3)
    assert machine.report(0).delivered == 0


class TestSentAgain:
    """Records that are handed over once more."""

    def test_the_sends_are_freed_with_the_last_outcome(self):
        """The hold of a topic ends with the outcome of its last record."""
        machine = machine_of()
        records, again = resent(machine, begun(machine))
        assert machine.sent("t", again.items, 0.0) == [c.SendNow()]
        told = machine.accepted(again, 0.0)
        assert told == [c.Settle(records[0]), c.FreeSends("t")]

    def test_a_future_waits_for_the_guard_from_the_first_failure_on(self):
        """Before its record is settled, also if it failed during a hand-over."""
        machine = machine_of()
        first, other = begun(machine), begun(machine)
        told = machine.failed(first, refusals(first, 19), 0.0)
        assert told[0] == c.Attach(record_of(machine, first.items[0]))
        machine.held("t", 0.0)
        sent = only(c.Send, machine.tick(DRAIN_S))
        assert not machine.failed(other, refusals(other, 19), DRAIN_S)
        told = machine.sent("t", [HandOverStoppedError() for _ in sent.records], 6.0)
        record = record_of(machine, other.items[0])
        assert record.outcome is None
        assert c.Attach(record) in told

    @pytest.mark.parametrize("how", ["refused", "accepted", "closing", "other topic"])
    def test_hand_over_stops_only_for_what_it_would_overtake(self, how):
        """A refused batch of its topic, while the records have a chance."""
        machine = machine_of()
        batch, other = begun(machine), begun(machine)
        machine.failed(batch, refusals(batch, 19), 0.0)
        machine.held("t", 0.0)
        assert not machine.stops_hand_over("t")  # waits for the open batch
        machine.tick(DRAIN_S)
        if how == "accepted":
            machine.accepted(other, DRAIN_S)
        else:
            machine.failed(other, refusals(other, 19), DRAIN_S)
        if how == "closing":
            machine.closing(DRAIN_S)
        topic = "u" if how == "other topic" else "t"
        assert machine.stops_hand_over(topic) is (how == "refused")

    def test_records_that_were_given_back_are_handed_over_after_the_others(self):
        """In the old order, and without an outcome until then."""
        machine = machine_of()
        batch = begun(machine, 3)
        machine.failed(batch, refusals(batch, 19), 0.0)
        told = machine.held("t", 0.0)
        first, second, third = only(c.Send, told).records
        again = Items(HERE, (0, 1), 31.0)
        again.items = [Item(first.raw, is_new=False)]
        machine.began(again)
        machine.failed(again, refusals(again, 87, "mate"), 0.0)
        assert machine.stops_hand_over("t")
        handed = [*again.items, HandOverStoppedError(), HandOverStoppedError()]
        told = machine.sent("t", handed, 0.0)
        assert [first, second, third] == [*only(c.Send, told).records]
        assert not any(isinstance(each, c.Settle) for each in told)

    @pytest.mark.parametrize("blame", ["mate", "unknown"])
    def test_mates_of_a_record_that_was_named_stay_together(self, blame):
        """Only if nothing names the one to blame, halves find it."""
        machine = machine_of()
        _, again = resent(machine, begun(machine, 5))
        machine.sent("t", again.items, 0.0)
        told = refusals(again, 87, blame)
        told[0] = refusals(again, 87, "record")[0]
        sends = only(c.Send, machine.failed(again, told, 0.0)).records
        assert len(sends) == (4 if blame == "mate" else 2)

    @pytest.mark.parametrize("is_quiet", [True, False])
    def test_open_batches_are_sent_without_lingering(self, is_quiet):
        """The records that are sent again wait for them."""
        machine = machine_of()
        batch = begun(machine)
        if not is_quiet:
            begun(machine)
        machine.failed(batch, refusals(batch, 19), 0.0)
        told = machine.held("t", 0.0)
        assert (c.SendNow() in told) is not is_quiet
        assert any(isinstance(each, c.Send) for each in told) is is_quiet

    def test_a_hand_over_that_ends_after_all_was_settled_leaves_nothing(self):
        """No topic waits for anything any more."""
        machine = machine_of()
        _, again = resent(machine, begun(machine))
        machine.settle_all("closed", 0.0)
        assert machine.is_troubled
        machine.sent("t", again.items, 0.0)
        assert not machine.is_troubled

    def test_a_client_that_does_not_take_one_is_told(self):
        """A record whose dead letter the client refuses keeps its first error."""
        machine = machine_of()
        resent(machine, begun(machine))
        told = machine.sent("t", [OSError("full")], 0.0)
        error = only(c.Settle, told).record.outcome.error
        assert error.code == 19
        assert str(error).startswith("NOT_ENOUGH_REPLICAS (19)")
        assert "it could not be sent again: full" in str(error)

    def test_one_that_has_no_answer_at_the_end_is_in_doubt(self):
        """A dead letter without an answer is in doubt, and its error names the record."""
        machine = machine_of()
        _, again = resent(machine, begun(machine))
        machine.sent("t", again.items, 0.0)
        outcome = only(c.Settle, machine.settle_all("closed", 1.0)).record.outcome
        error = outcome.error
        assert outcome.ending == "in_doubt"
        assert (error.api, error.topic, error.partition) == ("Produce", "t", 0)


class TestLetters:
    """Dead letters."""

    def letter(self, machine, batch):
        """Refuse the first record of a batch, and have its dead letter handed over."""
        refused, *others = refusals(batch, 87, "record")
        others = [Refusal(o.token, o.index, o.cause, "mate", o.sent) for o in others]
        machine.failed(batch, [refused, *others], 0.0)
        send = only(c.Send, machine.size_limit("t.dlq", None, 0.0))
        return send.records[0]

    def test_a_delivered_one_is_told_with_its_place(self):
        """A delivered dead letter has an event and is the outcome of its record."""
        machine = machine_of(PlainPolicy(on_reject="dead_letter"))
        letter = self.letter(machine, begun(machine))
        batch = Items(Place("t.dlq", 3), (0, 1), 31.0)
        batch.items, batch.base_offset = [Item(letter.raw, is_new=False)], 40
        machine.began(batch)
        machine.sent("t.dlq", batch.items, 0.0)
        told = machine.accepted(batch, 0.0)
        event = only(c.Tell, told).event
        assert (event.error, event.dead_letter_topic) == ("INVALID_RECORD", "t.dlq")
        assert event.context.topic == "t"
        outcome = only(c.Settle, told).record.outcome
        assert outcome.ending == "dead_lettered"
        assert "in topic t.dlq, partition 3, offset 40" in str(outcome.error)

    def test_the_end_settles_all_that_is_open(self):
        """A record whose dead letter is away, and those that wait behind it."""
        machine = machine_of(PlainPolicy(on_reject="dead_letter"))
        self.letter(machine, begun(machine, 3))
        told = machine.settle_all("closed", 1.0)
        settled = [each for each in told if isinstance(each, c.Settle)]
        assert (len(settled), machine.pending()) == (3, 0)


class TestRejects:
    """Records that are refused for good."""

    @pytest.mark.parametrize("way", ["raise", "dead_letter", "drop"])
    def test_the_policy_says_what_becomes_of_one(self, way):
        """A shell asks before it serialises the record."""
        machine = machine_of(PlainPolicy(on_reject=way))
        assert way == machine.on_reject(errors.MessageTooLargeError(topic="t"))
        assert machine.on_reject(errors.NotEnoughReplicasError()) == "raise"

    def test_its_event_says_which_call_failed(self):
        """The event of a refused record has request, topic and client."""
        machine = machine_of()
        [told] = machine.raised(errors.MessageTooLargeError(topic="t", api="Produce"))
        context = told.event.context
        assert (context.api, context.topic, context.client) == ("Produce", "t", "model")


def test_a_machine_that_has_settled_all_holds_no_send_and_builds_no_client():
    """Whoever waits is woken, and a death is not answered any more."""
    machine = machine_of()
    batch = begun(machine)
    machine.failed(batch, refusals(batch, 19), 0.0)
    assert machine.holds == {"t"}
    assert c.FreeSends(None) in machine.settle_all("closed", 1.0)
    assert not machine.holds
    assert not machine.died(IllegalStateError(), None, 2.0)


def judged(code, blame, sent, *, alone=False, **more):
    """Judge a refusal by its code."""
    refusal = Refusal(None, 0, for_code(code)(), blame, sent, **more)
    return Judge(traits(), PlainErrors()).judge(refusal, RefusalFacts(HERE, 1, alone))


def test_a_record_that_failed_alone_is_not_rescued():
    """Whatever the answer is, it is about this record."""
    assert judged(19, "unknown", "answered").may_be_rescued
    assert not judged(19, "unknown", "answered", alone=True).may_be_rescued


def test_what_ends_all_is_told_of_records_that_never_left():
    """One that was sent without an answer may be written all the same."""
    assert judged(90, "client", "never").error.code == 90
    assert judged(90, "client", "maybe").error.verdict.action is Action.IN_DOUBT
    assert not judged(90, "client", "never").client_failed


@pytest.mark.parametrize(
    ("cause", "action"),
    [(90, Action.FENCED), (29, Action.CONFIGURE), (87, Action.ABORT)],
)
def test_what_stops_a_transaction_stops_its_records(cause, action):
    """Being fenced, or not allowed; after all else the transaction is aborted."""
    refusal = Refusal(None, 0, for_code(cause)(), "client", "maybe")
    judge = Judge(traits(transactional=True), PlainErrors())
    error = judge.judge(refusal, RefusalFacts(HERE, 1)).error
    assert action is error.verdict.action


def test_a_dead_letter_without_room_is_not_tried_again():
    """A dead letter that is too large for its topic is sent once."""
    assert (NO_ROOM.action, NO_ROOM.retriable) == (Action.CONFIGURE, False)


@pytest.mark.parametrize(
    ("counts", "written"),
    [({"failed": 1}, "maybe"), ({"in_doubt": 1}, "maybe"), ({}, "yes")],
)
def test_the_verdict_of_a_callback_error_says_what_was_written(counts, written):
    """An error of a callback says that all records were written if none failed."""
    error = CallbackError("text")
    error.report = DeliveryReport(delivered=1, **counts)
    verdict = error.verdict
    assert (verdict.action, verdict.written) == (Action.CONFIGURE, written)


@pytest.mark.parametrize("step", NUMBER_STEPS)
def test_a_length_is_a_byte_longer_from_each_step_on(step):
    """The steps, with which Spark counts in columns, are those of the sizes."""
    shorter, longer = (headers_size([("", bytes(n))]) for n in (step - 1, step))
    assert longer - shorter == 2


def test_a_record_is_compared_with_its_batch_after_another_was_sent_again_with_it():
    """The batch stays in its line until all of its failed records have an outcome."""
    machine = machine_of()
    (first,), again = resent(machine, begun(machine))
    old, new = (Item(Raw(b"x", value), is_new=True) for value in (b"1:good", b"2:good"))
    again.items += [old, new]
    machine.sent("t", again.items[:1], 0.0)
    refused = Refusal(old, 1, for_code(19)(), "mate", "answered")
    told = [*machine.failed(again, [refused], 0.0), *machine.held("t", 0.0)]
    ended = [each.record for each in told if isinstance(each, c.Settle)]
    assert [first.token, old] == [record.token for record in ended]
    assert ended[1].outcome.error.name == "SUPERSEDED"
