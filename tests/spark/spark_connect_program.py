"""A program against Spark Connect; prints what it saw as one line of JSON."""

from __future__ import annotations

import json
import sys

from pyspark.sql import SparkSession
from pyspark.sql import functions as F  # noqa: N812 - as everyone calls it

import kafkaguard.spark
from kafkaguard.errors import ClientConfigurationError

SERVERS, TOPIC, DEAD, FOLDER = sys.argv[1:]


def named(exception):
    """Say what the driver's side makes of a failure."""
    error = kafkaguard.spark.error_from(exception)
    return [type(error).__name__, error.code, error.topic]


def failure(action):
    """Run what must fail; return what it says."""
    try:
        action()
    except Exception as exception:
        return named(exception)
    return None


def summary_of(action):
    """Run what must be refused; return the sentence."""
    try:
        action()
    except ClientConfigurationError as error:
        return error.summary
    return None


spark = SparkSession.builder.remote("local[2,4]").getOrCreate()
number = F.col("id").cast("string")
df = spark.range(1000).select(
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
}
said["order"] = summary_of(
    lambda: kafkaguard.spark.write(df, TOPIC, order_by=["keyy"], **to)
)
kafkaguard.spark.register(spark)
sink = df.write.format("kafkaguard").mode("append").option("topic", TOPIC)
sink = sink.option("kafka.bootstrap.servers", SERVERS)
said["source_failure"] = failure(sink.save)
sink.option("policy", json.dumps(policy)).save()

df.write.parquet(f"{FOLDER}/input")
stream = spark.readStream.schema("key string, value string").parquet(f"{FOLDER}/input")
query = (
    stream.writeStream.foreachBatch(kafkaguard.spark.foreach_batch(TOPIC, **to))
    .option("checkpointLocation", f"{FOLDER}/checkpoint")
    .trigger(availableNow=True)
    .start()
)
query.awaitTermination(60)
spark.stop()
print(json.dumps(said))
