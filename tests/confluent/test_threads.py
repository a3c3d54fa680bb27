"""A consumer that one thread reads from, and others call."""

from __future__ import annotations

import threading
import time

import pytest
from confluent_kafka import Consumer

from kafkaguard import guard

CONFIG = {"bootstrap.servers": "127.0.0.1:1", "group.id": "g", "log_level": 0}
CALLS, MOST_S = 10, 20.0


@pytest.mark.parametrize(
    "read",
    [lambda consumer: consumer.poll(0.1), lambda consumer: consumer.consume(9, 0.1)],
    ids=["poll", "consume"],
)
def test_a_call_of_another_thread_gets_its_turn(read):
    """Without the guard it waits for minutes: reading begins again too soon."""
    done = threading.Event()

    def read_on():
        while not done.is_set():
            read(consumer)

    with guard(factory=Consumer, config=CONFIG) as consumer:
        thread = threading.Thread(target=read_on)
        thread.start()
        begin, calls = time.monotonic(), 0
        while calls < CALLS and time.monotonic() < begin + MOST_S:
            consumer.assignment()
            calls += 1
        done.set()
        thread.join()
    assert calls == CALLS
