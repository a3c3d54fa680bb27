"""kafka-python's producer, guarded: what it refuses to take, what it says, and events."""

from __future__ import annotations

import logging
import math
import queue
import time

import pytest
from kafka import KafkaProducer
from kafka.errors import KafkaError, KafkaTimeoutError

from kafkaguard import Action, errors, guard
from kafkaguard._retries.events import RecreateEvent, RejectEvent, RetryEvent
from kafkaguard.testing import FaultProxy
from tests.contracts.producer import read, stale_topic
from tests.kafka_python.producer_load import await_recovery


def guarded(cluster, config=None, **options):
    """Guard a new producer."""
    settings = {"bootstrap_servers": cluster.bootstrap_servers, **(config or {})}
    return guard(KafkaProducer(**settings), **options)


@pytest.mark.parametrize("method", ["flush", "close"])
@pytest.mark.parametrize(
    ("timeout", "kind", "shown"),
    [
        (-1, ValueError, "not -1"),
        (math.nan, ValueError, "not nan"),
        ("x", TypeError, "not str"),
        (True, TypeError, "not bool"),
    ],
)
def test_a_time_that_is_none_is_refused_before_anything_is_done(
    kafka_cluster, kafka_topic, method, timeout, kind, shown
):
    """The text says what is allowed, and the producer goes on."""
    with guarded(kafka_cluster) as producer:
        with pytest.raises(kind, match="timeout must be a number of seconds") as caught:
            getattr(producer, method)(timeout)
        assert str(caught.value).endswith(shown)
        assert producer.send(kafka_topic, b"v", b"k").get(10).offset == 0


def test_an_infinite_time_is_as_long_as_it_takes(kafka_cluster, kafka_topic):
    """flush() and close() end with the last outcome."""
    producer = guarded(kafka_cluster)
    producer.send(kafka_topic, b"v", b"k")
    assert producer.flush(math.inf).delivered == 1
    producer.send(kafka_topic, b"v", b"k")
    assert producer.close(math.inf).delivered == 1


def test_a_missing_topic_is_no_question_of_rights(kafka_cluster, caplog):
    """A record without a key for a topic that is not there: no word of an ACL."""
    settings = {"max_block_ms": 500, "allow_auto_create_topics": False}
    with (
        caplog.at_level(logging.WARNING, "kafkaguard"),
        guarded(kafka_cluster, settings) as producer,
        pytest.raises(KafkaTimeoutError, match="do not know topic"),
    ):
        producer.send("never-created", b"v")
    assert "DescribeConfigs" not in caplog.text


def test_an_oversize_record_names_size_and_limit(kafka_cluster):
    """The error has the size, the setting with the limit, and what to do."""
    topic = kafka_cluster.create_topic(config={"max.message.bytes": 1000})
    with (
        guarded(kafka_cluster) as producer,
        pytest.raises(errors.MessageTooLargeError) as caught,
    ):
        producer.send(topic, b"x" * 5000, b"k").get(10)
    said = str(caught.value)
    assert f"max.message.bytes of topic {topic} is 1000" in said
    assert "makes a batch of 50" in said
    assert "None" not in said


def test_an_answer_without_a_text_is_a_sentence(
    kafka_topic, kafka_faults, kafka_cluster
):
    """An answer without a text does not end in "None"."""
    kafka_faults.on("Produce").fail("POLICY_VIOLATION", times=1)
    with guarded(kafka_faults) as producer:
        with pytest.raises(KafkaError) as caught:
            producer.send(kafka_topic, b"v", b"k").get(10)
        assert "None" not in str(caught.value)
        assert "gave no further reason" in str(caught.value)
        assert producer.send(kafka_topic, b"v", b"k").get(10).offset == 0


def test_the_warning_about_a_replacement_says_what_killed_it(kafka_cluster, caplog):
    """The warning has the topic, the partition and the code of the fatal answer."""
    topic, stale = stale_topic(kafka_cluster)
    with (
        caplog.at_level(logging.WARNING, "kafkaguard"),
        guarded(kafka_cluster, topics=stale) as producer,
    ):
        with pytest.raises(errors.InvalidRecordKeyError):
            producer.send(topic, b"-").get(10)
        await_recovery(producer)
    assert f"InvalidRecordError (87), topic {topic}, partition 0" in caplog.text


class TestEvents:
    """`guard(client, on_event=...)`."""

    def test_death_rescue_and_refusal_are_events(self, kafka_cluster):
        """One of each: rejected, to be sent again, replaced."""
        topic, stale = stale_topic(kafka_cluster)
        events = []
        settings = {"linger_ms": 50}
        options = {"topics": stale, "on_event": events.append}
        with guarded(kafka_cluster, settings, **options) as producer:
            producer.send(topic, b"v", b"k")
            refused = producer.send(topic, b"-")
            assert isinstance(refused_error(refused), errors.InvalidRecordKeyError)
            producer.flush()
        kinds = sorted(type(event).__name__ for event in events)
        assert kinds == ["RecreateEvent", "RejectEvent", "RetryEvent"]
        assert {topic} == {event.context.topic for event in events}
        assert {RecreateEvent, RejectEvent, RetryEvent} == {type(e) for e in events}

    def test_a_hook_that_raises_breaks_nothing(self, kafka_cluster, caplog):
        """It is logged; the mates are delivered."""
        topic, stale = stale_topic(kafka_cluster)
        settings = {"linger_ms": 50}
        options = {"topics": stale, "on_event": lambda _: 1 / 0}
        with guarded(kafka_cluster, settings, **options) as producer:
            kept, refused = producer.send(topic, b"v", b"k"), producer.send(topic, b"-")
            assert kept.get(10).offset == 0
            assert isinstance(refused_error(refused), errors.InvalidRecordKeyError)
        assert "correct the hook" in caplog.text
        assert read(kafka_cluster, topic) == [(b"k", b"v")]


def refused_error(future):
    """Wait for a future that fails."""
    with pytest.raises(KafkaError) as caught:
        future.get(10)
    return caught.value


def test_a_callback_does_not_wait_for_the_partitions_of_a_topic(
    kafka_cluster, kafka_topic
):
    """Its own thread would receive the answer: the partition may be there, REFRESH."""
    told = queue.SimpleQueue()

    def send_another(_):
        try:
            producer.send(kafka_topic, b"v", b"k", partition=99)
        except errors.KafkaGuardError as error:
            told.put(error)

    with guarded(kafka_cluster) as producer:
        producer.send(kafka_topic, b"v", b"k").add_callback(send_another)
        error = told.get(timeout=50)
        assert isinstance(error, errors.ClientMetadataError)
        assert error.verdict.action == "REFRESH"
        assert producer.send(kafka_topic, b"v", b"k").get(20).offset == 1


def test_a_record_that_was_refused_each_time_is_never_said_to_have_had_no_answer(
    kafka_cluster, kafka_topic
):
    """Its time ends when the client has just taken it to send it again: no request."""
    with FaultProxy(kafka_cluster) as proxy:
        proxy.on("Produce").fail("NOT_ENOUGH_REPLICAS")
        settings = {"delivery_timeout_ms": 1500, "request_timeout_ms": 1000}
        producer = guarded(proxy, settings, policy={"deadline": 1.5})
        accumulator = producer.client._accumulator
        drain = accumulator.drain

        def drain_slowly(*args, **more):
            taken = drain(*args, **more)
            if any(each.in_retry() for part in taken.values() for each in part):
                time.sleep(1.6)
            return taken

        accumulator.drain = drain_slowly
        with pytest.raises(errors.NotEnoughReplicasError) as caught:
            producer.send(kafka_topic, b"v", b"k").get(20)
        producer.close(10)
        assert {each.codes for each in proxy.requests("Produce")} == {(19,)}
    assert caught.value.verdict.written == "no"


@pytest.mark.parametrize("code", ["UNKNOWN_SERVER_ERROR", 150])
def test_a_record_whose_topic_the_client_could_not_look_up_was_not_written(
    kafka_topic, kafka_faults, code
):
    """The code is the answer to the request for metadata."""
    kafka_faults.on("Metadata", topic=kafka_topic).fail(code, times=1)
    config = {"bootstrap_servers": kafka_faults.bootstrap_servers}
    with guard(factory=KafkaProducer, config=config) as producer:
        with pytest.raises(errors.KafkaGuardError) as caught:
            producer.send(kafka_topic, b"v", b"k").get(60)
        producer.report()
    assert (caught.value.verdict.action, caught.value.verdict.written) == (
        Action.RETRY,
        "no",
    )
    assert not kafka_faults.requests("Produce")
