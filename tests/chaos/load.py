"""Threads that send what they can, and what they were told about each record."""

from __future__ import annotations

import threading
import time
from dataclasses import dataclass
from random import Random

from kafkaguard.errors import KafkaGuardError

THREADS, KEYS = 4, 5
#: Shares of records without a key, and of those that no topic takes.
KEYLESS, TOO_LARGE = 0.01, 0.002
LARGE = b"x" * 30_000
#: The clocks of the threads, in seconds from the right time, and that of a few records,
#: which brokers refuse: it is more than an hour ahead.
CLOCKS = (None, -5 * 3600, 0, 3000)
AHEAD, FAR_AHEAD_S = 0.002, 3 * 3600


@dataclass(slots=True)
class Told:
    """What was told about one record.

    Attributes:
        topic: Where it was sent.
        sent: When ``send`` was called.
        settled: When its outcome was told.
        error: Why it was not delivered.
        put: Where it was put, if it was delivered.
    """

    topic: str
    sent: float
    settled: float | None = None
    error: KafkaGuardError | None = None
    put: object = None

    def deliver(self, put):
        """Take note that it was delivered."""
        self.settled = time.monotonic()
        self.put = put

    def fail(self, error):
        """Take note that it was not."""
        self.settled = time.monotonic()
        self.error = error

    @property
    def is_delivered(self):
        """Whether it was told as delivered."""
        return self.settled is not None and self.error is None

    @property
    def was_not_written(self):
        """Whether it was told as certainly not written."""
        return self.error is not None and self.error.verdict.written == "no"


class Load:
    """Four threads, each with keys of its own that count up.

    Args:
        send: Sends a record, and tells ``Told`` what becomes of it.
        topics: Where it sends.
        seed: For keys, sizes and topics.
        pace: Seconds between two records of a thread.
    """

    def __init__(self, send, topics, seed, pace):
        self.told = {}
        self._send_record = send
        self._topics = topics
        self._seed = seed
        self._pace = pace
        self._done = threading.Event()
        self._threads = [
            threading.Thread(target=self._work, args=(n,), daemon=True)
            for n in range(THREADS)
        ]

    def start(self):
        """Begin."""
        for thread in self._threads:
            thread.start()

    def stop(self, seconds):
        """Stop sending; tell whether each thread has ended in time."""
        self._done.set()
        for thread in self._threads:
            thread.join(seconds)
        return not any(thread.is_alive() for thread in self._threads)

    def _work(self, thread):
        random = Random(f"{self._seed}-{thread}")
        number = 0
        while not self._done.wait(self._pace):
            number += 1
            key = b"%d-%d" % (thread, random.randrange(KEYS))
            name = key + b":%07d" % number
            topic = random.choice(self._topics)
            value = name + LARGE if random.random() < TOO_LARGE else name
            clock = CLOCKS[thread]
            if random.random() < AHEAD:
                clock = FAR_AHEAD_S
            stamp = None if clock is None else int((time.time() + clock) * 1000)
            key = None if random.random() < KEYLESS else key
            self._send(topic, name, value, key, stamp)

    def _send(self, topic, name, value, key, stamp):
        told = self.told[name] = Told(topic, time.monotonic())
        try:
            self._send_record(topic, value, key, stamp, told)
        except KafkaGuardError as error:
            told.fail(error)
