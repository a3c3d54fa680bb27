"""What guarding costs a loop that polls, on a real broker, for all three clients.

Each pair reads the same records, once with the bare client and once with the guarded
one; who begins changes from pair to pair, so that both meet the same machine. What is
compared is the CPU time of the thread that polls: a busy machine does not disturb it.
"""

from __future__ import annotations

import asyncio
import gc
import statistics
import time

import confluent_kafka
import kafka
from rich.console import Console
from rich.table import Table

import aiokafka
from kafkaguard import guard
from kafkaguard.testing import KafkaCluster

RECORDS = 20_000
PAIRS = 9
VALUE = b"v" * 100
LIMIT = 1.05


def fill(servers, topic):
    """Write the records."""
    producer = confluent_kafka.Producer({"bootstrap.servers": servers})
    for _ in range(RECORDS):
        producer.produce(topic, VALUE)
        producer.poll(0)
    producer.flush(60)


def polling(client, topic):
    """Read by `poll`, as kafka-python's users do."""
    client.assign([kafka.TopicPartition(topic, 0)])
    count, start = 0, 0.0
    while count < RECORDS:
        for records in client.poll(timeout_ms=1000).values():
            start = start or time.thread_time()
            count += len(records)
    return time.thread_time() - start


def iterating(client, topic):
    """Read record by record."""
    client.assign([kafka.TopicPartition(topic, 0)])
    next(client)
    start = time.thread_time()
    for _ in range(RECORDS - 1):
        next(client)
    return time.thread_time() - start


def confluent_polling(client, topic):
    """Read message by message, as confluent-kafka's users do."""
    client.assign([confluent_kafka.TopicPartition(topic, 0)])
    count, start = 0, 0.0
    while count < RECORDS:
        message = client.poll(1.0)
        if message is not None and message.error() is None:
            start = start or time.thread_time()
            message.value()
            count += 1
    return time.thread_time() - start


async def awaiting(client, topic):
    """Read record by record, as aiokafka's users do."""
    async with client:
        client.assign([aiokafka.TopicPartition(topic, 0)])
        await client.getone()
        start = time.thread_time()
        for _ in range(RECORDS - 1):
            await client.getone()
        return time.thread_time() - start


def with_kafka_python(read, is_guarded, servers, topic):
    """Read with kafka-python."""
    client = kafka.KafkaConsumer(
        bootstrap_servers=servers, auto_offset_reset="earliest"
    )
    client = guard(client) if is_guarded else client
    try:
        return read(client, topic)
    finally:
        client.close()


def with_confluent(is_guarded, servers, topic):
    """Read with confluent-kafka."""
    config = {
        "bootstrap.servers": servers,
        "group.id": "benchmark",
        "auto.offset.reset": "earliest",
        "enable.auto.commit": False,
    }
    client = confluent_kafka.Consumer(config)
    client = guard(client, config=config) if is_guarded else client
    try:
        return confluent_polling(client, topic)
    finally:
        client.close()


def with_aiokafka(is_guarded, servers, topic):
    """Read with aiokafka."""

    async def run():
        client = aiokafka.AIOKafkaConsumer(
            bootstrap_servers=servers, auto_offset_reset="earliest"
        )
        return await awaiting(guard(client) if is_guarded else client, topic)

    return asyncio.run(run())


LOOPS = {
    "kafka-python, poll": lambda *given: with_kafka_python(polling, *given),
    "kafka-python, iteration": lambda *given: with_kafka_python(iterating, *given),
    "confluent-kafka, poll": with_confluent,
    "aiokafka, getone": with_aiokafka,
}


def pair(loop, number, servers, topic):
    """Return the times of a bare and a guarded consumer, in turns."""
    times = {}
    for is_guarded in (False, True) if number % 2 else (True, False):
        gc.collect()
        times[is_guarded] = loop(is_guarded, servers, topic)
    return times[False], times[True]


def main() -> bool:
    """Print the table; return True if a limit is missed."""
    table = Table("Loop", "us a record", "Of bare", f"In {PAIRS} pairs", "At most")
    missed = False
    with KafkaCluster() as cluster:
        servers, topic = cluster.bootstrap_servers, cluster.create_topic()
        fill(servers, topic)
        for name, loop in LOOPS.items():
            pair(loop, 0, servers, topic)
            pairs = [pair(loop, n, servers, topic) for n in range(PAIRS)]
            ratios = [mine / bare for bare, mine in pairs]
            ratio = statistics.median(ratios)
            missed |= ratio > LIMIT
            cost = statistics.median(mine for _, mine in pairs) / RECORDS * 1e6
            table.add_row(
                name,
                f"{cost:.1f}",
                f"{ratio:.3f}",
                f"{min(ratios):.2f} to {max(ratios):.2f}",
                f"{LIMIT:g}",
            )
    Console().print(table)
    return missed
