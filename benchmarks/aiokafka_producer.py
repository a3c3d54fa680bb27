"""What guarding aiokafka's producer costs, on a real broker.

A bare and a guarded producer take turns in one event loop: 5,000 records of 100 bytes
with a key, from the first ``send`` until all futures have their outcome. The measure is
the CPU time of the process, because the broker's share differs from run to run. Turns
are short, so that both see the same machine; and the processes are fresh.
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

RECORDS = 5_000
#: Pairs in each process; in all 200,000 records of each kind.
PAIRS = 9
WARM_UP = 2
VALUES = [b"%0100d" % n for n in range(1000)]
KEYS = [b"k%d" % n for n in range(1000)]
LIMIT = 1.05


async def cost(producer, topic):
    """Return the CPU time of one record in microseconds, until all are delivered."""
    gc.collect()
    start = time.process_time()
    futures = [
        await producer.send(topic, VALUES[n % 1000], KEYS[n % 1000])
        for n in range(RECORDS)
    ]
    await asyncio.gather(*futures)
    return (time.process_time() - start) / RECORDS * 1e6


async def compare(servers, topic):
    """Return the costs of both kinds, measured in turns of changing order."""
    config = {
        "bootstrap_servers": servers,
        "enable_idempotence": True,
        "linger_ms": 5,
    }
    found = []
    async with (
        AIOKafkaProducer(**config) as bare,
        guard(AIOKafkaProducer(**config)) as guarded,
    ):
        for number in range(WARM_UP + PAIRS):
            if number % 2:
                first = await cost(bare, topic)
                found.append((first, await cost(guarded, topic)))
            else:
                first = await cost(guarded, topic)
                found.append((await cost(bare, topic), first))
    return found[WARM_UP:]


def measure(servers, topic):
    """Compare both kinds in this process."""
    return asyncio.run(compare(servers, topic))


def main() -> bool:
    """Print the table; return True if the limit is missed."""
    with KafkaCluster() as cluster:
        topic = cluster.create_topic()
        runs = in_fresh_processes(measure, cluster.bootstrap_servers, topic)
    pairs = [pair for run in runs for pair in run]
    ratios = [statistics.median(mine / bare for bare, mine in run) for run in runs]
    bare, guarded = map(statistics.median, zip(*pairs, strict=True))
    table = Table("What", "Bare", "Guarded", "Of bare", f"In {RUNS} runs", "At most")
    table.add_row(
        f"us a record, {len(pairs)} pairs",
        f"{bare:.2f}",
        f"{guarded:.2f}",
        f"{statistics.median(ratios):.3f}",
        f"{min(ratios):.3f} to {max(ratios):.3f}",
        f"{LIMIT}",
    )
    Console().print(table)
    return statistics.median(ratios) > LIMIT


if __name__ == "__main__":
    sys.exit(main())
