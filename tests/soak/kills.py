"""Drivers, executors and Python workers, killed at random while a stream writes."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from kafkaguard.testing import KafkaCluster
from tests.soak.counting import count, last_of_each
from tests.soak.outages import read
from tests.spark.spark_reading import values

FILES, ROWS = 6, 20_000
_MOST_KILLS = 4
_RUN_S = 300
#: What is killed, by a part of its command line.
VICTIMS = {
    "driver": "stream_program.py",
    "executor": "CoarseGrainedExecutorBackend",
    "worker": "pyspark.daemon",
}


def descendants(root):
    """List the processes that a process has started, itself included."""
    parents = {}
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            stat = (folder / "stat").read_text()
        except OSError:
            continue
        parents.setdefault(int(stat.rpartition(")")[2].split()[1]), []).append(
            int(folder.name)
        )
    found, due = [], [root]
    while due:
        pid = due.pop()
        found.append(pid)
        due += parents.get(pid, [])
    return found


def find(root, part):
    """List the processes under one whose command line has a part."""
    found = []
    for pid in descendants(root):
        try:
            command = Path(f"/proc/{pid}/cmdline").read_bytes().decode()
        except OSError:
            continue
        if part in command:
            found.append(pid)
    return found


def kill(pids):
    """Kill processes that may be gone already."""
    for pid in pids:
        try:
            os.kill(pid, signal.SIGKILL)
        except ProcessLookupError:
            continue


def start(cluster, topic, folder):
    """Start a driver, with its output in a file."""
    program = Path(__file__).with_name("stream_program.py")
    arguments = [str(program), cluster.bootstrap_servers, topic, str(folder)]
    with (folder / "driver.log").open("ab") as log:
        return subprocess.Popen([sys.executable, *arguments], stdout=log, stderr=log)


def one(cluster, draw):
    """Write a stream once, with kills; return the count, and what was killed."""
    topic = cluster.create_topic(partitions=2)
    killed = []
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "input").mkdir()
        for number in range(FILES):
            texts = [str(number * ROWS + row) for row in range(ROWS)]
            table = pa.table({"key": texts, "value": texts})
            pq.write_table(table, folder / "input" / f"{number}.parquet")
        end = time.monotonic() + _RUN_S
        driver = start(cluster, topic, folder)
        while not (folder / "done").exists() and time.monotonic() < end:
            try:
                driver.wait(draw.uniform(4, 14))
            except subprocess.TimeoutExpired:
                if len(killed) >= _MOST_KILLS:
                    continue
                victim = draw.choice(list(VICTIMS))
                pids = find(driver.pid, VICTIMS[victim])
                if victim == "driver":
                    pids = descendants(driver.pid)
                elif pids:
                    pids = [draw.choice(pids)]
                kill(pids)
                killed.append(victim)
            if driver.poll() is not None and not (folder / "done").exists():
                driver = start(cluster, topic, folder)
        finished = (folder / "done").exists()
        if driver.poll() is None:
            try:
                driver.wait(30 if finished else 0.1)
            except subprocess.TimeoutExpired:
                kill(descendants(driver.pid))
                driver.wait(30)
        if not finished:
            log = (folder / "driver.log").read_text(errors="replace")
            print(log[-3000:])
        told = [
            line["maybe_twice"] for line in last_of_each(read(folder / "reports.jsonl"))
        ]
    expected = map(str, range(FILES * ROWS))
    return finished, count(expected, values(cluster, topic), told), killed


def run(runs, seed):
    """Write so many streams; return what is wrong, in sentences."""
    draw = random.Random(seed)
    wrong = []
    with KafkaCluster() as cluster:
        for number in range(runs):
            finished, found, killed = one(cluster, draw)
            print(
                f"run {number}: killed {', '.join(killed) or 'nobody'}: {found}",
                flush=True,
            )
            if not finished:
                wrong.append(f"run {number}: the stream did not come to its end")
            elif not found.is_true:
                wrong.append(f"run {number}: {found} after {killed}")
    return wrong
