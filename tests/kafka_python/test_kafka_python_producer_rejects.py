"""kafka-python's producer, guarded: what a policy's `on_reject` does with records."""

from __future__ import annotations

import threading
import time

import pytest
from kafka import KafkaProducer
from kafka.errors import KafkaError

from kafkaguard import DeliveryReport, TopicFacts, errors, guard
from kafkaguard._retries.events import RejectEvent
from kafkaguard.errors import ClientConfigurationError, DeliveryFailed, SupersededError
from kafkaguard_adapters.kafka_python._private import moving
from tests.contracts.producer import COMPACTED, read, stale_topic, until

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


def error_of(future, seconds=30):
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

    @pytest.mark.parametrize("idempotent", [True, False])
    def test_a_record_whose_batch_is_gone_before_send_returns(
        self, kafka_cluster, make, idempotent
    ):
        """A thread that comes late still has the record itself."""
        topic, stale = stale_topic(kafka_cluster)
        kafka_cluster.create_topic(f"{topic}.dlq")
        settings = {} if idempotent else {"enable_idempotence": False, "retries": 0}
        producer = make(DEAD_LETTER, topics=stale, linger_ms=0, **settings)
        client = producer.client
        send = client.send

        def late(*record, **more):
            inner = send(*record, **more)
            until(lambda: inner.is_done)
            return inner

        client.send = late
        error = error_of(producer.send(topic, b"keyless"))
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
        dead = producer.client
        wait_for_topic = moving.wait_for_topic

        def wait(client, name, seconds):
            if client is dead:
                until(lambda: producer.client is not dead)
                raise RuntimeError("the loop is closed")
            wait_for_topic(client, name, seconds)

        monkeypatch.setattr(moving, "wait_for_topic", wait)
        producer.send(topic, b"keyless")
        assert DeliveryReport(dead_lettered=1) == producer.flush()
        assert read(kafka_cluster, f"{topic}.dlq") == [(None, b"keyless")]

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
        assert isinstance(error_of(old), SupersededError)
        assert isinstance(error_of(keyless), errors.InvalidRecordKeyError)
        assert new.get(0).offset == 0
        assert {value for _, value in read(kafka_cluster, dead)} == {b"old", b"-"}

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


class TestUndeliverable:
    """A dead letter that is not delivered: the record has failed, and it is said why."""

    def test_its_topic_is_missing(self, kafka_cluster, make):
        """At once; the original error says what is missing."""
        topic = kafka_cluster.create_topic(config=COMPACTED)
        producer = make(DEAD_LETTER)
        first, second = producer.send(topic, b"1"), producer.send(topic, b"2")
        for future in (first, second):
            error = error_of(future)
            assert isinstance(error, errors.InvalidRecordKeyError)
            assert f"its dead letter for topic {topic}.dlq was not" in str(error)
            assert "the topic does not exist -> CONFIGURE" in str(error)
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

    @pytest.mark.filterwarnings("ignore:value_serializer does not:DeprecationWarning")
    def test_its_bytes_cannot_be_had(self, compacted, make):
        """A serialiser that fails: its exception's text may hold the record."""

        def fails(value):
            raise LookupError(f"secret {value}")

        producer = make(DEAD_LETTER, value_serializer=fails)
        producer.send(compacted, "s3cret")
        error = undelivered(producer)
        assert "the record's bytes could not be read (LookupError)" in str(error)
        assert "s3cret" not in str(error)

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

    def test_events_and_callbacks(self, kafka_cluster, make):
        """Rejected, and no more; the errback runs."""
        topic = kafka_cluster.create_topic(config=COMPACTED)
        events, seen = [], []
        producer = make(DROP, on_event=events.append)
        future = producer.send(topic, b"v").add_errback(seen.append)
        (event,) = events
        assert (type(event), event.on_reject) == (RejectEvent, "drop")
        assert [future.exception] == seen
