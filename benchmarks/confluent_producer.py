"""What guarding confluent-kafka's producer costs, on a real broker.

The time is that of 200,000 records of 100 bytes with delivery callbacks, from the first
``produce`` until ``flush`` returns; bare and guarded in turn, in fresh processes. The
memory is that of the records in the queue, in a process for each kind.
"""

from __future__ import annotations

import statistics
import subprocess
import sys
import time
from pathlib import Path

from confluent_kafka import Producer
from rich.console import Console
from rich.table import Table

from benchmarks._fresh import RUNS, in_fresh_processes
from kafkaguard import TopicFacts, guard
from kafkaguard.testing import KafkaCluster

RECORDS = 200_000
PAIRS = 3
VALUES = [b"%0100d" % n for n in range(1000)]
KEYS = [b"k%d" % n for n in range(1000)]
POLL_EACH = 100
LIMIT = 1.25
MEMORY_LIMITS = {"plain": 1.1, "headers": 1.6}
NOWHERE = "127.0.0.1:1"
#: What a guarded producer of another kind has as ``on_event``.
HOOKS = {}


def make(kind, servers, topic):
    """Build a producer."""
    config = {
        "bootstrap.servers": servers,
        "linger.ms": 5,
        "enable.idempotence": True,
        "queue.buffering.max.messages": 2 * RECORDS,
        "log_level": 0,
    }
    if kind == "bare":
        return Producer(config)
    facts = {topic: TopicFacts(compacted=False)}
    hook = HOOKS.get(kind)
    return guard(factory=Producer, config=config, topics=facts, on_event=hook)


def seconds(kind, servers, topic):
    """Return the seconds until all records are delivered and reported."""
    producer = make(kind, servers, topic)
    producer.produce(topic, b"first")
    producer.flush()
    told = [0]

    def tell(error, _):
        assert error is None
        told[0] += 1

    start = time.perf_counter()
    for n in range(RECORDS):
        producer.produce(topic, VALUES[n % 1000], KEYS[n % 1000], on_delivery=tell)
        if not n % POLL_EACH:
            producer.poll(0)
    producer.flush()
    took = time.perf_counter() - start
    assert told == [RECORDS]
    producer.close()
    return took


def measure(servers, topic):
    """Return the seconds of both kinds, measured in turn."""
    return [
        (seconds("bare", servers, topic), seconds("guarded", servers, topic))
        for _ in range(PAIRS)
    ]


def memory(kind, records):
    """Return the bytes of memory of one record in the queue, in this process."""
    producer = make(kind, NOWHERE, "t")
    more = {"headers": {"trace": b"1"}} if records == "headers" else {}
    before = resident()
    for n in range(RECORDS):
        producer.produce("t", b"%0100d" % n, b"k%d" % (n % 1000), **more)
    return (resident() - before) / RECORDS


def resident():
    """Return the bytes of memory of this process."""
    pages = Path("/proc/self/statm").read_text().split()[1]
    return int(pages) * 4096


def memory_in_a_process(kind, records):
    """Run ``memory`` in a process of its own."""
    code = (
        "import os; from benchmarks.confluent_producer import memory; "
        f"print(memory({kind!r}, {records!r}), flush=True); os._exit(0)"
    )
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", code],
        check=True,
        capture_output=True,
        text=True,
        timeout=120,
    )
    return float(done.stdout)


def main() -> bool:
    """Print the table; return True if a limit is missed."""
    table = Table("What", "Bare", "Guarded", "Of bare", "At most")
    with KafkaCluster() as cluster:
        topic = cluster.create_topic()
        runs = in_fresh_processes(measure, cluster.bootstrap_servers, topic)
    pairs = [pair for run in runs for pair in run]
    ratio = statistics.median(guarded / bare for bare, guarded in pairs)
    bare, guarded = map(statistics.median, zip(*pairs, strict=True))
    missed = ratio > LIMIT
    table.add_row(
        f"us a record, {RUNS * PAIRS} pairs",
        f"{bare / RECORDS * 1e6:.2f}",
        f"{guarded / RECORDS * 1e6:.2f}",
        f"{ratio:.2f}",
        f"{LIMIT}",
    )
    for records, limit in MEMORY_LIMITS.items():
        bare, guarded = (memory_in_a_process(k, records) for k in ("bare", "guarded"))
        missed |= guarded / bare > limit
        table.add_row(
            f"bytes in the queue, {records}",
            f"{bare:.0f}",
            f"{guarded:.0f}",
            f"{guarded / bare:.2f}",
            f"{limit}",
        )
    Console().print(table)
    return missed
