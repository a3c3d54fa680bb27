"""A service that handles records while brokers fail, to be killed.

``python -m tests.chaos.service CLIENT SETTINGS TOPIC WORKERS LOG``: it writes a line for
each record that it has handled: key, number, partition, offset, ``time.monotonic()``.
``--bare`` is the careful loop that is written by hand: it commits after each poll what it
has handled.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import sys
import threading
import time
from contextlib import closing
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


def attempt(handle, record, send_letter):
    """Handle a record as loops that are written by hand do: retry, then set aside."""
    for wait in (0.1, None):
        try:
            handle(record)
        except PoisonError:
            if wait is None:
                send_letter(record)
            else:
                time.sleep(wait)
        else:
            return


def run_bare_kafka_python(settings, topic, _, handler):
    """Poll, handle, retry with a sleep, send a letter, commit: with kafka-python."""
    from kafka import KafkaConsumer, KafkaProducer
    from kafka.errors import CommitFailedError

    def send_letter(record):
        letter = producer.send(f"{topic}.dlq", value=record.value, key=record.key)
        letter.get(timeout=30)

    producer = KafkaProducer(**settings, acks="all")
    consumer = KafkaConsumer(
        topic,
        **settings,
        group_id=topic,
        auto_offset_reset="earliest",
        session_timeout_ms=10_000,
        enable_auto_commit=False,
    )
    with closing(producer), closing(consumer):
        while True:
            for records in consumer.poll(timeout_ms=1000).values():
                for record in records:
                    attempt(handler.kafka_python, record, send_letter)
            try:
                consumer.commit()
            except CommitFailedError as error:
                print(repr(error), file=sys.stderr, flush=True)


def run_bare_confluent(settings, topic, _, handler):
    """Do the same with confluent-kafka."""
    from confluent_kafka import Consumer, KafkaException, Producer

    def send_letter(message):
        errors = []
        producer.produce(
            f"{topic}.dlq",
            message.value(),
            key=message.key(),
            on_delivery=lambda error, _: errors.append(error),
        )
        producer.flush(30)
        if errors != [None]:
            raise RuntimeError(errors)

    producer = Producer({**settings, "acks": "all"})
    consumer = Consumer(
        {
            **settings,
            "group.id": topic,
            "auto.offset.reset": "earliest",
            "session.timeout.ms": 10_000,
            "enable.auto.commit": False,
        }
    )
    consumer.subscribe([topic])
    with closing(consumer):
        while True:
            messages = [m for m in consumer.consume(500, 1.0) if m.error() is None]
            for message in messages:
                attempt(handler.confluent, message, send_letter)
            try:
                if messages:
                    consumer.commit(asynchronous=False)
            except KafkaException as error:
                print(repr(error), file=sys.stderr, flush=True)


def run_bare_aiokafka(settings, topic, _, handler):
    """Do the same with aiokafka."""
    from aiokafka.errors import CommitFailedError

    from aiokafka import AIOKafkaConsumer, AIOKafkaProducer

    async def run():
        consumer = AIOKafkaConsumer(
            topic,
            **settings,
            group_id=topic,
            auto_offset_reset="earliest",
            enable_auto_commit=False,
        )
        producer = AIOKafkaProducer(**settings, acks="all")
        async with producer, consumer:
            while True:
                found = await consumer.getmany(timeout_ms=1000)
                for records in found.values():
                    for record in records:
                        try:
                            await handler.aiokafka(record)
                        except PoisonError:
                            await asyncio.sleep(0.1)
                            await producer.send_and_wait(
                                f"{topic}.dlq", record.value, key=record.key
                            )
                try:
                    if found:
                        await consumer.commit()
                except CommitFailedError as error:
                    print(repr(error), file=sys.stderr, flush=True)

    asyncio.run(run())


RUNS = {
    "kafka-python": (run_kafka_python, run_bare_kafka_python),
    "confluent": (run_confluent, run_bare_confluent),
    "aiokafka": (run_aiokafka, run_bare_aiokafka),
}


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
    run = RUNS[chosen.client][chosen.bare]
    while True:
        try:
            run(chosen.settings, chosen.topic, chosen.workers, handler)
        except Exception as error:  # an orchestrator would start it again
            print(repr(error), file=sys.stderr, flush=True)
            time.sleep(1)


if __name__ == "__main__":
    main()
