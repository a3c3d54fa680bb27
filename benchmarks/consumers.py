"""What guarding costs a polling loop, on a real broker, for all three clients.

A bare and a guarded consumer take turns in one process and read the same topic. The
turns are short and in a new order each time, so that both see the same machine; ten
turns of each make a pair. The measure is the CPU time of the polling thread, which does
not depend on other load of the machine.
"""

from __future__ import annotations

import asyncio
import gc
import logging
import statistics
import time
from functools import partial

import confluent_kafka
import kafka
from rich.console import Console
from rich.table import Table

import aiokafka
from kafkaguard import guard
from kafkaguard.testing import KafkaCluster

PAIRS = 9
TURNS = 10
#: Records of a turn, so many that a pair also contains the client's periodic work.
RECORDS = {"confluent-kafka": 5_000, "kafka-python": 1_000, "aiokafka": 1_000}
VALUE = b"v" * 100
LIMIT = 1.05


def fill(servers, topic):
    """Write the records, with one more turn to warm up."""
    producer = confluent_kafka.Producer(
        {"bootstrap.servers": servers, "queue.buffering.max.messages": 2_000_000}
    )
    for _ in range((PAIRS * TURNS + 2) * max(RECORDS.values())):
        producer.produce(topic, VALUE)
    producer.flush(120)


def polling(client, count):
    """Read by `poll`, as kafka-python's users do."""
    while count > 0:
        for records in client.poll(timeout_ms=1000).values():
            count -= len(records)


def iterating(client, count):
    """Read record by record."""
    for _ in range(count):
        next(client)


def confluent_polling(client, count):
    """Read message by message, as confluent-kafka's users do."""
    while count:
        message = client.poll(1.0)
        if message is not None and message.error() is None:
            message.value()
            count -= 1


class Wrapped:
    """The least wrapper: a function that calls ``poll`` and checks for an error."""

    def __init__(self, client):
        poll_client = client.poll

        def poll(timeout):
            message = poll_client(timeout)
            if message is None or message.error() is not None:
                return None
            return message

        self.poll, self.assign, self.close = poll, client.assign, client.close


async def awaiting(client, count):
    """Read record by record, as aiokafka's users do."""
    for _ in range(count):
        await client.getone()


async def awaiting_many(client, count):
    """Read by ``getmany``."""
    while count > 0:
        limits = {"timeout_ms": 1000, "max_records": min(count, 500)}
        for records in (await client.getmany(**limits)).values():
            count -= len(records)


async def awaiting_next(client, count):
    """Read by ``async for``."""
    async for _ in client:
        count -= 1
        if not count:
            break


def confluent_consuming(client, count):
    """Read 100 messages at once."""
    while count > 0:
        for message in client.consume(min(count, 100), 1.0):
            if message.error() is None:
                message.value()
                count -= 1


def both(make, **given):
    """Make a bare and a guarded consumer."""
    return {"bare": make(), "guarded": guard(make(), **given)}


def kafka_python(read):
    """Compare kafka-python's consumers."""

    def compare(servers, topic, records):
        kinds = both(
            lambda: kafka.KafkaConsumer(
                bootstrap_servers=servers, auto_offset_reset="earliest"
            )
        )
        for client in kinds.values():
            client.assign([kafka.TopicPartition(topic, 0)])
        try:
            return pairs(kinds, read, records)
        finally:
            for client in kinds.values():
                client.close()

    return compare


def confluent(read):
    """Compare confluent-kafka's consumers."""
    return partial(_confluent, read)


def _confluent(read, servers, topic, records):
    config = {
        "bootstrap.servers": servers,
        "group.id": "benchmark",
        "auto.offset.reset": "earliest",
        "enable.auto.commit": False,
        "fetch.queue.backoff.ms": 10,  # one pauses while the other one reads
    }
    kinds = both(lambda: confluent_kafka.Consumer(config), config=config)
    if read is confluent_polling:
        kinds["wrapped"] = Wrapped(confluent_kafka.Consumer(config))
    for client in kinds.values():
        client.assign([confluent_kafka.TopicPartition(topic, 0, 0)])
    try:
        return pairs(kinds, read, records)
    finally:
        for client in kinds.values():
            client.close()


def aiokafkas(reading):
    """Compare aiokafka's consumers, in one event loop."""
    return partial(_aiokafkas, reading)


def _aiokafkas(reading, servers, topic, records):
    with asyncio.Runner() as runner:

        async def start():
            kinds = both(
                lambda: aiokafka.AIOKafkaConsumer(
                    bootstrap_servers=servers, auto_offset_reset="earliest"
                )
            )
            for client in kinds.values():
                await client.start()
                client.assign([aiokafka.TopicPartition(topic, 0)])
            return kinds

        def read(client, count):
            runner.run(reading(client, count))

        kinds = runner.run(start())
        try:
            return pairs(kinds, read, records)
        finally:
            for client in kinds.values():
                runner.run(client.stop())


LOOPS = {
    "kafka-python, poll": kafka_python(polling),
    "kafka-python, iteration": kafka_python(iterating),
    "confluent-kafka, poll": confluent(confluent_polling),
    "confluent-kafka, consume": confluent(confluent_consuming),
    "aiokafka, getone": aiokafkas(awaiting),
    "aiokafka, async for": aiokafkas(awaiting_next),
    "aiokafka, getmany": aiokafkas(awaiting_many),
}


def pairs(kinds, read, records):
    """Return the CPU seconds of each kind of consumer, for each pair."""
    for client in kinds.values():
        read(client, records)  # not measured
    found = []
    for _ in range(PAIRS):
        gc.collect()
        took = dict.fromkeys(kinds, 0.0)
        for turn in range(TURNS):
            order = list(kinds.items())
            for kind, client in order if turn % 2 else reversed(order):
                start = time.thread_time()
                read(client, records)
                took[kind] += time.thread_time() - start
        found.append(took)
    return found


def main() -> bool:
    """Print the table; return True if a limit is missed."""
    table = Table("Loop", "us a record", "Of bare", f"In {PAIRS} pairs", "At most")
    missed = False
    logging.getLogger("kafkaguard").setLevel(logging.ERROR)
    with KafkaCluster() as cluster:
        servers, topic = cluster.bootstrap_servers, cluster.create_topic()
        fill(servers, topic)
        for name, compare in LOOPS.items():
            records = RECORDS[name.split(",")[0]]
            found = compare(servers, topic, records)
            for kind in (kind for kind in found[0] if kind != "bare"):
                ratios = [took[kind] / took["bare"] for took in found]
                ratio = statistics.median(ratios)
                missed |= kind == "guarded" and ratio > LIMIT
                cost = statistics.median(took[kind] for took in found)
                table.add_row(
                    name if kind == "guarded" else "the same, any wrapper",
                    f"{cost / records / TURNS * 1e6:.1f}",
                    f"{ratio:.3f}",
                    f"{min(ratios):.2f} to {max(ratios):.2f}",
                    f"{LIMIT:g}" if kind == "guarded" else "",
                )
    Console().print(table)
    return missed
