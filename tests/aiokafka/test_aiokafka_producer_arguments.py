"""Each argument form of a producer's calls, guarded beside bare."""

from __future__ import annotations

import asyncio

import pytest
from aiokafka.errors import IllegalOperation, KafkaError, ProducerClosed
from aiokafka.structs import RecordMetadata

from aiokafka import AIOKafkaProducer, TopicPartition
from kafkaguard import errors, guard
from tests.contracts.producer import read

LIMIT_S = 60.0
#: Stand for the topic, a batch with a record, and an empty batch.
TOPIC, BATCH, EMPTY = "<topic>", "<batch>", "<empty>"
RECORD = TOPIC, b"v", b"k"
WHOLE = {
    "topic": TOPIC,
    "value": b"v",
    "key": b"k",
    "partition": 0,
    "timestamp_ms": 1234,
    "headers": [("a", b"b")],
}
SENDS = [
    (RECORD, {}),
    ((TOPIC, b"v"), {}),
    ((TOPIC, None, b"k"), {}),
    ((*RECORD, 0, 1234, [("a", b"b")]), {}),
    ((), WHOLE),
    ((), {}),
    ((TOPIC,), {}),
    ((TOPIC, "v"), {}),
    ((TOPIC, 5), {}),
    ((TOPIC, b"v", "k"), {}),
    ((TOPIC, bytearray(b"v"), memoryview(b"k")), {}),
    *(((*RECORD, partition), {}) for partition in ("0", -1, 99, 2**40)),
    *(((*RECORD, 0, when), {}) for when in ("x", -1, 1.5, 2**70, None)),
    *(
        (RECORD, {"headers": headers})
        for headers in (
            5,
            [],
            (("a", b"b"),),
            {"a": b"b"},
            [("a",)],
            [("a", "b")],
            [("a", None)],
            [(1, b"b")],
        )
    ),
    ((*RECORD, 0, 1, [], 1), {}),
    (RECORD, {"nope": 1}),
    ((TOPIC, b"x" * 2_000_000, b"k"), {}),
]
CALLS = [
    *((name, *form) for name in ("send", "send_and_wait") for form in SENDS),
    *(
        ("send_batch", args, kwargs)
        for args, kwargs in [
            ((BATCH, TOPIC), {"partition": 0}),
            ((), {"batch": BATCH, "topic": TOPIC, "partition": 0}),
            ((EMPTY, TOPIC), {"partition": 0}),
            ((BATCH, TOPIC, 0), {}),
            ((BATCH, TOPIC), {}),
            ((BATCH, TOPIC), {"partition": "0"}),
            ((BATCH, TOPIC), {"partition": 99}),
            ((BATCH, TOPIC), {"partition": 0, "nope": 1}),
        ]
    ),
    *(
        (name, args, {})
        for name in ("begin_transaction", "commit_transaction", "abort_transaction")
        for args in ((), (1,))
    ),
    *(
        ("send_offsets_to_transaction", args, {})
        for args in ((), ({}, "g"), (5, "g"), ({TopicPartition("t", 0): 1}, None))
    ),
    ("create_batch", (1,), {}),
    *(("partitions_for", args, {}) for args in ((), (TOPIC,), (TOPIC, 1))),
    ("start", (1,), {}),
    ("stop", (), {"nope": 1}),
]


def settings(cluster):
    """Return settings of a producer."""
    return {
        "bootstrap_servers": cluster.bootstrap_servers,
        "enable_idempotence": True,
        "request_timeout_ms": 10_000,
    }


def filled(producer, topic, value):
    """Return what a word of a row stands for."""
    if value is TOPIC:
        return topic
    if value not in (BATCH, EMPTY):
        return value
    batch = producer.create_batch()
    if value is BATCH:
        batch.append(timestamp=None, key=b"k", value=b"v")
    return batch


async def outcome(producer, topic, name, args, kwargs):
    """Return the type of what a call has told: a result, an error, or of a future."""
    args = [filled(producer, topic, each) for each in args]
    kwargs = {key: filled(producer, topic, each) for key, each in kwargs.items()}
    try:
        result = getattr(producer, name)(*args, **kwargs)
        result = await result if asyncio.iscoroutine(result) else result
        result = await result if isinstance(result, asyncio.Future) else result
    except Exception as error:
        return type(error)
    if isinstance(result, RecordMetadata):
        when = result.timestamp if 1234 in (*args, *kwargs.values()) else None
        return result.partition, when
    return type(result)


async def test_a_guarded_call_takes_and_refuses_what_the_bare_one_does(kafka_cluster):
    """The type of a result, the class of an error, and the records in the topic."""
    topics = [kafka_cluster.create_topic() for _ in range(2)]
    bare = AIOKafkaProducer(**settings(kafka_cluster))
    ours = guard(AIOKafkaProducer(**settings(kafka_cluster)))
    differences = []
    async with asyncio.timeout(LIMIT_S), bare, ours:
        for call in CALLS:
            theirs, mine = [
                await outcome(producer, topic, *call)
                for producer, topic in zip((bare, ours), topics, strict=True)
            ]
            if theirs != mine and not (
                isinstance(theirs, type)
                and isinstance(mine, type)
                and issubclass(mine, theirs)
            ):
                differences.append((call, theirs, mine))
    assert differences == []
    first, second = (read(kafka_cluster, topic) for topic in topics)
    assert first == second


@pytest.mark.parametrize(
    ("name", "args", "kwargs"),
    [
        ("send", (*RECORD, 1.0), {}),
        ("send_and_wait", (*RECORD, 0.0), {}),
        ("send_batch", (BATCH, TOPIC), {"partition": 0.0}),
        ("send_batch", (5, TOPIC), {"partition": 0}),
        ("send_batch", (None, TOPIC), {"partition": 0}),
    ],
)
async def test_an_argument_of_which_the_client_would_die_is_refused(
    kafka_cluster, name, args, kwargs
):
    """The records that are on their way with it are delivered."""
    topic = kafka_cluster.create_topic(partitions=2)
    async with guard(AIOKafkaProducer(**settings(kafka_cluster))) as producer:
        client = producer.client
        mate = await producer.send(topic, b"mate", b"k", 0)
        assert await outcome(producer, topic, name, args, kwargs) is TypeError
        async with asyncio.timeout(LIMIT_S):
            assert (await mate).offset == 0
            await producer.flush()
        assert producer.client is client


async def test_calls_of_a_stopped_producer_are_refused_at_once(kafka_cluster):
    """The bare client waits without end for some of them."""
    producer = guard(AIOKafkaProducer(**settings(kafka_cluster)))
    async with producer:
        batch = producer.create_batch()
        batch.append(timestamp=None, key=b"k", value=b"v")
    calls = [
        *(("send", args, kwargs) for args, kwargs in (SENDS[0], SENDS[3])),
        ("send_and_wait", RECORD, {}),
        ("partitions_for", (TOPIC,), {}),
    ]
    async with asyncio.timeout(LIMIT_S):
        for call in calls:
            found = await outcome(producer, "t", *call)
            assert issubclass(found, ProducerClosed), call
        with pytest.raises(errors.ClientClosedError):
            await producer.send_batch(batch, "t", partition=0)
        await producer.stop()


async def test_a_call_out_of_order_has_the_clients_class(kafka_cluster):
    """An application that catches the client's own error goes on to do so."""
    names = {"transactional_id": f"order-{id(kafka_cluster)}"}
    async with (
        asyncio.timeout(LIMIT_S),
        guard(AIOKafkaProducer(**settings(kafka_cluster), **names)) as producer,
    ):
        for call in (
            producer.commit_transaction,
            producer.abort_transaction,
            lambda: producer.send_offsets_to_transaction({}, "g"),
            lambda: producer.send("t", b"v", b"k"),
        ):
            with pytest.raises(IllegalOperation) as caught:
                await call()
            assert isinstance(caught.value, errors.ClientStateError)
            assert isinstance(caught.value, KafkaError)
