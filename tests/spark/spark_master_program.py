"""The sink on one kind of Spark; prints what it saw as one line of JSON.

Its first argument is the master; ``remote(...)`` stands for Spark Connect.
"""

from __future__ import annotations

import json
import os
import sys
from contextlib import contextmanager
from pathlib import Path

from pyspark.sql import SparkSession
from pyspark.sql import functions as F  # noqa: N812 - as everyone calls it

import kafkaguard.spark
from kafkaguard.cli.spark_session import spark_session
from kafkaguard.errors import ClientConfigurationError

MASTER, SERVERS, TOPIC, DEAD, GUARDED, FOLDER, ONCE = sys.argv[1:]


@contextmanager
def session():
    """Start Spark; only a cluster's processes must be told where our modules are."""
    if MASTER.startswith("remote("):
        spark = SparkSession.builder.remote(MASTER[len("remote(") : -1]).getOrCreate()
        yield spark
        spark.stop()
        return
    settings = {"spark.master": MASTER, "spark.executor.memory": "512m"}
    if path := os.environ.get("PYTHONPATH"):
        settings["spark.executorEnv.PYTHONPATH"] = path
    with spark_session("masters", settings=settings) as spark:
        yield spark


def failure(action):
    """Run what must fail; return what the driver's side makes of it."""
    try:
        action()
    except Exception as exception:
        error = kafkaguard.spark.error_from(exception)
        return [type(error).__name__, error.code, error.topic]
    return None


def summary_of(action):
    """Run what must be refused; return the sentence."""
    try:
        action()
    except ClientConfigurationError as error:
        return error.summary
    return None


def run(spark):
    """Write in each way, and fail in each; return what was seen."""
    number = F.col("id").cast("string")
    df = spark.range(1000, numPartitions=2).select(
        F.when(F.col("id") != 500, number).alias("key"), number.alias("value")
    )
    policy = {"extends": "spark-sink", "dead_letter": {"topic": DEAD}}
    to = {"bootstrap_servers": SERVERS, "policy": policy}
    report = kafkaguard.spark.write(df, TOPIC, **to)
    said = {
        "write": {
            "delivered": report.delivered,
            "dead": report.dead_lettered,
            "twice": report.maybe_twice,
        },
        "failure": failure(
            lambda: kafkaguard.spark.write(df, TOPIC, bootstrap_servers=SERVERS)
        ),
        "order": summary_of(
            lambda: kafkaguard.spark.write(df, TOPIC, order_by=["keyy"], **to)
        ),
    }
    kafkaguard.spark.register(spark)
    sink = df.write.format("kafkaguard").mode("append").option("topic", TOPIC)
    sink = sink.option("kafka.bootstrap.servers", SERVERS)
    said["source_failure"] = failure(sink.save)
    sink.option("policy", json.dumps(policy)).save()

    guarded = kafkaguard.spark.guard_sink(df, GUARDED, policy=policy)
    said["guarded"] = {row.topic: row["count"] for row in counted(guarded)}

    df.write.parquet(f"{FOLDER}/input")
    rows = spark.readStream.schema("key string, value string")
    stream = rows.parquet(f"{FOLDER}/input")
    seen = []
    function = kafkaguard.spark.foreach_batch(
        TOPIC, on_report=lambda report, batch_id: seen.append(batch_id), **to
    )
    query = (
        stream.writeStream.foreachBatch(function)
        .option("checkpointLocation", f"{FOLDER}/checkpoint")
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination(120)
    said["seen"] = seen
    said["once"] = write_once(df.where("key is not null"), stream)
    return said


def write_once(df, stream):
    """Write exactly once, as a batch and as a stream; return what was delivered."""
    to = {"bootstrap_servers": SERVERS, "partitions": 2}
    report = kafkaguard.spark.write(df, ONCE, exactly_once=f"batch-{ONCE}", **to)
    checkpoint = f"{FOLDER}/once"
    function = kafkaguard.spark.foreach_batch(
        ONCE, exactly_once=f"stream-{ONCE}", checkpoint=checkpoint, **to
    )
    writer = stream.where("key is not null").writeStream.foreachBatch(function)
    writer = writer.option("checkpointLocation", checkpoint)
    writer.trigger(availableNow=True).start().awaitTermination(120)
    return report.delivered


def counted(guarded):
    """Count what goes where."""
    return guarded.groupBy("topic").count().collect()


Path(FOLDER).mkdir(exist_ok=True)
with session() as spark:
    said = run(spark)
print(json.dumps(said))
