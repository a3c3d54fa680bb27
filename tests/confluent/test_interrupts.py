"""Ctrl-C while the client waits, and the client's errors, which arrive meanwhile."""

from __future__ import annotations

import os
import signal
import threading
import time

import pytest
from confluent_kafka import KafkaError, Producer

from kafkaguard import TopicFacts, guard

CONFIG = {
    "bootstrap.servers": "localhost:1",
    "log_level": 0,
    "enable.idempotence": True,
}
TOPICS = {"t": TopicFacts(compacted=False)}


@pytest.fixture
def build():
    """Build guarded producers that reach no broker; they are closed at the end."""
    built = []

    def make(**settings):
        config = {**CONFIG, **settings}
        built.append(guard(factory=Producer, config=config, topics=TOPICS))
        return built[-1]

    yield make
    for producer in built:
        producer.close(0)


@pytest.mark.parametrize("has_own", [True, False])
def test_an_interrupt_is_raised_as_what_it_is(build, has_own):
    """The client would make a SystemError of one that strikes in an error_cb."""
    producer = build(**({"error_cb": lambda _: None} if has_own else {}))
    producer.produce("t", b"v", b"k", on_delivery=lambda *_: None)
    for n in range(10):
        wait = 0.2 + n / 1000
        timer = threading.Timer(wait, os.kill, [os.getpid(), signal.SIGINT])
        timer.start()
        with pytest.raises(KeyboardInterrupt):
            producer.flush(60)
        timer.join()


@pytest.mark.parametrize("serve", ["poll", "flush"])
def test_the_applications_error_cb_gets_each_error(build, serve):
    """The application's error_cb is called once for each error, in its own thread."""
    heard = []
    producer = build(
        error_cb=lambda error: heard.append((threading.get_ident(), error))
    )
    end = time.monotonic() + 30
    while not heard and time.monotonic() < end:
        getattr(producer, serve)(0.1)
    thread, error = heard[0]
    assert threading.get_ident() == thread
    assert isinstance(error, KafkaError)
    assert len({id(error) for _, error in heard}) == len(heard)


def test_without_an_error_cb_the_first_error_is_logged(build, caplog):
    """As librdkafka itself does, where nobody gets its errors."""
    producer = build()
    end = time.monotonic() + 30
    while not caplog.records and time.monotonic() < end:
        producer.poll(0.1)
    producer.flush(0.5)
    told = [each for each in caplog.records if "Connect to" in each.getMessage()]
    assert len(told) == 1
