"""Handle records with confluent-kafka: retries, a dead letter, commits."""

from __future__ import annotations

import json

from confluent_kafka import Consumer, Producer

from kafkaguard import guard
from kafkaguard.testing import KafkaCluster


def handle(message):
    """Handle one record; what it raises decides what becomes of the record."""
    order = json.loads(message.value())
    print(f"order {order['id']}: {order['total']}")


with KafkaCluster() as cluster:
    topic = cluster.create_topic(partitions=3)
    cluster.create_topic(f"{topic}.dlq")
    producer = Producer({"bootstrap.servers": cluster.bootstrap_servers})
    for number in range(5):
        order = {"id": number, "total": 10 * number}
        producer.produce(topic, json.dumps(order), key=str(number))
    producer.produce(topic, b"not JSON")
    producer.flush()

    config = {
        "bootstrap.servers": cluster.bootstrap_servers,
        "group.id": "orders",
        "auto.offset.reset": "earliest",
    }
    policy = {
        "on_reject": "dead_letter",
        "handler": {
            "reject_on": ["JSONDecodeError", "KeyError"],
            "wait_on": ["OperationalError"],
        },
    }
    with guard(factory=Consumer, config=config, policy=policy) as consumer:
        consumer.subscribe([topic])
        report = consumer.process(handle, workers=4, order="key", until_end=True)
    print(report)
    assert (report.processed, report.dead_lettered) == (5, 1)
