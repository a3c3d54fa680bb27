"""Makes commits slow in the Pythons of a Spark: a kill falls between marker and commit."""

from __future__ import annotations

import random
import time

from kafkaguard_adapters.spark.once.transaction import Transaction

_MOST_S = 0.5
_call = Transaction._call


def _wait_and_call(self, api, call):
    """Wait before the end of a transaction."""
    if api == "EndTxn":
        time.sleep(random.uniform(0, _MOST_S))
    return _call(self, api, call)


Transaction._call = _wait_and_call
