"""The same write through Spark Connect, where no JVM is in this process."""

from __future__ import annotations

import os
import sys

from pyspark.sql import SparkSession

import kafkaguard.spark
from kafkaguard.testing import KafkaCluster

os.environ["PYSPARK_PYTHON"] = sys.executable
# "local[2]" starts a server here; in production: remote("sc://spark:15002").
spark = SparkSession.builder.remote("local[2]").getOrCreate()
flights = spark.createDataFrame(
    [("N14228", "1013"), (None, "2020")], "key string, value string"
)
with KafkaCluster() as cluster:
    refused = cluster.create_topic()
    report = kafkaguard.spark.write(
        flights,
        cluster.create_topic(config={"cleanup.policy": "compact"}),
        bootstrap_servers=cluster.bootstrap_servers,
        policy={"extends": "spark-sink", "dead_letter": {"topic": refused}},
    )
print(report)
spark.stop()
