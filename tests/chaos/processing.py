"""Services that handle records while brokers fail and services are killed.

``python -m tests.chaos --process --client C``: one service with one worker and one with
eight, by key. A record of a thousand is poison. At the end each record must be handled
or a dead letter, in the order of its key within a service, and committed.
"""

from __future__ import annotations

import re
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter, defaultdict
from itertools import count
from pathlib import Path

import confluent_kafka

from tests.chaos.service import POISON

#: What clients say of a member that is no longer one, or of an outdated commit.
LOST = re.compile("CommitFailed|UnknownMember|UNKNOWN_MEMBER|ILLEGAL_GEN|MAX_POLL")
PARTITIONS = 6
KEYS = 50
#: Seconds that the services have at the end to handle what is left.
CATCH_UP_S = 120.0
TOPIC = {"min.insync.replicas": 2}


class Source:
    """Writes numbered records, by key, until it is stopped."""

    def __init__(self, servers, topic):
        self._producer = confluent_kafka.Producer(
            {
                "bootstrap.servers": servers,
                "enable.idempotence": True,
                "delivery.timeout.ms": 600_000,
            }
        )
        self._topic = topic
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run)
        self.count = 0

    def start(self):
        """Begin to write."""
        self._thread.start()

    def _run(self):
        for number in count():
            key = b"k%d" % (number % KEYS)
            self._producer.produce(self._topic, b"%d" % number, key=key)
            self._producer.poll(0)
            self.count = number + 1
            if self._stop.wait(0.002):
                return

    def stop(self):
        """Write what is left."""
        self._stop.set()
        self._thread.join()
        self._producer.flush(300)


class Service:
    """A service in a process of its own, which is killed and started again."""

    def __init__(self, client, servers, topic, workers, folder, *, bare=False):
        self._arguments = [client, servers, topic, str(workers)]
        self._bare = ["--bare"] if bare else []
        self._folder = Path(folder)
        self._workers = workers
        self.logs = []
        self._process = None
        self.start()

    def start(self):
        """Start it, with a log of its own."""
        log = self._folder / f"{self._workers}-{len(self.logs)}"
        self.logs.append(log)
        program = [sys.executable, "-m", "tests.chaos.service"]
        with Path(f"{log}.err").open("w") as errors:
            self._process = subprocess.Popen(
                [*program, *self._arguments, str(log), *self._bare], stderr=errors
            )

    def kill(self):
        """Kill it, as kill -9 does."""
        self._process.kill()
        self._process.wait()


def read_letters(servers, topic):
    """Count the letters of each number."""
    consumer = confluent_kafka.Consumer(
        {
            "bootstrap.servers": servers,
            "group.id": "letters",
            "auto.offset.reset": "earliest",
        }
    )
    consumer.assign([confluent_kafka.TopicPartition(topic, 0, 0)])
    letters, until = Counter(), time.monotonic() + 10
    while time.monotonic() < until:
        for message in consumer.consume(500, 1):
            if message.error() is None:
                letters[int(message.value())] += 1
                until = time.monotonic() + 5
    consumer.close()
    return letters


def behind(servers, topic):
    """Return how many offsets are not committed, and how many too many are."""
    consumer = confluent_kafka.Consumer(
        {"bootstrap.servers": servers, "group.id": topic}
    )
    places = [confluent_kafka.TopicPartition(topic, n) for n in range(PARTITIONS)]
    try:
        committed = consumer.committed(places, timeout=20)
        ends = [consumer.get_watermark_offsets(p, timeout=20)[1] for p in places]
    finally:
        consumer.close()
    lags = [end - max(0, p.offset) for p, end in zip(committed, ends, strict=True)]
    return sum(max(0, lag) for lag in lags), sum(max(0, -lag) for lag in lags)


def read_logs(services):
    """Return how often each number was handled, and keys out of order."""
    handled, disorder = Counter(), 0
    for service in services:
        for log in service.logs:
            last = defaultdict(lambda: -1)
            if not log.exists():
                continue
            for line in log.read_text().splitlines():
                parts = line.split()
                if len(parts) != 4:
                    continue  # it was killed in the middle
                key, number = parts[0], int(parts[1])
                # A record that was handled before may come again; then so do its next.
                if number < last[key] and not handled[number]:
                    disorder += 1
                last[key] = number
                handled[number] += 1
    return handled, disorder


def play(cluster, client, seconds, random, faults, *, bare=False):
    """Play; return what is wrong, and what happened."""
    servers = cluster.bootstrap_servers
    topic = cluster.create_topic(None, PARTITIONS, config=TOPIC)
    cluster.create_topic(f"{topic}.dlq", 1, config=TOPIC)
    source = Source(servers, topic)
    kills = 0
    with tempfile.TemporaryDirectory() as folder:
        services = [
            Service(client, servers, topic, workers, folder, bare=bare)
            for workers in (1, 8)
        ]
        source.start()
        thread = threading.Thread(target=faults.run, args=[seconds])
        thread.start()
        try:
            while thread.is_alive():
                time.sleep(random.uniform(5, 15))
                service = random.choice(services)
                service.kill()
                kills += 1
                time.sleep(random.uniform(0, 2))
                service.start()
            source.stop()
            end = time.monotonic() + CATCH_UP_S
            while sum(lag := behind(servers, topic)) and time.monotonic() < end:
                time.sleep(2)
        finally:
            thread.join()
            for service in services:
                service.kill()
        handled, disorder = read_logs(services)
        lines = [
            line
            for service in services
            for log in service.logs
            for line in Path(f"{log}.err").read_text().splitlines()
        ]
    letters = read_letters(servers, f"{topic}.dlq")
    numbers = range(source.count)
    poison = {n for n in numbers if n % POISON == POISON - 1}
    bad = {
        "not handled": sum(n not in handled for n in numbers if n not in poison),
        "poison without a letter": len(poison - set(letters)),
        "letters of good records": len(set(letters) - poison),
        "not committed": lag[0],
        "committed beyond the end": lag[1],
        "keys out of order": disorder,
    }
    facts = {
        "records": source.count,
        "handled again": sum(n - 1 for n in handled.values()),
        "letters twice": sum(n - 1 for n in letters.values()),
        "kills of a service": kills,
        "lines of a lost membership": sum(map(bool, map(LOST.search, lines))),
        **Counter(line.split("(")[0] for line in lines if "Error" in line),
    }
    return bad, facts
