"""aiokafka's inside: every name listed and checked, every replacement exact."""

from __future__ import annotations

import inspect
import logging

import pytest

from aiokafka import AIOKafkaProducer
from kafkaguard import TopicFacts, errors, guard
from kafkaguard_adapters.aiokafka._private.producing import names
from tests.contracts.producer import COMPACTED


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


async def test_a_client_that_has_changed_is_guarded_by_its_public_interface(
    kafka_cluster, monkeypatch, caplog
):
    """One warning says what is missing; null keys are refused, and codes arrive."""
    topic = kafka_cluster.create_topic(config=COMPACTED)
    monkeypatch.setitem(names.USED, "Sender", ("no_such_name",))
    producer = AIOKafkaProducer(
        bootstrap_servers=kafka_cluster.bootstrap_servers, enable_idempotence=True
    )
    stale = kafka_cluster.create_topic(config=COMPACTED)
    topics = {stale: TopicFacts(compacted=False)}
    # Nobody would follow the outcome, so refused records would be lost.
    for lost in ("drop", "dead_letter"):
        with pytest.raises(errors.ClientConfigurationError, match="on_reject: raise"):
            guard(producer, policy={"on_reject": lost})
    with caplog.at_level(logging.WARNING, "kafkaguard"):
        guarded = guard(producer, topics=topics)
    messages = [r.getMessage() for r in caplog.records]
    (said,) = [each for each in messages if "does not know aiokafka" in each]
    assert "Sender.no_such_name" in said
    async with guarded:
        with pytest.raises(errors.InvalidRecordKeyError):
            await guarded.send(topic, b"v")
        assert (await guarded.send_and_wait(topic, b"v", b"k")).offset == 0
        with pytest.raises(errors.KafkaGuardError) as caught:
            await guarded.send_and_wait(stale, b"v")
        assert caught.value.code == 87
    with pytest.raises(errors.ClientClosedError):
        await guarded.send(topic, b"v", b"k")
