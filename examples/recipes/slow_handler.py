"""Handle records for longer than the group waits between two polls."""

from __future__ import annotations

import os
import time

from confluent_kafka import Consumer, Producer

from kafkaguard import guard

servers = {"bootstrap.servers": os.environ["KAFKA"]}
producer = Producer(servers)
for number in range(4):
    producer.produce("reports", b"%d" % number, b"%d" % number)
producer.flush()

config = {
    **servers,
    "group.id": "printers",
    "auto.offset.reset": "earliest",
    "session.timeout.ms": 6_000,
    "max.poll.interval.ms": 6_000,
}


def handle(message):
    """Take longer than max.poll.interval.ms."""
    time.sleep(7)
    print(f"report {message.value().decode()}")


with guard(factory=Consumer, config=config, policy={"deadline": 4}) as consumer:
    consumer.subscribe(["reports"])
    # Four threads handle, one polls: the member keeps its partitions.
    print(consumer.process(handle, workers=4, order="key", until_end=True))
