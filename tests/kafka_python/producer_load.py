"""Threads that send as fast as they can, and what the topic holds in the end.

Each thread has keys of its own and counts up. Whatever happens, each record is delivered
or reported, none is there twice, and the values of a key are in order.
"""

from __future__ import annotations

import threading
from collections import Counter, defaultdict

from kafka import KafkaConsumer, TopicPartition

from kafkaguard import errors
from tests.contracts.producer import until

THREADS, PARTITIONS = 6, 4


class Load:
    """Threads that send as fast as they can, and what became of each record."""

    def __init__(self, producer, topic, size=40):
        self.outcomes = {}
        self._producer = producer
        self._topic = topic
        self._size = size
        self._done = threading.Event()
        self._futures = [[] for _ in range(THREADS)]
        self._threads = [
            threading.Thread(target=self._work, args=(n,)) for n in range(THREADS)
        ]

    def __enter__(self):
        """Start the threads."""
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_):
        """Stop them, and wait for every outcome."""
        self._done.set()
        for thread in self._threads:
            thread.join(60)
        assert not any(thread.is_alive() for thread in self._threads)
        for futures in self._futures:
            for name, future in futures:
                self.outcomes[name] = outcome(future)

    @property
    def count(self):
        """How many were sent so far."""
        return sum(map(len, self._futures))

    def _work(self, thread):
        pause = threading.Event()
        number = 0
        while not self._done.is_set():
            key = b"%d-%d" % (thread, number % 3)
            name = key + b":%06d" % number
            value = name.ljust(self._size)
            future = send(self._producer, self._topic, value, key)
            self._futures[thread].append((name, future))
            number += 1
            if number % 10 == 0:
                pause.wait(0.01)

    def refused(self):
        """Say by verdict what was not delivered."""
        return {n: o for n, o in self.outcomes.items() if not isinstance(o, int)}

    def check_innocent(self):
        """Each of them was delivered."""
        assert self.refused() == {}, self.kinds()

    def kinds(self):
        """Count what was not delivered, by verdict."""
        return Counter(
            (o.name, str(o.verdict.action), o.verdict.written)
            for o in self.refused().values()
        )


def send(producer, topic, value, key):
    """Send; what is raised stands for the outcome."""
    try:
        return producer.send(topic, value, key)
    except errors.KafkaGuardError as error:
        return error


def outcome(future):
    """Wait for an outcome: the offset, or the error."""
    if isinstance(future, Exception):
        return future
    try:
        return future.get(60).offset
    except errors.KafkaGuardError as error:
        return error


def read_all(cluster, topic):
    """Read the values of each partition, by key and in order."""
    with KafkaConsumer(
        bootstrap_servers=cluster.bootstrap_servers, enable_auto_commit=False
    ) as consumer:
        places = [TopicPartition(topic, n) for n in range(PARTITIONS)]
        consumer.assign(places)
        consumer.seek_to_beginning(*places)
        ends = consumer.end_offsets(places)
        values = defaultdict(list)
        while any(consumer.position(p) < ends[p] for p in places):
            for batch in consumer.poll(timeout_ms=1000).values():
                for record in batch:
                    values[record.key].append(record.value.rstrip())
        return values


def check(cluster, topic, load):
    """Compare the topic with what the outcomes say."""
    found = read_all(cluster, topic)
    there = [value for values in found.values() for value in values]
    assert len(set(there)) == len(there), "a record is there twice"
    for values in found.values():
        assert sorted(values) == values, "a key's values are out of order"
    delivered = {n for n, o in load.outcomes.items() if isinstance(o, int)}
    doubtful = {n for n, o in load.refused().items() if o.verdict.written != "no"}
    assert delivered <= set(there), "a delivered record is missing"
    assert set(there) <= delivered | doubtful, "a failed record is there"


def await_recovery(producer):
    """Wait until a producer's own recovery threads have nothing left to do."""
    lanes = producer._driver._lanes
    until(lambda: not any(lane._thread for lane in lanes.copy().values()))
