"""The guarded Spark sink against Spark's own: a million records."""

from __future__ import annotations

import random
import statistics
import time

from pyspark.sql import functions as F  # noqa: N812 - as everyone calls it
from rich.console import Console
from rich.table import Table

import kafkaguard.spark
from benchmarks._fresh import RUNS, in_fresh_processes
from kafkaguard.cli.spark_session import connector, spark_session
from kafkaguard.testing import KafkaCluster

ROWS = 1_000_000
LIMIT = 0.9
PARTITIONS = 4
FORMATS = ("kafka", "kafkaguard")


def records(spark):
    """Make keys of 10 bytes and values of 100."""
    number = F.col("id").cast("string")
    return spark.range(ROWS, numPartitions=PARTITIONS).select(
        F.lpad(number, 10, "0").alias("key"), F.lpad(number, 100, "x").alias("value")
    )


def seconds(df, sink, cluster):
    """Time one write into a topic of its own."""
    topic = cluster.create_topic(partitions=PARTITIONS)
    writer = df.write.format(sink).mode("append").option("topic", topic)
    writer = writer.option("kafka.bootstrap.servers", cluster.bootstrap_servers)
    start = time.perf_counter()
    writer.save()
    elapsed = time.perf_counter() - start
    cluster.delete_topic(topic)
    return elapsed


def one_run():
    """Write with each sink once to warm up, then once for its time."""
    packages = {"spark.jars.packages": connector()}
    with (
        spark_session("benchmark", settings=packages) as spark,
        KafkaCluster() as kafka,
    ):
        kafkaguard.spark.register(spark)
        df = records(spark)
        for sink in FORMATS:
            seconds(df, sink, kafka)
        order = random.sample(FORMATS, len(FORMATS))
        return {sink: seconds(df, sink, kafka) for sink in order}


def main() -> bool:
    """Print the table; return True if the limit is missed.

    Each run is a Spark of its own, as most jobs are, which write once: within one, both
    sinks get faster from write to write, the one on the JVM for longer.
    """
    runs = in_fresh_processes(one_run)
    medians = {sink: statistics.median(r[sink] for r in runs) for sink in FORMATS}
    ratio = medians["kafkaguard"] / medians["kafka"]
    table = Table(title=f"{ROWS:,} records from Spark, medians of {RUNS}")
    for heading in ("", "Seconds", "Each"):
        table.add_column(heading)
    for sink in FORMATS:
        each = ", ".join(f"{r[sink]:.2f}" for r in runs)
        table.add_row(sink, f"{medians[sink]:.2f}", each)
    table.add_row("ratio", f"{ratio:.2f}", f"at most {LIMIT}")
    Console().print(table)
    return ratio > LIMIT
