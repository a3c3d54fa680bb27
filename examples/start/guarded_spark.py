"""With the guard: only the row without a key is refused, and set aside."""

from __future__ import annotations

import os
import sys

from pyspark.sql import SparkSession

import kafkaguard.spark

os.environ["PYSPARK_PYTHON"] = sys.executable
spark = SparkSession.builder.master("local[2]").getOrCreate()
flights = spark.createDataFrame(
    [("N14228", "1013"), (None, "2020"), ("N24211", "1124")], "key string, value string"
)
report = kafkaguard.spark.write(
    flights,
    "flights",
    bootstrap_servers=os.environ["KAFKA"],
    policy={"extends": "spark-sink", "dead_letter": {"topic": "flights-refused"}},
)
print(report)
spark.stop()
