"""How long each client takes for one record under each fault, beside its deadline.

``python -m tests.deadlines --deadlines 3 10 60`` prints the table, and exits with 1 if
an outcome came late. All runs of a deadline are made at the same time.
"""

from __future__ import annotations

import argparse
import logging
import sys
from concurrent.futures import ThreadPoolExecutor

from kafkaguard.testing import KafkaCluster
from tests.deadlines.runs import CLIENTS, FAULTS, run

_LINE = "| {:15} | {:22} | {:>8} | {:>7} | {:8} | {}"


def main():
    """Run, print, and say whether all were in time."""
    parser = argparse.ArgumentParser(
        prog="python -m tests.deadlines", description=__doc__
    )
    parser.add_argument("--deadlines", type=float, nargs="+", default=[3, 10, 60])
    parser.add_argument("--jobs", type=int, default=len(CLIENTS) * len(FAULTS))
    chosen = parser.parse_args()
    logging.disable(logging.CRITICAL)
    print(_LINE.format("client", "fault", "deadline", "seconds", "attempts", "outcome"))
    late = 0
    with KafkaCluster() as cluster, ThreadPoolExecutor(chosen.jobs) as pool:
        for deadline in chosen.deadlines:
            runs = [
                pool.submit(run, cluster, client, fault, deadline)
                for client in CLIENTS
                for fault in FAULTS
            ]
            for future in runs:
                one = future.result()
                late += not one.is_in_time
                print(
                    _LINE.format(
                        one.client,
                        one.fault,
                        f"{one.deadline:g}",
                        f"{one.seconds:.2f}",
                        one.attempts,
                        one.outcome + ("" if one.is_in_time else "  LATE"),
                    ),
                    flush=True,
                )
    return int(late > 0)


if __name__ == "__main__":
    sys.exit(main())
