"""A stream with the data source: dead letters aside, a report for each micro-batch."""

from __future__ import annotations

import json
import os
import sys
import tempfile
from pathlib import Path

from pyspark.sql import SparkSession

import kafkaguard.spark
from kafkaguard.testing import KafkaCluster

os.environ["PYSPARK_PYTHON"] = sys.executable
spark = SparkSession.builder.master("local[2]").getOrCreate()
kafkaguard.spark.register(spark)
flights = spark.createDataFrame(
    [("N14228", "1013"), ("N24211", "1124"), (None, "2020")],
    "key string, value string",
)
with KafkaCluster() as cluster, tempfile.TemporaryDirectory() as folder:
    flights.write.parquet(f"{folder}/input")
    stream = spark.readStream.schema(flights.schema).parquet(f"{folder}/input")
    policy = {
        "extends": "spark-sink",
        "dead_letter": {"topic": cluster.create_topic()},
    }
    query = (
        stream.writeStream.format("kafkaguard")
        .option("kafka.bootstrap.servers", cluster.bootstrap_servers)
        .option("topic", cluster.create_topic(config={"cleanup.policy": "compact"}))
        .option("policy", json.dumps(policy))
        .option("report", f"{folder}/report.jsonl")
        .option("checkpointLocation", f"{folder}/checkpoint")
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination(120)
    print(Path(f"{folder}/report.jsonl").read_text())
spark.stop()
