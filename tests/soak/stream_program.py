"""A driver that may be killed at any moment: a stream over files, to its end."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import kafkaguard.spark
from kafkaguard.cli.spark_session import spark_session
from tests.soak.outages import noting

SERVERS, TOPIC, FOLDER = sys.argv[1:]
folder = Path(FOLDER)
settings = {
    "spark.master": "local-cluster[2,1,1024]",
    "spark.executor.memory": "512m",
    "spark.executorEnv.PYTHONPATH": os.environ["PYTHONPATH"],
}
with spark_session("soak", settings=settings) as spark:
    rows = spark.readStream.schema("key string, value string")
    stream = rows.option("maxFilesPerTrigger", 1).parquet(str(folder / "input"))
    function = kafkaguard.spark.foreach_batch(
        TOPIC,
        bootstrap_servers=SERVERS,
        partitions=2,
        on_report=noting(folder / "reports.jsonl"),
        config={"linger.ms": "0"},
    )
    writer = stream.writeStream.foreachBatch(function)
    writer = writer.option("checkpointLocation", str(folder / "checkpoint"))
    query = writer.trigger(availableNow=True).start()
    query.awaitTermination()
(folder / "done").touch()
