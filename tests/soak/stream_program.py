"""A driver that may be killed at any moment: a stream over files, to its end."""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path

import kafkaguard.spark
from kafkaguard.cli.spark_session import spark_session
from tests.soak.outages import noting

SERVERS, TOPIC, FOLDER, KIND = sys.argv[1:]
#: So slow that somebody can be killed between two records of a micro-batch.
ARROW_ROWS, PAUSE_S = 1000, 0.1


def slowly(batches):
    """Hand records on, some at a time."""
    for batch in batches:
        time.sleep(PAUSE_S)
        yield batch


folder = Path(FOLDER)
checkpoint = str(folder / "checkpoint")
settings = {
    "spark.master": "local-cluster[2,1,1024]",
    "spark.executor.memory": "512m",
    "spark.executorEnv.PYTHONPATH": os.environ["PYTHONPATH"],
    "spark.sql.execution.arrow.maxRecordsPerBatch": str(ARROW_ROWS),
}
with spark_session("soak", settings=settings) as spark:
    rows = spark.readStream.schema("key string, value string")
    stream = rows.option("maxFilesPerTrigger", 1).parquet(str(folder / "input"))
    stream = stream.repartition(2).mapInArrow(slowly, stream.schema)
    reports = folder / "reports.jsonl"
    if KIND == "foreach_batch":
        function = kafkaguard.spark.foreach_batch(
            TOPIC,
            bootstrap_servers=SERVERS,
            policy={"extends": "spark-sink", "on_reject": "drop"},
            on_report=noting(reports),
            config={"linger.ms": "0"},
        )
        writer = stream.writeStream.foreachBatch(function)
    else:
        kafkaguard.spark.register(spark)
        writer = stream.writeStream.format("kafkaguard").options(
            **{"kafka.bootstrap.servers": SERVERS, "kafka.linger.ms": "0"},
            topic=TOPIC,
            report=str(reports),
        )
    writer = writer.option("checkpointLocation", checkpoint)
    query = writer.trigger(availableNow=True).start()
    (folder / f"up-{os.getpid()}").touch()
    query.awaitTermination()
(folder / "done").touch()
