"""What a verdict costs, and what ``import kafkaguard`` costs."""

from __future__ import annotations

import statistics
import subprocess
import sys
import time
import timeit

from confluent_kafka import KafkaError, KafkaException
from kafka.errors import KafkaTimeoutError, NotLeaderForPartitionError
from rich.console import Console
from rich.table import Table

from kafkaguard import classify

CALLS = 200_000
ROUNDS = 7


def microseconds(statement, **names):
    """Return the best time of a call over several rounds."""
    timer = timeit.Timer(statement, globals={"classify": classify, **names})
    timer.timeit(1000)
    return min(timer.repeat(ROUNDS, CALLS)) / CALLS * 1e6


def import_milliseconds():
    """Return the median time that `import kafkaguard` adds to a bare Python."""
    extra = []
    for _ in range(15):
        bare, full = (_seconds("pass"), _seconds("import kafkaguard"))
        extra.append(full - bare)
    return statistics.median(extra) * 1e3


def _seconds(script):
    start = time.perf_counter()
    subprocess.run([sys.executable, "-c", script], check=True)
    return time.perf_counter() - start


def main() -> bool:
    """Print the table; return True if a limit is missed."""
    produce = "classify(e, api='Produce')"
    rows = [
        ("classify(code, api=...)", "us", 0.35, microseconds(produce, e=6)),
        *(
            (f"of {type(e).__name__}", "us", 1.0, microseconds(produce, e=e))
            for e in (
                NotLeaderForPartitionError("moved"),
                KafkaTimeoutError("60 s"),
                KafkaException(KafkaError(6)),
                KafkaException(KafkaError(KafkaError._MSG_TIMED_OUT)),  # noqa: SLF001 - a documented constant
                KafkaError(6),
            )
        ),
        ("import kafkaguard", "ms", 30.0, import_milliseconds()),
    ]
    table = Table("What", "Measured", "At most", "Unit")
    for what, unit, limit, measured in rows:
        table.add_row(what, f"{measured:.2f}", f"{limit:g}", unit)
    Console().print(table)
    return any(measured > limit for _, _, limit, measured in rows)
