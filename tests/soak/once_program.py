"""A job that may be killed at any moment: a batch or a stream over files, to its end."""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path

import kafkaguard.spark
from kafkaguard.cli.spark_session import spark_session

SERVERS, TOPIC, FOLDER, KIND, NAME = sys.argv[1:]
#: So slow that somebody can be killed between two records of a shard.
ARROW_ROWS, PAUSE_S = 2000, 0.05
SHARDS = 4
#: Short enough for a pause that is longer.
CONFIG = {"transaction.timeout.ms": "20000", "delivery.timeout.ms": "15000"}


def slowly(batches):
    """Hand records on, some at a time; say that the job has begun."""
    UP.touch()
    for batch in batches:
        time.sleep(PAUSE_S)
        yield batch


folder = Path(FOLDER)
UP = folder / f"up-{os.getpid()}"
settings = {
    "spark.master": "local-cluster[2,1,1024]",
    "spark.executor.memory": "512m",
    "spark.executorEnv.PYTHONPATH": os.environ["PYTHONPATH"],
    "spark.executorEnv.SOAK_FOLDER": os.environ["SOAK_FOLDER"],
    "spark.sql.execution.arrow.maxRecordsPerBatch": str(ARROW_ROWS),
}
arguments = {
    "bootstrap_servers": SERVERS,
    "partitions": SHARDS,
    "config": CONFIG,
    "exactly_once": NAME or None,
}
with spark_session("soak", settings=settings) as spark:
    schema = "key string, value string"
    if KIND == "batch":
        rows = spark.read.schema(schema).parquet(str(folder / "input"))
        rows = rows.mapInArrow(slowly, schema)
        kafkaguard.spark.write(rows, TOPIC, **arguments)
    else:
        stream = spark.readStream.schema(schema).option("maxFilesPerTrigger", 1)
        stream = stream.parquet(str(folder / "input")).mapInArrow(slowly, schema)
        function = kafkaguard.spark.foreach_batch(TOPIC, **arguments)
        writer = stream.writeStream.foreachBatch(function)
        writer = writer.option("checkpointLocation", str(folder / "checkpoint"))
        writer.trigger(availableNow=True).start().awaitTermination()
(folder / "done").touch()
