"""Progress of commands: a line on stderr for each change."""

from __future__ import annotations

import threading
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING

from kafkaguard.cli.output import say

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyspark.sql import SparkSession

    from kafkaguard_adapters.spark.report import WriteReport

_GLANCE_S = 1.0


class Progress:
    """Prints the progress of a job, with the seconds since its start."""

    def __init__(self) -> None:
        self._started = time.monotonic()
        self._last = ""

    def say(self, text: str) -> None:
        """Print a text, unless it is the same as the last one."""
        if text != self._last:
            self._last = text
            say(f"[{time.monotonic() - self._started:3.0f} s] {text}", err=True)

    def batch(self, report: WriteReport, batch_id: int) -> None:
        """Print the result of a micro-batch."""
        self.say(f"batch {batch_id}: {report}")

    @contextmanager
    def of(self, spark: SparkSession) -> Iterator[None]:
        """Print the progress of a session's running stages until the block ends."""
        done = threading.Event()
        watcher = threading.Thread(target=self._watch, args=(spark, done), daemon=True)
        watcher.start()
        try:
            yield
        finally:
            done.set()
            watcher.join(_GLANCE_S * 2)

    def _watch(self, spark: SparkSession, done: threading.Event) -> None:
        tracker = spark.sparkContext.statusTracker()
        while not done.wait(_GLANCE_S):
            for stage in tracker.getActiveStageIds():
                info = tracker.getStageInfo(stage)
                if info is not None:
                    tasks = f"{info.numCompletedTasks} of {info.numTasks} tasks done"
                    self.say(f"stage {stage}: {tasks}")
