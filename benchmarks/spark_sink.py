"""The guarded Spark sinks compared with Spark's own: a million records, cold and warm.

Cold is the first write of a fresh Spark, as in most jobs. Warm is one Spark that writes
a cached frame again and again. Each figure is the median of pairs of consecutive
writes, with the smallest and the largest, because a machine is never quiet.
"""

from __future__ import annotations

import random
import statistics
import time
from contextlib import contextmanager

from pyspark.sql import functions as F  # noqa: N812 - as everyone calls it
from rich.console import Console
from rich.table import Table

import kafkaguard.spark
from benchmarks import empty_source
from benchmarks._fresh import RUNS, in_fresh_processes
from benchmarks.empty_source import EmptySource
from kafkaguard.cli.spark_session import connector, spark_session
from kafkaguard.testing import KafkaCluster

ROWS = 1_000_000
PARTITIONS = 4
ROUNDS = 7
OWN = "Spark's own"
EMPTY = "an empty data source in Python"
#: The longest time of each way, as a multiple of Spark's own sink.
COLD = {EMPTY: None, "data source": 0.8, "write, dead letters": None}
WARM = {"data source": 1.0, "write, dead letters": 1.1, "guard_sink": 1.05}
_SINKS = {"data source": "kafkaguard", EMPTY: empty_source.NAME}


@contextmanager
def session():
    """Start a Spark that has both sinks."""
    packages = {"spark.jars.packages": connector()}
    with spark_session("benchmark", settings=packages) as spark:
        kafkaguard.spark.register(spark)
        spark.dataSource.register(EmptySource)
        yield spark


def records(spark):
    """Make keys of 10 bytes and values of 100."""
    number = F.col("id").cast("string")
    return spark.range(ROWS, numPartitions=PARTITIONS).select(
        F.lpad(number, 10, "0").alias("key"), F.lpad(number, 100, "x").alias("value")
    )


def write(kind, df, cluster, topic, dead):
    """Write a frame in one of the compared ways."""
    servers = cluster.bootstrap_servers
    policy = {"extends": "spark-sink", "dead_letter": {"topic": dead}}
    if kind == "write, dead letters":
        kafkaguard.spark.write(df, topic, bootstrap_servers=servers, policy=policy)
        return
    if kind == "guard_sink":
        df = kafkaguard.spark.guard_sink(
            df, topic, policy=policy, partitions=PARTITIONS
        )
    sink = _SINKS.get(kind, "kafka")
    writer = df.write.format(sink).mode("append")
    writer = writer.option("kafka.bootstrap.servers", servers)
    if kind != "guard_sink":
        writer = writer.option("topic", topic)
    writer.save()


def seconds(kind, df, cluster):
    """Time one write into a topic of its own."""
    topic, dead = cluster.create_topic(partitions=PARTITIONS), cluster.create_topic()
    start = time.perf_counter()
    write(kind, df, cluster, topic, dead)
    elapsed = time.perf_counter() - start
    for name in (topic, dead):
        cluster.delete_topic(name)
    return elapsed


def first_write(kind):
    """Time the first write of a fresh Spark."""
    with session() as spark, KafkaCluster() as kafka:
        return seconds(kind, records(spark), kafka)


def rounds():
    """Write repeatedly in each way, in one Spark."""
    kinds = [OWN, *WARM]
    with session() as spark, KafkaCluster() as kafka:
        df = records(spark).cache()
        df.count()
        for kind in kinds:
            seconds(kind, df, kafka)
        made = []
        for _ in range(ROUNDS):
            order = random.sample(kinds, len(kinds))
            made.append({kind: seconds(kind, df, kafka) for kind in order})
        return made


def main() -> bool:
    """Print the table; return True if a limit is missed."""
    cold = [
        {
            kind: in_fresh_processes(first_write, kind, runs=1)[0]
            for kind in (OWN, *COLD)
        }
        for _ in range(RUNS)
    ]
    table = Table(title=f"{ROWS:,} records, as a multiple of Spark's own sink")
    for heading in ("", "", "Median", "From", "To", "At most"):
        table.add_column(heading)
    missed = False
    for name, limits, made in (("cold", COLD, cold), ("warm", WARM, rounds())):
        for kind, limit in limits.items():
            ratios = [each[kind] / each[OWN] for each in made]
            median = statistics.median(ratios)
            missed |= limit is not None and median > limit
            shown = [f"{n:.2f}" for n in (median, min(ratios), max(ratios))]
            table.add_row(name, kind, *shown, "" if limit is None else f"{limit:g}")
    Console().print(table)
    return missed
