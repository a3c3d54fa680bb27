"""Every form of argument of kafka-python's producer, guarded beside bare."""

from __future__ import annotations

import numpy as np
import pytest
from kafka import KafkaProducer

from kafkaguard import guard

TOPIC = object()  # stands for the topic's name
HEADERS = [("h", b"1")]


def _calls():
    """Return the arguments of sends that need no broker, or one answer at most."""
    yield (TOPIC, b"v", b"k"), {}
    yield (TOPIC, b"v", b"k", HEADERS, 1, 1_700_000_000_000), {}
    yield (TOPIC, b"v", None, [], 1), {}
    yield (
        (),
        {
            "topic": TOPIC,
            "value": b"v",
            "key": b"k",
            "headers": HEADERS,
            "partition": 0,
            "timestamp_ms": 5,
        },
    )
    yield (TOPIC, None, b"k"), {}
    for value in (bytearray(b"v"), memoryview(b"v"), "v", 5):
        yield (TOPIC, value), {"partition": 0}
    for key in ("k", 5):
        yield (TOPIC, b"v", key), {}
    for partition in (np.int64(1), True, "1", -1):
        yield (TOPIC, b"v"), {"partition": partition}
    for headers in (
        [("h", "1")],
        [(b"h", b"1")],
        [("h", None)],
        (("h", b"1"),),
        {"h": b"1"},
    ):
        yield (TOPIC, b"v", b"k", headers), {}
    for timestamp in (-5, 5.0, "5", np.int64(5)):
        yield (TOPIC, b"v"), {"timestamp_ms": timestamp, "partition": 0}
    for topic in (5, b"t", "", "a b", None):
        yield (topic, b"v"), {}
    yield (TOPIC,), {}
    yield (), {}
    yield (TOPIC, b"v"), {"nonsense": 1}


def _end_of(producer, topic, args, more):
    """Return where a record went, or the exception of its send."""
    args = [topic if each is TOPIC else each for each in args]
    more = {name: topic if each is TOPIC else each for name, each in more.items()}
    try:
        place = producer.send(*args, **more).get(10)
    except Exception as error:
        return error
    return place.partition if "partition" in more else "sent"


@pytest.fixture
def bare(kafka_cluster):
    """A client's own producer."""
    with KafkaProducer(bootstrap_servers=kafka_cluster.bootstrap_servers) as producer:
        yield producer


@pytest.fixture
def guarded(kafka_cluster):
    """A guarded one, whose records have little time."""
    with guard(
        KafkaProducer(
            bootstrap_servers=kafka_cluster.bootstrap_servers,
            delivery_timeout_ms=8000,
            request_timeout_ms=4000,
        )
    ) as producer:
        yield producer


def test_each_form_of_a_send_ends_as_with_the_bare_client(kafka_cluster, bare, guarded):
    """It is sent to the same place, or raises an error of the client's class."""
    topic = kafka_cluster.create_topic(partitions=2)
    for args, more in _calls():
        theirs, ours = (_end_of(each, topic, args, more) for each in (bare, guarded))
        if isinstance(theirs, Exception):
            assert isinstance(ours, type(theirs)), (args, more, theirs, ours)
        else:
            assert ours == theirs, (args, more, theirs, ours)


def test_a_partition_that_is_no_whole_number_harms_no_other_record(
    kafka_cluster, guarded
):
    """The bare client takes 1.0, and never sends the batch that it is in."""
    topic = kafka_cluster.create_topic(partitions=2)
    before = guarded.send(topic, b"v", partition=1)
    for partition in (1.0, "1"):
        with pytest.raises(TypeError):
            guarded.send(topic, b"v", b"k", partition=partition)
    after = guarded.send(topic, b"v", partition=1)
    assert [each.get(10).offset for each in (before, after)] == [0, 1]


def test_a_class_with_a_send_of_its_own_refuses_such_a_partition_too(kafka_cluster):
    """The record is checked when it enters the client's buffer."""

    class Own(KafkaProducer):
        def send(self, topic, value, where):
            return super().send(topic, value, partition=where)

    topic = kafka_cluster.create_topic(partitions=2)
    with guard(Own(bootstrap_servers=kafka_cluster.bootstrap_servers)) as producer:
        with pytest.raises(TypeError, match="partition must be an int, not float"):
            producer.send(topic, b"v", 1.0)
        assert producer.send(topic, b"v", 1).get(10).offset == 0


CALLS = [
    *(
        ("flush", args, {})
        for args in ((), (None,), (0,), (5,), (2.5,), (float("inf"),))
    ),
    ("flush", (), {"timeout": 5}),
    ("flush", (1, 2), {}),
    ("flush", (), {"nope": 1}),
    *(
        ("partitions_for", args, {})
        for args in ((), (TOPIC,), (TOPIC, 1), (5,), ("a b",))
    ),
    ("partitions_for", (), {"topic": TOPIC}),
    *(("metrics", args, {}) for args in ((), (True,), (1, 2))),
    ("bootstrap_connected", (), {}),
    ("bootstrap_connected", (1,), {}),
    ("begin_transaction", (), {}),
    ("commit_transaction", (1,), {}),
    ("send_offsets_to_transaction", (), {}),
    ("close", (1, False, 3), {}),
    ("close", (), {"nope": 1}),
    ("close", (-1,), {}),
    ("close", (), {"timeout": 30, "null_logger": False}),
    # It is closed from here on.
    ("close", (), {}),
    ("close", (5,), {}),
    ("send", (TOPIC, b"v"), {}),
    ("flush", (), {}),
    ("metrics", (), {}),
    ("bootstrap_connected", (), {}),
]


def _type_of(producer, topic, name, args, more):
    """Return the type of a call's result, or of its exception."""
    args = [topic if each is TOPIC else each for each in args]
    more = {key: topic if each is TOPIC else each for key, each in more.items()}
    try:
        result = getattr(producer, name)(*args, **more)
    except Exception as error:
        return type(error)
    return None if name in ("flush", "close") else type(result)


def test_each_form_of_the_other_calls_ends_as_with_the_bare_client(kafka_cluster):
    """The type of the result, or the class of the error; also after ``close``."""
    topic = kafka_cluster.create_topic(partitions=2)
    settings = {
        "bootstrap_servers": kafka_cluster.bootstrap_servers,
        "max_block_ms": 2000,
    }
    bare, ours = KafkaProducer(**settings), guard(KafkaProducer(**settings))
    differences = []
    for call in CALLS:
        theirs, mine = (_type_of(each, topic, *call) for each in (bare, ours))
        same_class = theirs and mine and issubclass(mine, theirs)
        if theirs != mine and not same_class:
            differences.append((call, theirs, mine))
    assert differences == []


@pytest.mark.parametrize("timeout", ["x", -1, True, float("nan")])
@pytest.mark.parametrize("method", ["flush", "close"])
def test_a_wrong_time_is_refused_before_anything_is_done(guarded, method, timeout):
    """The bare client waits, raises something else later, or takes it for a second."""
    with pytest.raises((TypeError, ValueError), match=method):
        getattr(guarded, method)(timeout)
    assert guarded.flush().pending == 0
