"""Batches that are too large, which the client splits again and again."""

from __future__ import annotations

import threading
from collections import Counter
from random import Random

import pytest
from kafka import KafkaConsumer, KafkaProducer, TopicPartition
from kafka.errors import MessageSizeTooLargeError

from kafkaguard import TopicFacts, guard
from kafkaguard._retries.events import RecreateEvent, RejectEvent
from kafkaguard.errors import DeliveryFailed
from tests.contracts.producer import read

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


@pytest.mark.filterwarnings("ignore:retries:kafkaguard.errors.StackingWarning")
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


@pytest.mark.parametrize("compression", [None, "gzip"])
def test_all_too_large_records_cost_one_producer(kafka_cluster, small, compression):
    """After the first is refused the others are found by their size."""
    client = KafkaProducer(
        bootstrap_servers=kafka_cluster.bootstrap_servers,
        linger_ms=10_000,
        batch_size=200_000,
        compression_type=compression,
    )
    random = Random(5)
    events = Counter()
    with guard(client, on_event=lambda event: events.update([type(event)])) as producer:
        futures = [
            producer.send(small, random.randbytes(5_000 if n % 30 == 9 else 5), b"k")
            for n in range(300)
        ]
        with pytest.raises(DeliveryFailed) as caught:
            producer.flush(60)
    report = caught.value.report
    assert (report.delivered, report.failed, report.in_doubt) == (290, 10, 0)
    assert (events[RecreateEvent], events[RejectEvent]) == (1, 10)
    for future in futures[9::30]:
        with pytest.raises(
            MessageSizeTooLargeError, match=r"batch of 5\d\d\d .* 2000;"
        ):
            future.get(0)


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


def test_records_without_a_key_come_alone_also_after_a_split(kafka_cluster):
    """None comes into a part of a batch that is sent again, and costs that its mates."""
    topic = kafka_cluster.create_topic(
        config={"cleanup.policy": "compact", "max.message.bytes": LIMIT}
    )
    client = KafkaProducer(
        bootstrap_servers=kafka_cluster.bootstrap_servers, linger_ms=10_000
    )
    unknown = {topic: TopicFacts(compacted=False)}
    with guard(client, policy={"on_reject": "drop"}, topics=unknown) as producer:
        for n in range(100):
            key = None if n % 20 == 10 else b"k%d" % (n % 5)
            producer.send(topic, b"value-%08d" % n, key, [("h", b"v")])
        report = producer.flush(60)
    assert (report.delivered, report.failed, report.dropped) == (95, 0, 5)
    assert len(read(kafka_cluster, topic)) == 95


def test_the_order_of_a_key_holds_where_threads_go_on_sending(kafka_cluster, small):
    """While one producer after the other dies of a record that is too large."""
    client = KafkaProducer(bootstrap_servers=kafka_cluster.bootstrap_servers)
    with guard(client, policy={"on_reject": "drop"}) as producer:

        def work(key):
            for n in range(600):
                producer.send(small, b"%d;" % n + BIG * (n % 150 == 75), key)

        workers = [threading.Thread(target=work, args=(b"%d" % n,)) for n in range(3)]
        for worker in workers:
            worker.start()
        for worker in workers:
            worker.join(120)
        report = producer.flush(60)
    assert (report.dropped, report.pending) == (12, 0)
    assert report.delivered + report.in_doubt == 3 * 600 - 12
    there = read(kafka_cluster, small)
    for key in (b"0", b"1", b"2"):
        mine = [int(value[:-1]) for its, value in there if its == key]
        assert mine == sorted(set(mine))
