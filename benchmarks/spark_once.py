"""The cost of ``exactly_once``, beside ``write`` without it and Spark's own sink."""

from __future__ import annotations

import statistics
import time
import uuid

from pyspark.sql import functions as F  # noqa: N812 - as everyone calls it
from rich.console import Console
from rich.table import Table

import kafkaguard.spark
from kafkaguard.cli.spark_session import connector, spark_session
from kafkaguard.testing import KafkaCluster

ROWS, SMALL = 1_000_000, 400
SHARDS = 4
ROUNDS, SMALL_ROUNDS = 5, 15
#: The longest time of a large write, as a multiple of ``write`` without the word; and
#: how many seconds a small one may take more.
LIMIT, SMALL_LIMIT_S = 1.15, 0.2
OWN, WITHOUT, ONCE = "Spark's own sink", "write", "write exactly once"


class Writers:
    """Writes of the same rows, each kind into a topic of its own."""

    def __init__(self, spark, cluster):
        self.spark = spark
        self.servers = cluster.bootstrap_servers
        self.topics = {
            k: cluster.create_topic(partitions=4) for k in (OWN, WITHOUT, ONCE)
        }
        self.name = f"benchmark-{uuid.uuid4().hex[:8]}"
        self.batch = 0

    def seconds(self, kind, frame):
        """Write rows; return how long it took."""
        began = time.perf_counter()
        if kind == OWN:
            keyed = frame.repartition(SHARDS, "key").write.format("kafka")
            keyed = keyed.option("kafka.bootstrap.servers", self.servers)
            keyed.option("topic", self.topics[OWN]).save()
        else:
            more = (
                {"exactly_once": self.name, "batch": self.batch} if kind == ONCE else {}
            )
            kafkaguard.spark.write(
                frame,
                self.topics[kind],
                bootstrap_servers=self.servers,
                partitions=SHARDS,
                **more,
            )
            self.batch += kind == ONCE
        return time.perf_counter() - began


def rows_of(spark, count):
    """Return cached rows of about 110 bytes."""
    key = F.col("id").cast("string").alias("key")
    value = F.concat(F.repeat(F.lit("v"), 90), F.col("id").cast("string"))
    frame = spark.range(count, numPartitions=2).select(key, value.alias("value"))
    frame.cache().count()
    return frame


def measure(writers, frame, rounds):
    """Return the seconds of each kind: the first write, and the rounds after it."""
    kinds = (WITHOUT, ONCE, OWN)
    cold = {kind: writers.seconds(kind, frame) for kind in kinds}
    warm = {kind: [] for kind in kinds}
    for number in range(rounds):
        for kind in kinds if number % 2 else reversed(kinds):
            warm[kind].append(writers.seconds(kind, frame))
    return cold, warm


def main() -> bool:
    """Print the tables; return True if a limit is missed."""
    settings = {"spark.jars.packages": connector(), "spark.master": "local[2,4]"}
    missed = False
    with (
        spark_session("benchmark", settings=settings) as spark,
        KafkaCluster() as cluster,
    ):
        for count, rounds in ((ROWS, ROUNDS), (SMALL, SMALL_ROUNDS)):
            writers = Writers(spark, cluster)
            cold, warm = measure(writers, rows_of(spark, count), rounds)
            table = Table(title=f"{count:,} rows, {SHARDS} shards, 2 cores, seconds")
            for heading in ("", "First", "Median", "Ratio", "More"):
                table.add_column(heading, justify="right")
            base = statistics.median(warm[WITHOUT])
            for kind, times in warm.items():
                pairs = zip(times, warm[WITHOUT], strict=True)
                ratio = statistics.median(a / b for a, b in pairs)
                more = statistics.median(times) - base
                cells = cold[kind], statistics.median(times), ratio, more
                table.add_row(kind, *(f"{each:.2f}" for each in cells))
                if kind == ONCE:
                    missed |= ratio > LIMIT if count == ROWS else more > SMALL_LIMIT_S
            Console().print(table)
    return missed
