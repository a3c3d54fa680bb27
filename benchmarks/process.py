"""What ``process()`` costs beside the client's bare loop with the same commits.

Bare loop and ``process`` take turns in fresh processes, and read the same topic with a
handler that does nothing. The measure is the CPU time of the whole process for each
record. A second table has a handler that waits 20 ms, with one worker and with eight.
"""

from __future__ import annotations

import asyncio
import itertools
import statistics
import sys
import time
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from multiprocessing import get_context

import confluent_kafka
import kafka
from rich.console import Console
from rich.table import Table

import aiokafka
from kafkaguard import guard
from kafkaguard.testing import KafkaCluster

PAIRS = 9
RECORDS = 200_000
#: Records of a run, of which the first part is not measured: the client starts up.
WARM_UP = 20_000
VALUE = b"v" * 100
KEYS = 1_000
COMMIT_S = 5.0
#: The largest ratio to the bare loop: by partition, and by key with four workers.
LIMITS = {
    "kafka-python": (1.1, 1.4),
    "confluent-kafka": (2.0, 3.5),
    "aiokafka": (1.4, 2.2),
}
#: How many times faster eight workers are than one, with a handler that waits.
LEAST_GAIN = 7.0


def fill(servers, topic, count, keys=KEYS):
    """Write the records."""
    producer = confluent_kafka.Producer(
        {"bootstrap.servers": servers, "queue.buffering.max.messages": 2_000_000}
    )
    for n in range(count):
        producer.produce(topic, VALUE, key=b"%d" % (n % keys))
    producer.flush(120)


class Meter:
    """Measures the CPU time between two records.

    Args:
        count: The number of the last record.
    """

    def __init__(self, count):
        self.left = count
        self.start = self.end = None

    def count(self, number):
        """Count records; return whether all are there."""
        before, self.left = self.left, self.left - number
        if self.start is None and self.left <= RECORDS - WARM_UP:
            self.start = time.process_time(), self.left
        if before > 0 >= self.left:
            self.end = time.process_time(), self.left
        return self.left <= 0

    @property
    def cost(self):
        """Microseconds of CPU time for each record."""
        (begin, first), (end, last) = self.start, self.end
        return (end - begin) / (first - last) * 1e6


def settings(client, servers, group):
    """Return the settings of a consumer."""
    if client == "confluent-kafka":
        return {
            "bootstrap.servers": servers,
            "group.id": group,
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
        }
    return {
        "bootstrap_servers": servers,
        "group_id": group,
        "auto_offset_reset": "earliest",
        "enable_auto_commit": False,
    }


def bare_kafka_python(servers, topic, group):
    """Poll, and commit each five seconds."""
    meter, commit_at = Meter(RECORDS), time.monotonic() + COMMIT_S
    consumer = kafka.KafkaConsumer(topic, **settings("kafka-python", servers, group))
    while True:
        number = 0
        for records in consumer.poll(timeout_ms=100, max_records=500).values():
            for _ in records:
                number += 1
        if meter.count(number):
            break
        if time.monotonic() >= commit_at:
            consumer.commit_async()
            commit_at += COMMIT_S
    consumer.close()
    return meter.cost


def bare_confluent(servers, topic, group):
    """Consume, and commit each five seconds."""
    meter, commit_at = Meter(RECORDS), time.monotonic() + COMMIT_S
    consumer = confluent_kafka.Consumer(settings("confluent-kafka", servers, group))
    consumer.subscribe([topic])
    while True:
        number = 0
        for message in consumer.consume(500, 0.1):
            if message.error() is None:
                number += 1
        if meter.count(number):
            break
        if time.monotonic() >= commit_at:
            consumer.commit(asynchronous=True)
            commit_at += COMMIT_S
    consumer.close()
    return meter.cost


def bare_aiokafka(servers, topic, group):
    """Get many, and commit each five seconds."""

    async def run():
        meter, commit_at = Meter(RECORDS), time.monotonic() + COMMIT_S
        consumer = aiokafka.AIOKafkaConsumer(
            topic, **settings("aiokafka", servers, group)
        )
        await consumer.start()
        while True:
            number = 0
            found = await consumer.getmany(timeout_ms=100, max_records=500)
            for records in found.values():
                for _ in records:
                    number += 1
            if meter.count(number):
                break
            if time.monotonic() >= commit_at:
                await consumer.commit()
                commit_at += COMMIT_S
        await consumer.stop()
        return meter.cost

    return asyncio.run(run())


BARE = {
    "kafka-python": bare_kafka_python,
    "confluent-kafka": bare_confluent,
    "aiokafka": bare_aiokafka,
}
FACTORIES = {
    "kafka-python": kafka.KafkaConsumer,
    "confluent-kafka": confluent_kafka.Consumer,
}


def bare(client, servers, topic, group):
    """Return the microseconds of a record of the bare loop."""
    return BARE[client](servers, topic, group)


class Watch:
    """An event that never stops a run, and reads the CPU time meanwhile.

    Args:
        counter: Counts the calls of the handler.
    """

    def __init__(self, counter):
        self._counter = counter
        self.start = self.end = (0.0, 0)

    def is_set(self):
        """Look at the clock; the driver asks with each poll."""
        done = self._counter.__reduce__()[1][0]
        if done < WARM_UP:
            self.start = time.process_time(), done
        if done > self.end[1]:
            self.end = time.process_time(), done
        return False

    @property
    def cost(self):
        """Microseconds of CPU time for each record."""
        (begin, first), (end, last) = self.start, self.end
        return (end - begin) / (last - first) * 1e6


def processed(client, servers, topic, group, workers, order):
    """Return the microseconds of a record of ``process``."""
    if client == "aiokafka":
        return asyncio.run(_processed_awaited(servers, topic, group, workers, order))
    counter = itertools.count()
    watch = Watch(counter)
    config = settings(client, servers, group)
    with guard(factory=FACTORIES[client], config=config) as consumer:
        consumer.subscribe([topic])
        consumer.process(
            partial(next, counter),
            workers=workers,
            order=order,
            until_end=True,
            stop=watch,
        )
    return watch.cost


async def _processed_awaited(servers, topic, group, workers, order):
    counter = itertools.count()
    watch = Watch(counter)

    async def count(_):
        next(counter)

    config = settings("aiokafka", servers, group)
    factory = aiokafka.AIOKafkaConsumer
    async with guard(factory=factory, config=config) as consumer:
        consumer.subscribe([topic])
        await consumer.process(
            count, workers=workers, order=order, until_end=True, stop=watch
        )
    return watch.cost


def waiting(servers, topic, group, workers):
    """Return the seconds of records whose handler waits 20 ms."""
    start = []

    def wait(_):
        if not start:
            start.append(time.monotonic())
        time.sleep(0.02)

    config = settings("confluent-kafka", servers, group)
    with guard(factory=confluent_kafka.Consumer, config=config) as consumer:
        consumer.subscribe([topic])
        consumer.process(wait, workers=workers, order="key", until_end=True)
    return time.monotonic() - start[0]


def fresh(function, *args):
    """Call a function in a process of its own."""
    with ProcessPoolExecutor(1, get_context("spawn")) as pool:
        return pool.submit(function, *args).result()


def main(pairs=PAIRS):
    """Measure; return 1 if a limit is missed."""
    is_missed = False
    table = Table("client", "bare µs", "by partition", "by key, 4 workers", "limits")
    with KafkaCluster() as cluster:
        servers = cluster.bootstrap_servers
        topic = cluster.create_topic(partitions=4)
        fill(servers, topic, RECORDS)
        for client, limits in LIMITS.items():
            costs, ratios = [], ([], [])
            for pair in range(pairs):
                group = f"{client}-{pair}"
                cost = fresh(bare, client, servers, topic, f"{group}-bare")
                costs.append(cost)
                for found, workers, order in zip(
                    ratios, (1, 4), ("partition", "key"), strict=True
                ):
                    args = client, servers, topic, f"{group}-{order}", workers, order
                    found.append(fresh(processed, *args) / cost)
            medians = [statistics.median(each) for each in ratios]
            is_missed |= any(
                m > limit for m, limit in zip(medians, limits, strict=True)
            )
            table.add_row(
                client,
                f"{statistics.median(costs):.2f}",
                *(f"{each:.2f}" for each in medians),
                " / ".join(map(str, limits)),
            )
        slow = cluster.create_topic(partitions=4)
        fill(servers, slow, 1_600, keys=100)
        one = fresh(waiting, servers, slow, "slow-1", 1)
        eight = fresh(waiting, servers, slow, "slow-8", 8)
    Console().print(table)
    print(f"a handler that waits 20 ms, 8 workers by key: {one / eight:.1f} times one")
    return is_missed or one / eight < LEAST_GAIN


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1]) if len(sys.argv) > 1 else PAIRS))
