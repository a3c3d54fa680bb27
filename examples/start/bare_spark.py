"""Without the guard: one row without a key fails the whole job."""

from __future__ import annotations

import os

from py4j.protocol import Py4JJavaError
from pyspark.sql import SparkSession

package = "org.apache.spark:spark-sql-kafka-0-10_2.13:4.2.0"
builder = SparkSession.builder.master("local[2]").config("spark.jars.packages", package)
spark = builder.getOrCreate()
flights = spark.createDataFrame(
    [("N14228", "1013"), (None, "2020"), ("N24211", "1124")], "key string, value string"
)
sink = flights.write.format("kafka").option("topic", "flights")
try:
    sink.option("kafka.bootstrap.servers", os.environ["KAFKA"]).save()
except Py4JJavaError as error:
    print("the job failed:", error.java_exception.getMessage().splitlines()[0])
spark.stop()
