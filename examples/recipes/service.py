"""Handle records until the service is told to stop, and tell what happens to them."""

from __future__ import annotations

import json
import os
import signal
import threading

from kafka import KafkaConsumer, KafkaProducer

import kafkaguard
from kafkaguard import guard
from kafkaguard.events import DependencyEvent, RecordSetAsideEvent

servers = os.environ["KAFKA"]
with KafkaProducer(bootstrap_servers=servers) as producer:
    for number in range(8):
        producer.send("shipments", b'{"to": "Oslo"}', key=b"%d" % number)
    producer.send("shipments", b'{"from": "Bergen"}', key=b"8")

policy = {
    "on_reject": "dead_letter",
    "dead_letter": {"limit": {"consecutive": 100}},
    "handler": {"reject_on": ["JSONDecodeError", "KeyError"]},
}
config = {
    "bootstrap_servers": servers,
    "group_id": "shipping",
    "auto_offset_reset": "earliest",
}


def handle(record):
    """Ship something, or raise."""
    json.loads(record.value)["to"]


def tell(event):
    """Say what needs a person; events are the only place where it stands."""
    if isinstance(event, (DependencyEvent, RecordSetAsideEvent)):
        print(event)


kafkaguard.stop_on_signals()  # SIGTERM and Ctrl-C end the run below
threading.Timer(9, signal.raise_signal, [signal.SIGTERM]).start()  # in your place
with guard(
    factory=KafkaConsumer, config=config, policy=policy, on_event=tell
) as consumer:
    consumer.subscribe(["shipments"])
    report = consumer.process(handle, workers=4, order="key")
print(report)
