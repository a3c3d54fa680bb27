"""Records a second, and the wait of the slowest one: each client, bare and guarded.

Full speed: records of 100 bytes with a key, from the first send until all are
confirmed. The wait: a record each millisecond, from its send until it is confirmed; of
a hundred records, 99 wait no longer. Bare and guarded take turns in fresh processes.
"""

from __future__ import annotations

import asyncio
import statistics
import sys
import time

from confluent_kafka import Producer
from kafka import KafkaProducer
from rich.console import Console
from rich.table import Table

from aiokafka import AIOKafkaProducer
from benchmarks._fresh import in_fresh_processes
from kafkaguard import guard
from kafkaguard.testing import KafkaCluster

PAIRS = 7
#: Each client's records at full speed, which take some seconds.
RECORDS = {"kafka-python": 60_000, "confluent-kafka": 400_000, "aiokafka": 60_000}
PACED, GAP_S, PATIENCE_S = 5_000, 0.001, 60.0
LINGER_MS = 5
VALUES = [b"%0100d" % n for n in range(1000)]
KEYS = [b"k%d" % n for n in range(1000)]
#: The least throughput, as a part of the bare client's.
LEAST = {"kafka-python": 0.9, "confluent-kafka": 0.8, "aiokafka": 0.9}
KINDS = ("bare", "guarded")


def build(factory, kind, config):
    """Build a producer."""
    if kind == "guarded":
        return guard(factory=factory, config=config)
    return factory(config) if factory is Producer else factory(**config)


def full_speed(count, send, end):
    """Return the records a second."""
    start = time.perf_counter()
    for n in range(count):
        send(n, None)
    end()
    return count / (time.perf_counter() - start)


def paced(send, wait):
    """Return what each record has waited, in seconds; records may take a minute."""
    waits = []
    start = time.perf_counter()
    for n in range(PACED):
        while (left := start + n * GAP_S - time.perf_counter()) > 0:
            wait(left)
        begin = time.perf_counter()
        send(n, lambda *_, begin=begin: waits.append(time.perf_counter() - begin))
    end = time.perf_counter() + PATIENCE_S
    while len(waits) < PACED:
        assert time.perf_counter() < end, "some records were not confirmed"
        wait(GAP_S)
    return waits


def with_kafka_python(kind, servers, topic):
    """Measure kafka-python."""
    config = {"bootstrap_servers": servers, "linger_ms": LINGER_MS}
    producer = build(KafkaProducer, kind, config)

    def send(n, done):
        future = producer.send(topic, VALUES[n % 1000], KEYS[n % 1000])
        if done is not None:
            future.add_callback(done)

    speed = full_speed(RECORDS["kafka-python"], send, producer.flush)
    waits = paced(send, time.sleep)
    producer.close()
    return speed, waits


def with_confluent(kind, servers, topic):
    """Measure confluent-kafka; its callbacks run in ``poll``."""
    config = {
        "bootstrap.servers": servers,
        "linger.ms": LINGER_MS,
        "enable.idempotence": True,
        "queue.buffering.max.messages": 2 * RECORDS["confluent-kafka"],
    }
    producer = build(Producer, kind, config)

    def send(n, done):
        producer.produce(topic, VALUES[n % 1000], KEYS[n % 1000], on_delivery=done)
        if not n % 100:
            producer.poll(0)

    speed = full_speed(RECORDS["confluent-kafka"], send, producer.flush)
    waits = paced(send, producer.poll)
    producer.close()
    return speed, waits


def with_aiokafka(kind, servers, topic):
    """Measure aiokafka."""

    async def run():
        config = {
            "bootstrap_servers": servers,
            "linger_ms": LINGER_MS,
            "enable_idempotence": True,
        }
        count = RECORDS["aiokafka"]
        waits = []
        async with build(AIOKafkaProducer, kind, config) as producer:
            start = time.perf_counter()
            for n in range(count):
                await producer.send(topic, VALUES[n % 1000], KEYS[n % 1000])
            await producer.flush()
            speed = count / (time.perf_counter() - start)
            start = time.perf_counter()
            for n in range(PACED):
                await asyncio.sleep(start + n * GAP_S - time.perf_counter())
                begin = time.perf_counter()
                future = await producer.send(topic, VALUES[n % 1000], KEYS[n % 1000])
                future.add_done_callback(
                    lambda _, begin=begin: waits.append(time.perf_counter() - begin)
                )
            await producer.flush()
        return speed, waits

    return asyncio.run(run())


MEASURES = {
    "kafka-python": with_kafka_python,
    "confluent-kafka": with_confluent,
    "aiokafka": with_aiokafka,
}


def measure(client, kind, servers, topic):
    """Return records a second, and the milliseconds that 99 of 100 records wait."""
    speed, waits = MEASURES[client](kind, servers, topic)
    return speed, statistics.quantiles(waits, n=100)[-1] * 1000


def main() -> bool:
    """Print the table; return True if a limit is missed."""
    table = Table("Client", "Records/s", "Guarded", "Of bare", "p99 ms", "Guarded")
    missed = False
    with KafkaCluster() as cluster:
        servers = cluster.bootstrap_servers
        for client, least in LEAST.items():
            topic = cluster.create_topic(partitions=3)
            pairs = [
                [
                    in_fresh_processes(measure, client, kind, servers, topic, runs=1)[0]
                    for kind in KINDS
                ]
                for _ in range(PAIRS)
            ]
            ratio = statistics.median(mine[0] / bare[0] for bare, mine in pairs)
            missed |= ratio < least
            bare, mine = (
                [statistics.median(values) for values in zip(*runs, strict=True)]
                for runs in zip(*pairs, strict=True)
            )
            table.add_row(
                client,
                f"{bare[0]:,.0f}",
                f"{mine[0]:,.0f}",
                f"{ratio:.2f} ({least})",
                f"{bare[1]:.1f}",
                f"{mine[1]:.1f}",
            )
    Console().print(table)
    return missed


if __name__ == "__main__":
    sys.exit(main())
