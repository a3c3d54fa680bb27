"""Dead letters for a topic that does not exist."""

from __future__ import annotations

import pytest
from kafka.errors import for_code

from kafkaguard import Action, errors
from kafkaguard._delivery import commands as c
from kafkaguard._delivery.facts import Place, Raw, Refusal
from kafkaguard._delivery.size_limits import FRESH_S, TTL_S
from tests.delivery.told import machine_of
from tests.delivery.world.batches import Item, Items
from tests.delivery.world.words import PlainPolicy

DEAD = "t.dlq"
MISSING = errors.UnknownTopicOrPartitionError("no such topic")
REFUSED, NOT_THERE, LEADERLESS = 87, 3, 5
LIMIT = 1000


@pytest.fixture
def machine():
    """A machine whose policy dead-letters refused records."""
    return machine_of(PlainPolicy(on_reject="dead_letter"))


def end(machine, item, topic, code, now):
    """Answer a batch of one record."""
    batch = Items(Place(topic, 0), (0, 0), now + 30.0)
    batch.items.append(item)
    machine.began(batch)
    refusal = Refusal(item, 0, for_code(code)(), "record", "answered", first_try=True)
    return machine.failed(batch, [refusal], now)


def refuse(machine, now=0.0):
    """Refuse a record, and return the commands."""
    item = Item(Raw(b"k", b"1:good:v"), is_new=True)
    return end(machine, item, "t", REFUSED, now)


def fail_letter(machine, commands, code):
    """Fail the dead letter that these commands send, and return the commands."""
    (send,) = sends(commands)
    item = Item(send.records[0].raw, is_new=False)
    machine.sent(DEAD, [item], 0.0)
    return end(machine, item, DEAD, code, 0.0)


def sends(commands):
    """Return the commands that send a dead letter."""
    return [each for each in commands if isinstance(each, c.Send)]


def error_of(commands):
    """Return the error of the record that these commands settle; no letter is sent."""
    assert sends(commands) == []
    outcomes = [each.record.outcome for each in commands if isinstance(each, c.Settle)]
    assert [outcome.ending for outcome in outcomes] == ["failed"]
    return outcomes[0].error


def test_a_dead_letter_for_a_missing_topic_is_not_sent(machine):
    """The record fails with its own verdict, and the text has that of the topic."""
    assert c.AskSizeLimit(DEAD) in refuse(machine)
    error = error_of(machine.size_limit(DEAD, MISSING, 0.0))
    assert (error.code, error.verdict.action) == (REFUSED, Action.REJECT)
    assert (
        str(error).count(f"its dead letter for topic {DEAD} was not delivered: ") == 1
    )
    assert str(MISSING) in str(error)


def test_a_missing_topic_is_asked_for_again_after_a_second(machine):
    """It may have been created; until then the next dead letters fail at once."""
    refuse(machine)
    machine.size_limit(DEAD, MISSING, 0.0)
    assert str(MISSING) in str(error_of(refuse(machine, FRESH_S / 2)))
    assert c.AskSizeLimit(DEAD) in refuse(machine, FRESH_S)
    assert sends(machine.size_limit(DEAD, LIMIT, FRESH_S))
    assert c.AskSizeLimit(DEAD) not in refuse(machine, TTL_S)


@pytest.mark.parametrize("code", [NOT_THERE, LEADERLESS])
def test_a_topic_is_looked_up_again_if_its_dead_letter_fails(machine, code):
    """A dead-letter topic that was deleted meanwhile is noticed."""
    refuse(machine)
    sent = machine.size_limit(DEAD, LIMIT, 0.0)
    assert c.AskSizeLimit(DEAD) in fail_letter(machine, sent, code)
    error = error_of(machine.size_limit(DEAD, MISSING, 0.0))
    assert str(MISSING) in str(error)


@pytest.mark.parametrize("answer", [LIMIT, None])
def test_a_dead_letter_that_failed_for_another_reason_says_it(machine, answer):
    """A dead letter to a topic that exists fails with its own error."""
    refuse(machine)
    sent = machine.size_limit(DEAD, LIMIT, 0.0)
    fail_letter(machine, sent, LEADERLESS)
    error = error_of(machine.size_limit(DEAD, answer, 0.0))
    assert "LEADER_NOT_AVAILABLE (5)" in str(error)


def test_a_dead_letter_that_its_topic_refuses_asks_nothing(machine):
    """A refusal by the dead-letter topic needs no look-up."""
    refuse(machine)
    sent = machine.size_limit(DEAD, LIMIT, 0.0)
    assert "INVALID_RECORD (87)" in str(error_of(fail_letter(machine, sent, REFUSED)))
