"""The timestamp of a dead letter, which its own topic may refuse."""

from __future__ import annotations

import pytest
from kafka.errors import for_code

from kafkaguard._delivery import commands as c
from kafkaguard._delivery.dead_letters import read_headers, without_time
from kafkaguard._delivery.facts import Place, Raw, Refusal, Traits
from kafkaguard._delivery.machine import DeliveryMachine
from tests.delivery.world.batches import Item, Items
from tests.delivery.world.words import PlainErrors, PlainPolicy

BAD_TIME, BAD_RECORD = 32, 87
TIME = 1_700_000_000_000_000


class Topics:
    """A machine, and brokers that answer what a topic's records get.

    Attributes:
        letters: The dead letters that were sent, in their order.
        outcomes: The endings of the records.
    """

    def __init__(self, answers, **traits):
        self.answers = answers
        self.letters, self.outcomes = [], []
        self.machine = DeliveryMachine(
            Traits("model", 30.0, "delivery.timeout", **traits),
            PlainPolicy(on_reject="dead_letter"),
            PlainErrors(),
            size_alone=lambda _: None,
        )

    def send(self, topic, raw):
        """Send a record, and carry out what the machine wants."""
        item = Item(raw, is_new=True)
        batch = self.begin(topic, item)
        todo = [*self.end(batch, item)]
        while todo:
            todo += self.carry_out(todo.pop(0))

    def begin(self, topic, item):
        """Begin a batch of one record."""
        batch = Items(Place(topic, 0), (0, len(self.letters)), 31.0)
        batch.items.append(item)
        self.machine.began(batch)
        return batch

    def end(self, batch, item):
        """Answer a batch."""
        code = self.answers(batch.place.topic, item.raw)
        if not code:
            return self.machine.accepted(batch, 0.0)
        refusal = Refusal(
            item, 0, for_code(code)(), "record", "answered", first_try=True
        )
        return self.machine.failed(batch, [refusal], 0.0)

    def carry_out(self, command):
        """Execute a command."""
        match command:
            case c.AskSizeLimit(topic):
                return self.machine.size_limit(topic, 1000, 0.0)
            case c.HoldSends(topic):
                return self.machine.held(topic, 0.0)
            case c.Send(topic, (record,)):
                self.letters.append(record.raw)
                item = Item(record.raw, is_new=False)
                batch = self.begin(topic, item)
                out = self.machine.sent(topic, [item], 0.0)
                return [*out, *self.end(batch, item)]
            case c.Settle(record):
                self.outcomes.append(record.outcome.ending)
        return ()


def bad_time(_topic, raw):
    """Refuse a timestamp in microseconds on every topic."""
    return BAD_TIME if raw.timestamp_ms == TIME else 0


def bad_record(topic, raw):
    """Refuse the record on its own topic, and its timestamp on any."""
    return BAD_RECORD if topic == "t" else bad_time(topic, raw)


@pytest.mark.parametrize(("answers", "sent"), [(bad_time, 1), (bad_record, 2)])
def test_a_dead_letter_goes_without_a_timestamp_that_is_refused(answers, sent):
    """At once if the record's was, else after the refusal; a header has it."""
    topics = Topics(answers)
    topics.send("t", Raw(b"k", b"1:good:v", [("trace", b"1")], TIME))
    assert topics.outcomes == ["dead_lettered"]
    assert len(topics.letters) == sent
    letter = topics.letters[-1]
    assert (letter.key, letter.value, letter.timestamp_ms) == (b"k", b"1:good:v", None)
    assert letter.headers[0] == ("trace", b"1")
    said = read_headers(letter.headers)
    assert (said["timestamp"], said["topic"]) == (str(TIME), "t")


def test_a_timestamp_that_the_client_would_change_is_not_sent():
    """A dead letter leaves out a timestamp that the client would replace."""
    topics = Topics(bad_record, unwritable_times=frozenset({0}))
    topics.send("t", Raw(b"k", b"1:good:v", (), 0))
    (letter,) = topics.letters
    assert (letter.timestamp_ms, read_headers(letter.headers)["timestamp"]) == (
        None,
        "0",
    )


def test_a_dead_letter_without_a_timestamp_is_sent_once():
    """Its topic refuses any: the record fails, and its error says why."""
    topics = Topics(lambda _topic, _raw: BAD_TIME)
    topics.send("t", Raw(b"k", b"1:good:v", (), 5))
    assert (topics.outcomes, len(topics.letters)) == (["failed"], 1)
    topics = Topics(lambda topic, _: BAD_RECORD if topic == "t" else BAD_TIME)
    topics.send("t", Raw(b"k", b"1:good:v", (), 5))
    assert (topics.outcomes, len(topics.letters)) == (["failed"], 2)
    (error,) = topics.machine.report(0).errors
    assert "its dead letter for topic t.dlq was not delivered" in str(error)


def test_other_dead_letters_keep_their_timestamp():
    """A dead letter with its own timestamp has no header for it."""
    topics = Topics(lambda topic, _: BAD_RECORD if topic == "t" else 0)
    topics.send("t", Raw(b"k", b"1:good:v", (), 5))
    (letter,) = topics.letters
    assert letter.timestamp_ms == 5
    assert "timestamp" not in read_headers(letter.headers)


def test_the_newest_timestamp_replaces_an_earlier_one():
    """A dead letter that comes back has a timestamp of its own."""
    once = without_time(Raw(b"k", b"v", (), 5))
    again = without_time(once._replace(timestamp_ms=6))
    assert once == without_time(once)
    assert again.headers == [("kafkaguard.timestamp", b"6")]
