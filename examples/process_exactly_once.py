"""Copy records exactly once: outputs and offsets are committed together."""

from __future__ import annotations

from confluent_kafka import Consumer, Producer

from kafkaguard import guard
from kafkaguard.testing import KafkaCluster

with KafkaCluster() as cluster:
    servers = {"bootstrap.servers": cluster.bootstrap_servers}
    orders, invoices = cluster.create_topic(partitions=3), cluster.create_topic()
    source = Producer(servers)
    for number in range(100):
        source.produce(orders, b"order %d" % number, key=b"%d" % (number % 7))
    source.flush()

    producer = guard(factory=Producer, config={**servers, "transactional.id": "shop-1"})
    config = {**servers, "group.id": "shop", "auto.offset.reset": "earliest"}
    failures = iter([OSError("the disk is busy")])

    def handle(message):
        """Send an invoice for an order; fail once."""
        producer.produce(invoices, message.value().replace(b"order", b"invoice"))
        for error in failures:
            raise error

    with guard(factory=Consumer, config=config) as consumer, producer:
        consumer.subscribe([orders])
        report = consumer.process(
            handle, workers=4, order="key", producer=producer, until_end=True
        )
    print(report)

    config |= {"group.id": "reader"}
    with guard(factory=Consumer, config=config) as reader:
        reader.subscribe([invoices])
        values = []
        reader.process(lambda each: values.append(each.value()), until_end=True)
    assert len(values) == len(set(values)) == 100
