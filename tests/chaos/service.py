"""A service that handles records while brokers fail, to be killed.

``python -m tests.chaos.service CLIENT SETTINGS TOPIC WORKERS LOG``: it writes a line for
each record that it has handled: key, number, partition, offset, ``time.monotonic()``.
``--bare`` is the loop that is written by hand, with the client's defaults and a commit
each five seconds.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import sys
import threading
import time
from pathlib import Path

from kafkaguard import guard

#: A record whose number this divides is never handled.
POISON = 1000
POLICY = {
    "on_reject": "dead_letter",
    "deadline": 100,
    "handler": {"max_attempts": 2, "reject_on": "PoisonError", "commit_interval": 1},
}


class PoisonError(Exception):
    """What the handler raises for a record that it cannot handle."""


class Handler:
    """Writes down what it has handled.

    Args:
        path: The file of lines.
    """

    def __init__(self, path):
        self._lines = Path(path).open("a", buffering=1)  # noqa: SIM115 - until it is killed
        self._lock = threading.Lock()

    def handle(self, key, value, partition, offset):
        """Handle a record."""
        if int(value) % POISON == POISON - 1:
            raise PoisonError
        with self._lock:
            line = f"{key.decode()} {int(value)} {partition} {offset}"
            self._lines.write(f"{line} {time.monotonic():.3f}\n")

    def kafka_python(self, record):
        """Handle a record of kafka-python."""
        self.handle(record.key, record.value, record.partition, record.offset)

    def confluent(self, message):
        """Handle a message of confluent-kafka."""
        self.handle(
            message.key(), message.value(), message.partition(), message.offset()
        )

    async def aiokafka(self, record):
        """Handle a record of aiokafka."""
        self.kafka_python(record)


def run_kafka_python(settings, topic, workers, handler):
    """Run the service with kafka-python."""
    from kafka import KafkaConsumer

    config = {
        **settings,
        "group_id": topic,
        "auto_offset_reset": "earliest",
        "session_timeout_ms": 10_000,
        "metadata_max_age_ms": 5_000,
    }
    with guard(factory=KafkaConsumer, config=config, policy=POLICY) as consumer:
        consumer.subscribe([topic])
        consumer.process(handler.kafka_python, workers=workers, order="key")


def run_confluent(settings, topic, workers, handler):
    """Run the service with confluent-kafka."""
    from confluent_kafka import Consumer

    config = {
        **settings,
        "group.id": topic,
        "auto.offset.reset": "earliest",
        "session.timeout.ms": 10_000,
        "topic.metadata.refresh.interval.ms": 5_000,
    }
    with guard(factory=Consumer, config=config, policy=POLICY) as consumer:
        consumer.subscribe([topic])
        consumer.process(handler.confluent, workers=workers, order="key")


def run_aiokafka(settings, topic, workers, handler):
    """Run the service with aiokafka."""
    from aiokafka import AIOKafkaConsumer

    async def run():
        config = {
            **settings,
            "group_id": topic,
            "auto_offset_reset": "earliest",
            "rebalance_timeout_ms": 10_000,
            "metadata_max_age_ms": 5_000,
        }
        factory = AIOKafkaConsumer
        async with guard(factory=factory, config=config, policy=POLICY) as consumer:
            consumer.subscribe([topic])
            await consumer.process(handler.aiokafka, workers=workers, order="key")

    asyncio.run(run())


RUNS = {
    "kafka-python": run_kafka_python,
    "confluent": run_confluent,
    "aiokafka": run_aiokafka,
}


def run_bare(settings, topic, handler):
    """Run the loop that many write by hand: poll, handle, catch, send a letter."""
    from confluent_kafka import Consumer, Producer

    producer = Producer(settings)
    consumer = Consumer(
        {
            **settings,
            "group.id": topic,
            "auto.offset.reset": "earliest",
            "session.timeout.ms": 10_000,
        }
    )
    consumer.subscribe([topic])
    while True:
        message = consumer.poll(1.0)
        if message is None or message.error():
            continue
        try:
            handler.confluent(message)
        except PoisonError:
            producer.produce(f"{topic}.dlq", message.value(), key=message.key())
            producer.poll(0)


def main():
    """Run until it is killed."""
    parser = argparse.ArgumentParser(prog="python -m tests.chaos.service")
    parser.add_argument("client", choices=RUNS)
    parser.add_argument("settings", type=json.loads)
    parser.add_argument("topic")
    parser.add_argument("workers", type=int)
    parser.add_argument("log")
    parser.add_argument("--bare", action="store_true")
    chosen = parser.parse_args()
    handler = Handler(chosen.log)
    if chosen.bare:
        run_bare(chosen.settings, chosen.topic, handler)
    while True:
        try:
            RUNS[chosen.client](chosen.settings, chosen.topic, chosen.workers, handler)
        except Exception as error:  # an orchestrator would start it again
            print(repr(error), file=sys.stderr, flush=True)
            time.sleep(1)


if __name__ == "__main__":
    main()
