"""Services that handle records while brokers fail and services are killed.

One service with one worker and one with eight, by key. A record of a thousand is poison.
At the end each record must be handled or a dead letter, in the order of its key within a
service and a partition, and committed.
"""

from __future__ import annotations

import json
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

from tests.chaos.actors import Actor, Outcome, Series
from tests.chaos.service import POISON

PARTITIONS = 6
KEYS = 50
#: Seconds that the services have at the end to handle what is left.
CATCH_UP_S = 120.0
TOPIC = {"min.insync.replicas": 2}
#: Characters of an error that ended a service.
LINE = 160
#: What clients say of a member that is no longer one, or of an outdated commit.
LOST = re.compile("CommitFailed|UnknownMember|UNKNOWN_MEMBER|ILLEGAL_GEN|MAX_POLL")


class Source:
    """Writes numbered records, by key, until it is stopped.

    Args:
        servers: Where the cluster is.
        topic: Where it writes.
        pace: Seconds between two records.

    Attributes:
        times: When it wrote each (``time.monotonic()``).
    """

    def __init__(self, servers, topic, pace):
        self._producer = confluent_kafka.Producer(
            {
                "bootstrap.servers": servers,
                "enable.idempotence": True,
                "delivery.timeout.ms": 600_000,
                "topic.metadata.refresh.interval.ms": 5_000,
                "log_level": 0,
            }
        )
        self._topic = topic
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._pace = pace
        self.times = []

    def start(self):
        """Begin to write."""
        self._thread.start()

    def _run(self):
        for number in count():
            key = b"k%d" % (number % KEYS)
            self._producer.produce(self._topic, b"%d" % number, key=key)
            self._producer.poll(0)
            self.times.append(time.monotonic())
            if self._stop.wait(self._pace):
                return

    def stop(self):
        """Write what is left; a second call does nothing."""
        self._stop.set()
        if self._thread.is_alive():
            self._thread.join()
            self._producer.flush(300)


class Service:
    """A service in a process of its own, which is killed and started again."""

    def __init__(self, client, settings, topic, workers, folder, *, bare=False):
        self._arguments = [client, json.dumps(settings), topic, str(workers)]
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
    try:
        numbers = consumer.list_topics(topic, timeout=20).topics[topic].partitions
        places = [confluent_kafka.TopicPartition(topic, n) for n in numbers]
        committed = consumer.committed(places, timeout=20)
        ends = [consumer.get_watermark_offsets(p, timeout=20)[1] for p in places]
    finally:
        consumer.close()
    lags = [end - max(0, p.offset) for p, end in zip(committed, ends, strict=True)]
    return sum(max(0, lag) for lag in lags), sum(max(0, -lag) for lag in lags)


def read_logs(services):
    """Return how often each number was handled and when, and keys out of order."""
    handled, times, disorder = Counter(), [], 0
    for service in services:
        for log in service.logs:
            last = defaultdict(lambda: -1)
            if not log.exists():
                continue
            for line in log.read_text().splitlines():
                parts = line.split()
                if len(parts) != 5:
                    continue  # it was killed in the middle
                # A key moves when its topic gets more partitions.
                place, number = (parts[0], parts[2]), int(parts[1])
                # A record that was handled before may come again; then so do its next.
                if number < last[place] and not handled[number]:
                    disorder += 1
                last[place] = number
                handled[number] += 1
                times.append(float(parts[4]))
    return handled, times, disorder


class Processing(Actor):
    """Services of one group, which handle what a source writes.

    Args:
        ground: The cluster and its proxy.
        client: The client's name.
        pace: Seconds between two records of the source.
        workers: The workers of each service.
        bare: Whether the loop is written by hand.
    """

    def __init__(self, ground, client, pace, workers, *, bare=False):
        self.name = user_of(client)
        self._ground = ground
        self._client, self._workers, self._bare = client, workers, bare
        self._servers = ground.cluster.bootstrap_servers
        create = ground.cluster.create_topic
        self.growing = self._topic = create(None, PARTITIONS, config=TOPIC)
        create(f"{self._topic}.dlq", 1, config=TOPIC)
        self._source = Source(self._servers, self._topic, pace)
        self._folder = tempfile.TemporaryDirectory()
        self._services = []
        self._kills = 0

    def start(self):
        """Begin to write, and to handle."""
        settings = self._ground.settings(self.name, self._client)
        self._services = [
            Service(
                self._client, settings, self._topic, each, self._folder.name,
                bare=self._bare,
            )
            for each in self._workers
        ]  # fmt: skip
        self._source.start()

    def kill(self, random):
        """Kill a service, and start it again."""
        service = random.choice(self._services)
        service.kill()
        self._kills += 1
        time.sleep(random.uniform(0, 2))
        service.start()
        return self.name

    def close(self):
        """Kill what runs."""
        for service in self._services:
            service.kill()
        self._folder.cleanup()

    def finish(self, faults):
        """Wait until all is handled; compare."""
        self._source.stop()
        end = time.monotonic() + CATCH_UP_S
        while sum(lag := behind(self._servers, self._topic)) and time.monotonic() < end:
            time.sleep(2)
        for service in self._services:
            service.kill()
        handled, times, disorder = read_logs(self._services)
        lines = [
            line
            for service in self._services
            for log in service.logs
            for line in Path(f"{log}.err").read_text().splitlines()
        ]
        letters = read_letters(self._servers, f"{self._topic}.dlq")
        numbers = range(len(self._source.times))
        poison = {n for n in numbers if n % POISON == POISON - 1}
        missing = [n for n in numbers if n not in handled and n not in poison]
        missing += poison - set(letters)
        bad = {
            "not handled": sum(n not in poison for n in missing),
            "poison without a letter": sum(n in poison for n in missing),
            "letters of good records": len(set(letters) - poison),
            "not committed": lag[0],
            "committed beyond the end": lag[1],
            "keys out of order": disorder,
        }
        facts = {
            "records": len(numbers),
            "handled again": sum(n - 1 for n in handled.values()),
            "letters twice": sum(n - 1 for n in letters.values()),
            "kills of a service": self._kills,
            "lines of a lost membership": sum(map(bool, map(LOST.search, lines))),
            **Counter(line[:LINE] for line in lines if re.match(r"\w+\(", line)),
        }
        source = self._source.times
        return Outcome(
            bad, facts, Series(source, [], times, [source[n] for n in missing])
        )


def user_of(client):
    """Name the user of a client's services."""
    return f"process-{client}"
