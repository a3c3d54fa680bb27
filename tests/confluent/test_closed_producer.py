"""Calls of a producer without a broker: closed, or called with wrong names."""

from __future__ import annotations

import pytest
from confluent_kafka import Consumer, Producer

from kafkaguard import Action, errors, guard

CONFIG = {"bootstrap.servers": "127.0.0.1:1", "log_level": 0}


@pytest.fixture
def producer():
    """A guarded producer that reaches no broker."""
    producer = guard(factory=Producer, config={**CONFIG, "enable.idempotence": True})
    yield producer
    producer.close(0)


@pytest.mark.parametrize(
    "call",
    [
        lambda producer: producer.list_topics(timeout=1),
        lambda producer: producer.set_sasl_credentials("user", "password"),
        lambda producer: producer.purge(),
        lambda producer: producer.poll(0),
        lambda producer: producer.produce("t", b"v", b"k"),
        lambda producer: producer.produce_batch("t", [{"value": b"v", "key": b"k"}]),
    ],
    ids=["list_topics", "credentials", "purge", "poll", "produce", "produce_batch"],
)
def test_a_call_of_a_closed_producer_says_so(producer, call):
    """Whichever it is; the class is that of the client's error, too."""
    producer.close(0)
    with pytest.raises(errors.ClientClosedError) as caught:
        call(producer)
    assert isinstance(caught.value, RuntimeError)
    assert caught.value.verdict.action is Action.RECREATE


@pytest.mark.parametrize("name", ["produce", "poll"])
def test_a_wrong_name_is_told_with_the_name_of_the_method(producer, name):
    """Not with that of a function inside the guard."""
    with pytest.raises(TypeError) as caught:
        getattr(producer, name)(ky=b"k")
    assert str(caught.value).startswith(f"{name}() got an unexpected keyword argument")


@pytest.mark.parametrize("name", ["poll", "consume"])
def test_a_wrong_name_is_told_by_a_consumer_too(name):
    """While it polls quickly and while it does not."""
    config = {**CONFIG, "group.id": "g"}
    with (
        guard(factory=Consumer, config=config) as consumer,
        pytest.raises(TypeError) as caught,
    ):
        getattr(consumer, name)(ky=1)
    assert f"{name}() got an unexpected keyword argument" in str(caught.value)
    assert "<locals>" not in str(caught.value)
