"""What guarding aiokafka's producer costs, on a real broker.

200,000 records of 100 bytes with a key, from the first ``send`` until all futures have
their outcome; bare and guarded in turn, each in an event loop of its own, in fresh
processes. CPU time of the process, since the broker's share differs from run to run.
"""

from __future__ import annotations

import asyncio
import gc
import statistics
import sys
import time

from rich.console import Console
from rich.table import Table

from aiokafka import AIOKafkaProducer
from benchmarks._fresh import RUNS, in_fresh_processes
from kafkaguard import guard
from kafkaguard.testing import KafkaCluster

RECORDS = 200_000
#: In each of the processes; nine and more in all.
PAIRS = 2
VALUES = [b"%0100d" % n for n in range(1000)]
KEYS = [b"k%d" % n for n in range(1000)]
LIMIT = 1.05


async def cost(kind, servers, topic, records):
    """Return the CPU seconds until all records are delivered."""
    producer = AIOKafkaProducer(
        bootstrap_servers=servers, enable_idempotence=True, linger_ms=5
    )
    if kind == "guarded":
        producer = guard(producer)
    await producer.start()
    try:
        await producer.send_and_wait(topic, b"first", b"k")
        gc.collect()
        start = time.process_time()
        futures = [
            await producer.send(topic, VALUES[n % 1000], KEYS[n % 1000])
            for n in range(records)
        ]
        await asyncio.gather(*futures)
        return time.process_time() - start
    finally:
        await producer.stop()


def measure(servers, topic, records=RECORDS, pairs=PAIRS):
    """Return the seconds of both kinds, in turn, each first half of the time."""
    found = []
    for number in range(pairs):
        kinds = ("bare", "guarded") if number % 2 else ("guarded", "bare")
        took = {
            kind: asyncio.run(cost(kind, servers, topic, records)) for kind in kinds
        }
        found.append((took["bare"], took["guarded"]))
    return found


def main() -> bool:
    """Print the table; return True if the limit is missed."""
    with KafkaCluster() as cluster:
        topic = cluster.create_topic()
        runs = in_fresh_processes(measure, cluster.bootstrap_servers, topic)
    pairs = [pair for run in runs for pair in run]
    ratios = [guarded / bare for bare, guarded in pairs]
    bare, guarded = map(statistics.median, zip(*pairs, strict=True))
    table = Table("What", "Bare", "Guarded", "Of bare", "Pairs", "At most")
    table.add_row(
        f"us a record, {len(pairs)} pairs in {RUNS} processes",
        f"{bare / RECORDS * 1e6:.2f}",
        f"{guarded / RECORDS * 1e6:.2f}",
        f"{statistics.median(ratios):.3f}",
        f"{min(ratios):.2f} to {max(ratios):.2f}",
        f"{LIMIT}",
    )
    Console().print(table)
    return statistics.median(ratios) > LIMIT


if __name__ == "__main__":
    sys.exit(main())
