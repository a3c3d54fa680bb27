"""Jobs that write exactly once, while tasks, executors, drivers and brokers are killed.

A round is one job, a batch or a stream, begun again until it ends. Rounds that are done
are kept in a file, so a second call goes on after the last one.
"""

from __future__ import annotations

import asyncio
import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from contextlib import suppress
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
from kafka.protocol.producer import InitProducerIdRequest

from kafkaguard.testing import KafkaCluster
from kafkaguard_adapters.spark.once.offsets import Home, offsets_for
from kafkaguard_adapters.spark.once.rules import Marker
from kafkaguard_adapters.spark.once.transaction import open_producer
from kafkaguard_adapters.spark.settings import make_settings
from kafkaguard_adapters.wire.io_thread import run as wait_for
from tests.soak.kills import descendants, find, kill
from tests.spark.spark_reading import committed_values

KINDS = ("batch", "stream")
ROWS, FILES = 200_000, 4
MOST_KILLS = 5
#: Longer than ``transaction.timeout.ms`` of the program.
PAUSE_S = 25.0
_MOST_WAIT_S = 8.0
_GLANCE_S = 0.1
_ROUND_S = 1500
_PROGRAM = Path(__file__).with_name("once_program.py")
_ROOT = _PROGRAM.parents[2]
_EXECUTOR = "CoarseGrainedExecutorBackend"
VICTIMS = ("driver", "executor", "task", "pause", "broker")


def find_waiting(folder, driver):
    """List the Pythons under a driver that have written rows which do not count yet."""
    marked = {int(each.name.partition("-")[2]) for each in folder.glob("waits-*")}
    return sorted(marked & set(descendants(driver))) if marked else []


class Round:
    """One job, and those who are killed meanwhile.

    Args:
        cluster: Three brokers.
        draw: Draws who is killed, and when.
        kind: A batch or a stream.
        name: The name of the write; empty: at-least-once.
        rows: How many rows it writes.
        aimed: How many of the kills, from 0 to 1, wait for a task that has written its
            rows, and is before its commit or its end.
    """

    def __init__(self, cluster, draw, kind, name, rows=ROWS, aimed=0.5):
        self.cluster = cluster
        self.draw = draw
        self.kind = kind
        self.name = name
        self.rows = rows
        self.aimed = aimed
        self.topic = cluster.create_topic(partitions=3)
        self.killed = []

    def run(self, most_kills, victims=VICTIMS):
        """Write; return what is wrong, in sentences."""
        with tempfile.TemporaryDirectory() as name:
            folder = Path(name)
            self.make_input(folder / "input")
            finished = self.run_job(folder, most_kills, victims)
            log = (folder / "driver.log").read_text(errors="replace")
        if not finished:
            print(log[-4000:])
            return ["the job did not come to its end"]
        times = Counter(committed_values(self.cluster, self.topic, patience=120))
        lost = self.rows - len(times)
        twice = times.total() - len(times)
        print(f"  killed {self.killed}: {lost} lost, {twice} twice", flush=True)
        self.twice = twice
        return [f"{lost} rows lost, {twice} twice"] if lost or twice else []

    def run_job(self, folder, most_kills, victims):
        """Begin the job again until it ends; return whether it has ended."""
        end = time.monotonic() + _ROUND_S
        driver, seen = self.start(folder), None
        while not (folder / "done").exists() and time.monotonic() < end:
            if driver.poll() is not None:
                driver, seen = self.start(folder), None
            if (folder / f"up-{driver.pid}").exists():
                if seen != driver.pid:
                    seen, (due, is_aimed) = driver.pid, self.draw_moment()
                waiting = find_waiting(folder, driver.pid)
                is_due = time.monotonic() > due and (waiting or not is_aimed)
                if is_due and len(self.killed) < most_kills:
                    victim = self.draw.choice(victims)
                    self.kill_one(driver, victim, waiting if is_aimed else None)
                    due, is_aimed = self.draw_moment()
            time.sleep(_GLANCE_S)
        finished = (folder / "done").exists()
        with suppress(subprocess.TimeoutExpired):
            driver.wait(30 if finished else 0.1)
        kill(descendants(driver.pid) if driver.poll() is None else [])
        driver.wait(30)
        return finished

    def draw_moment(self):
        """Draw the earliest time of the next kill, and whether it waits for a task."""
        due = time.monotonic() + self.draw.uniform(0, _MOST_WAIT_S)
        return due, self.draw.random() < self.aimed

    def kill_one(self, driver, victim, waiting):
        """Kill, or stop for a while, one of the processes; a broker comes back.

        Args:
            driver: The driver's process.
            victim: What is killed.
            waiting: The tasks' processes of which one is killed, or its executor; None:
                any.
        """
        if victim == "broker":
            broker = self.cluster.broker(self.draw.randrange(3))
            broker.kill()
            time.sleep(self.draw.uniform(1, 5))
            broker.start()
        elif victim == "driver":
            kill(descendants(driver.pid))
        else:
            pids = waiting or find(driver.pid, "pyspark.daemon")
            if victim == "executor":
                found = find(driver.pid, _EXECUTOR)
                pids = [
                    each
                    for each in found
                    if waiting is None or set(waiting) & set(descendants(each))
                ]
            if not pids:
                return
            pid = self.draw.choice(pids)
            with suppress(ProcessLookupError):
                if victim == "pause":
                    os.kill(pid, signal.SIGSTOP)
                    time.sleep(PAUSE_S)
                    os.kill(pid, signal.SIGCONT)
                else:
                    os.kill(pid, signal.SIGKILL)
        self.killed.append(victim + "!" * bool(waiting))

    def start(self, folder):
        """Start a driver, with its output in a file."""
        arguments = [self.cluster.bootstrap_servers, self.topic, str(folder)]
        slow = _PROGRAM.with_name("slow_commits")
        paths = [str(slow), str(_ROOT), *filter(None, [os.environ.get("PYTHONPATH")])]
        with (folder / "driver.log").open("ab") as log:
            return subprocess.Popen(
                [sys.executable, str(_PROGRAM), *arguments, self.kind, self.name],
                stdout=log,
                stderr=log,
                env={
                    **os.environ,
                    "PYTHONPATH": os.pathsep.join(paths),
                    "SOAK_FOLDER": str(folder),
                },
            )

    def make_input(self, folder):
        """Write files of numbered records; a stream reads each as a batch."""
        folder.mkdir()
        each = self.rows // FILES
        for number in range(FILES):
            texts = [str(number * each + row) for row in range(each)]
            table = pa.table({"key": texts, "value": texts})
            pq.write_table(table, folder / f"{number}.parquet")


def run(kills, seed, state=None, rows=ROWS):
    """Run rounds until so many were killed; return what is wrong, in sentences.

    Args:
        kills: How many kills, in all rounds together.
        seed: What is drawn at random.
        state: The file of rounds that are done; None: none is kept.
        rows: How many rows a round writes.
    """
    file = None if state is None else Path(state)
    done = json.loads(file.read_text()) if file and file.exists() else []
    done = [each for each in done if each["seed"] == seed]
    with KafkaCluster(brokers=3) as cluster:
        while sum(each["kills"] for each in done) < kills:
            number = len(done)
            left = kills - sum(each["kills"] for each in done)
            kind = KINDS[number % len(KINDS)]
            print(f"round {number}, {kind}", flush=True)
            draw = random.Random(f"{seed}/{number}")
            one = Round(cluster, draw, kind, f"soak-{seed}-{number}", rows)
            wrong = one.run(min(left, MOST_KILLS))
            entry = {"seed": seed, "kills": len(one.killed) or 1, "wrong": wrong}
            done.append(entry)
            if file is not None:
                file.write_text(json.dumps(done))
    return [f"round {n}: {w}" for n, each in enumerate(done) for w in each["wrong"]]


def roll_over(times=40_000):
    """Take over an id more often than an epoch has numbers; return what is wrong.

    A producer epoch is an int16: the coordinator then gives the id a new producer id.
    """
    with KafkaCluster() as cluster:
        topic = cluster.create_topic()
        client = make_settings(cluster.bootstrap_servers, topic=topic).client
        home, offsets = Home("soak", topic, 1), offsets_for(client)
        wrong = []
        for number in range(3):
            transaction = open_producer(client, home, 0, 300)
            transaction.init()
            marker = Marker("r", number, 0, "d", 0)
            transaction.commit(marker)
            if offsets.look(home, [0], stable=True)[1] != {0: marker}:
                wrong.append(f"marker {number} was not committed")
            if number < 2:
                wait_for(_take_over(offsets._cluster, home.id_of(0), times // 2))
        return wrong


async def _take_over(cluster, transactional_id, times):
    """Take over an id, again and again, as new producers would."""
    for _ in range(times):
        request = InitProducerIdRequest(
            transactional_id=transactional_id,
            transaction_timeout_ms=300_000,
            producer_id=-1,
            producer_epoch=-1,
        )
        deadline = asyncio.get_running_loop().time() + 30
        answer = await cluster.ask(request, 0, deadline)
        assert not answer.error_code


def compare(seed, rows=ROWS):
    """Write without the word, with executors killed; return how many rows are twice."""
    with KafkaCluster(brokers=3) as cluster:
        one = Round(cluster, random.Random(seed), "batch", "", rows, aimed=1)
        one.run(MOST_KILLS, ("executor",))
        return one.twice
