"""Makes the Pythons of a Spark slow where a kill hurts: with sent rows, before commits."""

from __future__ import annotations

import random
import time

from kafkaguard_adapters.spark.executor.sender import Sender
from kafkaguard_adapters.spark.once.transaction import Transaction

_MOST_S = 2.0
_call, _flush = Transaction._call, Sender.flush


def _wait_and_call(self, api, call):
    """Wait before the end of a transaction."""
    if api == "EndTxn":
        time.sleep(random.uniform(0, _MOST_S))
    return _call(self, api, call)


def _flush_and_wait(self):
    """Wait when the rows are written, and Spark does not know it."""
    _flush(self)
    time.sleep(random.uniform(0, _MOST_S))


Transaction._call, Sender.flush = _wait_and_call, _flush_and_wait
