"""A write with dead letters, and the data source, in a Spark without packages."""

import json
import os
import sys

from pyspark.sql import SparkSession

import kafkaguard.spark

servers = os.environ["KAFKA"]
os.environ["PYSPARK_PYTHON"] = sys.executable
spark = SparkSession.builder.master("local[1]").getOrCreate()
rows = [("a", "1"), (None, "2")]
df = spark.createDataFrame(rows, "key string, value string").coalesce(1)
policy = {"extends": "spark-sink", "dead_letter": {"topic": "flights-refused"}}
report = kafkaguard.spark.write(df, "flights", bootstrap_servers=servers, policy=policy)
assert (report.delivered, report.dead_lettered) == (1, {"NULL_KEY": 1}), report
kafkaguard.spark.register(spark)
sink = df.write.format("kafkaguard").mode("append").option("topic", "flights")
sink = sink.option("kafka.bootstrap.servers", servers)
sink.option("policy", json.dumps(policy)).save()
spark.stop()
