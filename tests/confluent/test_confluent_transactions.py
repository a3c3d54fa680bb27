"""Transactions of a guarded confluent-kafka producer, on a real broker."""

from __future__ import annotations

import itertools
import threading
from contextlib import suppress

import confluent_kafka
import pytest
from confluent_kafka import KafkaException, Producer

from kafkaguard import Action, errors, guard
from tests.contracts.producer import read as read_all
from tests.contracts.producer import records, stale_topic, until

NUMBERS = itertools.count()


def committed(cluster, topic):
    """Read the values that readers of committed records get."""
    found = records(cluster, topic, isolation_level="read_committed")
    return [record.value for record in found]


@pytest.fixture
def make(kafka_cluster):
    """Build guarded transactional producers that are closed in the end."""
    made = []

    def build(name=None, servers=None, topics=None, factory=True, **settings):
        config = {
            "bootstrap.servers": (servers or kafka_cluster).bootstrap_servers,
            "transactional.id": name or f"confluent-{next(NUMBERS)}",
            "transaction.timeout.ms": 20_000,
            "delivery.timeout.ms": 15_000,
            "request.timeout.ms": 3_000,
            **settings,
        }
        options = {"topics": topics, "policy": {"deadline": 12.0}}
        if factory:
            made.append(guard(factory=Producer, config=config, **options))
        else:
            made.append(guard(Producer(config), config=config, **options))
        made[-1].init_transactions()
        return made[-1]

    yield build
    for producer in made:
        with suppress(KafkaException):
            producer.close(5)


def test_a_block_is_committed_whole(kafka_cluster, kafka_topic, make):
    """Nothing is seen before; all of it after; and the next one works."""
    producer = make()
    for values in ([b"1", b"2"], [b"3"]):
        with producer.transaction():
            for value in values:
                producer.produce(kafka_topic, value, b"k")
    assert committed(kafka_cluster, kafka_topic) == [b"1", b"2", b"3"]


def test_a_block_that_raises_is_aborted_once(kafka_cluster, kafka_topic, make):
    """What it raises passes; nobody sees its records."""
    producer = make()

    def fail():
        with producer.transaction():
            producer.produce(kafka_topic, b"lost", b"k")
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fail()
    with producer.transaction():
        producer.produce(kafka_topic, b"kept", b"k")
    assert committed(kafka_cluster, kafka_topic) == [b"kept"]


def test_a_refused_record_aborts_its_transaction(kafka_cluster, make):
    """ABORT, of both classes, and the same records can be sent in a new one."""
    topic, stale = stale_topic(kafka_cluster)
    producer = make(topics=stale)
    told = []

    def send():
        with producer.transaction():
            producer.produce(topic, b"mate", b"k")
            producer.produce(
                topic, b"no key", on_delivery=lambda error, _: told.append(error)
            )

    with pytest.raises(KafkaException) as caught:
        send()
    assert caught.value.verdict.action is Action.ABORT
    assert caught.value.verdict.written == "no"
    producer.poll(0)
    assert [error.verdict.action for error in told] == [Action.ABORT]
    producer.report()
    with producer.transaction():
        producer.produce(topic, b"mate", b"k")
    assert committed(kafka_cluster, topic) == [b"mate"]


def test_a_commit_without_an_answer_is_asked_for_again(
    kafka_cluster, kafka_topic, kafka_faults, make
):
    """Once carried out, never replayed: the record is there one time."""
    producer = make(servers=kafka_faults, **{"socket.timeout.ms": 3_000})
    kafka_faults.on("EndTxn").drop(times=1)
    producer.begin_transaction()
    producer.produce(kafka_topic, b"v", b"k")
    with pytest.raises(KafkaException) as caught:
        producer.commit_transaction(2)
    assert caught.value.verdict.action is Action.IN_DOUBT
    assert "call commit_transaction() again" in str(caught.value)
    with pytest.raises(errors.ClientStateError, match="call commit_transaction"):
        producer.begin_transaction()
    with pytest.raises(errors.ClientStateError, match="call commit_transaction"):
        producer.produce(kafka_topic, b"w", b"k")
    producer.commit_transaction()
    assert committed(kafka_cluster, kafka_topic) == [b"v"]


def test_b23_a_transaction_of_a_crashed_producer_is_waited_out(
    kafka_cluster, kafka_topic, make
):
    """51 is no error for the successor; what was open is aborted."""
    crashed = make("crashing")
    crashed.begin_transaction()
    crashed.produce(kafka_topic, b"lost", b"k")
    crashed.flush(10)
    successor = make("crashing")
    with successor.transaction():
        successor.produce(kafka_topic, b"kept", b"k")
    assert committed(kafka_cluster, kafka_topic) == [b"kept"]


def test_b18_a_fenced_producer_stops_and_does_not_fence_back(
    kafka_cluster, kafka_topic, make
):
    """FENCED from its commit on, and for every later call; the other one goes on."""
    old = make("shared")
    old.begin_transaction()
    old.produce(kafka_topic, b"old", b"k")
    old.flush(10)
    new = make("shared")
    with new.transaction():
        new.produce(kafka_topic, b"new", b"k")
    with pytest.raises(KafkaException) as caught:
        old.commit_transaction()
    assert caught.value.verdict.action is Action.FENCED
    with pytest.raises(KafkaException) as caught:
        old.begin_transaction()
    assert caught.value.verdict.action is Action.FENCED
    with new.transaction():
        new.produce(kafka_topic, b"newer", b"k")
    assert committed(kafka_cluster, kafka_topic) == [b"new", b"newer"]


def test_an_abort_that_fails_for_good_goes_on_with_a_new_client(
    kafka_cluster, kafka_topic, kafka_faults, make
):
    """RECREATE; with a factory the next transaction works."""
    producer = make(servers=kafka_faults)
    producer.begin_transaction()
    producer.produce(kafka_topic, b"lost", b"k")
    producer.flush(10)
    kafka_faults.on("EndTxn").fail("INVALID_TXN_STATE", times=1)
    with pytest.raises(KafkaException) as caught:
        producer.abort_transaction()
    assert caught.value.verdict.action is Action.RECREATE
    with producer.transaction():
        producer.produce(kafka_topic, b"kept", b"k")
    assert committed(kafka_cluster, kafka_topic) == [b"kept"]


def test_closing_with_an_open_transaction_aborts_it_and_says_so(
    kafka_cluster, kafka_topic, make
):
    """Readers of committed records are not held up."""
    producer = make()
    producer.begin_transaction()
    producer.produce(kafka_topic, b"lost", b"k", on_delivery=lambda *_: None)
    producer.flush(10)
    with pytest.raises(errors.ClientStateError, match="was aborted"):
        producer.close()
    plain = Producer({"bootstrap.servers": kafka_cluster.bootstrap_servers})
    plain.produce(kafka_topic, b"later")
    plain.flush(10)
    until(lambda: committed(kafka_cluster, kafka_topic) == [b"later"])


def test_closing_says_that_a_transaction_is_still_open(kafka_topic, kafka_faults, make):
    """Where the abort has no answer; the client goes on with it until it has one."""
    producer = make(servers=kafka_faults)
    producer.begin_transaction()
    producer.produce(kafka_topic, b"v", b"k", on_delivery=lambda *_: None)
    producer.flush(10)
    with (
        kafka_faults.on("EndTxn").drop(written=False),
        pytest.raises(errors.ClientStateError, match="is still open"),
    ):
        producer.close(2)
    until(lambda: "kafkaguard-close" not in {t.name for t in threading.enumerate()}, 60)


@pytest.mark.parametrize("code", [120, 53, 90])
def test_a_commit_that_is_refused_after_a_lost_answer_may_be_committed(
    kafka_cluster, kafka_topic, kafka_faults, make, code
):
    """The first EndTxn committed; the repeated one is refused, and so is an abort."""
    producer = make(servers=kafka_faults, **{"socket.timeout.ms": 1500})
    kafka_faults.on("EndTxn").drop(times=1)
    kafka_faults.on("EndTxn").fail(code, times=1)
    with pytest.raises(errors.KafkaGuardError) as caught, producer.transaction():
        producer.produce(kafka_topic, b"v", b"k")
    assert caught.value.verdict.written == "maybe"
    assert len(committed(kafka_cluster, kafka_topic)) == 1
    try:
        producer.close(5)
    except errors.KafkaGuardError as left:
        assert left.verdict.written == "maybe"


def test_an_abort_after_a_refused_commit_proves_that_nothing_was_committed(
    kafka_cluster, kafka_topic, kafka_faults, make
):
    """The only EndTxn is refused without being carried out; the block aborts."""
    producer = make(servers=kafka_faults)
    kafka_faults.on("EndTxn").fail(120, times=1)
    with pytest.raises(errors.KafkaGuardError) as caught, producer.transaction():
        producer.produce(kafka_topic, b"v", b"k")
    assert (caught.value.verdict.action, caught.value.verdict.written) == (
        Action.ABORT,
        "no",
    )
    with producer.transaction():
        producer.produce(kafka_topic, b"w", b"k")
    assert len(committed(kafka_cluster, kafka_topic)) == 1
    producer.close(5)


def test_closing_says_that_a_commit_is_in_doubt(kafka_topic, kafka_faults, make):
    """Not that the transaction is open: it was committed."""
    producer = make(servers=kafka_faults)
    producer.begin_transaction()
    producer.produce(kafka_topic, b"v", b"k")
    kafka_faults.on("EndTxn").drop()
    with pytest.raises(KafkaException):
        producer.commit_transaction(2)
    with pytest.raises(errors.ClientStateError, match="unknown whether") as caught:
        producer.close(2)
    assert caught.value.verdict.action is Action.IN_DOUBT
    assert "still open" not in str(caught.value)


def test_after_an_abort_without_an_answer_the_next_transaction_works(
    kafka_cluster, kafka_topic, kafka_faults, make
):
    """RETRY, and begin_transaction() takes a new client."""
    producer = make(servers=kafka_faults)
    producer.begin_transaction()
    producer.produce(kafka_topic, b"lost", b"k")
    producer.flush(10)
    lost = kafka_faults.on("EndTxn").drop(written=False)
    with pytest.raises(KafkaException, match="abort_transaction") as caught:
        producer.abort_transaction(1)
    assert caught.value.verdict.action is Action.RETRY
    assert caught.value.verdict.written == "no"
    lost.remove()
    with producer.transaction():
        producer.produce(kafka_topic, b"kept", b"k")
    producer.close()
    assert committed(kafka_cluster, kafka_topic) == [b"kept"]


def test_a_record_that_the_client_refuses_for_its_size_names_size_and_limit(
    kafka_topic, make
):
    """Librdkafka names neither."""
    producer = make(**{"message.max.bytes": 5_000})
    producer.begin_transaction()
    with pytest.raises(errors.MessageTooLargeError) as caught:
        producer.produce(kafka_topic, b"x" * 6_000, b"k")
    assert "6071 bytes" in str(caught.value)
    assert "message.max.bytes (5000)" in str(caught.value)
    producer.abort_transaction()


def test_offsets_of_a_consumer_are_committed_with_the_records(
    kafka_cluster, kafka_topic, make
):
    """Both or none."""
    source = kafka_cluster.create_topic()
    consumer = confluent_kafka.Consumer(
        {
            "bootstrap.servers": kafka_cluster.bootstrap_servers,
            "group.id": f"group-{source}",
        }
    )
    try:
        producer = make()
        place = confluent_kafka.TopicPartition(source, 0, 7)
        with producer.transaction():
            producer.produce(kafka_topic, b"v", b"k")
            producer.send_offsets_to_transaction(
                [place], consumer.consumer_group_metadata()
            )
        (found,) = consumer.committed([place], 10)
        assert found.offset == 7
    finally:
        consumer.close()
    assert [value for _, value in read_all(kafka_cluster, kafka_topic)][:1] == [b"v"]


def test_calls_in_a_wrong_order_are_told_of_both_classes(make):
    """Nothing is dead after it."""
    producer = make()
    with pytest.raises(KafkaException) as caught:
        producer.commit_transaction(5)
    assert isinstance(caught.value, errors.KafkaGuardError)
    with producer.transaction():
        pass


@pytest.mark.parametrize("on_reject", ["drop", "dead_letter"])
def test_a_policy_that_sets_records_aside_is_refused(kafka_cluster, on_reject):
    """A refused record fails its whole transaction."""
    config = {
        "bootstrap.servers": kafka_cluster.bootstrap_servers,
        "transactional.id": "aside",
    }
    with pytest.raises(errors.ClientConfigurationError, match="on_reject: raise"):
        guard(factory=Producer, config=config, policy={"on_reject": on_reject})


def test_answers_that_take_a_second_are_awaited(kafka_topic, kafka_faults, make):
    """At the start, at the end of a transaction, and when the producer is closed."""
    kafka_faults.on("InitProducerId").delay(1.2, times=1)
    kafka_faults.on("EndTxn").delay(1.2, times=2)
    producer = make(servers=kafka_faults)
    with producer.transaction():
        producer.produce(kafka_topic, b"1", b"k")
    producer.begin_transaction()
    producer.produce(kafka_topic, b"2", b"k")
    with pytest.raises(errors.ClientStateError, match="was aborted"):
        producer.close()
    assert committed(kafka_faults, kafka_topic) == [b"1"]
