"""kafka-python's producer, guarded: what a policy's `on_reject` does with records."""

from __future__ import annotations

import logging
import threading
import time

import pytest
from kafka import KafkaProducer
from kafka.errors import KafkaError, MessageSizeTooLargeError

from kafkaguard import (
    DeliveryFailed,
    DeliveryReport,
    SupersededError,
    TopicFacts,
    errors,
    guard,
)
from kafkaguard._delivery.dead_letters import read_headers
from kafkaguard._retries.events import DeadLetterEvent, RejectEvent
from kafkaguard.errors import ClientConfigurationError
from kafkaguard_adapters.kafka_python._private import moving
from tests.contracts.producer import COMPACTED, read, records, stale_topic, until

#: Nothing leaves before a flush, so that records share a batch on any machine.
UNHURRIED = {"linger_ms": 60_000}
DEAD_LETTER = {"on_reject": "dead_letter"}
DROP = {"on_reject": "drop"}


@pytest.fixture
def make(kafka_cluster):
    """Build guarded producers that are closed in the end, whatever they report."""
    made = []

    def build(policy, cluster=kafka_cluster, topics=None, on_event=None, **settings):
        client = KafkaProducer(
            bootstrap_servers=cluster.bootstrap_servers, **UNHURRIED | settings
        )
        made.append(guard(client, policy=policy, topics=topics, on_event=on_event))
        return made[-1]

    yield build
    for producer in made:
        try:
            producer.close(5)
        except DeliveryFailed as failure:
            raise AssertionError(f"unseen: {failure.report.errors}") from failure


@pytest.fixture
def compacted(kafka_cluster):
    """A compacted topic whose dead-letter topic is there."""
    topic = kafka_cluster.create_topic(config=COMPACTED)
    kafka_cluster.create_topic(f"{topic}.dlq")
    return topic


def refusal(future, seconds=30):
    """Wait for a future that fails."""
    with pytest.raises(KafkaError) as caught:
        future.get(seconds)
    return caught.value


def undelivered(producer, *args):
    """Flush or close, and return the one error that nobody has looked at."""
    with pytest.raises(DeliveryFailed) as caught:
        producer.flush(*args)
    report = caught.value.report
    assert (report.failed, report.dead_lettered, report.dropped) == (1, 0, 0)
    (error,) = report.errors
    return error


class TestDeadLetter:
    """`on_reject: dead_letter`."""

    def test_a_null_key_that_send_refuses(self, kafka_cluster, compacted, make):
        """Not raised: the future fails once the record is in the dead-letter topic."""
        producer = make(DEAD_LETTER)
        future = producer.send(
            compacted, b"v", headers=[("trace", b"1")], timestamp_ms=1234
        )
        error = refusal(future)
        assert isinstance(error, errors.InvalidRecordKeyError)
        assert (error.topic, error.verdict.action) == (compacted, "REJECT")
        assert f"it was put into topic {compacted}.dlq, partition 0, offset 0" in str(
            error
        )
        assert DeliveryReport(dead_lettered=1) == producer.flush()
        (letter,) = records(kafka_cluster, f"{compacted}.dlq")
        assert (letter.key, letter.value, letter.timestamp) == (None, b"v", 1234)
        assert letter.headers[0] == ("trace", b"1")
        assert read_headers(letter.headers) == {
            "reason": "NULL_KEY",
            "topic": compacted,
            "error": "INVALID_RECORD_KEY",
            "code": "87",
        }
        assert read(kafka_cluster, compacted) == []

    def test_a_null_key_that_the_broker_refuses(self, kafka_cluster, make):
        """Its mates are delivered; it is not lost, and nobody has to look at it."""
        topic, stale = stale_topic(kafka_cluster)
        kafka_cluster.create_topic(f"{topic}.dlq")
        producer = make(DEAD_LETTER, topics=stale)
        mates = [producer.send(topic, b"%d" % n, b"k") for n in range(20)]
        keyless = producer.send(topic, b"keyless", headers=[("h", b"1")])
        mates.append(producer.send(topic, b"last", b"k"))
        assert DeliveryReport(delivered=21, dead_lettered=1) == producer.flush()
        assert list(range(21)) == [mate.get(10).offset for mate in mates]
        assert isinstance(keyless.exception, errors.InvalidRecordKeyError)
        assert "it was put into topic" in str(keyless.exception)
        (letter,) = records(kafka_cluster, f"{topic}.dlq")
        assert (letter.key, letter.value) == (None, b"keyless")
        assert letter.headers[0] == ("h", b"1")
        assert read_headers(letter.headers)["partition"] == "0"

    @pytest.mark.parametrize("idempotent", [True, False])
    def test_a_record_whose_batch_is_gone_before_send_returns(
        self, kafka_cluster, make, idempotent
    ):
        """A thread that comes late still has the record itself."""
        topic, stale = stale_topic(kafka_cluster)
        kafka_cluster.create_topic(f"{topic}.dlq")
        settings = {} if idempotent else {"enable_idempotence": False, "retries": 0}
        producer = make(DEAD_LETTER, topics=stale, linger_ms=0, **settings)
        client = producer._shell.producer
        send = client.send

        def late(*record):
            inner = send(*record)
            until(lambda: inner.is_done)
            return inner

        client.send = late
        error = refusal(producer.send(topic, b"keyless"))
        assert isinstance(error, errors.InvalidRecordKeyError)
        assert DeliveryReport(dead_lettered=1) == producer.flush()
        assert read(kafka_cluster, f"{topic}.dlq") == [(None, b"keyless")]

    def test_a_dying_client_that_raises_anything_is_not_the_end(
        self, kafka_cluster, make, monkeypatch
    ):
        """The dead letter waits for the next one, whatever the closed one raises."""
        topic, stale = stale_topic(kafka_cluster)
        kafka_cluster.create_topic(f"{topic}.dlq")
        producer = make(DEAD_LETTER, topics=stale)
        shell, dead = producer._shell, producer._shell.producer
        wait_for_topic = moving.wait_for_topic

        def wait(client, name, seconds):
            if client is dead:
                until(lambda: shell.producer is not dead)
                raise RuntimeError("the loop is closed")
            wait_for_topic(client, name, seconds)

        monkeypatch.setattr(moving, "wait_for_topic", wait)
        producer.send(topic, b"keyless")
        assert DeliveryReport(dead_lettered=1) == producer.flush()
        assert read(kafka_cluster, f"{topic}.dlq") == [(None, b"keyless")]

    def test_what_is_too_large_for_the_client(self, kafka_cluster, kafka_topic, make):
        """The value is cut, and its full size is told; the key is whole."""
        dead = kafka_cluster.create_topic(f"{kafka_topic}.dlq")
        producer = make(DEAD_LETTER, max_request_size=5000)
        future = producer.send(kafka_topic, b"x" * 9000, b"key")
        assert isinstance(refusal(future), MessageSizeTooLargeError)
        assert DeliveryReport(dead_lettered=1) == producer.flush()
        (letter,) = records(kafka_cluster, dead)
        assert (letter.key, letter.value) == (b"key", b"x" * 1024)
        said = read_headers(letter.headers)
        assert (said["reason"], said["value_bytes"]) == ("TOO_LARGE", "9000")

    def test_what_is_too_large_for_the_topic(self, kafka_cluster, make):
        """A dead-letter topic that takes more gets it whole."""
        topic = kafka_cluster.create_topic(config={"max.message.bytes": 1000})
        dead = kafka_cluster.create_topic(f"{topic}.dlq")
        producer = make(DEAD_LETTER)
        future = producer.send(topic, b"x" * 5000, b"key")
        assert DeliveryReport(dead_lettered=1) == producer.flush()
        assert "max.message.bytes" in str(future.exception)
        assert "it was put into topic" in str(future.exception)
        assert read(kafka_cluster, dead) == [(b"key", b"x" * 5000)]

    @pytest.mark.filterwarnings("ignore:.*_serializer does not:DeprecationWarning")
    def test_bytes_after_serialisers_are_kept_and_the_key_finds_its_partition(
        self, kafka_cluster, make
    ):
        """A dead letter is where any record of its key is."""
        topic = kafka_cluster.create_topic(config={"max.message.bytes": 1000})
        dead = kafka_cluster.create_topic(f"{topic}.dlq", partitions=6)
        producer = make(
            DEAD_LETTER,
            key_serializer=lambda key: key.encode(),
            value_serializer=lambda value: value.encode(),
        )
        other = producer.send(dead, "v", "key-17")
        refused = producer.send(topic, "x" * 5000, "key-17")
        assert DeliveryReport(delivered=1, dead_lettered=1) == producer.flush()
        place = f"topic {dead}, partition {other.value.partition}, offset"
        assert place in str(refused.exception)

    @pytest.mark.parametrize(
        ("dialect", "expected"),
        [
            (
                "spring",
                {
                    "kafka_dlt-original-topic": "{topic}",
                    "kafka_dlt-original-partition": b"\x00\x00\x00\x00",
                    "kafka_dlt-exception-fqcn": (
                        "kafkaguard.errors.InvalidRecordKeyError"
                    ),
                },
            ),
            (
                "connect",
                {
                    "__connect.errors.topic": "{topic}",
                    "__connect.errors.partition": b"0",
                },
            ),
            (
                "kip-1191",
                {"__dlq.errors.topic": "{topic}", "__dlq.errors.partition": b"0"},
            ),
        ],
    )
    def test_headers_in_the_dialect_of_the_policy(
        self, kafka_cluster, make, dialect, expected
    ):
        """Read back as the tools of that dialect read them."""
        topic, stale = stale_topic(kafka_cluster)
        kafka_cluster.create_topic(f"rejected-{topic}")
        where = {"topic": "rejected-{topic}", "headers": dialect}
        producer = make({**DEAD_LETTER, "dead_letter": where}, topics=stale)
        producer.send(topic, b"keyless")
        assert DeliveryReport(dead_lettered=1) == producer.flush()
        (letter,) = records(kafka_cluster, f"rejected-{topic}")
        headers = dict(letter.headers)
        for name, value in expected.items():
            said = value if isinstance(value, bytes) else value.format(topic=topic)
            assert headers[name] in (said, str(said).encode())
        message = next(v for name, v in headers.items() if name.endswith("message"))
        assert message.startswith(b"NULL_KEY")

    def test_a_superseded_record_is_a_dead_letter(
        self, kafka_cluster, kafka_faults, make
    ):
        """It failed with its batch, and a later record of its key was accepted."""
        topic, stale = stale_topic(kafka_cluster)
        dead = kafka_cluster.create_topic(f"{topic}.dlq")
        kafka_faults.on("Produce", topic=topic).delay(3.0, times=1)
        settings = {"enable_idempotence": False, "retries": 0}
        producer = make(DEAD_LETTER, kafka_faults, stale, **settings)
        old, keyless = producer.send(topic, b"old", b"k"), producer.send(topic, b"-")
        flush = threading.Thread(target=producer.flush)
        flush.start()
        kafka_faults.wait_for("Produce", count=1, topic=topic)
        new = producer.send(topic, b"new", b"k")
        flush.join(60)
        assert isinstance(refusal(old), SupersededError)
        assert isinstance(refusal(keyless), errors.InvalidRecordKeyError)
        assert new.get(0).offset == 0
        assert {value for _, value in read(kafka_cluster, dead)} == {b"old", b"-"}

    def test_an_override_decides_for_its_topics(self, kafka_cluster, compacted, make):
        """By pattern; a record of another topic is refused by `send`, as ever."""
        other = kafka_cluster.create_topic(config=COMPACTED)
        ruled = {"when": {"topic": f"{compacted[:-1]}*"}, "on_reject": "dead_letter"}
        producer = make({"overrides": [ruled]})
        refused = producer.send(compacted, b"v")
        assert isinstance(refusal(refused), errors.InvalidRecordKeyError)
        with pytest.raises(errors.InvalidRecordKeyError):
            producer.send(other, b"v")
        assert DeliveryReport(dead_lettered=1) == producer.flush()

    def test_callbacks_run_before_a_flush_returns(self, compacted, make):
        """With the error; those that are added later run at once."""
        producer = make(DEAD_LETTER)
        seen = []
        future = producer.send(compacted, b"v").add_errback(seen.append)
        future.add_callback(lambda _: seen.append("delivered"))
        producer.flush()
        assert [future.exception] == seen
        future.add_errback(seen.append)
        assert len(seen) == 2

    def test_events(self, compacted, make):
        """Rejected, then dead-lettered; both before a flush returns."""
        events = []
        producer = make(DEAD_LETTER, on_event=events.append)
        producer.send(compacted, b"v")
        producer.flush()
        rejected, lettered = events
        assert isinstance(rejected, RejectEvent)
        assert rejected.on_reject == "dead_letter"
        assert isinstance(lettered, DeadLetterEvent)
        assert f"{compacted}.dlq" == lettered.dead_letter_topic
        assert (lettered.error, lettered.context.topic) == (
            "INVALID_RECORD_KEY",
            compacted,
        )

    def test_many_threads_lose_nothing(self, kafka_cluster, make):
        """Good and bad records at once: each is in one topic, and counted once."""
        topic, stale = stale_topic(kafka_cluster)
        dead = kafka_cluster.create_topic(f"{topic}.dlq")
        producer = make(DEAD_LETTER, topics=stale, linger_ms=5)

        def work(thread):
            for n in range(60):
                name = b"%d-%d" % (thread, n)
                producer.send(topic, name, None if n % 20 == 7 else b"k%d" % thread)

        workers = [threading.Thread(target=work, args=(n,)) for n in range(4)]
        for worker in workers:
            worker.start()
        for worker in workers:
            worker.join(120)
        try:
            report = producer.flush(120)
        except DeliveryFailed as failure:  # a mate that nobody could rescue in time
            report = failure.report
        assert (report.dead_lettered, report.pending) == (12, 0), report.errors
        assert report.delivered + report.failed + report.in_doubt == 228
        written = len(read(kafka_cluster, topic))
        assert report.delivered <= written <= report.delivered + report.in_doubt
        assert len({value for _, value in read(kafka_cluster, dead)}) == 12


class TestUndeliverable:
    """A dead letter that is not delivered: the record has failed, and it is said why."""

    def test_its_topic_is_missing(self, kafka_cluster, make):
        """Within max_block_ms; the original error says what is missing."""
        topic = kafka_cluster.create_topic(config=COMPACTED)
        settings = {"max_block_ms": 1000, "allow_auto_create_topics": False}
        producer = make(DEAD_LETTER, **settings)
        first, second = producer.send(topic, b"1"), producer.send(topic, b"2")
        for future in (first, second):
            error = refusal(future)
            assert isinstance(error, errors.InvalidRecordKeyError)
            assert f"its dead letter for topic {topic}.dlq was not" in str(error)
            assert f"the brokers do not know topic {topic}.dlq" in str(error)
        assert producer.flush().failed == 2
        producer.send(topic, b"3")
        assert isinstance(undelivered(producer), errors.InvalidRecordKeyError)

    def test_its_topic_is_denied(self, kafka_users, make):
        """The original error, with the other one's code in its text."""
        topic = kafka_users.create_topic(config=COMPACTED)
        kafka_users.create_topic(f"{topic}.dlq")
        kafka_users.grant("bob", "WRITE", "TOPIC", topic)
        facts = {topic: TopicFacts(compacted=True)}
        config = kafka_users.client_config("SASL_PLAIN", user="bob")
        client = KafkaProducer(**config, **UNHURRIED)
        with guard(client, policy=DEAD_LETTER, topics=facts) as producer:
            producer.send(topic, b"v")
            error = undelivered(producer)
            assert isinstance(error, errors.InvalidRecordKeyError)
            assert "TOPIC_AUTHORIZATION_FAILED (29)" in str(error)
            good = producer.send(topic, b"v", b"k")
            assert DeliveryReport(delivered=1) == producer.flush()
            assert good.value.offset == 0

    @pytest.mark.filterwarnings("ignore:retries = inf without:UserWarning")
    @pytest.mark.parametrize("idempotent", [True, False])
    def test_no_broker_answers(self, compacted, kafka_faults, make, idempotent):
        """In doubt, in time: the record is not in its topic, and that it says."""
        kafka_faults.on("Produce", topic=f"{compacted}.dlq").drop(written=False)
        settings = {
            "enable_idempotence": idempotent,
            "linger_ms": 0,
            "request_timeout_ms": 500,
            "delivery_timeout_ms": 1500,
        }
        producer = make(DEAD_LETTER, kafka_faults, **settings)
        future = producer.send(compacted, b"v")
        error = undelivered(producer)
        assert error is future.exception
        assert isinstance(error, errors.InvalidRecordKeyError)
        assert "IN_DOUBT" in str(error)

    def test_close_gives_it_up_in_time(self, compacted, kafka_faults, make):
        """A dead letter that waits longer than close() does is told as not delivered."""
        kafka_faults.on("Produce", topic=f"{compacted}.dlq").drop(written=False)
        producer = make(DEAD_LETTER, kafka_faults)
        future = producer.send(compacted, b"v")
        kafka_faults.wait_for("Produce", topic=f"{compacted}.dlq")
        start = time.monotonic()
        with pytest.raises(DeliveryFailed) as caught:
            producer.close(0.5)
        assert time.monotonic() - start < 20
        (error,) = caught.value.report.errors
        assert isinstance(error, errors.InvalidRecordKeyError)
        assert error is future.exception
        assert "its dead letter for topic" in str(error)
        assert (caught.value.report.failed, caught.value.report.pending) == (1, 0)

    def test_close_waits_for_it(self, kafka_cluster, compacted, make):
        """As for any record: it is sent at once, whatever `linger_ms` says."""
        producer = make(DEAD_LETTER)
        for n in range(10):
            producer.send(compacted, b"%d" % n)
        assert DeliveryReport(dead_lettered=10) == producer.close()
        assert len(read(kafka_cluster, f"{compacted}.dlq")) == 10

    def test_a_flush_that_ends_before_counts_it_as_pending(
        self, compacted, kafka_faults, make
    ):
        """Once; and the next flush has the outcome."""
        lost = kafka_faults.on("Produce", topic=f"{compacted}.dlq")
        fault = lost.close()
        producer = make(DEAD_LETTER, kafka_faults)
        producer.send(compacted, b"v")
        kafka_faults.wait_for("Produce", topic=f"{compacted}.dlq")
        with pytest.raises(DeliveryFailed) as caught:
            producer.flush(0.1)
        assert DeliveryReport(pending=1) == caught.value.report
        fault.remove()
        assert DeliveryReport(dead_lettered=1) == producer.flush()

    def test_a_dead_letter_is_never_dead_lettered(self, kafka_cluster, make):
        """Too large for its topic, too, so it is not sent; and there is no third."""
        topic = kafka_cluster.create_topic(config={"max.message.bytes": 3000})
        dead = kafka_cluster.create_topic(
            f"{topic}.dlq", config={"max.message.bytes": 3000}
        )
        third = kafka_cluster.create_topic(f"{dead}.dlq")
        producer = make(DEAD_LETTER)
        producer.send(topic, b"v", b"k" * 5000)
        error = undelivered(producer)
        assert "this record was not sent" in str(error)
        assert (read(kafka_cluster, dead), read(kafka_cluster, third)) == ([], [])

    def test_its_topic_is_compacted(self, kafka_cluster, kafka_faults, make):
        """A dead letter without a key is not sent there: it would cost its mates."""
        topic = kafka_cluster.create_topic(config=COMPACTED)
        dead = kafka_cluster.create_topic(f"{topic}.dlq", config=COMPACTED)
        producer = make(DEAD_LETTER, kafka_faults)
        producer.send(topic, b"v")
        error = undelivered(producer)
        assert f"topic {dead}" in str(error)
        assert kafka_faults.requests("Produce") == []

    def test_its_topic_is_the_records_own(self, kafka_cluster, make):
        """A fixed name that is the topic's own would refuse it again."""
        topic = kafka_cluster.create_topic(config=COMPACTED)
        producer = make({**DEAD_LETTER, "dead_letter": {"topic": topic}})
        producer.send(topic, b"v")
        assert "dead_letter.topic is the record's own" in str(undelivered(producer))

    @pytest.mark.filterwarnings("ignore:value_serializer does not:DeprecationWarning")
    def test_its_bytes_cannot_be_had(self, compacted, make):
        """A serialiser that fails: its exception's text may hold the record."""

        def fails(value):
            raise LookupError(f"secret {value}")

        producer = make(DEAD_LETTER, value_serializer=fails)
        producer.send(compacted, "s3cret")
        error = undelivered(producer)
        assert "its bytes could not be had (LookupError)" in str(error)
        assert "s3cret" not in str(error)

    def test_other_failures_are_raised_as_ever(self, kafka_cluster, make):
        """A closed producer refuses no record: it takes none."""
        producer = make(DEAD_LETTER)
        topic = kafka_cluster.create_topic()
        producer.close()
        with pytest.raises(errors.ClientClosedError):
            producer.send(topic, b"v", b"k")

    @pytest.mark.parametrize("policy", [DEAD_LETTER, DROP])
    def test_transactional_producers_are_refused(self, kafka_cluster, policy):
        """Half a transaction would be committed, or the dead letter aborted."""
        with KafkaProducer(
            bootstrap_servers=kafka_cluster.bootstrap_servers, transactional_id="t"
        ) as client:
            for either in (policy, {"overrides": [{"when": {"code": 10}, **policy}]}):
                with pytest.raises(ClientConfigurationError, match="transactional"):
                    guard(client, policy=either)


class TestDrop:
    """`on_reject: drop`."""

    def test_a_dropped_record_fails_its_future_only(self, kafka_cluster, make, caplog):
        """Whoever refuses it; one warning a topic, which has no word of a record."""
        topic = kafka_cluster.create_topic()
        producer = make(DROP)
        kept = producer.send(topic, b"kept")
        assert DeliveryReport(delivered=1) == producer.flush()
        kafka_cluster.alter_topic(topic, COMPACTED)
        with caplog.at_level(logging.WARNING, "kafkaguard"):
            by_broker = producer.send(topic, b"secret")
            assert DeliveryReport(dropped=1) == producer.flush()
            by_guard = producer.send(topic, b"secret")
        for future in (by_broker, by_guard):
            assert isinstance(future.exception, errors.InvalidRecordKeyError)
        assert DeliveryReport(dropped=1) == producer.flush()
        assert kept.value.offset == 0
        said = [r.getMessage() for r in caplog.records if "drops" in r.getMessage()]
        assert len(said) == 1
        assert topic in said[0]
        assert "secret" not in caplog.text

    def test_events_and_callbacks(self, kafka_cluster, make):
        """Rejected, and no more; the errback runs."""
        topic = kafka_cluster.create_topic(config=COMPACTED)
        events, seen = [], []
        producer = make(DROP, on_event=events.append)
        future = producer.send(topic, b"v").add_errback(seen.append)
        (event,) = events
        assert (type(event), event.on_reject) == (RejectEvent, "drop")
        assert [future.exception] == seen

    def test_the_count_is_in_what_a_flush_raises(self, kafka_cluster, make):
        """Beside a record that failed for another reason."""
        topic = kafka_cluster.create_topic(config=COMPACTED)
        ruled = {"when": {"code": 10}, "on_reject": "raise"}
        producer = make({**DROP, "overrides": [ruled]})
        limited = kafka_cluster.create_topic(config={"max.message.bytes": 1000})
        producer.send(topic, b"v")
        producer.send(limited, b"x" * 5000, b"k")
        with pytest.raises(DeliveryFailed, match="dropped 1") as caught:
            producer.flush()
        assert (caught.value.report.failed, caught.value.report.dropped) == (1, 1)
