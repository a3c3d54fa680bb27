"""aiokafka's inside: every name listed and checked, every replacement exact."""

from __future__ import annotations

import inspect

import pytest

from aiokafka import AIOKafkaProducer
from kafkaguard import errors, guard
from kafkaguard_adapters.aiokafka._private.producing import names


def objects_of(producer):
    """Return the client's objects by the names that the lists give them."""
    return dict(names._objects(producer))


async def test_every_name_is_there_and_a_missing_one_is_told(kafka_cluster):
    """Each kind of producer has them all; a name that is missing is listed."""
    servers = kafka_cluster.bootstrap_servers
    for kind in ({}, {"enable_idempotence": True}, {"transactional_id": "t"}):
        producer = AIOKafkaProducer(bootstrap_servers=servers, **kind)
        assert names.missing(producer) == []
        del producer._message_accumulator._linger_time
        assert names.missing(producer) == ["MessageAccumulator._linger_time"]
        await producer.stop()


async def test_what_is_replaced_takes_what_it_took(kafka_topic, kafka_cluster):
    """Arguments, their names, their kinds and which of them may be left out."""
    servers = kafka_cluster.bootstrap_servers
    bare = AIOKafkaProducer(bootstrap_servers=servers, enable_idempotence=True)
    producer = guard(
        AIOKafkaProducer(
            bootstrap_servers=servers,
            enable_idempotence=True,
            linger_ms=60_000,
            partitioner=lambda *_: 0,
        ),
        policy={"on_reject": "dead_letter"},
    )
    async with producer:
        await producer.send(kafka_topic, b"v", b"k")
        theirs, ours = objects_of(bare), objects_of(producer.client)
        ((batch,),) = producer.client._message_accumulator._batches.values()
        ours["MessageBatch"], ours["BatchBuilder"] = batch, producer.create_batch()
        replaced = set()
        for kind, name in names.REPLACED:
            before = inspect.signature(getattr(theirs[kind], name)).parameters
            now = inspect.signature(getattr(ours[kind], name)).parameters
            assert list(before) == list(now), name
            for one, other in zip(before.values(), now.values(), strict=True):
                assert one.kind == other.kind, (name, one)
                is_optional = one.default is inspect.Parameter.empty
                assert is_optional == (other.default is inspect.Parameter.empty)
            if name in vars(ours[kind]) or hasattr(ours[kind], "__slots__"):
                replaced.add((kind, name))
        not_yet = {("AIOKafkaClient", "force_metadata_update")}  # when it has ended
        assert set(names.REPLACED) - not_yet == replaced
    await bare.stop()


async def test_a_client_that_has_changed_is_refused(monkeypatch):
    """The error of guard() names the private attribute that is missing."""
    monkeypatch.setitem(names.USED, "Sender", ("no_such_name",))
    producer = AIOKafkaProducer(
        bootstrap_servers="127.0.0.1:1", enable_idempotence=True
    )
    with pytest.raises(errors.ClientConfigurationError) as caught:
        guard(producer)
    assert "does not know aiokafka" in str(caught.value)
    assert "Sender.no_such_name" in str(caught.value)
    await producer.stop()
