"""State that a first fault leaves behind, when a second one follows on the same object."""

from __future__ import annotations

import pytest
from kafka.errors import IllegalStateError

from kafkaguard import errors
from kafkaguard._delivery import commands as c
from kafkaguard._delivery.facts import Answer, Place, Raw, Refusal
from kafkaguard._delivery.in_flight import InFlight
from kafkaguard._delivery.records import Record
from kafkaguard._delivery.size_limits import FRESH_S, TTL_S, SizeLimits
from kafkaguard._delivery.topic_round import DRAIN_S
from tests.delivery.told import HERE, begun, machine_of, only, refusals, resent
from tests.delivery.world.batches import Item, Items

DEAD = IllegalStateError("gone")


def replaced(machine, now=0.0):
    """Let the client die, and put a successor in use; return the last commands."""
    machine.died(DEAD, HERE, now)
    machine.heard_out(now)
    machine.stopped(now)
    if (due := machine.next_due()) is not None:  # a pause comes before the second one
        machine.tick(due)
    return machine.replaced(now)


def test_a_gap_of_a_transaction_stays_after_a_failure_that_leaves_none():
    """A record that failed in flight is followed by one that was never sent."""
    machine = machine_of(transactional=True)
    batch = begun(machine)
    machine.failed(batch, refusals(batch, 87, "record"), 0.0)
    error = errors.MessageTooLargeError(topic="t")
    machine.refused_at_once(object(), HERE, Raw(b"k", b"v"), error, 0.0)
    assert machine.transaction.has_gap


def test_a_hand_over_after_an_interrupted_one_counts_as_refused():
    """The first client died during a hand-over; the second one refuses the record."""
    machine = machine_of()
    batch = begun(machine)
    machine.failed(batch, refusals(batch, 19), 0.0)
    assert only(c.Send, machine.held("t", 0.0)).topic == "t"
    machine.died(DEAD, HERE, 0.0)
    machine.sent("t", [DEAD], 0.0)
    assert machine.pending() == 1
    machine.heard_out(0.0)
    machine.stopped(0.0)
    assert only(c.Send, machine.replaced(0.0)).topic == "t"
    settled = only(c.Settle, machine.sent("t", [OSError("full")], 1.0)).record
    assert "it could not be sent again: full" in str(settled.outcome.error)


@pytest.mark.parametrize("code", [45, 59])
def test_a_record_whose_client_is_always_to_blame_waits_longer_each_time(code):
    """The first time it is sent again at once, as behind a batch that was refused."""
    machine, now, waits = machine_of(), 0.0, []
    batch = begun(machine)
    for number in range(8):
        refused = refusals(batch, code, "batch", first_try=True)
        commands = [*machine.failed(batch, refused, now)]
        if not number:
            commands = [*machine.held("t", now)]
        due = machine.next_due()
        if not any(isinstance(each, c.Send) for each in commands):
            waits.append(due - now)
            now, commands = due, machine.tick(due)
        record = only(c.Send, commands).records[0]
        batch = Items(HERE, (0, number + 2), 31.0)
        batch.items = [Item(record.raw, is_new=False)]
        machine.began(batch)
        machine.sent("t", batch.items, now)
        if number == 6:  # hours later
            record.client_failures = 5_000
    assert waits == pytest.approx([0.2, 0.4, 0.8, 1.6, 3.2, 5.0, 5.0], abs=0.01)


def test_a_producer_that_dies_twice_is_replaced_twice():
    """The second death holds the sends, and the second successor frees them."""
    machine = machine_of()
    for now in (0.0, 10.0):
        commands = replaced(machine, now)
        assert only(c.FreeSends, commands).topic is None
        assert machine.holds == set()
    batch = begun(machine)
    machine.failed(batch, refusals(batch, 19), 11.0)
    assert machine.holds == {"t"}


def test_the_offset_of_a_late_answer_is_that_of_the_second_batch():
    """A record was third in its first batch and is first in its second one."""
    machine = machine_of(hears_late=True)
    first = begun(machine, 3)
    others = refusals(first, 19)
    machine.failed(first, others[2:], 0.0)
    record = only(c.Send, machine.held("t", 0.0)).records[0]
    again = Items(HERE, (0, 1), 31.0)
    again.items = [Item(record.raw, is_new=False)]
    machine.began(again)
    machine.sent("t", again.items, 0.0)
    machine.died(DEAD, HERE, 1.0)
    gone = Refusal(again.items[0], 0, DEAD, "client", "maybe")
    machine.failed(again, [gone], 1.0)
    machine.heard_out(1.0)
    machine.stopped(1.0)
    commands = machine.answered({again: Answer(base_offset=40)}, 2.0)
    assert only(c.Settle, commands).record.outcome.offset == 40


def test_sends_are_freed_some_seconds_after_each_hand_over():
    """The time of the second hand-over counts from the second one."""
    machine = machine_of()
    _, again = resent(machine, begun(machine))
    machine.sent("t", again.items, 10.0)
    assert machine.next_due() == 10.0 + DRAIN_S
    assert not machine.tick(9.0 + DRAIN_S)
    assert c.FreeSends("t") in machine.tick(10.0 + DRAIN_S)


def test_a_second_group_does_not_wait_for_a_record_of_the_first():
    """The first group had its time; the sends are freed with the second one."""
    machine = machine_of()
    _, away = resent(machine, begun(machine))
    machine.sent("t", away.items, 0.0)
    batch = Items(HERE, (0, 2), 31.0)
    batch.items = [Item(Raw(b"other", b"7:good"), is_new=True)]
    machine.began(batch)
    machine.failed(batch, refusals(batch, 19), 1.0)
    second = only(c.Send, machine.tick(DRAIN_S)).records
    again = Items(HERE, (0, 3), 31.0)
    again.items = [Item(second[0].raw, is_new=False)]
    machine.began(again)
    machine.sent("t", again.items, DRAIN_S)
    assert c.FreeSends("t") in machine.accepted(again, DRAIN_S)


def record_of(batch, *, retry):
    """Make a record that was sent again, with or without an attempt of the policy."""
    record = Record(object(), batch, 0, HERE, 5.0, Raw(b"k", b"v"))
    record.retry = object() if retry else None
    return record


@pytest.mark.parametrize(("retry", "check"), [(True, 90.0), (False, 5.0)])
def test_an_attempt_of_the_policy_has_the_full_time_of_the_client(retry, check):
    """A rescued record ends at its own deadline; an attempt has the client's time."""
    batch = Items(HERE, (0, 1), 90.0)
    batch.items = [Item(Raw(b"k", b"1:good"), is_new=False)]
    in_flight = InFlight()
    in_flight.begin(batch)
    in_flight.resent[batch.items[0]] = record_of(batch, retry=retry)
    in_flight.cap_deadlines("t", fails_batches=True)
    assert batch.next_check == check
    assert batch.due == 90.0


@pytest.mark.parametrize(
    ("answer", "seconds"),
    [
        (None, TTL_S),
        (1_000, FRESH_S),
        (errors.UnknownTopicOrPartitionError("x"), FRESH_S),
    ],
    ids=["unknown", "known", "missing"],
)
def test_a_limit_that_could_not_be_found_is_not_asked_for_each_second(answer, seconds):
    """Only a limit that is known must be fresh to refuse a record by it."""
    limits = SizeLimits(lambda _: None)
    limits.remember("t", answer, 100.0)
    assert limits.is_known("t", 100.0 + seconds - 0.1, FRESH_S)
    assert not limits.is_known("t", 100.0 + seconds, FRESH_S)


def test_a_second_batch_that_fails_during_a_hand_over_is_kept_with_the_first():
    """Both are processed when the tokens of the records are known."""
    machine = machine_of()
    _, again = resent(machine, begun(machine))
    others = [begun(machine), begun(machine)]
    for batch in others:
        assert not machine.failed(batch, refusals(batch, 29), 0.0)
    commands = machine.sent("t", again.items, 0.0)
    settled = [each.record.token for each in commands if isinstance(each, c.Settle)]
    assert settled == [batch.items[0] for batch in others]
    assert machine.pending() == 1


def test_a_letter_of_a_second_refusal_goes_to_its_own_topic():
    """Place and error of the first refusal are not used for the second one."""
    machine = machine_of()
    first = begun(machine)
    machine.failed(first, refusals(first, 29), 0.0)
    second = Items(Place("u", 1), (0, 1), 31.0)
    second.items = [Item(Raw(b"k", b"5:good"), is_new=True)]
    machine.began(second)
    commands = machine.failed(second, refusals(second, 87, "record"), 1.0)
    error = only(c.Settle, commands).record.outcome.error
    assert (error.topic, error.partition, error.code) == ("u", 1, 87)
