"""The memory of ``process()`` over five million records, each with a key of its own."""

from __future__ import annotations

import os
import sys
from pathlib import Path

from rich.console import Console
from rich.table import Table

from benchmarks._process_loops import CLIENTS, fill, fresh, processed
from kafkaguard.testing import KafkaCluster

MILLION = 1_000_000
MILLIONS = 5
VALUE = b"v" * 20
#: The most that memory grows from the first million to the last two. The smaller of
#: these counts: what a client has fetched ahead comes and goes.
LIMIT = 1.05


def resident():
    """Return the MiB of memory of this process."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / 2**20


def sizes(client, servers, topic, million):
    """Return the memory after each part of the records."""
    found = []

    def look(number):
        if number % million == million - 1:
            found.append(resident())

    arguments = {"workers": 4, "order": "key", "handler": look}
    processed(client, servers, topic, MILLIONS * million, **arguments)
    return found


def main(million=MILLION):
    """Measure; return 1 if memory grows."""
    is_missed = False
    table = Table("MiB after", *(f"{n * million:,}" for n in range(1, MILLIONS + 1)))
    with KafkaCluster() as cluster:
        servers = cluster.bootstrap_servers
        topic = cluster.create_topic(partitions=4)
        count = MILLIONS * million
        fill(servers, topic, count, keys=count, value=VALUE)
        for client in CLIENTS:
            found = fresh(sizes, client, servers, topic, million)
            is_missed |= min(found[-2:]) > found[0] * LIMIT
            table.add_row(client, *(f"{size:.1f}" for size in found))
    Console().print(table)
    return is_missed


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1]) if len(sys.argv) > 1 else MILLION))
