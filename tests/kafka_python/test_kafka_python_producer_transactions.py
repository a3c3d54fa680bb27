"""kafka-python's producer, guarded, in transactions: abort, go on, and never fence back."""

from __future__ import annotations

import queue
import threading
import time
from contextlib import contextmanager
from types import SimpleNamespace

import pytest
from kafka import KafkaProducer, OffsetAndMetadata, TopicPartition
from kafka.errors import (
    KafkaError,
    KafkaTimeoutError,
    ProducerFencedError,
)
from kafka.producer.transaction_manager import ProducerIdAndEpoch
from kafka.serializer import Serializer

from kafkaguard import Action, errors, guard
from kafkaguard.errors import DeliveryFailed
from kafkaguard_adapters.kafka_python._private import reading
from tests.contracts.producer import records, stale_topic, until

#: Seconds for which a broker refuses connections.
AWAY_S = 0.7


@pytest.fixture
def make(kafka_cluster):
    """Build guarded transactional producers that are closed in the end."""
    made = []

    def build(name, topics=None, cluster=kafka_cluster, **settings):
        client = KafkaProducer(
            bootstrap_servers=cluster.bootstrap_servers,
            transactional_id=f"id-{name}",
            **{"linger_ms": 20, **settings},
        )
        made.append(guard(client, topics=topics))
        made[-1].init_transactions()
        return made[-1]

    yield build
    for producer in made:
        try:
            producer.close(5)
        except KafkaError as error:
            assert isinstance(error, errors.KafkaGuardError)


def committed(cluster, topic):
    """Read what readers of committed records see."""
    seen = records(cluster, topic, isolation_level="read_committed")
    return [record.value for record in seen]


def in_transaction(producer, topic, *values):
    """Commit a transaction with these records."""
    producer.begin_transaction()
    for value in values:
        producer.send(topic, value, b"k")
    producer.commit_transaction()


@contextmanager
def out_of_reach(faults):
    """Let the broker refuse connections for a moment, from the start of the block."""
    faults.take_away(0)
    back = threading.Timer(AWAY_S, faults.bring_back, (0,))
    back.start()
    try:
        yield
    finally:
        back.join()


@pytest.mark.parametrize("call", ["send", "offsets", "commit", "abort"])
def test_a_request_is_sent_again_once_the_coordinator_can_be_reached(
    kafka_cluster, kafka_topic, kafka_faults, make, call
):
    """Its connections are refused for a moment: twice, for one producer.

    The client drops the request, and would never end the transaction.
    """
    producer = make(kafka_topic, cluster=kafka_faults, max_block_ms=30_000)
    offsets = {TopicPartition(kafka_topic, 0): OffsetAndMetadata(1, "", -1)}

    def steps(value):
        yield "send", lambda: producer.send(kafka_topic, value, b"k").get(30)
        yield (
            "offsets",
            lambda: producer.send_offsets_to_transaction(offsets, kafka_topic),
        )
        if call == "abort":
            yield "abort", producer.abort_transaction
        else:
            yield "commit", producer.commit_transaction

    for value in (b"1", b"2"):
        producer.begin_transaction()
        for name, step in steps(value):
            if name == call:
                with out_of_reach(kafka_faults):
                    step()
            else:
                step()
    in_transaction(producer, kafka_topic, b"seen")
    ended = [] if call == "abort" else [b"1", b"2"]
    assert committed(kafka_cluster, kafka_topic) == [*ended, b"seen"]


def test_transactions_begin_once_the_coordinator_can_be_reached(
    kafka_topic, kafka_faults
):
    """So does init_transactions(), whose connection was refused."""
    client = KafkaProducer(
        bootstrap_servers=kafka_faults.bootstrap_servers,
        transactional_id=f"id-{kafka_topic}",
        max_block_ms=30_000,
    )
    with guard(client) as producer:
        producer.partitions_for(kafka_topic)
        with out_of_reach(kafka_faults):
            producer.init_transactions()
        in_transaction(producer, kafka_topic, b"1")


def test_after_a_refused_batch_the_next_transaction_works(kafka_cluster, make):
    """ABORT for its records and its commit; aborted; and two more are committed."""
    topic, stale = stale_topic(kafka_cluster)
    # Nothing leaves before a flush, so that both records share a batch.
    producer = make(topic, stale, linger_ms=60_000)
    in_transaction(producer, topic, b"1", b"2")
    producer.begin_transaction()
    mate, keyless = producer.send(topic, b"v", b"k"), producer.send(topic, b"-")
    with pytest.raises(DeliveryFailed):
        producer.flush(10)
    for future in (mate, keyless):
        with pytest.raises(errors.KafkaGuardError) as caught:
            future.get(10)
        assert caught.value.verdict.action is Action.ABORT
    with pytest.raises(KafkaError, match="abort_transaction") as caught:
        producer.commit_transaction()
    assert caught.value.verdict.action is Action.ABORT
    producer.abort_transaction()
    in_transaction(producer, topic, b"3")
    in_transaction(producer, topic, b"4")
    assert committed(kafka_cluster, topic) == [b"1", b"2", b"3", b"4"]


def test_an_oversize_record_costs_its_transaction_only(kafka_cluster, make):
    """The same for a record that is too large; a later send says ABORT as well."""
    topic = kafka_cluster.create_topic(config={"max.message.bytes": 1000})
    producer = make(topic)
    producer.begin_transaction()
    with pytest.raises(errors.MessageTooLargeError) as caught:
        producer.send(topic, b"x" * 5000, b"k").get(10)
    assert caught.value.verdict.action is Action.ABORT
    with pytest.raises(KafkaError) as caught:
        producer.send(topic, b"v", b"k")
    assert caught.value.verdict.action is Action.ABORT
    producer.abort_transaction()
    in_transaction(producer, topic, b"v")
    assert committed(kafka_cluster, topic) == [b"v"]


@pytest.mark.parametrize("sends", [False, True])
def test_a_fenced_commit_says_so_and_does_not_fence_back(
    kafka_cluster, kafka_topic, make, sends
):
    """FENCED, before and after a send of the fenced one; the other one goes on."""
    old = make(kafka_topic)
    old.begin_transaction()
    old.send(kafka_topic, b"old", b"k").get(10)
    new = make(kafka_topic)
    new.begin_transaction()
    new.send(kafka_topic, b"new", b"k").get(10)
    if sends:
        with pytest.raises(KafkaError):
            old.send(kafka_topic, b"late", b"k").get(10)
    with pytest.raises(ProducerFencedError) as caught:
        old.commit_transaction()
    assert isinstance(caught.value, errors.ProducerFencedError)
    assert caught.value.verdict.action is Action.FENCED
    for call in (old.abort_transaction, old.begin_transaction):
        with pytest.raises(KafkaError, match="another instance uses") as caught:
            call()
        assert caught.value.verdict.action is Action.FENCED
    new.commit_transaction()
    assert committed(kafka_cluster, kafka_topic) == [b"new"]


def test_a_commit_without_an_answer_ends_and_can_be_called_again(
    kafka_cluster, kafka_topic, kafka_faults, make
):
    """Within max_block_ms; the second call waits for the same commit."""
    producer = make(kafka_topic, cluster=kafka_faults, max_block_ms=1000)
    producer.begin_transaction()
    producer.send(kafka_topic, b"v", b"k").get(10)
    answered_after = 15.0
    kafka_faults.on("EndTxn").delay(answered_after, times=1)
    start = time.monotonic()
    with pytest.raises(KafkaTimeoutError, match=r"call commit_transaction\(\) again"):
        producer.commit_transaction()
    assert time.monotonic() - start < answered_after
    while True:  # each call waits for a second of the same commit's time
        try:
            producer.commit_transaction()
        except KafkaTimeoutError:
            assert time.monotonic() - start < 60
        else:
            break
    in_transaction(producer, kafka_topic, b"w")
    assert committed(kafka_cluster, kafka_topic) == [b"v", b"w"]
    assert len(kafka_faults.requests("EndTxn")) == 2


#: A lost answer is noticed after a second, and there is time to ask again.
IMPATIENT = {
    "request_timeout_ms": 1_000,
    "delivery_timeout_ms": 30_000,
    "max_block_ms": 30_000,
}


class TestLostCommit:
    """A commit without an answer is asked for again, or in doubt: never just failed."""

    def test_it_is_asked_for_again(
        self, kafka_cluster, kafka_topic, kafka_faults, make
    ):
        """As by Java's client, within max_block_ms."""
        producer = make("lost", cluster=kafka_faults, **IMPATIENT)
        kafka_faults.on("EndTxn").drop(times=1)
        in_transaction(producer, kafka_topic, b"v")
        in_transaction(producer, kafka_topic, b"w")
        assert committed(kafka_cluster, kafka_topic) == [b"v", b"w"]
        assert len(kafka_faults.requests("EndTxn")) > 2

    def test_one_that_is_cut_off_by_close_is_in_doubt(
        self, kafka_cluster, kafka_topic, kafka_faults, make
    ):
        """The transaction was committed, and nobody says that it was not."""
        producer = make("cut-off", cluster=kafka_faults, max_block_ms=30_000)
        producer.begin_transaction()
        producer.send(kafka_topic, b"v", b"k").get(10)
        kafka_faults.on("EndTxn").drop()
        raised = in_thread(producer.commit_transaction)
        kafka_faults.wait_for("EndTxn")
        until(lambda: committed(kafka_cluster, kafka_topic) == [b"v"], 30)
        with pytest.raises(errors.ClientStateError, match="unknown whether") as closed:
            producer.close(0)
        assert closed.value.verdict.action is Action.IN_DOUBT
        assert_in_doubt(raised.get(timeout=60))
        with pytest.raises(KafkaError) as caught:
            producer.commit_transaction()
        assert_in_doubt(caught.value)

    def test_after_an_unknown_result_the_next_transaction_works(
        self, kafka_cluster, kafka_topic, kafka_faults, make
    ):
        """Neither commit nor abort claim to know better; begin() goes on."""
        producer = make("unknown", cluster=kafka_faults)
        producer.begin_transaction()
        producer.send(kafka_topic, b"v", b"k").get(10)
        kafka_faults.on("EndTxn").fail("UNKNOWN_SERVER_ERROR", written=True, times=1)
        for call in (producer.commit_transaction,) * 2 + (producer.abort_transaction,):
            with pytest.raises(KafkaError) as caught:
                call()
            assert_in_doubt(caught.value)
        in_transaction(producer, kafka_topic, b"w")
        assert committed(kafka_cluster, kafka_topic) == [b"v", b"w"]

    def test_fenced_after_a_lost_answer_leaves_the_doubt(
        self, kafka_topic, kafka_faults, make
    ):
        """FENCED is about this instance; the commit may have come before."""
        producer = make("fenced", cluster=kafka_faults, **IMPATIENT)
        producer.begin_transaction()
        producer.send(kafka_topic, b"v", b"k").get(10)
        kafka_faults.on("EndTxn").drop(times=1)
        kafka_faults.on("EndTxn", skip=1).fail("PRODUCER_FENCED")
        for call in (producer.commit_transaction, producer.commit_transaction):
            with pytest.raises(
                ProducerFencedError, match="may have succeeded"
            ) as caught:
                call()
            verdict = caught.value.verdict
            assert (verdict.action, verdict.written) == (Action.FENCED, "maybe")


def in_thread(call):
    """Call in a thread; what it raises (or None) comes out of the queue."""
    raised = queue.Queue()

    def run():
        try:
            call()
        except KafkaError as error:
            raised.put(error)
        else:
            raised.put(None)

    threading.Thread(target=run, daemon=True).start()
    return raised


def assert_in_doubt(error):
    """The error says that the transaction may have been committed, and what to do."""
    assert isinstance(error, errors.KafkaGuardError)
    assert error.verdict.action is Action.IN_DOUBT
    assert error.verdict.written == "maybe"
    assert "may have been committed" in str(error)
    assert "begin_transaction()" in str(error)


@pytest.mark.parametrize("is_open", [False, True])
def test_a_stale_instance_does_not_fence_its_successor(kafka_cluster, make, is_open):
    """Its new producer shows whose place it takes, and is refused; the other goes on."""
    topic = kafka_cluster.create_topic(config={"max.message.bytes": 1000})
    stale = make(topic)
    stale.begin_transaction()
    with pytest.raises(errors.MessageTooLargeError):
        stale.send(topic, b"x" * 5000, b"k").get(10)
    stale.abort_transaction()
    newer = make(topic)
    newer.begin_transaction()
    if is_open:
        newer.send(topic, b"1", b"k").get(10)
    for call in (
        stale.begin_transaction,
        stale.commit_transaction,
        stale.abort_transaction,
        stale.begin_transaction,
    ):
        with pytest.raises(ProducerFencedError) as caught:
            call()
        assert caught.value.verdict.action is Action.FENCED
    newer.send(topic, b"2", b"k")
    newer.commit_transaction()
    assert committed(kafka_cluster, topic) == [b"1", b"2"][not is_open :]


@pytest.mark.parametrize(
    ("brokers", "epoch"), [((2, 4), None), ((2, 5), 3), ((4, 3), 3)]
)
def test_old_brokers_are_shown_no_identity(brokers, epoch):
    """They cannot compare it, so the new producer takes over as ever."""
    manager = SimpleNamespace(producer_id_and_epoch=ProducerIdAndEpoch(7, 3))
    producer = SimpleNamespace(
        config={"api_version": brokers}, _transaction_manager=manager
    )
    assert getattr(reading.identity(producer), "epoch", None) == epoch


CALLS = (
    lambda producer: producer.init_transactions(),
    lambda producer: producer.begin_transaction(),
    lambda producer: producer.commit_transaction(),
    lambda producer: producer.abort_transaction(),
    lambda producer: producer.send_offsets_to_transaction({}, "group"),
)


@pytest.mark.parametrize("call", CALLS)
def test_transactional_calls_of_another_producer_fail_as_the_clients_do(
    kafka_cluster, call
):
    """IllegalStateError, of both classes, and at once."""
    from kafka.errors import IllegalStateError

    client = KafkaProducer(bootstrap_servers=kafka_cluster.bootstrap_servers)
    with guard(client) as producer:
        with pytest.raises(IllegalStateError, match="transactional_id") as caught:
            call(producer)
        assert isinstance(caught.value, errors.ClientStateError)


@pytest.mark.parametrize("call", CALLS)
def test_transactional_calls_of_a_closed_producer_say_so(make, call):
    """At once, rather than in vain for max_block_ms."""
    producer = make("closed")
    producer.close()
    with pytest.raises(errors.ClientClosedError, match="was closed") as caught:
        call(producer)
    assert caught.value.verdict.action is Action.RECREATE


@pytest.mark.parametrize("call", CALLS)
def test_transactional_calls_in_a_callback_are_refused(make, kafka_topic, call):
    """They would wait for the very thread that they stop."""
    producer = make("callback")
    raised = queue.Queue()

    def call_it(_):
        try:
            call(producer)
        except KafkaError as error:
            raised.put(error)

    producer.begin_transaction()
    producer.send(kafka_topic, b"v", b"k").add_callback(call_it)
    producer.flush(30)
    error = raised.get(timeout=30)
    assert isinstance(error, errors.ClientStateError)
    assert "in a callback" in str(error)
    producer.commit_transaction()


class Text(Serializer):
    """A serialiser that takes text only."""

    def serialize(self, _topic, _headers, data):
        """Encode it."""
        return data.encode()


@pytest.mark.parametrize(
    ("bad", "raised", "name"),
    [
        ({"value": 5}, AttributeError, "AttributeError"),
        ({"value": "v", "partition": 99}, errors.PartitionNotThereError, "NOT_THERE"),
        ({"value": "v", "headers": [("name", 5)]}, TypeError, "TypeError"),
    ],
)
def test_whatever_send_raises_fails_the_transaction(
    kafka_cluster, kafka_topic, make, bad, raised, name
):
    """As in Java: no commit without the record that a serialiser choked on."""
    producer = make("raising", value_serializer=Text())
    producer.begin_transaction()
    producer.send(kafka_topic, "whole or not at all", b"k").get(10)
    with pytest.raises(raised) as caught:
        producer.send(kafka_topic, key=b"k", **bad)
    with pytest.raises(errors.TransactionAbortableError, match="abort_tra") as commit:
        producer.commit_transaction()
    assert name in str(commit.value)
    failure = commit.value.__cause__
    assert caught.value in (failure, failure.__cause__)
    producer.abort_transaction()
    in_transaction(producer, kafka_topic, "next")
    assert committed(kafka_cluster, kafka_topic) == [b"next"]


@contextmanager
def impatient(producer):
    """Let calls wait for a second only, as if it had been built that way."""
    config = producer.client.config
    patience, config["max_block_ms"] = config["max_block_ms"], 1_000
    yield
    config["max_block_ms"] = patience


GONE = {TopicPartition("gone", 0): OffsetAndMetadata(1, "", -1)}


class TestOffsets:
    """Offsets that cannot be added fail their transaction, and nothing after it."""

    def test_unconfirmed_ones_can_be_aborted(
        self, kafka_cluster, kafka_topic, kafka_faults, make
    ):
        """kafka-python repeats them for ever; the next transaction is free of them."""
        producer = make("offsets", cluster=kafka_faults)
        producer.begin_transaction()
        producer.send(kafka_topic, b"never seen", b"k").get(10)
        unconfirmed = "the offsets of group g for gone were not confirmed within 1 s"
        with (
            impatient(producer),
            pytest.raises(KafkaTimeoutError, match=unconfirmed),
        ):
            producer.send_offsets_to_transaction(GONE, "g")
        for call in (
            producer.commit_transaction,
            lambda: producer.send_offsets_to_transaction({}, "g"),
        ):
            with pytest.raises(errors.TransactionAbortableError, match="abort_") as no:
                call()
            assert "group g for gone" in str(no.value.__cause__)
        producer.abort_transaction()
        before = len(kafka_faults.requests("TxnOffsetCommit", topic="gone"))
        producer.begin_transaction()
        good = {TopicPartition(kafka_topic, 0): OffsetAndMetadata(1, "", -1)}
        producer.send_offsets_to_transaction(good, "g")
        producer.send(kafka_topic, b"seen", b"k")
        producer.commit_transaction()
        assert committed(kafka_cluster, kafka_topic) == [b"seen"]
        after = kafka_faults.requests("TxnOffsetCommit", topic="gone")
        assert len(after) == before

    @pytest.mark.parametrize("bad", [None, {TopicPartition("t", 0): 5}, [("t", 0)]])
    def test_what_are_none_is_refused_at_once(self, make, bad):
        """With what kafka-python takes."""
        producer = make("no-offsets")
        producer.begin_transaction()
        with pytest.raises(TypeError, match="TopicPartition: OffsetAndMetadata"):
            producer.send_offsets_to_transaction(bad, "g")
        producer.abort_transaction()

    @pytest.mark.parametrize("bad", [(1, "", None), (1.0, "", -1)])
    def test_offsets_that_the_client_cannot_write_are_refused_at_once(self, make, bad):
        """The bare client would neither commit nor abort the transaction after them."""
        producer = make("no-numbers")
        producer.begin_transaction()
        offsets = {TopicPartition("t", 0): OffsetAndMetadata(*bad)}
        with pytest.raises(TypeError, match=r"t, partition 0: offset and leader_epoch"):
            producer.send_offsets_to_transaction(offsets, "g")
        producer.abort_transaction()


def test_after_an_abort_without_an_answer_the_next_transaction_works(
    kafka_cluster, kafka_topic, kafka_faults, make
):
    """RETRY, and a text about an abort; begin() takes a new producer."""
    producer = make("stuck", cluster=kafka_faults)
    producer.begin_transaction()
    producer.send(kafka_topic, b"never seen", b"k").get(10)
    lost = kafka_faults.on("EndTxn").drop(written=False)
    with (
        impatient(producer),
        pytest.raises(KafkaTimeoutError, match=r"begin_transaction\(\)") as caught,
    ):
        producer.abort_transaction()
    assert caught.value.verdict.action is Action.RETRY
    assert "write" not in str(caught.value)
    with pytest.raises(errors.ClientStateError, match="the abort has not ended"):
        producer.send(kafka_topic, b"early", b"k")
    with pytest.raises(errors.ClientStateError, match="the abort has not ended"):
        producer.commit_transaction()
    lost.remove()
    in_transaction(producer, kafka_topic, b"seen")
    assert committed(kafka_cluster, kafka_topic) == [b"seen"]


def test_a_record_that_send_refuses_fails_its_transaction(kafka_cluster, make):
    """As in Java: no commit without it. It was never sent, so no producer is replaced."""
    topic, plain = f"compact-{time.monotonic_ns()}", kafka_cluster.create_topic()
    kafka_cluster.create_topic(topic, config={"cleanup.policy": "compact"})
    producer = make(topic)
    before = producer.client
    for refused, error_class in (
        (lambda: producer.send(topic, b"no key"), errors.InvalidRecordKeyError),
        (lambda: producer.send(plain, b"x" * 2_000_000), errors.MessageTooLargeError),
    ):
        producer.begin_transaction()
        producer.send(plain, b"whole or not at all", b"k").get(10)
        with pytest.raises(error_class) as caught:
            refused()
        assert caught.value.verdict.action is Action.ABORT
        with pytest.raises(errors.KafkaGuardError, match="abort_transaction") as commit:
            producer.commit_transaction()
        assert commit.value.verdict.action is Action.ABORT
        producer.abort_transaction()
    in_transaction(producer, plain, b"next")
    assert committed(kafka_cluster, plain) == [b"next"]
    assert producer.client is before


def test_calls_in_a_wrong_order_are_nobodys_death(make, kafka_topic):
    """The producer is fine: nobody is told to build a new one."""
    producer = make(kafka_topic)
    with pytest.raises(errors.ClientStateError, match=r"call begin_transaction\(\)"):
        producer.commit_transaction()
    with pytest.raises(errors.KafkaGuardError, match="no transaction has") as caught:
        producer.abort_transaction()
    assert caught.value.verdict.action is Action.REJECT
    producer.begin_transaction()
    with pytest.raises(errors.ClientStateError, match="a transaction is open") as twice:
        producer.begin_transaction()
    assert twice.value.api is None
    producer.commit_transaction()
    in_transaction(producer, kafka_topic, b"1")


class TestClosing:
    """What is open when the producer is closed is aborted, as by Java's producer."""

    def test_an_open_transaction_is_aborted_and_told(
        self, make, kafka_cluster, kafka_topic
    ):
        """Readers of what is committed do not wait for its time to run out."""
        producer = make("closing")
        producer.begin_transaction()
        producer.send(kafka_topic, b"never seen", b"k").get(10)
        with pytest.raises(errors.ClientStateError, match="was aborted") as caught:
            producer.close()
        assert caught.value.verdict.action is Action.ABORT
        in_transaction(make("later"), kafka_topic, b"seen")
        assert committed(kafka_cluster, kafka_topic) == [b"seen"]

    def test_so_does_leaving_a_with_block(self, make, kafka_topic):
        """The exception of the block goes first, if there is one."""
        with pytest.raises(errors.ClientStateError, match="was aborted"):
            leave(make("left"), kafka_topic, None)
        with pytest.raises(KeyError) as caught:
            leave(make("left-too"), kafka_topic, KeyError("mine"))
        assert "was aborted" in caught.value.__notes__[0]

    def test_one_that_has_failed_is_aborted_without_a_word(self, make, kafka_cluster):
        """The application knows that already."""
        topic, stale = stale_topic(kafka_cluster)
        producer = make("failed", stale)
        producer.begin_transaction()
        with pytest.raises(errors.InvalidRecordKeyError):
            producer.send(topic, b"-").get(10)
        producer.close()
        in_transaction(make("next"), topic, b"seen")
        assert committed(kafka_cluster, topic) == [b"seen"]


def leave(producer, topic, error):
    """Leave a with block within a transaction."""
    with producer:
        producer.begin_transaction()
        producer.send(topic, b"v", b"k")
        if error is not None:
            raise error


def test_a_record_outside_a_transaction_is_told_what_is_missing(
    make, kafka_cluster, kafka_topic
):
    """It fails no transaction, since there is none."""
    producer = make("outside")
    with pytest.raises(errors.ClientStateError, match=r"call begin_transaction\(\)"):
        producer.send(kafka_topic, b"early", b"k")
    in_transaction(producer, kafka_topic, b"seen")
    assert committed(kafka_cluster, kafka_topic) == [b"seen"]


def test_nothing_of_a_transaction_is_seen_after_its_abort(make, kafka_cluster):
    """Although a commit was asked for while a record was on its way that failed."""
    topic = kafka_cluster.create_topic(config={"max.message.bytes": 500})
    producer = make("half", max_block_ms=20_000)
    producer.begin_transaction()
    for n in range(100):
        producer.send(topic, b"x" * 60, b"k%d" % (n % 4))
    producer.send(topic, b"x" * 5_000, b"k")
    with pytest.raises(errors.KafkaGuardError, match="abort_transaction") as caught:
        producer.commit_transaction()
    assert caught.value.verdict.action is Action.ABORT
    producer.abort_transaction()
    in_transaction(producer, topic, b"seen")
    assert committed(kafka_cluster, topic) == [b"seen"]
