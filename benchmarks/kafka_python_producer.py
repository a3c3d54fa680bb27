"""What guarding costs a send of kafka-python's producer, on a real broker.

The measure is the CPU time of the sending thread while the client's own thread is idle;
the time of both threads differs by 10 % between two producers of the same kind. Short
blocks take turns, so that all producers see the same machine.
"""

from __future__ import annotations

import gc
import itertools
import random
import statistics
import time

from kafka import KafkaProducer
from rich.console import Console
from rich.table import Table

from benchmarks._fresh import RUNS, in_fresh_processes
from kafkaguard import guard
from kafkaguard.testing import KafkaCluster

BLOCK = 50
BLOCKS = 50
WARM_UP = 10
#: Producers of each kind in a process, because a producer's place in memory makes a
#: difference of 3 %.
PRODUCERS = 8
VALUE = b"v" * 100
KEYS = {
    "with a key": [b"%010d" % n for n in range(BLOCK)],
    "without a key": [None] * BLOCK,
}
#: All records between two flushes fit into one batch, which is sent by the flush only.
AT_REST = {"linger_ms": 20_000, "batch_size": 500_000}
KINDS = {
    "bare": KafkaProducer,
    "rescue off": lambda **config: guard(
        KafkaProducer(**config), policy={"rescue": "never"}
    ),
    "rescue on": lambda **config: guard(KafkaProducer(**config)),
}
LIMITS = {"rescue off": 1.05, "rescue on": 1.10}


def shuffled(producers):
    """Return (kind, producer) pairs in a new order."""
    return random.sample(list(producers.items()), len(producers))


def send_cost(producer, topic, keys):
    """Return the CPU time of the sending thread for one send, in microseconds."""
    start = time.thread_time()
    for key in keys:
        producer.send(topic, VALUE, key)
    return (time.thread_time() - start) / len(keys) * 1e6


def turn_over(producers):
    """Flush all producers, and collect garbage."""
    for producer in producers.values():
        producer.flush(30)
    gc.collect()


def compare(producers, topic, keys):
    """Return each kind's median cost, without the first blocks."""
    costs = {kind: [] for kind in producers}
    for block in range(WARM_UP + BLOCKS):
        if block % 10 == 0:
            turn_over(producers)
        for kind, producer in shuffled(producers):
            costs[kind].append(send_cost(producer, topic, keys))
    return {kind: statistics.median(mine[WARM_UP:]) for kind, mine in costs.items()}


def measure(config, topic, keys, kinds=KINDS):
    """Return the costs of several producers of each kind."""
    found = {kind: [] for kind in kinds}
    for _ in range(PRODUCERS):
        producers = {kind: make(**config) for kind, make in shuffled(kinds)}
        for kind, cost in compare(producers, topic, keys).items():
            found[kind].append(cost)
        for producer in producers.values():
            producer.close(10)
    return found


def measure_all(bootstrap_servers, topic):
    """Measure in this process, with keys and without."""
    config = {"bootstrap_servers": bootstrap_servers, **AT_REST}
    return {
        (name, kind): costs
        for name, keys in KEYS.items()
        for kind, costs in measure(config, topic, keys).items()
    }


def ratio_of(run, name, kind):
    """Return the median ratio of a kind's producers to bare ones, in one process."""
    pairs = zip(run[name, kind], run[name, "bare"], strict=True)
    return statistics.median(mine / bare for mine, bare in pairs)


def main() -> bool:
    """Print the table; return True if a limit is missed."""
    table = Table(
        "Records", "Producer", "us a send", "Of bare", f"In {RUNS} runs", "At most"
    )
    missed = False
    with KafkaCluster() as cluster:
        topic = cluster.create_topic()
        runs = in_fresh_processes(measure_all, cluster.bootstrap_servers, topic)
    for name, kind in runs[0]:
        costs = itertools.chain.from_iterable(run[name, kind] for run in runs)
        ratios = [ratio_of(run, name, kind) for run in runs]
        ratio = statistics.median(ratios)
        limit = LIMITS.get(kind)
        missed |= limit is not None and ratio > limit
        table.add_row(
            name,
            kind,
            f"{statistics.median(costs):.1f}",
            f"{ratio:.3f}",
            f"{min(ratios):.2f} to {max(ratios):.2f}",
            f"{limit or 1:g}",
        )
    Console().print(table)
    return missed
