"""What guarding kafka-python's producer costs a send, on a real broker."""

from __future__ import annotations

import gc
import random
import statistics
import time

from kafka import KafkaProducer
from rich.console import Console
from rich.table import Table

from benchmarks._fresh import RUNS, in_fresh_processes
from kafkaguard import guard
from kafkaguard.testing import KafkaCluster

SENDS = 1_000
ROUNDS = 80
VALUE = b"v" * 100
KEYS = [b"%010d" % n for n in range(SENDS)]
NO_KEYS = [None] * SENDS
LIMITS = {"rescue off": 1.05, "rescue on": 1.25}


def send_cost(producer, topic, keys):
    """Return the microseconds that the sending thread works for one send.

    Its own CPU time, so that neither other processes nor the wait for the client's
    thread are counted; and without what the one before has left to collect.
    """
    gc.collect()
    start = time.thread_time()
    for key in keys:
        producer.send(topic, VALUE, key)
    spent = time.thread_time() - start
    producer.flush(30)
    return spent / len(keys) * 1e6


def measure(producers, topic, keys):
    """Return each producer's median cost and its median ratio to the bare one."""
    costs = {name: [] for name in producers}
    for _ in range(ROUNDS):
        for name in random.sample(list(producers), len(producers)):
            costs[name].append(send_cost(producers[name], topic, keys))
    return {
        name: (
            statistics.median(mine),
            statistics.median(m / b for m, b in zip(mine, costs["bare"], strict=True)),
        )
        for name, mine in costs.items()
    }


def measure_all(bootstrap_servers, topic):
    """Measure in this process, with keys and without."""
    settings = {"bootstrap_servers": bootstrap_servers}
    producers = {
        "bare": KafkaProducer(**settings),
        "rescue off": guard(KafkaProducer(**settings), policy={"rescue": False}),
        "rescue on": guard(KafkaProducer(**settings)),
    }
    found = {
        (kind, name): result
        for kind, keys in (("with a key", KEYS), ("without a key", NO_KEYS))
        for name, result in measure(producers, topic, keys).items()
    }
    for producer in producers.values():
        producer.close(10)
    return found


def main() -> bool:
    """Print the table; return True if a limit is missed."""
    table = Table(
        "Records", "Producer", "us a send", "Of bare", f"In {RUNS} runs", "At most"
    )
    missed = False
    with KafkaCluster() as cluster:
        topic = cluster.create_topic()
        runs = in_fresh_processes(measure_all, cluster.bootstrap_servers, topic)
    for kind, name in runs[0]:
        costs, ratios = zip(*(run[kind, name] for run in runs), strict=True)
        ratio = statistics.median(ratios)
        limit = LIMITS.get(name)
        missed |= limit is not None and ratio > limit
        table.add_row(
            kind,
            name,
            f"{statistics.median(costs):.1f}",
            f"{ratio:.3f}",
            f"{min(ratios):.2f} to {max(ratios):.2f}",
            f"{limit or 1:g}",
        )
    Console().print(table)
    return missed
