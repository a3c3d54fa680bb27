"""Tests against a real broker that misbehaves on demand, to copy.

To run it: ``pip install 'kafkaguard[aiokafka,confluent,testing]' pytest-asyncio``, and
``pytest test_with_faults.py``.
"""

from __future__ import annotations

import pytest
from confluent_kafka import Producer
from kafka import KafkaProducer
from kafka.errors import NotLeaderForPartitionError

from aiokafka import AIOKafkaProducer


def test_a_new_leader_is_found(kafka_faults, kafka_topic):
    """The leader has moved: kafka-python refreshes its metadata and sends again."""
    moved = kafka_faults.on("Produce", topic=kafka_topic).fail(
        "NOT_LEADER_OR_FOLLOWER", times=2
    )
    servers = kafka_faults.bootstrap_servers
    with KafkaProducer(bootstrap_servers=servers) as producer:
        metadata = producer.send(kafka_topic, b"value").get(timeout=20)
    assert moved.fired == 2
    assert metadata.offset == 0


def test_the_error_comes_through_without_retries(kafka_faults, kafka_topic):
    """With retries=0 the same fault reaches the caller, and one request was made."""
    kafka_faults.on("Produce", topic=kafka_topic).fail("NOT_LEADER_OR_FOLLOWER")
    servers = kafka_faults.bootstrap_servers
    with (
        KafkaProducer(
            bootstrap_servers=servers, retries=0, enable_idempotence=False
        ) as producer,
        pytest.raises(NotLeaderForPartitionError),
    ):
        producer.send(kafka_topic, b"value").get(timeout=20)
    assert len(kafka_faults.requests("Produce")) == 1


def test_written_and_reported_as_failed(kafka_faults, kafka_topic):
    """The answer says "timed out" twice, after the write: three copies, one success."""
    kafka_faults.on("Produce").fail("REQUEST_TIMED_OUT", times=2, written=True)
    delivered = []
    producer = Producer({"bootstrap.servers": kafka_faults.bootstrap_servers})
    producer.produce(
        kafka_topic, b"value", on_delivery=lambda error, _: delivered.append(error)
    )
    assert producer.flush(20) == 0
    assert delivered == [None]
    assert len(kafka_faults.requests("Produce", topic=kafka_topic)) == 3


@pytest.mark.asyncio
@pytest.mark.kafka_topic(partitions=3, config={"retention.ms": 60_000})
async def test_a_slow_broker(kafka_faults, kafka_topic):
    """Asynchronous code; the marker says how the topic is made."""
    slow = kafka_faults.on("Produce", topic=kafka_topic, partition=1).delay(0.5)
    servers = kafka_faults.bootstrap_servers
    async with AIOKafkaProducer(bootstrap_servers=servers) as producer:
        metadata = await producer.send_and_wait(kafka_topic, b"value", partition=1)
    assert metadata.partition == 1
    assert slow.fired == 1


def test_a_connection_that_breaks(kafka_faults, kafka_topic):
    """The broker has written the record, the answer is lost: an idempotent retry."""
    kafka_faults.on("Produce").reset(times=1, written=True)
    servers = kafka_faults.bootstrap_servers
    with KafkaProducer(bootstrap_servers=servers) as producer:
        producer.send(kafka_topic, b"value").get(timeout=20)
        metadata = producer.send(kafka_topic, b"next").get(timeout=20)
    assert metadata.offset == 1
    print(kafka_faults.journal)
