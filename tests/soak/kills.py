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

FILES, ROWS = 3, 20_000
#: Who writes; the runs take turns.
KINDS = ("data source", "foreach_batch")
_MOST_KILLS = 2
#: Seconds into a micro-batch at which something is killed, at most.
_MOST_WAIT_S = 3.0
_GLANCE_S = 0.05
_RUN_S = 900
_PROGRAM = Path(__file__).with_name("stream_program.py")
_ROOT = _PROGRAM.parents[2]
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


def start(cluster, topic, folder, kind):
    """Start a driver, with its output in a file."""
    arguments = [str(_PROGRAM), cluster.bootstrap_servers, topic, str(folder), kind]
    paths = [str(_ROOT), *filter(None, [os.environ.get("PYTHONPATH")])]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(paths)}
    with (folder / "driver.log").open("ab") as log:
        return subprocess.Popen(
            [sys.executable, *arguments], stdout=log, stderr=log, env=environment
        )


def last_number(folder):
    """Return the number of the last micro-batch that a checkpoint's folder names."""
    names = folder.glob("*") if folder.exists() else ()
    return max((int(each.name) for each in names if each.name.isdecimal()), default=-1)


def is_in_batch(checkpoint):
    """Whether a stream has begun a micro-batch, and not ended it."""
    begun, ended = (last_number(checkpoint / name) for name in ("offsets", "commits"))
    return begun > ended


def kill_one(driver, draw):
    """Kill a driver, an executor or a worker; return which, None if there is none."""
    victim = draw.choice(list(VICTIMS))
    if victim == "driver":
        pids = descendants(driver.pid)
    else:
        pids = find(driver.pid, VICTIMS[victim])
        pids = [draw.choice(pids)] if pids else []
    kill(pids)
    return victim if pids else None


def one(cluster, draw, kind):
    """Write a stream once, with kills; return the count, and what was killed."""
    topic = cluster.create_topic(partitions=2)
    killed = []
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        done = folder / "done"
        make_input(folder / "input")
        end = time.monotonic() + _RUN_S
        driver = start(cluster, topic, folder, kind)
        while not done.exists() and time.monotonic() < end:
            if driver.poll() is not None:
                driver = start(cluster, topic, folder, kind)
            is_up = (folder / f"up-{driver.pid}").exists()
            may_kill = is_up and len(killed) < _MOST_KILLS
            if may_kill and is_in_batch(folder / "checkpoint"):
                time.sleep(draw.uniform(0, _MOST_WAIT_S))
                killed += filter(None, [kill_one(driver, draw)])
            time.sleep(_GLANCE_S)
        finished = done.exists()
        try:
            driver.wait(30 if finished else 0.1)
        except subprocess.TimeoutExpired:
            kill(descendants(driver.pid))
            driver.wait(30)
        if not finished:
            print((folder / "driver.log").read_text(errors="replace")[-3000:])
        lines = last_of_each(read(folder / "reports.jsonl"))
    told = [line["maybe_twice"] for line in lines]
    expected = map(str, range(FILES * ROWS))
    return finished, count(expected, values(cluster, topic), told), killed


def make_input(folder):
    """Write files of numbered records, one for each micro-batch."""
    folder.mkdir()
    for number in range(FILES):
        texts = [str(number * ROWS + row) for row in range(ROWS)]
        table = pa.table({"key": texts, "value": texts})
        pq.write_table(table, folder / f"{number}.parquet")


def run(runs, seed):
    """Write so many streams; return what is wrong, in sentences."""
    draw = random.Random(seed)
    wrong = []
    with KafkaCluster() as cluster:
        for number in range(runs):
            kind = KINDS[number % len(KINDS)]
            finished, found, killed = one(cluster, draw, kind)
            who = ", ".join(killed) or "nobody"
            print(f"run {number}, {kind}: killed {who}: {found}", flush=True)
            if not finished:
                wrong.append(f"run {number}: the stream did not come to its end")
            elif not found.is_true:
                wrong.append(f"run {number}: {found} after {killed}")
    return wrong
