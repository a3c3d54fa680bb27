"""The thread driver with a client that does only what a test tells it."""

from __future__ import annotations

import gc
import logging
import threading
import time
import weakref
from contextlib import contextmanager
from types import SimpleNamespace

import pytest
from kafka.errors import InvalidRecordError, UnknownError

from kafkaguard import Action
from kafkaguard import errors as e
from kafkaguard._delivery.facts import (
    Batch,
    HandOverStoppedError,
    Place,
    Raw,
    Refusal,
    Traits,
)
from kafkaguard._delivery.report import SupersededError
from kafkaguard._delivery.time_limit import TimeLimit
from kafkaguard._delivery.transaction_calls import Answer, Step
from kafkaguard.errors import ClientTimeoutError
from kafkaguard_adapters.building import Wish
from kafkaguard_adapters.producing import driver as driver_module
from kafkaguard_adapters.producing.barrier import SendBarrier
from kafkaguard_adapters.producing.driver import ThreadDriver
from kafkaguard_adapters.producing.driver_base import DriverBase
from kafkaguard_adapters.producing.steps import run
from tests.delivery.world.words import PlainErrors, PlainPolicy

#: Longer than anything here takes, also on a busy machine.
LONG_S = 30.0
DONE, FAILED = "delivered", "failed"


class OwnBatch(Batch):
    """A batch whose records a test has chosen."""

    __slots__ = ("items",)

    def __init__(self, topic, position, items, due):
        super().__init__(Place(topic, 0), position, due)
        self.items = items

    @property
    def count(self):
        """As the machine asks for it."""
        return len(self.items)

    def tokens(self):
        """As the machine asks for it."""
        return [token for token, _ in self.items]

    def keys(self):
        """As the machine asks for it."""
        return [raw.key for _, raw in self.items]

    def raws(self):
        """As the machine asks for it."""
        return [raw for _, raw in self.items]


class NoFacts:
    """What a driver asks about topics, of which nothing is known."""

    def __init__(self):
        self.dropped, self.looks = [], 0

    def get(self, _topic):
        """Nothing is known."""
        return

    def drop(self, topic):
        """Forget a topic."""
        self.dropped.append(topic)

    def recheck_expiry(self):
        """Note that facts may be too old."""
        self.looks += 1


class Client:
    """A client and its shell.

    Attributes:
        calls: What the driver told it, in this order.
        breaks: What a method raises, by its name.
        handed: The values that were handed over again, in this order.
        records: The guard's record of each token.
    """

    def __init__(self, due=LONG_S, **traits):
        self.traits = Traits("model", due, "delivery.timeout", **traits)
        self.errors = PlainErrors()
        self.calls, self.breaks, self.handed = [], {}, []
        self.records = {}
        self.is_own = False
        self._numbers = 0
        #: What was handed over lies in these until ``send_now``, by its topic.
        self._lingering = {}

    def delivered(self):
        """Return nothing, as a client whose batches are counted when they end."""
        return {}

    def _do(self, name):
        self.calls.append(name)
        if name in self.breaks:
            raise self.breaks[name]

    # --- what a test tells --------------------------------------------------------

    def send(self, topic, *pairs):
        """Have records in a new batch."""
        items = [(object(), Raw(key, value)) for key, value in pairs]
        return self._begin(topic, items)

    def _begin(self, topic, items):
        self._numbers += 1
        due = time.monotonic() + self.traits.delivery_timeout
        batch = OwnBatch(topic, (0, self._numbers), items, due)
        self.began(batch)
        return batch

    def refuse(self, batch, *causes, blame="record", sent="answered"):
        """Have records of a batch refused; None: a mate of one that is."""
        self.failed(
            batch,
            [
                Refusal(
                    token,
                    index,
                    cause or InvalidRecordError(),
                    blame if cause else "mate",
                    sent,
                    null_key=False,
                )
                for index, ((token, _), cause) in enumerate(
                    zip(batch.items, causes, strict=True)
                )
            ],
        )

    # --- what the driver tells ----------------------------------------------------

    def listen(self, facts):
        """Keep who is told."""
        self.began, self.accepted, self.failed = (
            facts.began,
            facts.accepted,
            facts.failed,
        )
        self.died, self.fault = facts.died, facts.fault

    def hand_over(self, record, _deadline):
        """Take a record in again."""
        self._do("hand_over")
        error = self.breaks.get(record.raw.value)
        if error is not None:
            raise error
        token, topic = object(), record.place.topic
        self.handed.append(record.raw.value)
        if topic not in self._lingering:
            self._lingering[topic] = self._begin(topic, [])
        self._lingering[topic].items.append((token, record.raw))
        return token

    def send_now(self):
        """Have all that was handed over accepted."""
        self._do("send_now")
        lingering, self._lingering = self._lingering, {}
        for batch in lingering.values():
            self.accepted(batch)

    @contextmanager
    def sending_now(self):
        """Linger no more."""
        self.calls.append("sending_now")
        yield

    def await_batches(self, batches, _deadline):
        """Note which are waited for."""
        self.calls.append(("await", len(batches)))

    def report_early(self, token):
        """Note that somebody looks at a record."""
        self.calls.append(("look", token))

    def attach(self, record):
        """Keep a record for its token."""
        self.records[record.first_token] = record

    def settle(self, record):
        """Do nothing: the record is known."""

    def is_own_thread(self):
        """As a test says."""
        return self.is_own

    def size_alone(self, raw):
        """Bytes of key and value."""
        return len(raw.key or b"") + len(raw.value or b"")

    def ask_size_limit(self, _topic):
        """A topic with room for every dead letter."""
        self._do("ask_size_limit")
        return 10_000

    def fail_batch(self, batch):
        """Fail a batch."""
        self._do("fail_batch")
        self.refuse(batch, *[UnknownError()] * batch.count, blame="client")

    def shut(self):
        """Take in nothing more."""
        self._do("shut")

    def hear_out(self, _until):
        """Wait for answers."""
        self._do("hear_out")

    def stop(self):
        """End."""
        self._do("stop")

    def answers(self, _batches):
        """Nothing was heard."""
        self._do("answers")
        return {}

    def put_successor_in_use(self, locking_out):
        """Have a successor."""
        self.locked_out = locking_out
        self._do("put_successor_in_use")

    def retire(self):
        """Close what has a successor."""
        self._do("retire")

    def may_build_later(self, error):
        """A lost connection does."""
        return isinstance(error, OSError)


@pytest.fixture
def build():
    """Build drivers, and end them."""
    made = []

    def build(due=LONG_S, hook=None, traits=None, **policy):
        client = Client(due, **(traits or {}))
        wish = Wish(PlainPolicy(**policy), cache=NoFacts(), on_event=hook)
        driver = ThreadDriver(client, wish, SendBarrier())
        made.append(driver)
        return client, driver

    yield build
    for driver in made:
        driver.settle_all(time.monotonic() + LONG_S)


def outcomes(client, driver, batch):
    """Wait for each record's outcome; say how it ended.

    Whoever waits is woken, and does not find the outcome when the time is over.
    """
    endings, began = [], time.monotonic()
    for token in batch.tokens():
        record = client.records[token]
        assert driver.wait_until_settled(record, LONG_S)
        endings.append(record.outcome.ending)
    assert time.monotonic() - began < LONG_S
    return endings


def until(condition):
    """Wait for another thread."""
    end = time.monotonic() + LONG_S
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.001)


BAD = InvalidRecordError("bad")


class TestSendingAgain:
    """What failed with its batch is handed over again, and nothing else."""

    def test_mates_are_handed_over_in_their_order(self, build):
        """The one to blame has failed at once."""
        client, driver = build()
        batch = client.send("t", (b"a", b"1"), (b"b", b"2"), (b"a", b"3"))
        client.refuse(batch, None, BAD, None)
        assert outcomes(client, driver, batch) == [DONE, FAILED, DONE]
        assert client.handed == [b"1", b"3"]
        until(lambda: not driver.is_held("t"))

    def test_what_waits_is_taken_back_before_a_record_is_handed_over(self, build):
        """Else the client takes back what was sent again, and its key is overtaken."""
        client, driver = build(traits={"takes_back": True})
        found, pause = [], threading.Event()

        def take_back(_behind):
            pause.wait(0.2)  # as on a busy machine
            found.append(list(client.handed))

        client.take_back = take_back
        batch = client.send("t", (b"a", b"1"), (b"b", b"2"))
        client.refuse(batch, BAD, None)
        assert outcomes(client, driver, batch) == [FAILED, DONE]
        assert (found, client.handed) == ([[]], [b"2"])

    def test_hand_over_stops_where_a_batch_has_failed_meanwhile(self, build):
        """Else the rest, which is accepted first, overtakes what has failed."""
        client, driver = build()
        hand_over, failing = client.hand_over, [b"3"]

        def fail_the_first(record, deadline):
            if record.raw.value in failing:
                failing.clear()
                client.refuse(client._lingering.pop("t"), None)
            return hand_over(record, deadline)

        client.hand_over = fail_the_first
        pairs = (b"x", b"1"), (b"a", b"2"), (b"b", b"3"), (b"a", b"4")
        batch = client.send("t", *pairs)
        client.refuse(batch, BAD, None, None, None)
        assert outcomes(client, driver, batch) == [FAILED, DONE, DONE, DONE]
        assert client.handed == [b"2", b"3", b"2", b"4"]

    def test_each_further_attempt_of_a_record_has_the_next_number(self, build):
        """The client does not say who is to blame: two go again, then each alone."""
        events = []
        client, driver = build(hook=events.append)
        accept, refused = client.accepted, []

        def refuse_once(batch):
            if refused:
                accept(batch)
            else:
                refused.append(batch)
                client.refuse(batch, BAD, BAD, blame="unknown")

        client.accepted = refuse_once
        batch = client.send("t", (b"a", b"1"), (b"b", b"2"))
        client.refuse(batch, BAD, BAD, blame="unknown")
        assert outcomes(client, driver, batch) == [DONE, DONE]
        until(lambda: len(events) == 4)
        assert [each.number for each in events] == [2, 2, 3, 3]

    def test_a_record_that_the_client_does_not_take_has_failed_alone(self, build):
        """The records after it are sent; its cause is whatever the client raised."""
        client, driver = build()
        client.breaks[b"2"] = ValueError("no room")
        batch = client.send("t", (b"a", b"1"), (b"b", b"2"), (b"c", b"3"), (b"d", b"4"))
        client.refuse(batch, None, None, None, BAD)
        assert outcomes(client, driver, batch) == [DONE, FAILED, DONE, FAILED]
        assert client.handed == [b"1", b"3"]
        assert not driver.is_held("t")

    def test_a_later_record_of_the_key_has_been_accepted(self, build):
        """Then the older one is not handed over."""
        client, driver = build()
        first = client.send("t", (b"k", b"old"), (b"l", b"bad"))
        second = client.send("t", (b"k", b"new"))
        client.accepted(second)
        client.refuse(first, None, BAD)
        assert outcomes(client, driver, first) == [FAILED, FAILED]
        old = client.records[first.items[0][0]]
        assert isinstance(old.outcome.error, SupersededError)
        assert client.handed == []

    def test_the_same_key_on_another_topic_is_another_key(self, build):
        """The record on the other topic is handed over."""
        client, driver = build()
        first = client.send("t", (b"k", b"old"), (b"l", b"bad"))
        client.accepted(client.send("u", (b"k", b"new")))
        client.refuse(first, None, BAD)
        assert outcomes(client, driver, first) == [DONE, FAILED]

    def test_it_waits_for_sends_that_are_under_way(self, build):
        """One that has looked at the holds before could come in between."""
        client, driver = build()
        waited_for, ended = [], threading.Event()

        def wait_for_sends(topic, deadline):
            waited_for.append((topic, deadline - began > 3))  # a serialiser takes time
            ended.wait(LONG_S)

        driver._barrier.wait_for_sends = wait_for_sends
        batch = client.send("t", (b"a", b"1"), (b"b", b"2"))
        began = time.monotonic()
        client.refuse(batch, None, BAD)
        until(lambda: waited_for)
        assert driver.is_held("t")
        assert (waited_for, client.handed) == ([("t", True)], [])
        ended.set()
        assert outcomes(client, driver, batch) == [DONE, FAILED]

    def test_a_refused_key_is_asked_about_again(self, build):
        """A broker's refusal of a null key drops the cached facts of its topic."""
        client, driver = build()
        batch = client.send("t", (None, b"1"))
        client.failed(
            batch,
            [Refusal(batch.items[0][0], 0, BAD, "record", "answered", null_key=True)],
        )
        assert outcomes(client, driver, batch) == [FAILED]
        assert driver._cache.dropped == ["t"]

    def test_dead_letters_wait_for_a_topic_that_does_not_come_only_once(self, build):
        """The second one fails with the first one's error."""
        client, driver = build(on_reject="dead_letter")
        late = ClientTimeoutError("no such topic")
        client.breaks["hand_over"] = late
        batch = client.send("t", (b"a", b"1"), (b"b", b"2"), (b"c", b"3"))
        client.refuse(batch, BAD, BAD, BAD)
        assert outcomes(client, driver, batch) == [FAILED] * 3
        assert client.calls.count("hand_over") == 1

    def test_dead_letters_are_sent_where_the_size_limit_cannot_be_asked(self, build):
        """They do not wait for an answer that does not come."""
        client, driver = build(on_reject="dead_letter")
        client.breaks["ask_size_limit"] = RuntimeError("closed behind the guard")
        batch = client.send("t", (b"a", b"1"))
        client.refuse(batch, BAD)
        assert outcomes(client, driver, batch) == ["dead_lettered"]

    def test_other_errors_of_a_dead_letter_say_nothing_about_the_next(self, build):
        """After any other error of a dead letter, the next dead letter is still sent."""
        client, driver = build(on_reject="dead_letter")
        client.breaks["hand_over"] = ValueError("too large")
        batch = client.send("t", (b"a", b"1"), (b"b", b"2"))
        client.refuse(batch, BAD, BAD)
        assert outcomes(client, driver, batch) == [FAILED] * 2
        assert client.calls.count("hand_over") == 2


class TestHandedOver:
    """A client that timed out on a dead letter is not waited for at the next letter."""

    LETTER, RECORD = (
        SimpleNamespace(is_letter=is_letter, place=Place("t"))
        for is_letter in (True, False)
    )
    LATE = ClientTimeoutError("no such topic")

    def handed(self, records, *results, stops_after=9):
        """Hand records over to a client with these results, as many as it is given."""
        given = iter(results)

        def stops(_):
            return len(results) - given.__length_hint__() >= stops_after

        def give(_):
            result = next(given)
            if isinstance(result, Exception):
                raise result
            return result

        machine = SimpleNamespace(stops_hand_over=stops)
        driver = SimpleNamespace(machine=machine, _observer=None)
        handed = run(DriverBase._hand_over_each(driver, records), give)
        assert not list(given)
        return handed

    def test_records_between_late_letters_are_given_to_the_client(self):
        """Only letters go to the topic that is not there."""
        records = [self.LETTER, self.RECORD, self.LETTER, self.LETTER]
        expected = [self.LATE, "token", self.LATE, self.LATE]
        assert expected == self.handed(records, self.LATE, "token")

    def test_another_error_after_a_late_one_lets_the_next_letter_be_tried(self):
        """Dead letters are sent again as soon as the client has answered in time."""
        errors = self.LATE, ValueError("too large")
        records = [self.LETTER, self.RECORD, self.LETTER]
        assert [*errors, "token"] == self.handed(records, *errors, "token")

    def test_each_record_behind_a_stop_is_given_back(self):
        """There is one result for each record."""
        token, *rest = self.handed([self.RECORD] * 3, "token", stops_after=1)
        assert token == "token"
        assert [type(each) for each in rest] == [HandOverStoppedError] * 2


class TestDeath:
    """A client that is dead is heard out, ended, replaced and put away, in this order."""

    def test_records_that_never_left_go_to_the_successor(self, build):
        """The successor sends them, and the topic is no longer held."""
        client, driver = build()
        batch = client.send("t", (b"a", b"1"), (b"b", b"2"))
        client.died(UnknownError("dead"), Place("t", 0))
        assert driver.is_held("any")
        causes = [UnknownError()] * 2
        client.refuse(batch, *causes, blame="client", sent="never")
        assert outcomes(client, driver, batch) == [DONE] * 2
        until(lambda: "retire" in client.calls)
        steps = ("shut", "hear_out", "stop", "put_successor_in_use", "retire")
        assert [call for call in client.calls if call in steps] == list(steps)
        assert client.handed == [b"1", b"2"]
        assert not driver.is_held("any")

    def test_a_factory_that_ends_the_program_is_no_successor(self, build):
        """Its records have failed, and a send says that there is no client."""
        client, driver = build()
        client.breaks["put_successor_in_use"] = SystemExit(3)
        batch = client.send("t", (b"a", b"1"))
        client.died(UnknownError("dead"), Place("t", 0))
        client.refuse(batch, UnknownError(), blame="client", sent="never")
        assert outcomes(client, driver, batch) == [FAILED]
        with pytest.raises(e.KafkaGuardError, match="could not be replaced"):
            driver.wait_while_held("t", TimeLimit(LONG_S, "timeout"))

    def test_the_log_says_that_it_was_replaced_and_why(self, build, caplog):
        """One line of the log reports the replacement when the new producer is in use."""
        client, driver = build()
        client.died(UnknownError(), None)
        until(lambda: "retire" in client.calls)
        driver.app_calls.wait(time.monotonic() + LONG_S)
        assert "was replaced: UnknownError (-1)" in caplog.text

    @pytest.mark.parametrize(
        ("error", "ending"), [(ConnectionError("away"), DONE), (ValueError(), FAILED)]
    )
    def test_records_wait_for_a_successor_that_may_come(self, build, error, ending):
        """It is tried again without being asked for; else they have failed."""
        client, driver = build()
        batch = client.send("t", (b"a", b"1"))
        failures, put_in_use = [error, error], client.put_successor_in_use

        def fail_at_first(locking_out):
            if failures:
                raise failures.pop()
            put_in_use(locking_out)

        client.put_successor_in_use = fail_at_first
        client.died(UnknownError("dead"), Place("t", 0))
        client.refuse(batch, UnknownError(), blame="client", sent="never")
        assert outcomes(client, driver, batch) == [ending]

    def test_a_send_waits_for_a_successor_that_may_come(self, build):
        """However often it fails, within the send's own time."""
        client, driver = build()
        failures = [ConnectionError("away")] * 3
        hear_out, waits = client.hear_out, threading.Event()

        def fail_at_first(_):
            if failures:
                raise failures.pop()

        client.put_successor_in_use = fail_at_first
        client.hear_out = lambda until: (waits.wait(LONG_S), hear_out(until))
        client.died(UnknownError("dead"), None)
        raised = []

        def send():
            try:
                driver.wait_while_held("t", TimeLimit(LONG_S, "max"))
            except e.KafkaGuardError as error:
                raised.append(error)

        sends = threading.Thread(target=send)
        sends.start()
        until(lambda: driver._waiting_sends)
        waits.set()
        sends.join(LONG_S)
        assert (raised, failures) == ([], [])

    def test_what_was_on_its_way_is_in_doubt_and_locked_out(self, build):
        """A record that was in flight is in doubt, and is never sent again."""
        client, driver = build()
        hear_out, waits = client.hear_out, threading.Event()
        # As a shell does, it ends when nothing is on its way any more.
        client.hear_out = lambda until: (waits.wait(LONG_S), hear_out(until))
        batch = client.send("t", (b"a", b"1"))
        client.died(UnknownError("dead"), Place("t", 0))
        client.refuse(batch, UnknownError(), blame="client", sent="maybe")
        waits.set()
        assert outcomes(client, driver, batch) == ["in_doubt"]
        until(lambda: "put_successor_in_use" in client.calls)
        assert client.locked_out is batch
        assert client.handed == []

    def test_answers_that_may_still_come_are_asked_for_before(self, build):
        """A client is asked for late answers before its successor begins."""
        client, driver = build(traits={"hears_late": True})
        batch = client.send("t", (b"a", b"1"))
        client.died(UnknownError("dead"), Place("t", 0))
        client.refuse(batch, UnknownError(), blame="client", sent="maybe")
        assert outcomes(client, driver, batch) == ["in_doubt"]
        until(lambda: "put_successor_in_use" in client.calls)
        assert client.calls.index("answers") < client.calls.index(
            "put_successor_in_use"
        )

    def test_a_send_that_went_on_is_not_awaited_at_the_second_death(self, build):
        """No successor is tried again and again for a send that is over."""
        client, driver = build()
        wait = threading.Event()
        hear = client.hear_out
        client.hear_out = lambda until: (wait.wait(LONG_S), hear(until))
        client.died(UnknownError("dead"), None)
        limit = TimeLimit(LONG_S, "max")
        sends = [
            threading.Thread(target=driver.wait_while_held, args=("t", limit))
            for _ in range(2)
        ]
        for each in sends:
            each.start()
        until(lambda: driver._waiting_sends == 2)
        wait.set()
        for each in sends:
            each.join(LONG_S)
        until(lambda: "retire" in client.calls)
        client.breaks["put_successor_in_use"] = ConnectionError("away")
        client.died(UnknownError("dead again"), None)
        until(lambda: driver.machine.lost)
        assert client.calls.count("put_successor_in_use") == 2

    def test_a_second_death_does_not_name_the_failed_build_of_the_first(self, build):
        """A build error is forgotten when a later build has succeeded."""
        client, driver = build()
        client.breaks["put_successor_in_use"] = ConnectionError("was away")
        client.died(UnknownError("dead"), None)
        until(lambda: driver.machine.lost)
        del client.breaks["put_successor_in_use"]
        driver.wait_while_held("t", TimeLimit(LONG_S, "max"))
        wait = threading.Event()
        client.hear_out = lambda _until: wait.wait(LONG_S)
        client.died(UnknownError("dead again"), None)
        with pytest.raises(e.ClientTimeoutError, match="being replaced") as caught:
            driver.wait_while_held("t", TimeLimit(0.01, "max"))
        assert "was away" not in str(caught.value)
        wait.set()

    def test_sends_that_run_are_waited_for_once_the_dead_client_has_ended(self, build):
        """Such a send may take seconds; it must not reach the successor first."""
        client, driver = build()

        def wait_for_sends(topic, deadline):
            client.calls.append((topic, deadline - began > 3))

        driver._barrier.wait_for_sends = wait_for_sends
        began = time.monotonic()
        client.died(UnknownError("dead"), None)
        until(lambda: "put_successor_in_use" in client.calls)
        stopped = client.calls.index("stop")
        steps = ["stop", (None, True), "put_successor_in_use"]
        assert client.calls[stopped : stopped + 3] == steps

    def test_sends_wait_and_then_go_on(self, build):
        """While the client is replaced, the sends of all topics are held."""
        client, driver = build()
        wait = threading.Event()
        hear = client.hear_out
        client.hear_out = lambda until: (wait.wait(LONG_S), hear(until))
        client.died(UnknownError("dead"), None)
        sent = []
        sends = threading.Thread(
            target=lambda: sent.append(
                driver.wait_while_held("u", TimeLimit(LONG_S, "limit"))
            )
        )
        sends.start()
        until(lambda: driver._waiting_sends)
        wait.set()
        sends.join(LONG_S)
        assert sent == [None]

    def test_a_send_says_why_it_waited_in_vain(self, build):
        """It was the client; its own time is over, and nothing was sent: WAIT."""
        client, driver = build()
        wait = threading.Event()
        client.hear_out = lambda _until: wait.wait(LONG_S)
        client.died(UnknownError("dead"), None)
        with pytest.raises(e.ClientTimeoutError, match=r"0\.01 s \(max\)") as caught:
            driver.wait_while_held("t", TimeLimit(0.01, "max"))
        verdict = caught.value.verdict
        assert (verdict.action, verdict.written) == (Action.WAIT, "no")
        wait.set()

    def test_a_successor_that_cannot_be_built_for_now_is_tried_again(self, build):
        """Once a send wants it; before that nobody waits."""
        client, driver = build()
        client.breaks["put_successor_in_use"] = ConnectionError("away")
        client.died(UnknownError("dead"), None)
        until(lambda: driver.machine.lost)
        del client.breaks["put_successor_in_use"]
        driver.wait_while_held("t", TimeLimit(LONG_S, "max"))
        assert client.calls.count("put_successor_in_use") == 2

    def test_a_send_that_finds_no_successor_fails_with_the_reason(self, build):
        """A send that asked for a new producer raises the error of the failed build."""
        client, driver = build()
        client.breaks["put_successor_in_use"] = ValueError("wrong settings")
        client.died(UnknownError("dead"), None)
        until(lambda: driver.machine.lost)
        with pytest.raises(e.KafkaGuardError, match="wrong settings"):
            driver.wait_while_held("t", TimeLimit(LONG_S, "max"))
        assert client.calls.count("put_successor_in_use") == 2

    def test_who_must_not_wait_does_not(self, build):
        """The client's own thread would wait for itself."""
        client, driver = build()
        wait = threading.Event()
        client.hear_out = lambda _until: wait.wait(LONG_S)
        client.died(UnknownError("dead"), None)
        client.is_own = True
        driver.wait_while_held("t", TimeLimit(0.0, "max"))
        wait.set()


#: What breaks, and what it takes to get there.
COMMANDS = ("shut", "hear_out", "stop", "put_successor_in_use", "hand_over", "send_now")


class TestFaultsOfOurs:
    """Nothing hangs, and nothing is swallowed."""

    @pytest.mark.parametrize("error", [RuntimeError("bug"), SystemExit("bug")])
    @pytest.mark.parametrize("command", COMMANDS)
    def test_every_record_is_settled_in_time_whatever_breaks(
        self, build, command, error, caplog
    ):
        """Each record has its outcome when it is due, or from the successor."""
        client, driver = build(due=0.3)
        client.breaks[command] = error
        batch = client.send("t", (b"a", b"1"), (b"b", b"2"))
        client.died(UnknownError("dead"), Place("t", 0))
        client.refuse(batch, *[UnknownError()] * 2, blame="client", sent="never")
        is_told = command in ("hand_over", "put_successor_in_use")
        is_sent = not is_told and command != "send_now"  # what nobody has sent, fails
        endings = {DONE} if is_sent else {FAILED, "in_doubt"}
        assert set(outcomes(client, driver, batch)) <= endings
        assert driver.pending() == 0
        driver.app_calls.wait(time.monotonic() + LONG_S)
        said = "a command of the delivery machine failed" in caplog.text
        assert said is not is_told

    def test_a_look_at_the_time_that_fails_is_made_again(
        self, build, caplog, monkeypatch
    ):
        """Without another check, nothing that is due would happen."""
        monkeypatch.setattr(driver_module, "_REST_S", 0.0)
        client, driver = build(due=0.1)
        tick, failures = driver.machine.tick, [RuntimeError("bug")]

        def broken(now):
            if failures:
                raise failures.pop()
            return tick(now)

        monkeypatch.setattr(driver.machine, "tick", broken)
        batch = client.send("t", (b"a", b"1"))
        until(lambda: batch.tokens()[0] in client.records)
        assert outcomes(client, driver, batch) == ["in_doubt"]
        driver.app_calls.wait(time.monotonic() + LONG_S)
        assert "a scheduled step failed (a bug in kafkaguard" in caplog.text
        assert "fail_batch" in client.calls

    def test_a_batch_that_cannot_be_followed_fails_no_send(self, build, caplog):
        """The client waits for our word, and hears no error of ours."""
        client, driver = build()
        client.failed(None, [])
        driver.app_calls.wait(time.monotonic() + LONG_S)
        assert "the fact 'failed' was not processed" in caplog.text

    def test_steps_of_a_transaction_are_made_without_the_lock(self, build):
        """Its decisions are made under it: a record may fail meanwhile."""
        _, driver = build(traits={"transactional": True})
        held = []

        def flow():
            held.append(driver._changed._is_owned())
            yield Step("commit", 0.0)
            held.append(driver._changed._is_owned())

        def make(_):
            held.append(driver._changed._is_owned())
            return Answer()

        driver.run(flow(), make)
        assert held == [True, False, True]

    def test_a_step_that_is_interrupted_asks_the_flow_what_to_do(self, build):
        """Ctrl-C goes on after an abort."""
        _, driver = build(traits={"transactional": True})
        made = []

        def flow():
            try:
                yield Step("await_records", 0.0)
            except KeyboardInterrupt:
                yield Step("abort", 0.0)
                raise

        def make(step):
            made.append(step.do)
            if len(made) == 1:
                raise KeyboardInterrupt
            return Answer()

        with pytest.raises(KeyboardInterrupt):
            driver.run(flow(), make)
        assert made == ["await_records", "abort"]

    def test_a_client_keeps_no_driver_alive(self):
        """One that nobody uses any more is told nothing."""
        client = Client()
        driver = ThreadDriver(
            client, Wish(PlainPolicy(), cache=NoFacts()), SendBarrier()
        )
        gone = weakref.ref(driver)
        del driver
        gc.collect()
        assert gone() is None
        client.began(OwnBatch("t", (0, 1), [], 1.0))

    def test_the_first_error_of_a_callback_is_kept_once(self, build, caplog):
        """The report has the first error of a callback; the log has each of them."""
        _, driver = build()
        first, second = ValueError("1"), ValueError("2")
        driver.callback_raised(first)
        driver.callback_raised(second)
        assert driver.take_callback_error() is first
        assert driver.take_callback_error() is None
        driver.app_calls.wait(time.monotonic() + LONG_S)
        assert caplog.text.count("a callback of the application raised") == 2

    def test_a_hook_that_raises_is_in_the_log_and_the_next_event_comes(
        self, build, caplog
    ):
        """The hook raises at one refusal and gets the event of the next one."""
        heard = []

        def hook(event):
            heard.append(event.name)
            raise ZeroDivisionError

        with caplog.at_level(logging.ERROR):
            client, driver = build(hook=hook)
            batch = client.send("t", (b"a", b"1"), (b"b", b"2"))
            client.refuse(batch, BAD, BAD)
            assert outcomes(client, driver, batch) == [FAILED] * 2
            driver.app_calls.wait(time.monotonic() + LONG_S)
        assert heard.count("kafkaguard.reject") == 2


class TestOutcomes:
    """Whoever waits for an outcome gets it once."""

    def test_a_record_that_send_refuses_is_settled_as_the_policy_says(self, build):
        """The record has its outcome before the call returns."""
        error = e.InvalidRecordKeyError("no key", topic="t")
        for on_reject, ending in (("raise", FAILED), ("drop", "dropped")):
            client, driver = build(on_reject=on_reject)
            driver.refused_at_once("token", Place("t"), Raw(None, b"v"), error)
            record = client.records["token"]
            assert record.outcome.ending == ending

    def test_a_callback_comes_once_also_when_it_is_late(self, build):
        """Before the outcome, after it, and off the client's own thread."""
        client, driver = build(on_reject="dead_letter")
        batch = client.send("t", (b"a", b"1"))
        wait = threading.Event()
        over = client.hand_over
        client.hand_over = lambda *args: (wait.wait(LONG_S), over(*args))[1]
        client.refuse(batch, BAD)
        record = client.records[batch.items[0][0]]
        called = []
        driver.when_settled(record, lambda: called.append("before"))
        driver.when_settled(record, lambda: called.append("too"))
        assert not driver.wait_until_settled(record, 0.0)
        assert called == []
        wait.set()
        assert outcomes(client, driver, batch) == ["dead_lettered"]
        driver.app_calls.wait(time.monotonic() + LONG_S)
        assert called == ["before", "too"]
        driver.when_settled(record, lambda: called.append("after"))
        assert called == ["before", "too", "after"]
        client.is_own = True
        driver.when_settled(
            record, lambda: called.append(threading.current_thread().name)
        )
        driver.app_calls.wait(time.monotonic() + LONG_S)
        assert called[3:] == ["kafkaguard-callbacks"]

    def test_a_wait_counts_what_is_left_of_its_own(self, build):
        """What other threads send meanwhile is not waited for."""
        client, driver = build()
        batch = client.send("t", (b"a", b"1"), (b"b", b"2"))
        assert driver.wait(time.monotonic()) == 2
        assert client.calls == ["sending_now", ("await", 1)]

        def answer(_batches, _deadline):
            client.send("t", (b"c", b"3"))
            client.accepted(batch)

        client.await_batches = answer
        assert driver.wait(time.monotonic() + LONG_S) == 0
        assert driver.pending() == 1

    def test_a_wait_includes_what_is_sent_again(self, build):
        """The report after the wait counts each record once."""
        client, driver = build()
        batch = client.send("t", (b"a", b"1"), (b"b", b"2"))
        client.await_batches = lambda *_: client.refuse(batch, None, BAD)
        assert driver.wait(time.monotonic() + LONG_S) == 0
        report = driver.report(0)
        assert (report.delivered, report.failed, report.pending) == (1, 1, 0)

    def test_giving_up_settles_what_is_left(self, build):
        """A batch that was never answered is in doubt or failed, and not open."""
        client, driver = build(on_reject="dead_letter")
        batch = client.send("t", (b"a", b"1"))
        wait = threading.Event()
        client.hand_over = lambda *_: wait.wait(LONG_S)
        client.refuse(batch, BAD)
        called = []
        record = client.records[batch.items[0][0]]
        driver.when_settled(record, lambda: called.append(1))
        driver.settle_all(time.monotonic() + LONG_S)
        assert (record.outcome.ending, called) == (FAILED, [1])
        wait.set()

    @pytest.mark.parametrize("is_open", [True, False])
    def test_the_end_stops_a_client_that_still_holds_something(self, build, is_open):
        """One that has nothing left is left to close by itself."""
        client, driver = build()
        if is_open:
            client.send("t", (b"a", b"1"))
        driver.stop()
        assert ("stop" in client.calls) is is_open

    def test_a_second_wait_counts_only_what_is_open_then(self, build):
        """What the first wait has left and what has ended since is not counted."""
        client, driver = build()
        first = client.send("t", (b"a", b"1"), (b"b", b"2"))
        assert driver.wait(time.monotonic()) == 2
        client.accepted(first)
        client.send("t", (b"c", b"3"))
        assert driver.wait(time.monotonic()) == 1
        assert client.calls.count("sending_now") == 2

    def test_a_driver_that_has_settled_all_watches_nothing(self, build):
        """Its thread ends, though a batch is still open."""
        client, driver = build()
        client.send("t", (b"a", b"1"))
        (thread,) = [
            each for each in threading.enumerate() if each.name == "kafkaguard-watch"
        ]
        driver.settle_all(time.monotonic() + LONG_S)
        thread.join(LONG_S)
        assert not thread.is_alive()

    def test_an_accepted_batch_lets_facts_grow_old(self, build):
        """Topics are looked at again from time to time."""
        client, driver = build()
        client.accepted(client.send("t", (b"a", b"1")))
        assert driver._cache.looks == 1
        assert driver.report(0).delivered == 1
