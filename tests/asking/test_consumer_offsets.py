"""Consumers' own look-ups of offsets while remote storage is not ready (KIP-1007)."""

from __future__ import annotations

import asyncio
import inspect
import logging
import pickle
import threading
import time
from contextlib import contextmanager

import confluent_kafka
import kafka
import pytest
from kafka import KafkaProducer

import aiokafka
from kafkaguard import TopicFacts, errors, guard
from kafkaguard.testing import FaultProxy, KafkaCluster
from tests.asking.cluster_clients import CLIENTS

FACTS = TopicFacts(tiered=True)
PARTITIONS = 2
WRITTEN = int(time.time() * 1000) - 60_000


@pytest.fixture(scope="module")
def topic(kafka_cluster):
    """A topic with a record in each of two partitions, and a transaction under way."""
    topic = kafka_cluster.create_topic(partitions=PARTITIONS)
    bootstrap = kafka_cluster.bootstrap_servers
    with KafkaProducer(bootstrap_servers=bootstrap) as producer:
        for partition in range(PARTITIONS):
            producer.send(topic, b"x", partition=partition, timestamp_ms=WRITTEN)
    writer = confluent_kafka.Producer(
        {
            "bootstrap.servers": bootstrap,
            "transactional.id": topic,
            "transaction.timeout.ms": 600_000,
        }
    )
    writer.init_transactions(20)
    writer.begin_transaction()
    writer.produce(topic, b"y", partition=0)
    writer.flush(20)
    yield topic
    writer.abort_transaction(20)


class Asked:
    """A consumer of any client, asked for starts, ends and times in one form."""

    def __init__(self, client, consumer, wait):
        self.client, self.consumer, self._wait = client, consumer, wait

    def _call(self, name, *args):
        value = getattr(self.consumer, name)(*args)
        return self._wait(value) if inspect.isawaitable(value) else value

    def places(self, topic):
        """Write both partitions as the client does."""
        make = {
            "kafka-python": kafka.TopicPartition,
            "aiokafka": aiokafka.TopicPartition,
            "confluent": confluent_kafka.TopicPartition,
        }[self.client]
        return [make(topic, partition) for partition in range(PARTITIONS)]

    def ends(self, topic):
        """Ask for start and end of each partition."""
        places = self.places(topic)
        if self.client == "confluent":
            return [self._call("get_watermark_offsets", each, 2.0) for each in places]
        starts = self._call("beginning_offsets", places)
        ends = self._call("end_offsets", places)
        return [(starts[each], ends[each]) for each in places]

    def times(self, topic, when):
        """Ask for the offset at a time in each partition."""
        places = self.places(topic)
        if self.client == "confluent":
            for each in places:
                each.offset = when
            return self._call("offsets_for_times", places, 2.0)
        return self._call("offsets_for_times", dict.fromkeys(places, when))


@contextmanager
def consumers(client, bootstrap, isolation="read_uncommitted", **options):
    """Make the same consumer of a client twice: bare, and guarded."""
    if client == "confluent":
        config = {
            "bootstrap.servers": bootstrap,
            "group.id": "none",
            "isolation.level": isolation,
        }
        bare = confluent_kafka.Consumer(config)
        with guard(
            factory=confluent_kafka.Consumer, config=config, **options
        ) as guarded:
            yield Asked(client, bare, None), Asked(client, guarded, None)
        bare.close()
        return
    config = {
        "bootstrap_servers": bootstrap,
        "isolation_level": isolation,
        "request_timeout_ms": 2000,
    }
    if client == "kafka-python":
        bare = kafka.KafkaConsumer(**config)
        with guard(kafka.KafkaConsumer(**config), **options) as guarded:
            yield Asked(client, bare, None), Asked(client, guarded, None)
        bare.close()
        return
    with asyncio.Runner() as runner:
        wait = runner.run
        bare, guarded = wait(_aiokafka(config, options))
        yield Asked(client, bare, _waiter(wait)), Asked(client, guarded, _waiter(wait))
        wait(guarded.stop())
        wait(bare.stop())


def _waiter(run):
    async def waited(value):
        return await value

    return lambda value: run(waited(value))


async def _aiokafka(config, options):
    bare = aiokafka.AIOKafkaConsumer(**config)
    guarded = guard(aiokafka.AIOKafkaConsumer(**config), **options)
    await bare.start()
    await guarded.start()
    return bare, guarded


def shown(found):
    """Write what a look-up of times returns, so that it can be compared."""
    if isinstance(found, dict):
        return found
    return [(each.topic, each.partition, each.offset, each.error) for each in found]


@pytest.mark.parametrize("isolation", ["read_uncommitted", "read_committed"])
@pytest.mark.parametrize("client", CLIENTS)
def test_answers_are_those_of_the_client(kafka_cluster, topic, client, isolation):
    """Types and numbers are the same on the way of our own, in either isolation."""
    declared = {"topics": {topic: FACTS}}
    with consumers(
        client, kafka_cluster.bootstrap_servers, isolation, **declared
    ) as both:
        bare, guarded = both
        assert bare.ends(topic) == guarded.ends(topic)
        end = {"read_uncommitted": 2, "read_committed": 1}[isolation]
        assert guarded.ends(topic) == [(0, end), (0, 1)]
        for when in (0, WRITTEN, WRITTEN * 2):
            expected, found = bare.times(topic, when), guarded.times(topic, when)
            assert type(expected) is type(found)
            assert shown(expected) == shown(found)


@pytest.mark.parametrize("code", [9, -1])
@pytest.mark.parametrize("client", CLIENTS)
def test_partition_that_is_not_ready_is_waited_for(kafka_cluster, topic, client, code):
    """Only that partition is asked again, 0.1 s and more apart; then all are there."""
    with (
        FaultProxy(kafka_cluster) as proxy,
        consumers(client, proxy.bootstrap_servers, topics={topic: FACTS}) as (
            _,
            guarded,
        ),
    ):
        expected = guarded.ends(topic)
        before = len(proxy.requests("ListOffsets"))
        started = time.monotonic()
        with proxy.on("ListOffsets", topic=topic, partition=1).fail(code, times=2):
            assert expected == guarded.ends(topic)
        assert time.monotonic() - started >= 0.3
        assert len(proxy.requests("ListOffsets")) - before == 2 + before


@pytest.mark.parametrize("code", [9, -1])
@pytest.mark.parametrize("client", CLIENTS)
def test_partition_that_stays_so_is_told_with_the_others(
    kafka_cluster, topic, client, code
):
    """The error is the client's own too, in time, and has what the others answered."""
    with (
        FaultProxy(kafka_cluster) as proxy,
        consumers(client, proxy.bootstrap_servers, topics={topic: FACTS}) as (
            bare,
            guarded,
        ),
        proxy.on("ListOffsets", topic=topic, partition=1).fail(code),
    ):
        for call in (guarded.ends, lambda topic: guarded.times(topic, 0)):
            started = time.monotonic()
            with pytest.raises(errors.RemoteStorageNotReadyError) as caught:
                call(topic)
            assert 0.5 < time.monotonic() - started < 15
        with pytest.raises(Exception) as alone:
            bare.ends(topic)
    error = caught.value
    assert isinstance(error, type(alone.value))
    assert (code, topic, 1) == (error.code, error.topic, error.partition)
    assert error.verdict.retriable
    assert error.report.offsets == {(topic, 0): 0}
    assert [each.partition for each in error.report.errors] == [1]
    again = pickle.loads(pickle.dumps(error))
    assert error.report.offsets == again.report.offsets


@pytest.mark.parametrize("client", CLIENTS)
def test_codes_of_a_plain_topic_stay_the_clients(kafka_cluster, topic, client):
    """On a topic without remote storage the answer keeps its code, with a verdict."""
    with (
        FaultProxy(kafka_cluster) as proxy,
        consumers(client, proxy.bootstrap_servers) as (_, guarded),
        proxy.on("ListOffsets", topic=topic).fail(9),
    ):
        with pytest.raises(errors.KafkaGuardError) as caught:
            guarded.ends(topic)
        assert caught.value.api == "ListOffsets"
        assert not isinstance(caught.value, errors.RemoteStorageNotReadyError)


def test_cached_watermarks_ask_nobody(kafka_cluster, topic):
    """`cached=True` is the client's own, by position too."""
    with FaultProxy(kafka_cluster) as proxy:
        facts = {"topics": {topic: FACTS}}
        with consumers("confluent", proxy.bootstrap_servers, **facts) as (_, guarded):
            place = confluent_kafka.TopicPartition(topic, 0)
            assert len(guarded.consumer.get_watermark_offsets(place, 1.0, True)) == 2
    assert proxy.requests("ListOffsets") == []


def test_without_settings_one_warning_says_that_there_is_no_guard(
    kafka_cluster, topic, caplog
):
    """A bare Consumer goes on by itself, and a warning names what is missing."""
    config = {
        "bootstrap.servers": kafka_cluster.bootstrap_servers,
        "group.id": "none",
    }
    place = confluent_kafka.TopicPartition(topic, 1)
    with (
        caplog.at_level(logging.WARNING, "kafkaguard"),
        guard(confluent_kafka.Consumer(config), topics={topic: FACTS}) as guarded,
    ):
        caplog.clear()  # what guard() itself says
        for _ in range(2):
            assert guarded.get_watermark_offsets(place, timeout=20) == (0, 1)
    (said,) = [r.getMessage() for r in caplog.records]
    assert "do not wait for remote storage" in said
    assert "guard(client, config=" in said


@pytest.mark.java
def test_consumers_of_real_tiered_storage_outlive_a_restart():
    """While a tiered broker starts, each client's look-ups end with the right offsets."""
    remote_config = {
        "remote.storage.enable": "true",
        "segment.bytes": 1048576,
        "local.retention.ms": 1000,
    }
    with KafkaCluster(tiered=True) as cluster:
        topic = cluster.create_topic(partitions=PARTITIONS, config=remote_config)
        with KafkaProducer(bootstrap_servers=cluster.bootstrap_servers) as producer:
            for number in range(400):
                producer.send(topic, b"x" * 8000, partition=number % PARTITIONS)
        _until(lambda: list(cluster.remote_storage.rglob("*.log")))
        for client in CLIENTS:
            with consumers(client, cluster.bootstrap_servers) as (_, guarded):
                assert guarded.ends(topic) == [(0, 200), (0, 200)]
                cluster.broker(0).stop()
                cluster.broker(0).start()
                assert _settled(lambda one=guarded: one.ends(topic)) == [
                    (0, 200),
                    (0, 200),
                ]


def _until(condition, seconds=60.0):
    deadline = time.monotonic() + seconds
    while not (found := condition()):
        assert time.monotonic() < deadline, "not within time"
        threading.Event().wait(0.05)
    return found


def _settled(ask):
    """Ask as an application does: again after what the verdict calls retriable."""
    for _ in range(10):
        try:
            return ask()
        except errors.KafkaGuardError as error:
            assert error.verdict.retriable
    raise AssertionError("not settled")
