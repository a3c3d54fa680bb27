"""Set a record aside that no handler can read, and read on."""

from __future__ import annotations

import json
import os

from kafka import KafkaConsumer, KafkaProducer

from kafkaguard import guard

servers = os.environ["KAFKA"]
with KafkaProducer(bootstrap_servers=servers) as producer:
    for value in (b'{"order": 1}', b"not JSON", b'{"order": 2}'):
        producer.send("orders", value)

policy = {
    "on_reject": "dead_letter",
    "dead_letter": {"topic": "orders.dlq", "limit": {"consecutive": 100}},
    "handler": {"reject_on": ["JSONDecodeError", "KeyError"]},
}
config = {
    "bootstrap_servers": servers,
    "group_id": "billing",
    "auto_offset_reset": "earliest",
}


def handle(record):
    """Read an order; the error of a bad one names no data."""
    print("order", json.loads(record.value)["order"])


with guard(factory=KafkaConsumer, config=config, policy=policy) as consumer:
    consumer.subscribe(["orders"])
    report = consumer.process(handle, until_end=True)
print(report)
