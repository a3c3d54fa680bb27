"""A program whose executor is killed in the middle of a write; prints its report.

Spark runs as a cluster of two executor processes, each a JVM of its own. The task that
writes kills the JVM under it, once, when the broker has some of its records.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import threading
from pathlib import Path

from pyspark.sql import functions as F  # noqa: N812 - as everyone calls it

import kafkaguard.spark
from kafkaguard.cli.spark_session import spark_session
from kafkaguard_adapters.spark.driver import write
from kafkaguard_adapters.spark.executor.task import CountingTask
from kafkaguard_adapters.spark.topics import Brokers

SERVERS, TOPIC, FLAG, ROWS = sys.argv[1:]
PAUSE_S = 0.05


def ancestors():
    """Return the ids and command lines of this process's parents, nearest first."""
    found, pid = [], os.getppid()
    while pid > 1:
        folder = Path("/proc", str(pid))
        command = (folder / "cmdline").read_bytes().decode()
        found.append((pid, command))
        pid = int((folder / "stat").read_text().rpartition(")")[2].split()[1])
    return found


def executor():
    """Return the process id of the executor that this worker belongs to."""
    name = "CoarseGrainedExecutorBackend"
    return next(pid for pid, command in ancestors() if name in command)


def kill_once(batches):
    """Hand batches on; kill the executor when the first records have landed."""
    brokers = Brokers({"bootstrap.servers": SERVERS})
    for batch in batches:
        yield batch
        if not Path(FLAG).exists():
            while not brokers.end_offsets([TOPIC]):
                threading.Event().wait(PAUSE_S)
            pid = executor()
            Path(FLAG).write_text(str(pid))
            os.kill(pid, signal.SIGKILL)


class DeadlyTask(CountingTask):
    """A task that brings its executor down."""

    def __call__(self, batches):
        """Send the records of a partition, as far as it comes."""
        return super().__call__(kill_once(batches))


write.CountingTask = DeadlyTask
settings = {
    "spark.master": "local-cluster[2,1,1024]",
    "spark.executor.memory": "512m",
    "spark.worker.cleanup.enabled": "true",
    "spark.executorEnv.PYTHONPATH": os.environ["PYTHONPATH"],
}
with spark_session("executor killed", settings=settings) as spark:
    number = F.col("id").cast("string")
    df = spark.range(int(ROWS), numPartitions=2).select(number.alias("value"))
    report = kafkaguard.spark.write(
        df, TOPIC, bootstrap_servers=SERVERS, partitions=2, config={"linger.ms": 0}
    )
print(json.dumps(report.to_dict()))
