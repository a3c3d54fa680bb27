"""Write a DataFrame in one batch job: dead letters aside, true counts in the report."""

from __future__ import annotations

import os
import sys

from pyspark.sql import SparkSession

import kafkaguard.spark
from kafkaguard.testing import KafkaCluster

os.environ["PYSPARK_PYTHON"] = sys.executable
spark = SparkSession.builder.master("local[2]").getOrCreate()
flights = spark.createDataFrame(
    [("N14228", "1013", 1), ("N14228", "1545", 2), (None, "2020", 3)],
    "key string, value string, at int",
)
with KafkaCluster() as cluster:
    refused = cluster.create_topic()
    report = kafkaguard.spark.write(
        flights,
        cluster.create_topic(config={"cleanup.policy": "compact"}),
        bootstrap_servers=cluster.bootstrap_servers,
        policy={"extends": "spark-sink", "dead_letter": {"topic": refused}},
        order_by=["at"],  # the last value of each key stays last
    )
print(report)
spark.stop()
