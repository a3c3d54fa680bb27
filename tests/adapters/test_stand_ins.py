"""Guarded consumers and producers: their client in all things, and two calls more."""

from __future__ import annotations

import asyncio
import pickle
import time
from contextlib import asynccontextmanager, suppress

import confluent_kafka
import kafka
import pytest
from confluent_kafka import DeserializingConsumer, SerializingProducer
from kafka import KafkaConsumer, KafkaProducer

import aiokafka
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer
from kafkaguard import errors, guard
from kafkaguard.testing import FaultProxy, KafkaCluster
from kafkaguard_adapters import stand_in
from tests.asking.cluster_clients import commit

CONFLUENT = (
    confluent_kafka.Consumer,
    confluent_kafka.Producer,
    DeserializingConsumer,
    SerializingProducer,
)
BLOCKING = (KafkaConsumer, *CONFLUENT)
AWAITED = (AIOKafkaConsumer, AIOKafkaProducer)


def config_of(cls, bootstrap):
    """Write the settings of a client of a class."""
    if cls not in CONFLUENT:
        own = {"enable_idempotence": True} if cls is AIOKafkaProducer else {}
        return {"bootstrap_servers": bootstrap, **own}
    is_consumer = issubclass(cls, confluent_kafka.Consumer)
    own = {"group.id": "none"} if is_consumer else {"enable.idempotence": True}
    return {"bootstrap.servers": bootstrap, **own}


@pytest.fixture(scope="module")
def behind(kafka_cluster):
    """A topic with three records, and a group that has read one."""
    topic = kafka_cluster.create_topic()
    with KafkaProducer(bootstrap_servers=kafka_cluster.bootstrap_servers) as producer:
        for value in (b"0", b"1", b"2"):
            producer.send(topic, value)
    commit(kafka_cluster.bootstrap_servers, topic, {(topic, 0): 1})
    return topic


@pytest.fixture(params=BLOCKING, ids=lambda cls: cls.__name__)
def blocking(request, kafka_cluster):
    """A guarded client whose users block, and its class."""
    cls = request.param
    config = config_of(cls, kafka_cluster.bootstrap_servers)
    with guard(factory=cls, config=config) as guarded:
        yield guarded, cls


def test_client_is_there_whole(blocking):
    """`isinstance` holds, it is true, and no name of the client is missing."""
    guarded, cls = blocking
    assert isinstance(guarded, cls)
    assert bool(guarded) is True
    names = [name for name in dir(cls) if not name.startswith("__")]
    assert [name for name in names if not hasattr(guarded, name)] == []
    assert set(names) <= set(dir(guarded))
    assert repr(guarded) == f"<guarded {cls.__name__}>"
    with pytest.raises(TypeError, match="cannot be pickled"):
        pickle.dumps(guarded)
    with pytest.raises(TypeError, match="guarded already"):
        guard(guarded)


def test_client_says_who_lags_and_what_is_full(blocking, behind):
    """A consumer means itself by default; others mean all groups."""
    guarded, _ = blocking
    assert guarded.lag(behind).groups[behind].total == 2
    is_consumer = hasattr(guarded, "assignment")
    assert is_consumer != (behind in guarded.lag().groups)
    assert guarded.log_dirs().complete


@pytest.mark.parametrize("cls", AWAITED)
async def test_awaited_client_is_there_whole(cls, kafka_cluster, behind):
    """The same for clients of aiokafka, with `async with`."""
    client = cls(**config_of(cls, kafka_cluster.bootstrap_servers))
    async with guard(client) as guarded:
        assert isinstance(guarded, cls)
        names = [name for name in dir(cls) if not name.startswith("__")]
        assert [name for name in names if not hasattr(guarded, name)] == []
        assert (await guarded.lag(behind)).groups[behind].total == 2
        assert (await guarded.log_dirs()).complete
    assert client._closed


def test_kafka_python_consumer_is_iterated(kafka_cluster, behind):
    """`for`, `next` and polling are the client's own; leaving closes both."""
    consumer = KafkaConsumer(
        behind,
        bootstrap_servers=kafka_cluster.bootstrap_servers,
        auto_offset_reset="earliest",
        consumer_timeout_ms=10_000,
    )
    with guard(consumer) as guarded:
        assert next(guarded).value == b"0"
        for record in guarded:
            assert record.value == b"1"
            break
        (records,) = guarded.poll(10_000).values()
        assert [record.value for record in records] == [b"2"]
        assert guarded.lag(behind).groups[behind].total == 2
    assert consumer._closed
    assert guarded.cluster_view.is_closed


async def test_aiokafka_consumer_is_iterated(kafka_cluster, behind):
    """`async for` over a guarded consumer reads the client's records."""
    consumer = AIOKafkaConsumer(
        behind,
        bootstrap_servers=kafka_cluster.bootstrap_servers,
        auto_offset_reset="earliest",
    )
    values = []
    async with guard(consumer) as guarded:
        async for record in guarded:
            values.append(record.value)
            if len(values) == 3:
                break
    assert values == [b"0", b"1", b"2"]


def test_confluent_clients_work_as_before(kafka_cluster, kafka_topic):
    """Positional arguments, length and polling go through unchanged."""
    bootstrap = kafka_cluster.bootstrap_servers
    delivered = []
    config = {"bootstrap.servers": bootstrap}
    safe = {**config, "enable.idempotence": True}
    with guard(factory=SerializingProducer, config=safe) as producer:
        producer.produce(
            kafka_topic, b"k", b"v", 0, lambda error, _: delivered.append(error)
        )
        assert len(producer) == 1
        assert producer.flush(20) == 0
    assert delivered == [None]
    config = {**config, "group.id": kafka_topic, "auto.offset.reset": "earliest"}
    with guard(factory=confluent_kafka.Consumer, config=config) as consumer:
        consumer.subscribe([kafka_topic])
        (message,) = consumer.consume(1, 20)
        assert (message.key(), message.value()) == (b"k", b"v")
    with pytest.raises(RuntimeError, match="closed"):
        consumer.poll(0)


class Endless:
    """A client of aiokafka that never ends, as one that commits to a dead broker."""

    async def start(self):
        """Start."""

    async def stop(self):
        """Wait for ever."""
        await asyncio.Event().wait()


@asynccontextmanager
async def _as_consumer(cluster):
    from kafkaguard_adapters.aiokafka.stand_in import StandIn
    from kafkaguard_adapters.aiokafka.view import view_of

    config = {"bootstrap_servers": cluster.bootstrap_servers}
    async with StandIn(Endless(), view_of(None, config)) as guarded:
        yield guarded


async def test_stopping_is_bounded(kafka_cluster, monkeypatch):
    """A stop that never ends is cancelled, and says what may be lost."""
    monkeypatch.setattr(stand_in, "CLOSE_S", 0.2)
    with pytest.raises(
        errors.ClientTimeoutError, match="may not have been committed"
    ) as said:
        async with _as_consumer(kafka_cluster):
            started = time.monotonic()
    assert time.monotonic() - started < 60
    assert isinstance(said.value, aiokafka.errors.KafkaError)


@pytest.mark.timeout(180)
@pytest.mark.java
def test_closing_after_the_brokers_are_gone_is_bounded(monkeypatch):
    """Consumers with a group and a commit to make leave a dead cluster in time."""
    monkeypatch.setattr(stand_in, "CLOSE_S", 5.0)

    async def use(cluster, topic):
        consumer = AIOKafkaConsumer(
            topic, bootstrap_servers=cluster.bootstrap_servers, group_id=topic
        )
        guarded = guard(consumer)
        await guarded.start()
        await guarded.lag(topic)
        await asyncio.to_thread(cluster.stop)
        started = time.monotonic()
        with suppress(errors.ClientTimeoutError):  # where it has something to commit
            await guarded.stop()
        return time.monotonic() - started

    with KafkaCluster() as cluster:
        topic = cluster.create_topic()
        blocked = guard(
            KafkaConsumer(
                topic,
                bootstrap_servers=cluster.bootstrap_servers,
                group_id=f"{topic}-2",
                request_timeout_ms=12_000,
            )
        )
        blocked.poll(1000)
        assert asyncio.run(use(cluster, topic)) < 60
        started = time.monotonic()
        blocked.close()
        assert time.monotonic() - started < 60


def test_settings_of_bare_confluent_clients_must_be_given(kafka_cluster):
    """Its own calls work; ours say what to pass."""
    config = config_of(confluent_kafka.Consumer, kafka_cluster.bootstrap_servers)
    with guard(confluent_kafka.Consumer(config)) as consumer:
        assert consumer.list_topics(timeout=20).brokers
        with pytest.raises(errors.ClientConfigurationError, match="factory=Consumer"):
            consumer.lag()


def test_what_is_no_client_is_refused_with_what_is_known():
    """The message has the names as one imports them."""
    with pytest.raises(TypeError, match=r"confluent_kafka\.Consumer") as said:
        guard(object())
    assert "kafka.KafkaConsumer" in str(said.value)


def test_answers_of_plain_topics_are_the_clients_own(kafka_cluster, behind):
    """Nothing but one look-up of the topic's settings goes over our connection."""
    place = kafka.TopicPartition(behind, 0)
    with FaultProxy(kafka_cluster) as proxy:
        bare = KafkaConsumer(bootstrap_servers=kafka_cluster.bootstrap_servers)
        with guard(
            KafkaConsumer(bootstrap_servers=kafka_cluster.bootstrap_servers),
            config={"bootstrap_servers": proxy.bootstrap_servers},
        ) as guarded:
            assert bare.end_offsets([place]) == guarded.end_offsets([place])
            assert bare.beginning_offsets([place]) == guarded.beginning_offsets([place])
            times = {place: 0}
            assert bare.offsets_for_times(times) == guarded.offsets_for_times(times)
            with pytest.raises(ValueError, match="negative"):
                guarded.offsets_for_times({place: -5})
        bare.close()
        assert proxy.requests("ListOffsets") == []
        assert len(proxy.requests("DescribeConfigs")) == 1
