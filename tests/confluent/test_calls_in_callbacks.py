"""No call of the client in one of its callbacks: that would abort the process.

The brokers are librdkafka's own, in this process.
"""

from __future__ import annotations

import threading

import pytest
from confluent_kafka import Producer

from kafkaguard import Action, errors, guard

#: The client's settings; `guard()` does not know those of a producer without brokers.
CONFIG = {
    "bootstrap.servers": "127.0.0.1:1",
    "log_level": 0,
    "enable.idempotence": True,
    # A record that is refused later than this may have been sent before.
    "retry.backoff.ms": 60_000,
    "retry.backoff.max.ms": 60_000,
}
#: The answers take a time, so that records are accepted before their topic is known.
MOCK = {**CONFIG, "test.mock.num.brokers": 1, "test.mock.broker.rtt": 20}
MISSING = 77
LONG_S = 30.0


class Strict(Producer):
    """A producer that tells of each call in one of its polls, instead of aborting."""

    def __init__(self, config):
        super().__init__(config)
        self.nested = []
        self.polling = set()

    def _call(self, name, *args, **kwargs):
        me = threading.get_ident()
        if me in self.polling:
            self.nested.append(name)
            raise AssertionError(name)
        self.polling.add(me)
        try:
            return getattr(Producer, name)(self, *args, **kwargs)
        finally:
            self.polling.discard(me)

    def poll(self, *args):
        """Poll."""
        return self._call("poll", *args)

    def flush(self, *args):
        """Flush."""
        return self._call("flush", *args)

    def list_topics(self, *args, **kwargs):
        """List topics."""
        return self._call("list_topics", *args, **kwargs)


@pytest.fixture
def client():
    """A client of a broker in this process."""
    client = Strict(MOCK)
    yield client
    assert client.nested == []


@pytest.fixture
def producer(client):
    """Its guarded producer."""
    with guard(client, config=CONFIG) as producer:
        yield producer


def test_a_partition_that_does_not_exist_is_looked_up_while_reports_are_served(
    producer,
):
    """The client tells it in a callback, as it did not know the topic before."""
    told = []
    producer.produce(
        "new", b"v", b"k", MISSING, on_delivery=lambda error, _: told.append(error)
    )
    assert producer.flush(LONG_S) == 0
    (error,) = told
    assert error.verdict.action is Action.REJECT
    assert isinstance(error.error, errors.PartitionNotThereError)


def test_a_callback_may_produce_to_a_partition_that_does_not_exist(producer):
    """The record is refused, and the callbacks of other records go on."""
    raised, told = [], []

    def again(error, _):
        told.append(error)
        try:
            producer.produce("known", b"v", b"k", MISSING)
        except errors.KafkaGuardError as refused:
            raised.append(refused.verdict.action)

    for _ in range(3):
        producer.produce("known", b"v", b"k", 0, on_delivery=again)
    assert producer.flush(LONG_S) == 0
    assert told == [None] * 3
    assert raised == [Action.REJECT] * 3


@pytest.mark.parametrize(
    "call",
    [
        lambda producer: producer.list_topics(timeout=1),
        lambda producer: producer.set_sasl_credentials("user", "password"),
        lambda producer: producer.init_transactions(),
        lambda producer: producer.send_offsets_to_transaction([], None),
        lambda producer: producer.commit_transaction(),
        lambda producer: producer.abort_transaction(),
        lambda producer: producer.close(),
    ],
    ids=["list", "credentials", "init", "offsets", "commit", "abort", "close"],
)
def test_a_call_in_a_callback_that_would_abort_the_process_is_refused(producer, call):
    """An error says where to call it instead; the record's report is not lost."""
    raised = []

    def in_callback(_error, _message):
        with pytest.raises(errors.ClientStateError) as caught:
            call(producer)
        raised.append(str(caught.value))

    producer.produce("known", b"v", b"k", 0, on_delivery=in_callback)
    assert producer.flush(LONG_S) == 0
    (text,) = raised
    assert "in a callback" in text
    assert "another thread" in text


def test_polls_of_the_guard_are_polls_too(producer):
    """A callback of the settings, such as a logger, may run in them."""
    results = []

    def poll(client):
        results.extend((producer.poll(0), producer.flush(0)))
        with pytest.raises(errors.ClientStateError, match="in a callback"):
            producer.list_topics()
        return 1

    assert producer._shell._serve_client(poll) == 1
    assert results == [0, 0]
    assert producer.list_topics(timeout=LONG_S).brokers
