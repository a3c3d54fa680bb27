"""Public reports, provoked on the wire: what clients do, and what the verdict says."""

from __future__ import annotations

import time
import uuid

import pytest
from confluent_kafka import Producer
from kafka import KafkaAdminClient, KafkaConsumer, KafkaProducer, TopicPartition
from kafka.errors import KafkaError

from kafkaguard import Action, classify
from tests.testing.proxy import raw_requests as raw
from tests.testing.proxy.raw_client import RawClient


def _send(servers, topic, *, key=b"key", **settings):
    with KafkaProducer(
        bootstrap_servers=servers, enable_idempotence=False, **settings
    ) as producer:
        producer.send(topic, b"value", key=key).get(20)


def test_an_outer_retry_layer_that_asks_the_verdict(kafka_faults, kafka_topic):
    """smallrye-reactive-messaging #2270: a refused record was sent for two minutes."""
    kafka_faults.on("Produce", topic=kafka_topic).fail("INVALID_RECORD")
    start = time.monotonic()
    with pytest.raises(KafkaError) as caught:
        _send_ten_times(kafka_faults.bootstrap_servers, kafka_topic)
    assert caught.value.errno == 87
    assert len(kafka_faults.requests("Produce")) == 1
    assert time.monotonic() - start < 60


def _send_ten_times(servers, topic):
    """Send again as long as the verdict allows it."""
    for _ in range(10):
        try:
            return _send(servers, topic)
        except KafkaError as error:
            if not classify(error, api="Produce").retriable:
                raise
    raise TimeoutError


@pytest.mark.parametrize(
    ("key", "action"), [(None, Action.REJECT), (b"key", Action.RETRY)]
)
def test_code_2_is_not_one_thing(key, action, kafka_faults, kafka_topic):
    """Akhq #133, ksql #3021: old brokers answer CORRUPT_MESSAGE for a missing key.

    No client knows the difference: kafka-python gives up a damaged batch at once, and
    librdkafka uses up its retries on a record that can never be taken.
    """
    fault = kafka_faults.on("Produce", topic=kafka_topic).fail("CORRUPT_MESSAGE")
    with pytest.raises(KafkaError) as caught:
        _send(kafka_faults.bootstrap_servers, kafka_topic, key=key, retries=3)
    assert caught.value.errno == 2
    assert fault.fired == 1
    assert _code_from_confluent(kafka_faults, kafka_topic, key, retries=3) == 2
    assert fault.fired == 1 + (1 + 3)
    verdict = classify(2, api="Produce", null_key=key is None)
    assert action is verdict.action


def _code_from_confluent(proxy, topic, key, *, retries):
    errors = []
    producer = Producer(
        {
            "bootstrap.servers": proxy.bootstrap_servers,
            "retries": retries,
            "retry.backoff.ms": 1,
        }
    )
    producer.produce(topic, b"value", key, on_delivery=lambda e, _: errors.append(e))
    assert producer.flush(30) == 0
    return errors[0].code()


def test_a_code_from_the_future_keeps_its_number(kafka_faults, kafka_topic):
    """Pykafka #401, kafka-python #2306: an unknown code became a KeyError, or -1."""
    kafka_faults.on("Produce", topic=kafka_topic).fail(999)
    with pytest.raises(KafkaError) as caught:
        _send(kafka_faults.bootstrap_servers, kafka_topic)
    assert caught.value.errno == 999
    verdict = classify(caught.value, api="Produce")
    assert verdict.error_class.code == 999
    assert not verdict.retriable
    assert kafka_faults.requests("Produce")[0].codes == (999,)


@pytest.mark.kafka_topic(partitions=200)
def test_counting_the_requests_of_two_recipes_for_lag(kafka_faults, kafka_topic):
    """integrations-core #20715: one request a partition, where two would do."""
    servers = kafka_faults.bootstrap_servers
    with RawClient(servers) as client:
        raw.await_coordinator(client)
    partitions = [TopicPartition(kafka_topic, index) for index in range(200)]
    groups = [f"{kafka_topic}-{uuid.uuid4().hex[:6]}" for _ in range(3)]
    with KafkaConsumer(bootstrap_servers=servers, group_id=groups[0]) as consumer:
        kafka_faults.journal.clear()
        for partition in partitions:
            consumer.end_offsets([partition])
        one_by_one = len(kafka_faults.requests("ListOffsets"))
        kafka_faults.journal.clear()
        assert set(partitions) == set(consumer.end_offsets(partitions))
    with KafkaAdminClient(bootstrap_servers=servers) as admin:
        for group in groups:
            admin.list_group_offsets(group)
    assert one_by_one >= 200
    assert len(kafka_faults.requests("ListOffsets")) == 1
    assert len(kafka_faults.requests("OffsetFetch")) <= 3
