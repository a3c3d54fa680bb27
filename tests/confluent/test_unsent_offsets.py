"""A transaction is not committed without offsets that could not be sent.

The brokers are librdkafka's own, in this process.
"""

from __future__ import annotations

from contextlib import suppress

import pytest
from confluent_kafka import (
    Consumer,
    KafkaError,
    KafkaException,
    Producer,
    TopicPartition,
)

from kafkaguard import Action, errors, guard

CONFIG = {
    "bootstrap.servers": "127.0.0.1:1",
    "log_level": 0,
    "transactional.id": "shop-1",
}
FIRST, SECOND = TopicPartition("in", 0, 7), TopicPartition("in", 1, 9)
#: What librdkafka raises; after the first two it would commit without the offsets.
FAILURES = {
    "no answer": KafkaError(KafkaError._TIMED_OUT, "Timed out", False, True),
    "no coordinator": KafkaError(KafkaError.NOT_COORDINATOR, "-", False, True),
    "for good": KafkaError(KafkaError.INVALID_GROUP_ID, "-"),
}


class Flaky(Producer):
    """A producer that sends no offsets, and whose next call with some may fail."""

    failure = None
    is_begun = True

    def send_offsets_to_transaction(self, *args):
        """Fail once, or do nothing."""
        if self.failure is not None:
            failure, self.failure = self.failure, None
            raise KafkaException(failure)
        if not self.is_begun:
            super().send_offsets_to_transaction(*args)


@pytest.fixture
def group():
    """The metadata of a group."""
    consumer = Consumer({**CONFIG, "group.id": "g"})
    yield consumer.consumer_group_metadata()
    consumer.close()


@pytest.fixture
def producer():
    """A guarded producer in a transaction with a record."""
    client = Flaky({**CONFIG, "test.mock.num.brokers": 1})
    with guard(client, config=CONFIG) as producer:
        producer.init_transactions(30)
        producer.begin_transaction()
        producer.produce("out", b"v", b"k")
        yield producer
        with suppress(errors.ClientStateError):  # it may have ended
            producer.abort_transaction()


@pytest.fixture
def fail(producer, group):
    """Return a function that fails to send the offset of the first partition."""

    def fail(failure):
        producer.client.failure = failure
        with pytest.raises(errors.KafkaGuardError) as caught:
            producer.send_offsets_to_transaction([FIRST], group)
        return caught.value

    return fail


@pytest.mark.parametrize("failure", FAILURES.values(), ids=FAILURES)
def test_the_commit_works_once_they_were_sent(producer, group, fail, failure):
    """Offsets of other partitions do not count."""
    failed = fail(failure)
    for _ in range(2):
        with pytest.raises(errors.TransactionAbortableError) as caught:
            producer.commit_transaction()
        assert caught.value.__cause__ is failed
        producer.send_offsets_to_transaction([SECOND], group)
    producer.send_offsets_to_transaction([FIRST], group)
    producer.commit_transaction()


def test_the_next_transaction_is_free_of_them(producer, fail):
    """Offsets that were not sent do not fail the transaction after an abort."""
    fail(FAILURES["no answer"])
    producer.abort_transaction()
    with producer.transaction():
        producer.produce("out", b"v", b"k")


def test_a_passing_failure_says_which_offsets_and_what_to_do(fail):
    """Not to commit again, which would leave them out."""
    failed = fail(FAILURES["no answer"])
    text = str(failed)
    assert failed.verdict.action is Action.RETRY
    assert "offsets for in were not confirmed within 60 s (transaction.timeout" in text
    assert "call send_offsets_to_transaction() again to wait for longer" in text
    assert "commit_transaction()" not in text


def test_a_call_in_a_wrong_order_fails_no_transaction(producer, group):
    """Offsets outside a transaction leave nothing that a commit would refuse."""
    producer.commit_transaction()
    producer.client.is_begun = False
    with pytest.raises(errors.ClientStateError):
        producer.send_offsets_to_transaction([FIRST], group)
    with producer.transaction():
        producer.produce("out", b"v", b"k")
