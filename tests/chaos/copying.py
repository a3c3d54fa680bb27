"""A service that copies a topic exactly once, killed while brokers fail."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from contextlib import suppress
from pathlib import Path

from tests.chaos.actors import Actor, Outcome, Series
from tests.chaos.services import LINE, TOPIC, Source, behind
from tests.contracts.once import ROOT
from tests.spark.spark_reading import committed, read

PARTITIONS = 3
#: Seconds that the last service has to copy what is left, and how often it may fail.
END_S, TRIES = 240.0, 3


class Copying(Actor):
    """A transactional copy by one client.

    Args:
        ground: The cluster and its proxy.
        client: The client's name.
        pace: Seconds between two records of the source.
    """

    def __init__(self, ground, client, pace):
        self.name = user_of(client)
        self._ground, self._client = ground, client
        create = ground.cluster.create_topic
        self._topic = create(None, PARTITIONS, config=TOPIC)
        self._out = create(None, 1, config=TOPIC)
        if client != "aiokafka":  # its partitions are assigned by hand
            self.growing = self._topic
        self._source = Source(ground.cluster.bootstrap_servers, self._topic, pace)
        self._folder = tempfile.TemporaryDirectory()
        self._errors = Path(self._folder.name, "errors")
        self._runs = self._kills = 0
        self._is_done = threading.Event()
        self._thread = threading.Thread(target=self._keep, daemon=True)

    def start(self):
        """Begin to write, and to copy."""
        settings = json.dumps(self._ground.settings(self.name, self._client))
        self._command = [
            sys.executable, "-m", "tests.contracts.once_program", self._client,
            settings, self._topic, self._out, self._topic,
        ]  # fmt: skip
        self._process = self._run()
        self._source.start()
        self._thread.start()

    def _run(self):
        self._runs += 1
        with self._errors.open("a") as errors:
            return subprocess.Popen(
                self._command, cwd=ROOT, stdout=subprocess.DEVNULL, stderr=errors
            )

    def _keep(self):
        """Start the service again whenever it has ended."""
        while not self._is_done.wait(0.5):
            if self._process.poll() is not None:
                self._process = self._run()

    def kill(self, _):
        """Kill the service; it is started again."""
        self._process.kill()
        self._kills += 1
        return self.name

    def close(self):
        """Kill what runs."""
        self._is_done.set()
        if self._thread.is_alive():
            self._thread.join()
        self._process.kill()
        self._process.wait()
        self._folder.cleanup()

    def finish(self, faults):
        """Copy what is left; compare."""
        self._source.stop()
        self._is_done.set()
        self._thread.join()
        self._process.kill()
        self._process.wait()
        for _ in range(TRIES):
            self._process = self._run()
            with suppress(subprocess.TimeoutExpired):
                if self._process.wait(END_S) == 0:
                    break
            self._process.kill()
        is_at_end = self._process.poll() == 0
        messages = committed(self._ground.cluster, self._out, patience=60)
        times = Counter(int(each.value()) for each in messages)
        # librdkafka, which writes the input, may write a record of it twice.
        inputs = read(self._ground.cluster, self._topic)
        twice = times - Counter(int(each.value()) for each in inputs)
        source = self._source.times
        missing = [n for n in range(len(source)) if n not in times]
        lag = behind(self._ground.cluster.bootstrap_servers, self._topic)
        bad = {
            "without an output": len(missing),
            "more outputs than inputs": twice.total(),
            "not committed": lag[0],
            "committed beyond the end": lag[1],
            "does not come to its end": 0 if is_at_end else 1,
        }
        lines = self._errors.read_text().splitlines()
        errors = [line[:LINE] for line in lines if re.match(r"[\w.]+Error", line)]
        facts = {
            "records": len(source),
            "inputs twice": len(inputs) - len(source),
            "kills": self._kills,
            "ended by itself": self._runs - self._kills - 2,
            **Counter(errors),
        }
        shift = time.time() - time.monotonic()
        there = [each.timestamp()[1] / 1000 - shift for each in messages]
        return Outcome(
            bad, facts, Series(source, [], there, [source[n] for n in missing])
        )


def user_of(client):
    """Name the user of a client's copy."""
    return f"copy-{client}"
