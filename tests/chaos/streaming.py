"""A Spark stream that writes while brokers fail, started again whenever it has ended."""

from __future__ import annotations

import tempfile
import threading
import time
from collections import Counter
from pathlib import Path

from kafkaguard.cli.spark_session import spark_session
from tests.chaos.actors import Actor, Outcome, Series
from tests.chaos.services import LINE
from tests.soak import outages
from tests.soak.counting import count, last_of_each
from tests.spark.spark_reading import read

USER = "spark"
ROWS = 200
#: Seconds that the stream has for another batch after the faults.
GO_ON_S = 180.0


class Streaming(Actor):
    """A stream of numbers through the data source.

    Args:
        ground: The cluster and its proxy.
    """

    name = USER

    def __init__(self, ground):
        self._ground = ground
        self._topic = ground.cluster.create_topic(None, 2)
        self._folder = tempfile.TemporaryDirectory()
        self._report = Path(self._folder.name, "reports.jsonl")
        self._is_done = threading.Event()
        self._thread = threading.Thread(target=self._keep, daemon=True)
        self._starts = 0
        self._errors = Counter()
        self._session = spark_session("chaos")
        self._spark = None
        self._told = {}

    def start(self):
        """Begin to write."""
        self._spark = self._session.__enter__()
        self._query = self._begin()
        self._thread.start()

    def _begin(self):
        self._starts += 1
        connection = self._ground.settings(self.name, "spark")
        return outages.start(
            self._spark, "data source", self._topic, connection, self._report, ROWS
        )

    def _keep(self):
        """Start the stream again whenever it has ended; note when batches ended."""
        while not self._is_done.wait(0.5):
            for line in outages.read(self._report):
                self._told.setdefault(line["batch_id"], time.monotonic())
            if not self._query.isActive:
                self._note(self._query.exception())
                try:
                    self._query = self._begin()
                except Exception as error:  # the topic could not be looked up
                    self._note(error)

    def _note(self, error):
        """Note the first line of what ended the stream, or did not let it begin."""
        lines = str(error).strip().splitlines()
        told = [line for line in lines if "kafkaguard" in line] or lines
        self._errors[told[0][:LINE]] += 1

    def close(self):
        """Stop Spark."""
        self._is_done.set()
        if self._thread.is_alive():
            self._thread.join()
        if self._spark is not None:
            self._session.__exit__(None, None, None)
        self._folder.cleanup()

    def finish(self, faults):
        """Wait for a batch; compare."""
        before = len(self._told)
        outages.waits(lambda: len(self._told) > before, GO_ON_S)
        went_on = len(self._told) > before
        self._is_done.set()
        self._thread.join()
        self._query.stop()
        lines = last_of_each(outages.read(self._report))
        written = sum(line["delivered"] for line in lines)
        messages = read(self._ground.cluster, self._topic)
        values = [each.value().decode() for each in messages]
        told = [line["maybe_twice"] for line in lines]
        found = count(map(str, range(written)), values, told)
        # A batch that was cut off at the end may have written some of its records.
        bad = {
            "lost": found.lost,
            "twice, and not within maybe_twice": 0 if found.is_true else found.twice,
            "no batch after the faults": 0 if went_on else 1,
        }
        facts = {
            "batches": len(lines),
            "records": written,
            "twice": found.twice,
            "maybe_twice": found.told,
            "batches that do not know": found.unknown,
            "started again": self._starts - 1,
            **self._errors,
        }
        shift = time.time() - time.monotonic()
        there = [each.timestamp()[1] / 1000 - shift for each in messages]
        ends = [
            self._told[line["batch_id"]]
            for line in lines
            if line["batch_id"] in self._told
            for _ in range(line["delivered"])
        ]
        return Outcome(bad, facts, Series(ends, [], there, []))
