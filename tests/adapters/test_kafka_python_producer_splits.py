"""Batches that are too large, which the client splits again and again."""

from __future__ import annotations

import pytest
from kafka import KafkaConsumer, KafkaProducer, TopicPartition

from kafkaguard import DeliveryFailed, guard
from tests.adapters.contracts import read

LIMIT = 2_000
BIG = b"x" * 5_000


@pytest.fixture
def small(kafka_cluster):
    """A topic that takes small batches only."""
    return kafka_cluster.create_topic(config={"max.message.bytes": LIMIT})


def run(cluster, topic, values, keys="k", **settings):
    """Send values; return the report, and what is in the topic."""
    client = KafkaProducer(
        bootstrap_servers=cluster.bootstrap_servers, linger_ms=10_000, **settings
    )
    with guard(client) as producer:
        futures = [
            producer.send(topic, value, keys[n % len(keys)].encode())
            for n, value in enumerate(values)
        ]
        with pytest.raises(DeliveryFailed) as caught:
            producer.flush(60)
        for value, future in zip(values, futures, strict=True):
            assert not (value.endswith(BIG) and future.succeeded())
    places = [TopicPartition(topic, n) for n in producer.partitions_for(topic)]
    with KafkaConsumer(bootstrap_servers=cluster.bootstrap_servers) as consumer:
        there = sum(consumer.end_offsets(places).values())
    return caught.value.report, there


@pytest.mark.filterwarnings("ignore:retries:kafkaguard.policies.StackingWarning")
@pytest.mark.parametrize("idempotent", [True, False])
def test_a_record_that_is_too_large_costs_nobody_else_anything(
    kafka_cluster, small, idempotent
):
    """None of the others is refused, or in doubt."""
    values = [b"%d;" % n + BIG * (n == 10) for n in range(100)]
    report, there = run(
        kafka_cluster, small, values, "abc", enable_idempotence=idempotent
    )
    assert (report.delivered, report.failed, report.in_doubt, there) == (99, 1, 0, 99)


def test_the_order_of_a_key_holds_through_many_splits(kafka_cluster, small):
    """Parts of a batch keep its place, and each record its place in them."""
    values = [b"%d;" % n + BIG * (n % 25 == 10) for n in range(400)]
    report, _ = run(kafka_cluster, small, values)
    assert (report.delivered, report.failed, report.in_doubt) == (384, 16, 0)
    there = [value for _, value in read(kafka_cluster, small)]
    assert there == [value for value in values if len(value) < LIMIT]


def test_each_record_is_counted_once(kafka_cluster):
    """Also if several partitions have parts of parts on their way.

    What is on its way for one when the producer dies of another may be in doubt.
    """
    topic = kafka_cluster.create_topic(
        partitions=3, config={"max.message.bytes": LIMIT}
    )
    values = [b"%d;" % n + BIG * (n % 50 == 25) for n in range(1_200)]
    report, there = run(kafka_cluster, topic, values, "abcdef")
    assert report.delivered + report.failed + report.in_doubt == 1_200
    assert report.delivered <= there <= report.delivered + report.in_doubt
    assert report.pending == 0
