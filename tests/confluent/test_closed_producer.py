"""Calls of a producer without a broker: closed, or called with wrong names."""

from __future__ import annotations

from contextlib import suppress

import pytest
from confluent_kafka import Consumer, KafkaException, Producer

from kafkaguard import Action, TopicFacts, errors, guard
from kafkaguard.errors import DeliveryFailed, ForkedProducerError

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


CHILDS = {
    "produce": lambda producer: producer.produce("t", b"v", b"k"),
    "poll": lambda producer: producer.poll(0),
    "flush": lambda producer: producer.flush(0),
    "purge": lambda producer: producer.purge(),
    "list_topics": lambda producer: producer.list_topics(timeout=0.01),
    "credentials": lambda producer: producer.set_sasl_credentials("u", "p"),
    "init": lambda producer: producer.init_transactions(0.01),
    "begin": lambda producer: producer.begin_transaction(),
    "offsets": lambda producer: producer.send_offsets_to_transaction([], None),
    "commit": lambda producer: producer.commit_transaction(0.01),
    "abort": lambda producer: producer.abort_transaction(0.01),
    "block": lambda producer: producer.transaction().__enter__(),
}


@pytest.mark.parametrize("call", CHILDS.values(), ids=CHILDS)
def test_no_call_in_a_forked_child_is_one_of_the_parents_client(call):
    """Its threads are not in the child, so most calls would wait for ever."""
    config = {**CONFIG, "enable.idempotence": True}
    topics = {"t": TopicFacts(compacted=False)}
    producer = guard(factory=Producer, config=config, topics=topics)
    parents = producer._forks.after_fork()
    with suppress(KafkaException, TypeError):
        call(producer)
    assert producer.client is not parents[1]
    assert producer.poll(0) >= 0
    producer.purge()
    with suppress(DeliveryFailed):
        producer.close(0)
    parents[1].close()


@pytest.mark.parametrize("call", CHILDS.values(), ids=CHILDS)
def test_each_call_in_a_forked_child_without_a_factory_says_so(call):
    """Each call in a forked child without a factory raises ForkedProducerError."""
    client = Producer({**CONFIG, "enable.idempotence": True})
    producer = guard(client)
    producer._forks.after_fork()
    with pytest.raises(ForkedProducerError):
        call(producer)
    assert producer.close()
    client.close()
