"""Makes the Pythons of a Spark slow where a kill hurts, and says when they are there.

That is between the rows that were written and what makes them count: the end of the
transaction; without one, the end of Spark's task.
"""

from __future__ import annotations

import os
import random
import time
from pathlib import Path

from kafkaguard_adapters.spark.executor.sender import Sender
from kafkaguard_adapters.spark.once.transaction import Transaction

_MOST_S = 2.0
_call, _flush = Transaction._call, Sender.flush


def _wait():
    """Wait, with a file that says so."""
    mark = Path(os.environ["SOAK_FOLDER"], f"waits-{os.getpid()}")
    mark.touch()
    time.sleep(random.uniform(0, _MOST_S))
    mark.unlink(missing_ok=True)


def _wait_and_call(self, api, call):
    """Wait before the end of a transaction."""
    if api == "EndTxn":
        _wait()
    return _call(self, api, call)


def _flush_and_wait(self):
    """Wait when the rows are written, and Spark does not know it."""
    _flush(self)
    _wait()


Transaction._call, Sender.flush = _wait_and_call, _flush_and_wait
