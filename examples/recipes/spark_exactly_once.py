"""Kill a stream that writes exactly once, start it again, and count its rows."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from confluent_kafka import Consumer

SERVERS = os.environ["KAFKA"]


def stream():
    """Write the rows of new files; after a kill, go on with what is not written."""
    from pyspark.sql import SparkSession

    import kafkaguard.spark

    os.environ["PYSPARK_PYTHON"] = sys.executable
    spark = SparkSession.builder.master("local[2,4]").getOrCreate()
    rows = spark.readStream.schema("key string, value string")
    rows = rows.option("maxFilesPerTrigger", 1).csv("payments")
    write = kafkaguard.spark.foreach_batch(
        "payments-once",
        bootstrap_servers=SERVERS,
        exactly_once="payments",
        on_report=lambda report, batch: print(f"batch {batch}: {report}", flush=True),
    )
    writer = rows.writeStream.foreachBatch(write).trigger(availableNow=True)
    writer.option("checkpointLocation", "checkpoint").start().awaitTermination()


def read(isolation, enough=10**9):
    """Return the rows, as soon as there are enough, or no more come."""
    reader = {"bootstrap.servers": SERVERS, "group.id": isolation}
    reader |= {"auto.offset.reset": "earliest", "isolation.level": isolation}
    consumer, values = Consumer(reader), []
    consumer.subscribe(["payments-once"])
    while len(values) < enough and (messages := consumer.consume(1000, 20)):
        values += [each.value() for each in messages]
    consumer.close()
    return values


if sys.argv[1:] == ["stream"]:
    sys.exit(stream())
Path("payments").mkdir()
for file in range(3):
    lines = [f"{n % 9},{file}-{n}" for n in range(5_000)]
    Path(f"payments/{file}.csv").write_text("\n".join(lines))
command = [sys.executable, __file__, "stream"]
with subprocess.Popen(command) as first:
    read("read_uncommitted", enough=1)
    first.kill()
subprocess.run(command, check=True)
values = read("read_committed")
print(len(set(values)), "rows,", len(values) - len(set(values)), "twice")
