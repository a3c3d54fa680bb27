"""Decide by verdict what to do with a record that could not be delivered."""

from __future__ import annotations

from confluent_kafka import Producer

from kafkaguard import Action, classify
from kafkaguard.testing import KafkaCluster


def delivery_report(error, message) -> None:
    """Say what became of a record, and what to do if it failed."""
    if error is None:
        print(f"delivered to {message.topic()} at offset {message.offset()}")
        return
    # Both facts are known: this producer is not idempotent (confluent-kafka's default),
    # and its delivery report has the key.
    verdict = classify(
        error, api="Produce", idempotent=False, null_key=message.key() is None
    )
    print(f"{verdict.action}: {verdict.rule.sentence}")
    if verdict.action is Action.REJECT:
        print("-> to the dead-letter topic, whatever is tried")


with KafkaCluster() as cluster:
    compacted = cluster.create_topic(config={"cleanup.policy": "compact"})
    producer = Producer({"bootstrap.servers": cluster.bootstrap_servers})
    producer.produce(compacted, b"value", b"key", on_delivery=delivery_report)
    producer.flush(10)
    producer.produce(compacted, b"value without a key", on_delivery=delivery_report)
    producer.flush(10)
