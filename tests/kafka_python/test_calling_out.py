"""Hooks, callbacks and log handlers run while nothing is held, so they may send."""

from __future__ import annotations

import logging
import threading
import time
from contextlib import suppress

import pytest
from kafka import KafkaProducer
from kafka.errors import KafkaError

from kafkaguard import errors, guard
from kafkaguard.errors import CallbackError
from tests.contracts.producer import COMPACTED, read, until

SMALL = {"max.message.bytes": 2_000}
TOO_LARGE = b"x" * 5_000


class ToKafka(logging.Handler):
    """A careful log handler: it sends through the producer, but not its own doings."""

    def __init__(self, producer, topic):
        super().__init__()
        self.producer, self.topic = producer, topic
        self.sent, self.raised, self.longest = 0, [], 0.0
        self._here = threading.local()

    def emit(self, record):
        """Send a line."""
        if getattr(self._here, "busy", False):
            return
        self._here.busy = True
        start = time.monotonic()
        try:
            self.producer.send(self.topic, self.format(record).encode()[:500], b"log")
            self.sent += 1
        except Exception as error:
            self.raised.append(error)
        finally:
            self._here.busy = False
            self.longest = max(self.longest, time.monotonic() - start)


@pytest.fixture
def logged(monkeypatch):
    """Let a handler hear what the guard logs; kafka's own loggers are kept out."""
    logger = logging.getLogger("kafkaguard")
    monkeypatch.setattr(logging.getLogger("kafka"), "propagate", False)
    added = []

    def add(handler):
        logger.addHandler(handler)
        added.append(handler)
        return handler

    yield add
    for handler in added:
        logger.removeHandler(handler)


def test_a_log_handler_that_sends_freezes_nothing(kafka_cluster, logged):
    """Three deaths while three threads log: nobody waits longer than a replacement."""
    logs = kafka_cluster.create_topic()
    small = kafka_cluster.create_topic(config=SMALL)
    client = KafkaProducer(
        bootstrap_servers=kafka_cluster.bootstrap_servers,
        linger_ms=5,
        max_block_ms=30_000,
    )
    with guard(client) as producer:
        handler = logged(ToKafka(producer, logs))
        done = threading.Event()

        def chatter():
            while not done.wait(0.002):
                logging.getLogger("kafkaguard.test").error("still here")

        threads = [threading.Thread(target=chatter, daemon=True) for _ in range(3)]
        for thread in threads:
            thread.start()
        for _ in range(3):
            start = time.monotonic()
            with pytest.raises(errors.MessageTooLargeError):
                producer.send(small, TOO_LARGE, b"k").get(30)
            assert producer.send(logs, b"after", b"k").get(30).offset >= 0
            assert time.monotonic() - start < 25
        done.set()
        for thread in threads:
            thread.join(10)
        assert [thread.is_alive() for thread in threads] == [False] * 3
        assert handler.raised == []
        assert handler.longest < 25
        assert handler.sent > 100


def test_a_hook_that_sends_is_not_called_within_itself(kafka_cluster):
    """Each event is one call; what the hook's sends cause is told after it."""
    ok = kafka_cluster.create_topic()
    small = kafka_cluster.create_topic(config=SMALL)
    compacted = kafka_cluster.create_topic(config=COMPACTED)
    seen, depth, deepest = [], [], []

    def hook(event):
        depth.append(event)
        deepest.append(len(depth))
        try:
            producer.send(ok, type(event).__name__.encode(), b"k")
            if len(seen) < 40:  # a metric that is itself refused
                with suppress(errors.InvalidRecordKeyError):
                    producer.send(compacted, b"no key")
        except KafkaError as error:
            seen.append(error)
        else:
            seen.append(type(event).__name__)
        depth.pop()

    client = KafkaProducer(
        bootstrap_servers=kafka_cluster.bootstrap_servers, max_block_ms=8_000
    )
    with guard(client, on_event=hook) as producer:
        with pytest.raises(errors.InvalidRecordKeyError):
            producer.send(compacted, b"no key")
        with pytest.raises(errors.MessageTooLargeError):
            producer.send(small, TOO_LARGE, b"k").get(30)
        assert producer.send(ok, b"v", b"k").get(30).offset >= 0
        until(lambda: "RecreateEvent" in seen)
    assert {1} == set(deepest)
    assert [each for each in seen if isinstance(each, Exception)] == []
    assert len(read(kafka_cluster, ok)) == len(seen) + 1


@pytest.mark.parametrize("delivered", [True, False])
def test_a_callback_that_raises_system_exit_ends_no_thread(
    kafka_cluster, kafka_topic, delivered
):
    """flush() tells of it, at once; the producer goes on, and closes in time."""
    small = kafka_cluster.create_topic(config=SMALL)
    client = KafkaProducer(bootstrap_servers=kafka_cluster.bootstrap_servers)
    producer = guard(client)

    def leave(_):
        raise SystemExit(3)

    start = time.monotonic()
    if delivered:
        producer.send(kafka_topic, b"v", b"k").add_callback(leave)
    else:
        producer.send(small, TOO_LARGE, b"k").add_errback(leave)
    with pytest.raises(CallbackError) as caught:
        producer.flush(30)
    assert isinstance(caught.value.__cause__, SystemExit)
    assert producer.send(kafka_topic, b"next", b"k").get(20).offset >= 0
    assert producer.close(5).failed == 0
    assert time.monotonic() - start < 25
