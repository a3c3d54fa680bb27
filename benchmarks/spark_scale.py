"""One, three and ten million records: time grows linearly, memory does not grow."""

from __future__ import annotations

import os
import threading
import time
from pathlib import Path

from pyspark.sql import functions as F  # noqa: N812 - as everyone calls it
from rich.console import Console
from rich.table import Table

import kafkaguard.spark
from kafkaguard.cli.spark_session import spark_session
from kafkaguard.testing import KafkaCluster

MILLIONS = (1, 3, 10)
PARTITIONS = 4
#: The largest allowed ratio of the largest to the smallest write, for the time of each
#: record and for memory.
MOST = 1.3
_LOOK_S = 0.2
#: The measured processes, by a part of their command line.
KINDS = {"workers": "pyspark.daemon", "JVM": "SparkSubmit"}


def children():
    """List this process and all its child processes."""
    parents = {}
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            stat = (folder / "stat").read_text()
        except OSError:
            continue
        parent = int(stat.rpartition(")")[2].split()[1])
        parents.setdefault(parent, []).append(folder)
    found, due = [], [Path("/proc") / str(os.getpid())]
    while due:
        folder = due.pop()
        found.append(folder)
        due += parents.get(int(folder.name), [])
    return found


def megabytes(folder):
    """Return the private memory of a process."""
    pages = (folder / "statm").read_text().split()
    own = int(pages[1]) - int(pages[2])
    return own * os.sysconf("SC_PAGE_SIZE") / 1e6


class Watch:
    """Measures the memory of each kind of process repeatedly."""

    def __init__(self):
        self.most = dict.fromkeys(KINDS, 0.0)
        self._ends = threading.Event()
        self._thread = threading.Thread(target=self._look, daemon=True)

    def __enter__(self):
        """Begin."""
        self._thread.start()
        return self

    def __exit__(self, *_):
        """End."""
        self._ends.set()
        self._thread.join()

    def _look(self):
        while not self._ends.wait(_LOOK_S):
            now = dict.fromkeys(KINDS, 0.0)
            for folder in children():
                try:
                    command = (folder / "cmdline").read_bytes().decode()
                    for kind, part in KINDS.items():
                        if part in command:
                            now[kind] += megabytes(folder)
                except OSError:
                    continue
            self.most = {kind: max(self.most[kind], now[kind]) for kind in KINDS}


def write(spark, cluster, millions):
    """Write millions of records; return the seconds for a million, and the memory."""
    topic, dead = cluster.create_topic(partitions=PARTITIONS), cluster.create_topic()
    number = F.col("id").cast("string")
    df = spark.range(millions * 1_000_000, numPartitions=PARTITIONS).select(
        F.lpad(number, 10, "0").alias("key"), F.lpad(number, 100, "x").alias("value")
    )
    policy = {"extends": "spark-sink", "dead_letter": {"topic": dead}}
    with Watch() as watch:
        started = time.perf_counter()
        kafkaguard.spark.write(
            df, topic, bootstrap_servers=cluster.bootstrap_servers, policy=policy
        )
        elapsed = time.perf_counter() - started
    cluster.delete_topic(topic)
    return elapsed / millions, watch.most


def main() -> bool:
    """Print the table; return True if the largest write exceeds the ratio."""
    with spark_session("benchmark") as spark, KafkaCluster() as cluster:
        write(spark, cluster, 1)  # the first write of a Spark is slower
        found = {millions: write(spark, cluster, millions) for millions in MILLIONS}
    table = Table(title="write with dead letters, records of 110 bytes")
    for heading in ("Million", "Seconds a million", *(f"{kind}, MB" for kind in KINDS)):
        table.add_column(heading, justify="right")
    for millions, (seconds, memory) in found.items():
        shown = [f"{memory[kind]:.0f}" for kind in KINDS]
        table.add_row(str(millions), f"{seconds:.2f}", *shown)
    Console().print(table)
    (first, small), (last, large) = found[MILLIONS[0]], found[MILLIONS[-1]]
    grown = [large["workers"] / small["workers"], last / first]
    return any(ratio > MOST for ratio in grown)
