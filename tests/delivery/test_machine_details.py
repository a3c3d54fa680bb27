"""Single facts and replies of the machine: what each of them changes."""

from __future__ import annotations

import pytest
from kafka.errors import IllegalStateError, for_code

from kafkaguard import Action, errors
from kafkaguard._delivery import commands as c
from kafkaguard._delivery.dead_letters import NO_ROOM
from kafkaguard._delivery.facts import Place, Raw, Refusal, Traits
from kafkaguard._delivery.judging import Judge, RefusalFacts
from kafkaguard._delivery.machine import DeliveryMachine
from kafkaguard._delivery.report import CallbackError, DeliveryReport
from kafkaguard._delivery.sizes import NUMBER_STEPS, headers_size
from tests.delivery.world.batches import Item, Items
from tests.delivery.world.words import PlainErrors, PlainPolicy

HERE = Place("t", 0)


def traits(**more):
    """Make the traits of a client."""
    return Traits("model", 30.0, "delivery.timeout", **more)


def machine_of(policy=None, **more):
    """Make a machine whose client has these traits."""
    policy = policy or PlainPolicy()
    return DeliveryMachine(
        traits(**more), policy, PlainErrors(), size_alone=lambda _: None
    )


def begun(machine, count=1):
    """Begin a batch."""
    batch = Items(HERE, (0, 0), 31.0)
    items = (Item(Raw(b"k", b"%d:good" % n), is_new=True) for n in range(count))
    batch.items = [*items]
    machine.began(batch)
    return batch


def refusals(batch, code, blame="unknown", **more):
    """Refuse all records of a batch."""
    return [
        Refusal(item, n, for_code(code)(), blame, "answered", **more)
        for n, item in enumerate(batch.items)
    ]


def kinds(commands):
    """Return the kinds of commands."""
    return [type(command) for command in commands]


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


class TestRejects:
    """Records that are refused for good."""

    @pytest.mark.parametrize("way", ["raise", "dead_letter", "drop"])
    def test_the_policy_says_what_becomes_of_one(self, way):
        """A shell asks before it serialises the record."""
        machine = machine_of(PlainPolicy(on_reject=way))
        assert way == machine.on_reject(errors.MessageTooLargeError(topic="t"))
        assert machine.on_reject(errors.NotEnoughReplicasError()) == "raise"

    def test_its_event_says_which_call_failed(self):
        """Request, topic and client."""
        machine = machine_of()
        [told] = machine.raised(errors.MessageTooLargeError(topic="t", api="Produce"))
        context = told.event.context
        assert (context.api, context.topic, context.client) == ("Produce", "t", "model")


def test_a_machine_that_gave_up_holds_no_send_and_builds_no_client():
    """Whoever waits is woken, and a death is not answered any more."""
    machine = machine_of()
    batch = begun(machine)
    machine.failed(batch, refusals(batch, 19), 0.0)
    assert machine.holds == {"t"}
    assert c.FreeSends(None) in machine.give_up("closed", 1.0)
    assert not machine.holds
    assert not machine.died(IllegalStateError(), None, 2.0)


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
    """A human must raise the limit."""
    assert (NO_ROOM.action, NO_ROOM.retriable) == (Action.CONFIGURE, False)


@pytest.mark.parametrize(
    ("counts", "written"),
    [({"failed": 1}, "maybe"), ({"in_doubt": 1}, "maybe"), ({}, "yes")],
)
def test_the_verdict_of_a_callback_error_says_what_was_written(counts, written):
    """All records, where none failed."""
    error = CallbackError("text")
    error.report = DeliveryReport(delivered=1, **counts)
    verdict = error.verdict
    assert (verdict.action, verdict.written) == (Action.CONFIGURE, written)


@pytest.mark.parametrize("step", NUMBER_STEPS)
def test_a_length_is_a_byte_longer_from_each_step_on(step):
    """The steps, with which Spark counts in columns, are those of the sizes."""
    shorter, longer = (headers_size([("", bytes(n))]) for n in (step - 1, step))
    assert longer - shorter == 2
