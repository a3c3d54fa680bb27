"""The time of a stream's small batches, guarded and with Spark's own sink."""

from __future__ import annotations

import json
import statistics
import tempfile
import time
from pathlib import Path

from pyspark.sql import functions as F  # noqa: N812 - as everyone calls it
from rich.console import Console
from rich.table import Table

import kafkaguard.spark
from benchmarks import empty_source
from benchmarks.empty_source import EmptySource
from kafkaguard.cli.spark_session import connector, spark_session
from kafkaguard.testing import KafkaCluster

ROWS = 50
WARM_UP, MEASURED = 15, 40
PARTITIONS = 2
#: The longest time of a batch, as a multiple of the time with Spark's own sink.
LIMITS = {"data source": 1.5, "foreach_batch": 2.5}
EMPTY = "an empty data source in Python"
_PATIENCE_S = 240


def batches(spark):
    """Make a stream of small batches with keys and values."""
    source = spark.readStream.format("rate-micro-batch")
    rows = source.option("rowsPerBatch", ROWS).option("numPartitions", 1).load()
    number = F.col("value").cast("string")
    return rows.select(number.alias("key"), number.alias("value"))


def writer_of(kind, spark, cluster):
    """Make a stream's writer into a topic of its own."""
    servers = cluster.bootstrap_servers
    topic, dead = cluster.create_topic(partitions=PARTITIONS), cluster.create_topic()
    policy = {"extends": "spark-sink", "dead_letter": {"topic": dead}}
    writer = batches(spark).writeStream
    if kind == EMPTY:
        return writer.format(empty_source.NAME)
    writer = writer.option("kafka.bootstrap.servers", servers)
    if kind == "Spark's own":
        return writer.format("kafka").option("topic", topic)
    if kind == "data source":
        options = {"topic": topic, "policy": json.dumps(policy)}
        return writer.format("kafkaguard").options(**options)
    function = kafkaguard.spark.foreach_batch(
        topic, bootstrap_servers=servers, policy=policy
    )
    return batches(spark).writeStream.foreachBatch(function)


def milliseconds(writer, folder):
    """Run a stream for some batches; return their median ``addBatch`` time."""
    writer = writer.option("checkpointLocation", str(folder))
    query = writer.trigger(processingTime="0 seconds").start()
    try:
        deadline = time.monotonic() + _PATIENCE_S
        while query.isActive and time.monotonic() < deadline:
            progress = [p for p in query.recentProgress if p["numInputRows"]]
            if len(progress) >= WARM_UP + MEASURED:
                break
            time.sleep(0.5)
    finally:
        query.stop()
    taken = [p["durationMs"]["addBatch"] for p in progress[WARM_UP:]]
    return statistics.median(taken)


def main() -> bool:
    """Print the table; return True if a limit is missed."""
    settings = {"spark.jars.packages": connector()}
    with (
        spark_session("benchmark", settings=settings) as spark,
        KafkaCluster() as cluster,
        tempfile.TemporaryDirectory() as folder,
    ):
        kafkaguard.spark.register(spark)
        spark.dataSource.register(EmptySource)
        found = {
            kind: milliseconds(writer_of(kind, spark, cluster), Path(folder) / kind)
            for kind in ("Spark's own", EMPTY, *LIMITS)
        }
    own = found["Spark's own"]
    table = Table(title=f"Adding a batch of {ROWS} rows, medians of {MEASURED}")
    for heading in ("", "Milliseconds", "Ratio", "At most"):
        table.add_column(heading, justify="right")
    for kind, median in found.items():
        limit = LIMITS.get(kind)
        shown = "" if limit is None else f"{limit:g}"
        table.add_row(kind, f"{median:.0f}", f"{median / own:.2f}", shown)
    Console().print(table)
    return any(found[kind] / own > limit for kind, limit in LIMITS.items())
