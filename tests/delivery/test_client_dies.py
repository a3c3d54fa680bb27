"""The machine while its client is dead, and what a driver asks it."""

from __future__ import annotations

import pytest
from kafka.errors import IllegalStateError, for_code

from kafkaguard import Action, errors
from kafkaguard._delivery import commands as c
from kafkaguard._delivery.attempts import AttemptLimits
from kafkaguard._delivery.client_life import MOST_DEATHS
from kafkaguard._delivery.dead_letters import NO_ROOM, Reason
from kafkaguard._delivery.facts import Answer, Place, Raw, Refusal
from kafkaguard._delivery.judging import HELD
from kafkaguard._delivery.report import (
    CallbackError,
    DeliveryFailed,
    ForkedProducerError,
    SupersededError,
)
from kafkaguard._retries.events import RecreateEvent
from tests.delivery.told import (
    HERE,
    begun,
    machine_of,
    only,
    record_of,
    refusals,
    resent,
)
from tests.delivery.world.batches import Item, Items
from tests.delivery.world.words import PlainPolicy

CAUSE = IllegalStateError("gone")


def dead(machine, now=0.0):
    """Let the client die and be stopped; return what is asked for next."""
    machine.died(CAUSE, HERE, now)
    machine.heard_out(now)
    return machine.stopped(now)


class TestReplaced:
    """A dead client, and its successor."""

    def test_all_sends_are_held_until_a_successor_is_in_use(self):
        """Answers are waited for, then the dead one is stopped and replaced."""
        machine = machine_of()
        held, told, heard = machine.died(CAUSE, HERE, 10.0)
        assert (held, heard) == (c.Shut(), c.HearOut(15.0))
        assert isinstance(told.event, RecreateEvent)
        assert told.event.context.topic == "t"
        assert machine.holds == {None}
        assert machine.is_troubled
        assert machine.heard_out(11.0) == [c.Stop()]
        assert machine.stopped(12.0) == [c.Replace(None)]
        warned, freed = machine.replaced(13.0)
        assert freed == c.FreeSends(None)
        died = "IllegalStateError, topic t, partition 0"
        assert warned.text == f"the producer was dead and was replaced: {died}"
        assert (machine.holds, machine.is_troubled) == (set(), False)

    def test_it_dies_once(self):
        """Whoever says so again, and after the machine was closed."""
        machine = machine_of()
        machine.died(CAUSE, None, 0.0)
        assert not machine.died(CAUSE, None, 0.0)
        closing = machine_of()
        closing.closing(0.0)
        assert not closing.died(CAUSE, None, 0.0)

    def test_clients_that_die_one_after_the_other_are_replaced_ever_more_rarely(self):
        """The first at once, three after pauses, the fifth only if a send asks."""
        machine = machine_of()
        assert dead(machine) == [c.Replace(None)]
        machine.replaced(0.0)
        for pause in (0.25, 0.5, 1.0):
            assert dead(machine, 10.0) == ()
            assert (machine.next_due(), machine.lost) == (10.0 + pause, None)
            assert machine.tick(10.0 + pause) == [c.Replace(None)]
            machine.replaced(20.0)
        assert dead(machine, 30.0) == [c.FreeSends(None)]
        assert machine.next_due() is None
        text = "5 producers in a row died before they delivered a record; the last one"
        assert f"{text}: IllegalStateError: gone" == str(machine.lost)
        machine.wanted(30.0)
        assert machine.next_due() == 32.0
        assert machine.tick(32.0) == [c.Replace(None)]
        machine.replaced(32.0)
        assert dead(machine, 35.0) == [c.FreeSends(None)]

    def test_a_record_that_waits_for_clients_that_keep_dying_has_an_outcome(self):
        """It was not written, and its error says what they died of."""
        machine = machine_of()
        resent(machine, begun(machine))
        dead(machine)
        machine.sent("t", [CAUSE], 0.0)
        for _ in range(MOST_DEATHS - 1):
            machine.replaced(0.0)
            dead(machine)
            machine.tick(10.0)
        machine.replaced(0.0)
        outcome = only(c.Settle, dead(machine)).record.outcome
        assert outcome.error.verdict.written == "no"
        assert "it could not be sent again: 5 producers in a row" in str(outcome.error)

    def test_a_delivery_begins_a_new_count_of_deaths(self):
        """So does the refusal of a record: the client died of it, and worked."""
        machine = machine_of()
        for _ in range(MOST_DEATHS + 2):
            assert dead(machine) == [c.Replace(None)]
            machine.replaced(0.0)
            machine.accepted(begun(machine), 0.0)
        for _ in range(MOST_DEATHS + 2):
            machine.died(for_code(87)(), HERE, 0.0)
            machine.heard_out(0.0)
            assert machine.stopped(0.0) == [c.Replace(None)]
            machine.replaced(0.0)

    def test_a_closing_producer_does_not_wait_to_be_replaced(self):
        """The records of a dead producer fail at close(), without a replacement."""
        machine = machine_of()
        dead(machine)
        machine.replaced(0.0)
        machine.died(CAUSE, HERE, 1.0)
        machine.closing(1.0)
        machine.heard_out(1.0)
        assert machine.stopped(1.0) == [c.Replace(None)]

    @pytest.mark.parametrize(
        ("traits", "code"),
        [({"transactional": True}, 45), ({"replaceable": False}, 45), ({}, 90)],
    )
    def test_a_client_is_not_replaced_where_that_does_not_help(self, traits, code):
        """In a transaction, where none can be built, or after it was fenced."""
        machine = machine_of(**traits)
        assert not machine.died(for_code(code)(), None, 0.0)
        assert machine.holds == set()

    def test_building_is_tried_again_while_records_wait(self):
        """After a pause; without anyone who waits, not before a send wants it."""
        machine = machine_of()
        dead(machine)
        error = OSError("no broker")
        told = machine.not_replaced(error, 1.0, may_build_later=True, awaited=True)
        assert (told, machine.next_due(), machine.lost) == ((), 1.25, None)
        assert not machine.tick(1.2)
        assert machine.tick(1.25) == [c.Replace(None)]
        told = machine.not_replaced(error, 2.0, may_build_later=True, awaited=False)
        assert told == [c.FreeSends(None)]
        assert machine.lost is error
        assert machine.next_due() is None
        machine.wanted(2.0)
        assert machine.next_due() == 2.5
        assert machine.tick(2.5) == [c.Replace(None)]

    @pytest.mark.parametrize("awaited", [True, False])
    def test_what_cannot_pass_is_final(self, awaited):
        """The records that wait are settled, with the reason."""
        machine = machine_of()
        resent(machine, begun(machine))
        dead(machine)
        machine.sent("t", [CAUSE], 0.0)
        error = OSError("no such host")
        told = machine.not_replaced(error, 1.0, may_build_later=False, awaited=awaited)
        outcome = only(c.Settle, told).record.outcome
        assert "it could not be sent again: no such host" in str(outcome.error)
        assert machine.lost is error
        assert c.FreeSends("t") in told

    @pytest.mark.parametrize(
        ("answer", "ending"),
        [(Answer(base_offset=7), "delivered"), (None, "in_doubt"), ("no", "failed")],
    )
    def test_a_record_in_flight_waits_for_a_late_answer(self, answer, ending):
        """With its offset; without an answer it is in doubt."""
        machine = machine_of(hears_late=True)
        batch = begun(machine, 2)
        machine.died(CAUSE, HERE, 0.0)
        gone = Refusal(batch.items[1], 1, CAUSE, "client", "maybe")
        [attached] = machine.failed(batch, [gone], 0.0)
        assert attached == c.Attach(record_of(machine, batch.items[1]))
        machine.heard_out(0.0)
        assert machine.stopped(0.0) == [c.AskAnswers((batch,))]
        if answer == "no":
            answer = Answer(refusals=refusals(batch, 10, "record")[1:])
        told = list(machine.answered({} if answer is None else {batch: answer}, 0.0))
        replace = only(c.Replace, told)
        if ending == "failed":
            told += machine.size_limit("t", None, 0.0)
        outcome = only(c.Settle, told).record.outcome
        assert outcome.ending == ending
        assert outcome.offset == (8 if ending == "delivered" else None)
        assert replace.locking_out is (batch if ending == "in_doubt" else None)


@pytest.mark.parametrize(
    ("rescue", "now", "cls"),
    [
        ("ordered", 99.0, errors.ClientTimeoutError),
        ("never", 99.0, errors.ClientTimeoutError),
        ("never", 0.0, errors.ClientClosedError),
    ],
)
def test_a_record_that_never_left_says_whether_its_time_was_over(rescue, now, cls):
    """Only then it is told as too late."""
    machine = machine_of(PlainPolicy(rescue))
    batch = begun(machine)
    gone = Refusal(batch.items[0], 0, CAUSE, "client", "never")
    outcome = only(c.Settle, machine.failed(batch, [gone], now)).record.outcome
    assert (type(outcome.error), outcome.ending) == (cls, "failed")


def test_a_known_limit_shows_which_record_was_too_large():
    """At once, although the client blames nobody."""
    machine = machine_of()
    machine.size_limit("t", 1000, 0.0)
    batch = begun(machine, 2)
    batch.items[1] = large = Item(Raw(b"k", b"1:" + b"v" * 5000 + b":"), is_new=True)
    machine.failed(batch, refusals(batch, 10), 0.0)
    codes = [record_of(machine, item).error.code for item in (batch.items[0], large)]
    assert codes == [None, 10]


class TestAsked:
    """What a driver asks."""

    def test_open_work_is_counted_until_each_record_has_its_outcome(self):
        """Fresh ones, failed ones, and none of a dead letter."""
        machine = machine_of(PlainPolicy(on_reject="dead_letter"))
        first, second = begun(machine, 3), begun(machine, 2)
        work = machine.open_work()
        assert (machine.count_open(work), machine.pending()) == (5, 5)
        machine.failed(first, refusals(first, 87, "record"), 0.0)
        assert machine.failed_and_open() == 3
        begun(machine)
        assert (machine.count_open(work), machine.pending()) == (5, 6)
        machine.accepted(second, 0.0)
        assert (machine.count_open(work), machine.pending()) == (3, 4)
        machine.settle_all("closed", 0.0)
        assert (machine.count_open(work), machine.failed_and_open()) == (0, 0)

    def test_the_longest_time_is_that_of_the_client_and_of_the_policy(self):
        """Without attempts of the policy, only the client's."""
        assert machine_of().longest_s == 30.0
        assert machine_of(None, AttemptLimits(longest_s=70.0)).longest_s == 100.0
        is_final = {"transactional": True}
        assert (
            machine_of(None, AttemptLimits(longest_s=70.0), **is_final).longest_s
            == 30.0
        )

    def test_a_batch_whose_time_is_over_is_given_up(self):
        """A stuck client is replaced, too; one that waits for a leader is not."""
        machine = machine_of()
        batch = begun(machine)
        assert machine.next_due() == 31.0
        assert not machine.tick(30.9)
        told = machine.tick(31.0)
        assert c.FailBatches((batch,)) in told
        assert c.Shut() in told
        machine = machine_of()
        waiting = Waiting(HERE, (0, 0), 31.0)
        waiting.items = [Item(Raw(b"k", b"0:good"), is_new=True)]
        machine.began(waiting)
        assert machine.tick(31.0) == [c.FailBatches((waiting,))]

    def test_a_reply_about_a_topic_that_waits_no_more_changes_nothing(self):
        """Its records may have ended before the sends were held."""
        assert machine_of().held("t", 0.0) == ()

    def test_records_that_wait_are_dropped_with_a_reason(self):
        """A driver that cannot go on says why."""
        machine = machine_of()
        batch = begun(machine)
        machine.failed(batch, refusals(batch, 19), 0.0)
        outcome = only(c.Settle, machine.drop_waiting("forked", 0.0)).record.outcome
        assert "it could not be sent again: forked" in str(outcome.error)

    def test_a_client_that_takes_back_is_asked_to(self):
        """Batches behind a failed one would overtake its records."""
        for takes_back in (True, False):
            machine = machine_of(takes_back=takes_back)
            batch = begun(machine)
            told = machine.failed(batch, refusals(batch, 19), 0.0)
            assert takes_back == (c.TakeBack(batch) in told)

    def test_a_client_that_takes_over_a_transactional_id_is_told(self):
        """Without a topic: no record has killed the old one."""
        [told] = machine_of(transactional=True).recreated()
        assert isinstance(told.event, RecreateEvent)
        assert told.event.context.topic is None

    def test_a_null_key_that_is_refused_has_its_topic_looked_up_again(self):
        """What was known of it is wrong."""
        machine = machine_of()
        batch = begun(machine)
        told = machine.failed(batch, refusals(batch, 87, "record", null_key=True), 0.0)
        assert c.ForgetFacts("t") in told
        batch = begun(machine)
        told = machine.failed(batch, refusals(batch, 87, "record"), 0.0)
        assert c.ForgetFacts("t") not in told

    def test_a_partition_that_the_client_chose_is_the_records(self):
        """A record of a window is sent again to the partition that the client chose."""
        machine = machine_of()
        batch = Items(Place("t"), (0, 0), 31.0)
        batch.items = [Item(Raw(b"k", b"0:good"), is_new=True)]
        machine.began(batch)
        told = machine.failed(batch, refusals(batch, 87, "record", partition=4), 0.0)
        assert only(c.Settle, told).record.place == Place("t", 4)


class Waiting(Items):
    """A batch that waits for a leader."""

    __slots__ = ()
    waits = True


def test_the_reasons_of_dead_letters_are_their_names():
    """The reasons in headers keep their names, because people search topics for them."""
    assert all(reason == reason.name for reason in Reason)


@pytest.mark.parametrize(
    ("verdict", "rule", "action", "retriable", "written"),
    [
        (HELD, "held-too-long", Action.WAIT, True, "no"),
        (NO_ROOM, "dead-letter-too-large", Action.CONFIGURE, False, "no"),
        (CallbackError().verdict, "callback-raised", Action.CONFIGURE, False, "yes"),
    ],
)
def test_verdicts_of_the_guard_itself(verdict, rule, action, retriable, written):
    """A verdict that only the guard gives has its rule and action."""
    told = (verdict.rule.id, verdict.action, verdict.retriable, verdict.written)
    assert (rule, action, retriable, written) == told


@pytest.mark.parametrize(
    ("cls", "name"),
    [
        (SupersededError, "SUPERSEDED"),
        (ForkedProducerError, "FORKED_PRODUCER"),
        (CallbackError, "CALLBACK"),
        (DeliveryFailed, "DELIVERY_FAILED"),
    ],
)
def test_errors_of_the_guard_itself_have_names(cls, name):
    """They come from the client's side, and begin their text."""
    assert (name, "client") == (cls.name, cls.origin)
    assert str(cls("said")).startswith(f"{name}: said")
