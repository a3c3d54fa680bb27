"""Batches that the application makes itself: one outcome for all of their records."""

from __future__ import annotations

import pytest

from aiokafka import AIOKafkaProducer
from kafkaguard import TopicFacts, errors, guard
from kafkaguard.errors import DeliveryFailed
from tests.contracts.producer import COMPACTED, read


def guarded(where, topics=None):
    """Build an idempotent client and guard it; it must be stopped."""
    servers = where.bootstrap_servers
    client = AIOKafkaProducer(bootstrap_servers=servers, enable_idempotence=True)
    return guard(client, topics=topics)


def batch_of(producer, *keys):
    """Make a batch with a record for each key."""
    batch = producer.create_batch()
    for number, key in enumerate(keys):
        batch.append(key=key, value=b"%d" % number, timestamp=None)
    return batch


async def test_a_batch_is_delivered_whole(kafka_cluster, kafka_topic):
    """The future has the metadata, and each record counts."""
    async with guarded(kafka_cluster) as producer:
        batch = batch_of(producer, b"a", b"b", b"c")
        future = await producer.send_batch(batch, kafka_topic, partition=0)
        assert (await future).offset == 0
        assert (await producer.flush()).delivered == 3
    assert read(kafka_cluster, kafka_topic) == [
        (b"a", b"0"),
        (b"b", b"1"),
        (b"c", b"2"),
    ]


async def test_a_batch_with_a_null_key_is_refused_by_the_call(kafka_cluster):
    """send_batch() raises for a batch with a null key, and sends no record of it."""
    topic = kafka_cluster.create_topic(config=COMPACTED)
    async with guarded(kafka_cluster) as producer:
        batch = batch_of(producer, b"a", None, b"c")
        with pytest.raises(errors.InvalidRecordKeyError, match="1 of 3 records"):
            await producer.send_batch(batch, topic, partition=0)
        assert (await producer.flush()).delivered == 0
    assert read(kafka_cluster, topic) == []


async def test_a_refused_batch_is_rescued_without_the_guilty_record(kafka_cluster):
    """Its future fails with that one's error; the others are there, in order."""
    topic = kafka_cluster.create_topic(config=COMPACTED)
    stale = {topic: TopicFacts(compacted=False)}
    async with guarded(kafka_cluster, stale) as producer:
        batch = batch_of(producer, b"k", None, b"k")
        future = await producer.send_batch(batch, topic, partition=0)
        with pytest.raises(errors.InvalidRecordKeyError):
            await future
        report = await producer.flush()
        assert (report.delivered, report.failed) == (2, 1)
    assert read(kafka_cluster, topic) == [(b"k", b"0"), (b"k", b"2")]


async def test_a_batch_at_which_nobody_looked_is_raised(kafka_cluster):
    """flush() raises for a failed batch whose future nobody has read."""
    topic = kafka_cluster.create_topic(config=COMPACTED)
    stale = {topic: TopicFacts(compacted=False)}
    async with guarded(kafka_cluster, stale) as producer:
        await producer.send_batch(batch_of(producer, b"k", None), topic, partition=0)
        with pytest.raises(DeliveryFailed) as caught:
            await producer.flush()
        assert (caught.value.report.delivered, caught.value.report.failed) == (1, 1)
