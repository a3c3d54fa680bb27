"""What a client has reset or replaced by itself does not count for what comes after."""

from __future__ import annotations

import threading
import time
from contextlib import suppress
from types import SimpleNamespace

import pytest
from kafka import KafkaProducer
from kafka.errors import KafkaConnectionError
from kafka.record import MemoryRecords

from kafkaguard import Action, errors, guard
from kafkaguard_adapters.kafka_python._private import moving, reading
from tests.kafka_python.brokers_in_process import Brokers


def values_in(request):
    """Return the values of a Produce request."""
    return [
        record.value
        for topic in request.topic_data
        for each in topic.partition_data
        for batch in MemoryRecords(bytes(each.records))
        for record in batch
    ]


@pytest.fixture
def make():
    """Build guarded producers, also with a transaction begun."""
    made = []

    def build(brokers, **more):
        producer = guard(factory=KafkaProducer, config=brokers.config(**more))
        made.append(producer)
        if "transactional_id" in more:
            producer.init_transactions()
            producer.begin_transaction()
        return producer

    yield build
    for producer in made:
        with suppress(errors.KafkaGuardError):  # a test looks at its failures itself
            producer.close(1)


def test_a_record_behind_one_that_got_59_is_written(make):
    """The client would number it as the one that it sends again: a copy."""
    brokers, codes = Brokers(), [59]
    brokers.fault = lambda kind, *_: codes.pop() if kind == "Produce" and codes else 0
    producer = make(brokers)
    for value in (b"1", b"2", b"3"):
        producer.send("t", value, b"k").get(10)
    assert brokers.log[0] == [b"1", b"2", b"3"]


def test_a_batch_that_may_be_written_is_not_split(make):
    """Its answer was lost; its parts would be written again, with new numbers."""
    brokers = Brokers()
    ends = [10, ("lost", KafkaConnectionError("broken"))]
    brokers.fault = lambda kind, *_: ends.pop() if kind == "Produce" and ends else 0
    producer = make(brokers, linger_ms=50)
    sent = [producer.send("t", b"%d" % n, b"k") for n in range(4)]
    for future in sent:
        with pytest.raises(errors.KafkaGuardError) as caught:
            future.get(15)
        assert caught.value.verdict.written == "maybe"
    assert sorted(brokers.log[0]) == [b"0", b"1", b"2", b"3"]


def test_no_commit_is_told_of_a_transaction_that_a_newer_epoch_has_aborted(make):
    """The commit waits behind a record that a callback has sent, and that failed."""
    brokers = Brokers(partitions=2, brokers=2)

    def fault(kind, _broker, request, _client):
        return 45 if kind == "Produce" and b"second" in values_in(request) else 0

    brokers.fault = fault
    brokers.delay = lambda kind, *_: 0.3 if kind == "Produce" else 0.005
    producer = make(brokers, transactional_id="x")
    first = producer.send("t", b"first", b"k", partition=0)
    first.add_callback(lambda _: producer.send("t", b"second", b"k", partition=1))
    with pytest.raises(errors.KafkaGuardError) as caught:
        producer.commit_transaction()
    assert caught.value.verdict.action is Action.ABORT
    producer.abort_transaction()
    producer.begin_transaction()
    producer.commit_transaction()


def test_nothing_is_sent_outside_of_a_transaction_after_a_newer_epoch(make):
    """A late answer to AddPartitionsToTxn is one of the transaction that was aborted."""
    brokers, adds, outside = Brokers(partitions=2, brokers=2), [], []
    is_refused = threading.Event()

    def fault(kind, _broker, request, _client):
        if kind != "Produce":
            return 0
        if b"first" in values_in(request):
            is_refused.set()
            return 45
        if not brokers.transactions["x"][3]:
            outside.extend(values_in(request))
        return 0

    def delay(kind, *_):
        if kind == "AddPartitionsToTxn":
            adds.append(kind)
            return 0.5 if len(adds) == 2 else 0.005
        return 0.3 if kind == "Produce" else 0.005

    brokers.fault, brokers.delay = fault, delay
    producer = make(brokers, transactional_id="x")
    first = producer.send("t", b"first", b"k", partition=0)
    assert is_refused.wait(10)  # its answer is on its way
    producer.send("t", b"second", b"k", partition=1)
    with pytest.raises(errors.KafkaGuardError):
        first.get(5)
    with pytest.raises(errors.KafkaGuardError):
        producer.commit_transaction()
    producer.abort_transaction()
    time.sleep(0.3)
    assert outside == []


def test_a_take_over_that_outlasts_a_call_is_waited_for_by_the_next_one(make):
    """The brokers gave the new producer the next epoch: no other instance has it."""
    brokers = Brokers()

    def fault(kind, _broker, _request, client):
        return 10 if kind == "Produce" and not client.number else 0

    def delay(kind, _broker, _request, client):
        return 1.5 if kind == "InitProducerId" and client.number == 1 else 0.01

    brokers.fault, brokers.delay = fault, delay
    producer = make(brokers, transactional_id="x", max_block_ms=1000)
    with pytest.raises(errors.MessageTooLargeError):
        producer.send("t", b"first", b"k").get(5)
    producer.abort_transaction()
    with pytest.raises(errors.ClientTimeoutError):
        producer.begin_transaction()
    producer.begin_transaction()
    producer.send("t", b"second", b"k")
    producer.commit_transaction()
    assert brokers.log[0] == [b"second"]


def test_a_take_over_that_is_never_answered_is_closed_with_the_producer(make):
    """And there is no third one meanwhile."""
    brokers = Brokers()

    def fault(kind, _broker, _request, client):
        return 10 if kind == "Produce" and not client.number else 0

    def delay(kind, _broker, _request, client):
        return 60.0 if kind == "InitProducerId" and client.number else 0.01

    brokers.fault, brokers.delay = fault, delay
    producer = make(brokers, transactional_id="x", max_block_ms=500)
    with pytest.raises(errors.MessageTooLargeError):
        producer.send("t", b"first", b"k").get(5)
    producer.abort_transaction()
    for _ in range(2):
        with pytest.raises(errors.ClientTimeoutError):
            producer.begin_transaction()
    assert [each.is_closed for each in brokers.clients] == [False, False]
    producer.close(1)
    assert [each.is_closed for each in brokers.clients] == [True, True]


def test_an_abort_while_the_client_gets_a_newer_epoch_fences_nobody(make):
    """The epoch before that would be taken for one of another instance."""
    brokers = Brokers()

    def fault(kind, _broker, _request, client):
        return 45 if kind == "Produce" and not client.number else 0

    def delay(kind, _broker, request, client):
        is_newer = kind == "InitProducerId" and request.producer_id >= 0
        return 0.3 if is_newer and not client.number else 0.01

    brokers.fault, brokers.delay = fault, delay
    producer = make(brokers, transactional_id="x")
    with pytest.raises(errors.OutOfOrderSequenceNumberError):
        producer.send("t", b"first", b"k").get(5)
    producer.abort_transaction()
    producer.begin_transaction()
    producer.commit_transaction()


def test_what_was_taken_in_a_pass_without_requests_was_never_sent():
    """The client makes none for all if one that it sends again has expired."""
    taken = SimpleNamespace(drained=2.0, in_retry=lambda: False)
    told = []

    class Sender:
        def _create_produce_requests(self, collated):
            return {}

        def _send_producer_data(self, now=None):
            told.append(reading.was_held_back(producer, taken))

    producer = SimpleNamespace(_sender=Sender(), _transaction_manager=object())
    moving.note_requests(producer)
    producer._sender.requests_made_at = 1.0
    producer._sender._send_producer_data()
    assert told == [False]  # it may still be sent in this pass
    assert reading.was_held_back(producer, taken)


def test_a_producer_that_was_stopped_gets_no_new_id(make):
    """A late refusal would let it send what waits, before its successor."""
    producer = make(Brokers())
    producer.send("t", b"1", b"k").get(10)
    client = producer.client
    moving.stop_sending(client)
    client._transaction_manager.bump_producer_id_and_epoch()
    assert not reading.is_bumping(client)
    assert not reading.has_id(client)
