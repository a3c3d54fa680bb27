"""A task with a model of the client and its brokers: what is sent again, and counted."""

from __future__ import annotations

import pyarrow as pa
import pytest
from confluent_kafka import KafkaError

from kafkaguard import errors as e
from kafkaguard._delivery.dead_letters import Reason, read_headers
from kafkaguard._delivery.machine import DeliveryMachine
from kafkaguard._delivery.sizes import batch_size
from kafkaguard_adapters.spark.executor import delivery as delivery_module
from kafkaguard_adapters.spark.executor import known_topics
from kafkaguard_adapters.spark.executor.arrow import ANY_PARTITION, SinkRecord
from kafkaguard_adapters.spark.executor.delivery import Delivery
from kafkaguard_adapters.spark.executor.sent_records import SentRecords
from kafkaguard_adapters.spark.settings import make_settings
from kafkaguard_adapters.spark.topics import SinkTopic
from kafkaguard_adapters.spark.verdicts import record_error
from tests.spark.spark_reading import letters_to

INVALID_RECORD, TOO_LARGE, DENIED, TIMED_OUT, BAD_TIME = 87, 10, 29, -192, 32
DEAD = "dead"


class Brokers:
    """What a task asks brokers about topics."""

    topics: dict[str, SinkTopic]
    asked: list[str]

    def __init__(self, _client):
        """Take the client's settings, as the real ones do."""

    def find(self, names, *, timeout):
        """Return what they say."""
        self.asked.extend(names)
        return {name: self.topics[name] for name in names}


class Sender:
    """A producer whose records between two flushes share a batch of each topic.

    Attributes:
        answers: What a topic's next batches are answered, before its own rules count.
        latest: The latest timestamp that any topic takes.
        log: What was written, in this order.
        flushes: How many records each flush sent.
    """

    def __init__(self, topics):
        self.topics = topics
        self.answers = {}
        self.latest = float("inf")
        self.log, self.flushes, self.ended = [], [], []
        self._open, self._failed = [], []

    def produce(self, records):
        """Take records in."""
        self._open += records

    def produce_plain(self, rows):
        """Take rows in."""
        self._open += [SinkRecord(topic, key, value) for topic, value, key in rows]

    @property
    def has_failed(self):
        """Whether something has failed already."""
        return bool(self._failed)

    def flush(self):
        """Have every record answered."""
        sent, self._open = self._open, []
        self.flushes.append(len(sent))
        for name in dict.fromkeys(record.topic for record in sent):
            batch = [record for record in sent if record.topic == name]
            if code := self._answer(name, batch):
                self._failed += [(KafkaError(code), record) for record in batch]
            else:
                self.log += batch

    def _answer(self, name, batch):
        if answers := self.answers.get(name):
            return answers.pop(0)
        topic = self.topics[name]
        if topic.compacted and any(record.key is None for record in batch):
            return INVALID_RECORD
        if any((record.timestamp or 0) > self.latest for record in batch):
            return BAD_TIME
        size = batch_size(batch[0].key, batch[0].value, batch[0].headers or ())
        if topic.max_message_bytes and size > topic.max_message_bytes:
            return TOO_LARGE
        return 0

    def take_failed(self):
        """Return what has failed."""
        failed, self._failed = self._failed, []
        return failed

    def keep(self):
        """The task has ended well."""
        self.ended.append("kept")

    def discard(self):
        """The task has failed."""
        self.ended.append("discarded")

    def of(self, topic):
        """Return the keys and values that were written to a topic."""
        return [(r.key, r.value) for r in self.log if r.topic == topic]


class Task:
    """A task that believes that no topic is compacted.

    Attributes:
        sender: Its producer.
        counts: What it has counted.
    """

    def __init__(self, topics, monkeypatch, **settings):
        self.sender = Sender({topic.name: topic for topic in topics})
        monkeypatch.setattr(delivery_module, "borrow", self._borrow)
        monkeypatch.setattr(known_topics, "cache_for", Brokers)
        monkeypatch.setattr(Brokers, "topics", self.sender.topics, raising=False)
        monkeypatch.setattr(Brokers, "asked", [], raising=False)
        self._settings = make_settings("localhost:1", **settings)
        self._believed = {
            topic.name: SinkTopic(topic.name, topic.partitions, compacted=False)
            for topic in topics
        }

    def believe(self, topic, *, is_stream):
        """Have the driver know something else of a topic."""
        self._believed[topic.name] = topic
        if is_stream:
            self._settings = self._settings.of_stream()

    def _borrow(self, config):
        self.config = config
        return self.sender

    def run(self, *batches, window=100):
        """Send batches; each is a list of topic, key and value."""
        with Delivery(self._settings, self._believed, window) as delivery:
            self.counts = delivery.counts
            for rows in batches:
                delivery.send(arrow(rows))
            delivery.end_window()
        settled = self.counts.dead_lettered.total() + self.counts.in_doubt.total()
        assert self.counts.read == self.counts.delivered + settled
        return self.counts


def arrow(rows, **more):
    """Make an Arrow batch."""
    names = "topic", "key", "value"
    columns = dict(zip(names, zip(*rows, strict=True), strict=True))
    return pa.record_batch(
        {name: pa.array(column, pa.string()) for name, column in columns.items()} | more
    )


@pytest.fixture
def task(monkeypatch):
    """Make a task with a compacted and a plain topic, and one for dead letters."""

    def make(*more, **settings):
        topics = [
            SinkTopic("latest", 3, compacted=True),
            SinkTopic("events", 3, compacted=False),
            SinkTopic(DEAD, 1, compacted=False, max_message_bytes=10_000),
            *more,
        ]
        return Task(topics, monkeypatch, **settings)

    return make


KEYLESS = ("latest", None, "no key")


def test_records_of_a_refused_batch_are_sent_again_in_their_order(task):
    """All but the one to blame, which becomes a dead letter."""
    one = task(policy=letters_to(DEAD))
    rows = [("latest", f"k{n % 2}", f"{n}") for n in range(6)]
    counts = one.run([*rows[:3], KEYLESS, *rows[3:]])
    keys = [(f"k{n % 2}".encode(), b"%d" % n) for n in range(6)]
    for key in (b"k0", b"k1"):
        mine = [pair for pair in one.sender.of("latest") if pair[0] == key]
        assert mine == [pair for pair in keys if pair[0] == key]
    assert (counts.delivered, counts.dead_lettered) == (6, {"NULL_KEY": 1})
    assert one.sender.of(DEAD) == [(None, b"no key")]
    assert counts.resent >= 6
    assert one.sender.ended == ["kept"]


def test_a_later_record_of_the_key_supersedes_one_of_its_topic_only(task):
    """What was accepted on another topic says nothing about this one."""
    one = task(policy=letters_to(DEAD))
    counts = one.run([("latest", "k", "old"), KEYLESS, ("events", "k", "1")])
    assert one.sender.of("latest") == [(b"k", b"old")]
    assert one.sender.of("events") == [(b"k", b"1")]
    assert counts.dead_lettered == {"NULL_KEY": 1}


def test_an_older_record_of_a_key_never_lands_behind_a_newer_one(task, monkeypatch):
    """The first of two batches was refused, and the second one accepted."""
    one = task(policy=letters_to(DEAD))
    flush = Sender.flush

    def in_two_batches(sender):
        sent, sender._open = sender._open, []
        for part in (sent[:2], sent[2:]):
            sender._open = part
            flush(sender)

    monkeypatch.setattr(Sender, "flush", in_two_batches)
    rows = [KEYLESS, ("latest", "k", "old"), ("latest", "k", "new")]
    counts = one.run(rows)
    assert one.sender.of("latest") == [(b"k", b"new")]
    assert counts.dead_lettered == {"NULL_KEY": 1, "SUPERSEDED": 1}
    assert counts.delivered == 1


def test_without_a_dead_letter_topic_the_task_fails_with_what_was_said(task):
    """The producer is not left to the next task then."""
    one = task()
    with pytest.raises(e.InvalidRecordKeyError) as caught:
        one.run([KEYLESS, ("latest", "k", "v")])
    assert (caught.value.topic, caught.value.code) == ("latest", INVALID_RECORD)
    assert one.sender.ended == ["discarded"]


def test_after_a_refused_key_the_topic_is_looked_up_again(task):
    """The next batch's records without a key are not sent any more."""
    one = task(policy=letters_to(DEAD))
    counts = one.run([KEYLESS], [("latest", "k", "v"), KEYLESS], window=1)
    assert counts.dead_lettered == {"NULL_KEY": 2}
    assert one.sender.of("latest") == [(b"k", b"v")]
    assert Brokers.asked.count("latest") == 1
    assert counts.resent == 0


def test_the_machine_judges_by_facts_that_were_looked_up_before(task, monkeypatch):
    """It knows that the topic is compacted now, and asks no broker itself."""
    one = task(policy=letters_to(DEAD))
    failed, asked = DeliveryMachine.failed, []

    def watched(machine, *what):
        asked.append(list(Brokers.asked))
        out = failed(machine, *what)
        assert Brokers.asked == asked[-1]
        return out

    monkeypatch.setattr(DeliveryMachine, "failed", watched)
    one.run([KEYLESS, ("latest", "k", "v")])
    assert asked[0] == ["latest"]


@pytest.mark.parametrize(("code", "key"), [(DENIED, None), (INVALID_RECORD, "k")])
def test_other_refusals_are_no_reason_to_look_again(task, code, key):
    """A record without a key is refused for other reasons, and one with a key is."""
    one = task()
    one.sender.answers["events"] = [code, code]
    with pytest.raises(e.KafkaGuardError):
        one.run([("events", key, "v")])
    assert Brokers.asked == []


def test_records_that_differ_in_their_headers_only_are_told_apart():
    """A delivery report that has them says which one has failed."""
    first, second = (
        SinkRecord("t", b"k", b"v", [("n", value)]) for value in (b"1", b"2")
    )
    window = SentRecords("t", 1, [first, second], [("error", first)])
    assert [refusal.index for refusal in window.refusals()] == [0]


@pytest.mark.parametrize("in_doubt", ["raise", "report", "resend"])
def test_what_may_be_written_is_raised_reported_or_sent_again(task, in_doubt):
    """As the settings say; never sent again otherwise."""
    one = task(policy={"in_doubt": in_doubt})
    one.sender.answers["events"] = [TIMED_OUT]
    rows = [("events", "k", "1"), ("events", "l", "2")]
    if in_doubt == "raise":
        with pytest.raises(e.ClientTimeoutError):
            one.run(rows)
        assert one.sender.log == []
        return
    counts = one.run(rows)
    again = in_doubt == "resend"
    assert (counts.delivered, counts.in_doubt.total()) == ((2, 0) if again else (0, 2))
    assert one.sender.of("events") == ([(b"k", b"1"), (b"l", b"2")] if again else [])
    assert counts.resent == (2 if again else 0)


def test_a_dead_letter_that_is_refused_says_whose_it_was(task):
    """A task fails if a dead letter is refused, and the error names the record."""
    one = task(policy=letters_to(DEAD))
    one.sender.answers[DEAD] = [DENIED]
    with pytest.raises(e.TopicAuthorizationFailedError) as caught:
        one.run([KEYLESS])
    said = "the dead letter of a record for latest (NULL_KEY) was not delivered"
    assert (caught.value.topic, caught.value.summary) == (DEAD, said)


def test_windows_end_when_they_are_full_or_something_has_failed(task, monkeypatch):
    """By records, by bytes, and at the first failure that is heard of."""
    one = task(policy=letters_to(DEAD))
    assert one.run(*[[("events", "k", "v")] * 2] * 5, window=4).delivered == 10
    assert one.sender.flushes == [4, 4, 2]
    rows = [("events", "k", "v" * 30)]
    monkeypatch.setattr(delivery_module, "WINDOW_BYTES", arrow(rows).nbytes * 2)
    two = task(policy=letters_to(DEAD))
    two.run(rows, rows, rows)
    assert two.sender.flushes == [2, 1]
    three = task(policy=letters_to(DEAD))
    three.sender._failed = [(KafkaError(DENIED), SinkRecord("events", b"k", b"v"))]
    with pytest.raises(e.TopicAuthorizationFailedError):
        three.run([("events", "k", "v")])
    assert three.sender.flushes == [1]


def test_records_refused_before_wait_for_the_window_with_their_letters(task):
    """They are read and dead-lettered, and take no part in a window."""
    one = task(policy=letters_to(DEAD))
    rows = [(None, "k", "1"), ("events", "k", "2"), (DEAD, "k", "3"), ("a b", "k", "4")]
    counts = one.run(rows)
    reasons = ["NULL_TOPIC", "DEAD_LETTER_TOPIC", "UNKNOWN_TOPIC"]
    assert counts.dead_lettered == dict.fromkeys(reasons, 1)
    assert (counts.read, counts.delivered, counts.resent) == (4, 1, 0)
    assert sorted(one.sender.of(DEAD)) == [(b"k", b"1"), (b"k", b"3"), (b"k", b"4")]
    assert (one.sender.flushes[0], sum(one.sender.flushes)) == (1, 4)


def test_a_record_that_is_sent_again_keeps_partition_headers_and_time(task):
    """A resent record keeps partition, headers and time, also if it has none."""
    one = task(policy=letters_to(DEAD))
    rows = [("latest", "k", "1"), ("latest", "l", "2"), KEYLESS]
    kinds = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))
    more = {
        "partition": pa.array([2, None, None], pa.int32()),
        "timestamp": pa.array([1_500_000, None, None], pa.timestamp("us", "UTC")),
        "headers": pa.array([[{"key": "h", "value": b"1"}], None, None], kinds),
    }
    with Delivery(one._settings, one._believed) as delivery:
        delivery.send(arrow(rows, **more))
        delivery.end_window()
    first, second = (r for r in one.sender.log if r.topic == "latest")
    assert first == SinkRecord("latest", b"k", b"1", [("h", b"1")], 2, 1_500)
    assert second == SinkRecord("latest", b"l", b"2", None, ANY_PARTITION, None)


START = pa.timestamp("us", "UTC")


def timed(*micros):
    """Make a batch of records with these timestamps, in microseconds."""
    rows = [("events", f"k{n}", "v") for n in range(len(micros))]
    return arrow(rows, timestamp=pa.array(micros, START))


def test_timestamp_that_would_get_another_meaning_is_refused(task):
    """0 is "now" to librdkafka, -1 is "none" to Kafka; other times before 1970 are kept."""
    one = task(policy=letters_to(DEAD))
    with Delivery(one._settings, one._believed) as delivery:
        delivery.send(timed(0, -1, 999, -1_000, 1_000, -1_001, None))
        delivery.end_window()
    kept = {record.key: record.timestamp for record in one.sender.log[:3]}
    assert kept == {b"k4": 1, b"k5": -2, b"k6": None}
    assert delivery.counts.dead_lettered == {"INVALID_TIMESTAMP": 4}
    letters = [record for record in one.sender.log if record.topic == DEAD]
    assert {record.timestamp for record in letters} == {None}
    said = [read_headers(record.headers)["timestamp"] for record in letters]
    assert said == ["0", "-1", "0", "-1"]


def test_dead_letter_with_another_reason_says_such_a_timestamp_too(task):
    """A row with a null key and a bad timestamp has both in its dead letter."""
    one = task(SinkTopic("keyed", 1, compacted=True), policy=letters_to(DEAD))
    one._believed["keyed"] = SinkTopic("keyed", 1, compacted=True)
    with Delivery(one._settings, one._believed) as delivery:
        delivery.send(arrow([("keyed", None, "v")], timestamp=pa.array([0], START)))
        delivery.end_window()
    (letter,) = one.sender.log
    said = read_headers(letter.headers)
    assert (letter.timestamp, said["timestamp"]) == (None, "0")
    assert said["reason"] == "NULL_KEY"


def test_timestamp_that_the_broker_refuses_is_dead_lettered(task):
    """A record with a refused timestamp has a dead letter without it."""
    one = task(policy=letters_to(DEAD))
    one.sender.latest = 10**13
    with Delivery(one._settings, one._believed) as delivery:
        delivery.send(timed(10**15, 10**17, 2 * 10**15))
        delivery.end_window()
    assert delivery.counts.dead_lettered == {"INVALID_TIMESTAMP": 1}
    assert delivery.counts.delivered == 2
    (letter,) = (record for record in one.sender.log if record.topic == DEAD)
    assert letter.timestamp is None
    assert read_headers(letter.headers)["timestamp"] == str(10**14)


@pytest.mark.parametrize("limit", [{"ratio": 0.3}, {"consecutive": 2}])
def test_records_that_the_broker_refuses_count_once_against_the_limit(task, limit):
    """They were counted when they were sent; others are between them."""
    one = task(policy=letters_to(DEAD, dead_letter={"topic": DEAD, "limit": limit}))
    one.sender.latest = 10**13
    good, bad = 10**15, 10**17
    with Delivery(one._settings, one._believed) as delivery:
        delivery.send(timed(*[good, bad, good, good] * 300))
        delivery.end_window()
    assert delivery.counts.dead_lettered == {"INVALID_TIMESTAMP": 300}
    assert delivery.counts.delivered == 900
    letters = delivery._driver._letters
    assert (letters._letters, letters._others) == (300, 900)


#: Why a record that was read is set aside; a write has no such record.
OF_READS = {Reason.HANDLER_FAILED, Reason.UNDECODABLE}


@pytest.mark.parametrize("reason", [each for each in Reason if each not in OF_READS])
def test_each_reason_has_an_error_that_names_it_and_the_topic(reason):
    """The class, the text and the verdict are about the same."""
    error = record_error(reason, "t")
    assert (error.topic, error.api) == ("t", "Produce")
    assert error.summary.startswith(f"{reason}: ")
    assert str(record_error(reason, "t", "said")) != str(error)
    assert error.verdict.action.value in {"REJECT", "CONFIGURE", "RETRY"}


def test_dead_letter_of_a_record_that_is_too_large_says_by_how_much(task):
    """The message of a dead letter has the record's size and the limit."""
    one = task(policy=letters_to(DEAD), max_record_bytes=10)
    one.run([("events", "k", "v" * 20)])
    (letter,) = one.sender.log
    message = read_headers(letter.headers)["message"]
    assert "have 21 bytes, and max_record_bytes is 10" in message


def test_a_dropped_record_is_told_once_by_all_tasks_of_a_process(task, caplog):
    """In words that hold for a report of Spark; the other tasks only count."""
    topic = SinkTopic("dropping", 1, compacted=True)
    with caplog.at_level("WARNING", "kafkaguard"):
        for _ in range(3):
            one = task(topic, policy={"on_reject": "drop"})
            one._believed["dropping"] = topic
            with Delivery(one._settings, one._believed) as delivery:
                delivery.send(arrow([("dropping", None, "v")] * 2))
                delivery.end_window()
            assert delivery.counts.dropped == {"NULL_KEY": 2}
    (said,) = (r.getMessage() for r in caplog.records if "drops" in r.getMessage())
    assert said.endswith("Later ones are only counted, as dropped in the report")


def test_a_record_that_is_too_large_says_by_how_much(task):
    """The size that was measured, beside the limit."""
    one = task(max_record_bytes=10)
    with pytest.raises(e.MessageTooLargeError, match="have 21 bytes") as caught:
        one.run([("events", "k", "v" * 20)])
    assert caught.value.summary.startswith(Reason.TOO_LARGE)


def test_the_producer_takes_what_the_largest_topic_does(task):
    """Its batches fit into the smallest topic."""
    one = task()
    one._believed["events"] = SinkTopic("events", 1, max_message_bytes=3_000_000)
    one._believed["latest"] = SinkTopic("latest", 1, max_message_bytes=2_000)
    one.run([("events", "k", "v")])
    sizes = one.config["message.max.bytes"], one.config["batch.size"]
    assert sizes == ("3000000", "2000")


@pytest.mark.parametrize("is_stream", [True, False])
def test_stream_looks_a_topic_up_again_before_it_refuses_a_record(task, is_stream):
    """What it has known for a while may be wrong: here the topic was compacted."""
    one = task(topic="events", policy=letters_to(DEAD))
    one.believe(SinkTopic("events", 3, compacted=True), is_stream=is_stream)
    counts = one.run([("events", None, "1"), ("events", "k", "2")])
    letters = {} if is_stream else {"NULL_KEY": 1}
    assert counts.dead_lettered == letters
    assert counts.delivered == 2 - len(letters)
