"""What ``process()`` costs beside the client's bare loop, arroyo and FastStream.

All take turns in fresh processes, and read the same topic with a handler that does
nothing. Costs are CPU time of the process for each record; bytes are what its
connections received. The last line has a handler that waits 20 ms.
"""

from __future__ import annotations

import statistics
import sys
import time

from rich.console import Console
from rich.table import Table

from benchmarks._process_loops import CLIENTS, RECORDS, bare, fill, fresh, processed
from benchmarks._process_others import BATCH, other
from kafkaguard.testing import KafkaCluster

PAIRS = 9
#: The largest ratio to the bare loop: by partition, and by key with four workers.
LIMITS = {
    "kafka-python": (1.1, 1.4),
    "confluent-kafka": (2.0, 3.5),
    "aiokafka": (1.4, 2.2),
}
#: Each tool with its client; how many times cheaper records and batches are at least.
OTHERS = {
    "arroyo": ("confluent-kafka", 5, 5),
    "FastStream confluent": ("confluent-kafka", 10, 3),
    "FastStream confluent, raw": ("confluent-kafka", 10, 1),
    "FastStream aiokafka": ("aiokafka", 10, 3),
    "FastStream aiokafka, raw": ("aiokafka", 10, 1),
}
OTHER_PAIRS = 3
OTHER_RECORDS = 50_000
#: The most bytes that are fetched, as a multiple of the bare loop's.
BYTES_LIMIT = 1.2
#: A slow handler: so many large records; it hangs once each few hundred, for so long
#: that the partitions are paused.
SLOW_RECORDS, SLOW_VALUE = 2_000, b"v" * 10_000
HANGS_EACH, HANG_S = 400, 7.0
SLOW_POLICY = {"handler": {"max_in_flight": 200}}
#: How many times faster eight workers are than one, with a handler that waits.
LEAST_GAIN = 7.0


def hang(number):
    """Handle a record; each few hundred take long."""
    if number % HANGS_EACH == HANGS_EACH - 1:
        time.sleep(HANG_S)


def wait(_):
    """Handle a record in 20 ms."""
    time.sleep(0.02)


def slow(client, servers, topic):
    """Measure ``process`` with a handler that hangs."""
    return processed(
        client, servers, topic, SLOW_RECORDS, handler=hang, policy=SLOW_POLICY
    )


def waiting(servers, topic, workers):
    """Return the seconds of records whose handler waits."""
    start = []

    def note(number):
        if not start:
            start.append(time.monotonic())
        wait(number)

    arguments = {"workers": workers, "order": "key", "handler": note}
    processed("confluent-kafka", servers, topic, 1_600, **arguments)
    return time.monotonic() - start[0]


class Check:
    """Marks what misses its limit, and knows whether anything has."""

    def __init__(self):
        self.is_missed = False

    def __call__(self, value, limit, *, least=False):
        """Return a ratio beside its limit."""
        is_good = value >= limit if least else value <= limit
        self.is_missed |= not is_good
        return f"{value:.2f} ({limit}){'' if is_good else ' MISSED'}"


def measure_bare(servers, topic, check, pairs):
    """Compare with the bare loops; return the table."""
    table = Table("client", "bare µs", "by partition", "by key, 4 workers", "bytes")
    for client, limits in LIMITS.items():
        rows = []
        for _ in range(pairs):
            cost, size = fresh(bare, client, servers, topic)
            one = fresh(processed, client, servers, topic)
            four = fresh(processed, client, servers, topic, workers=4, order="key")
            rows.append((cost, one[0] / cost, four[0] / cost, one[1] / size))
        cost, one, four, size = map(statistics.median, zip(*rows, strict=True))
        ratios = check(one, limits[0]), check(four, limits[1])
        table.add_row(client, f"{cost:.2f}", *ratios, check(size, BYTES_LIMIT))
    return table


def measure_others(servers, topic, check, pairs):
    """Compare with other tools; return the table."""
    table = Table("tool", "records µs", "ours", "batches µs", "ours")
    for name, (client, *limits) in OTHERS.items():
        cells = []
        for batch, limit in zip((None, BATCH), limits, strict=True):
            rows = []
            for pair in range(pairs):
                group = f"{name}-{batch}-{pair}"
                theirs, _ = fresh(
                    other, name, servers, topic, group, OTHER_RECORDS, batch=batch
                )
                ours, _ = fresh(
                    processed, client, servers, topic, OTHER_RECORDS, batch=batch
                )
                rows.append((theirs, theirs / ours))
            theirs, gain = map(statistics.median, zip(*rows, strict=True))
            cells += [f"{theirs:.1f}", check(gain, limit, least=True)]
        table.add_row(name, *cells)
    return table


def measure_slow(servers, topic):
    """Compare the bytes of a handler that hangs with those of a bare loop.

    There is no limit: each hang outlasts the patience of the pump, and a pause drops
    what confluent-kafka and aiokafka have fetched.
    """
    table = Table("client", "bytes, handler that hangs")
    for client in CLIENTS:
        _, theirs = fresh(bare, client, servers, topic, SLOW_RECORDS)
        _, ours = fresh(slow, client, servers, topic)
        table.add_row(client, f"{ours / theirs:.2f}")
    return table


def main(pairs=PAIRS):
    """Measure; return 1 if a limit is missed."""
    check, console = Check(), Console()
    with KafkaCluster() as cluster:
        servers = cluster.bootstrap_servers
        topic, small, large, few = (cluster.create_topic(partitions=4) for _ in "1234")
        fill(servers, topic, RECORDS)
        console.print(measure_bare(servers, topic, check, pairs))
        fill(servers, small, OTHER_RECORDS)
        console.print(measure_others(servers, small, check, min(pairs, OTHER_PAIRS)))
        fill(servers, large, SLOW_RECORDS, value=SLOW_VALUE)
        console.print(measure_slow(servers, large))
        fill(servers, few, 1_600, keys=100)
        gain = fresh(waiting, servers, few, 1) / fresh(waiting, servers, few, 8)
    gained = check(gain, LEAST_GAIN, least=True)
    print(f"a handler that waits 20 ms, 8 workers by key: {gained} times one")
    return check.is_missed


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1]) if len(sys.argv) > 1 else PAIRS))
