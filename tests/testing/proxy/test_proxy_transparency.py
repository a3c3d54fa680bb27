"""Without a fault the proxy changes nothing but addresses, for every client."""

from __future__ import annotations

import uuid

import pytest

from kafkaguard.testing import KafkaCluster
from tests.groups import joining
from tests.testing.proxy.wiretap import TappedProxy

pytestmark = pytest.mark.java


RECORDS = 50


@pytest.fixture(scope="module", params=["4.3.1", "4.4.0"])
def cluster(request):
    """Start a broker of each version."""
    settings = {"group.initial.rebalance.delay.ms": 0}
    with KafkaCluster(version=request.param, settings=settings) as running:
        yield running


@pytest.fixture
def proxy(cluster):
    """Start a proxy with recorders on both sides."""
    with TappedProxy(cluster) as running:
        yield running


@pytest.fixture
def topic(cluster):
    """Create a topic."""
    return cluster.create_topic(partitions=3)


def _must_have(counts, *apis):
    assert set(apis) <= set(counts), counts


CONSUMED = ("Produce", "Fetch", "JoinGroup", "SyncGroup", "OffsetCommit", "OffsetFetch")
TRANSACTED = ("InitProducerId", "AddPartitionsToTxn", "EndTxn")


def test_kafka_python(proxy, topic):
    """Producer, group, transaction and admin of kafka-python."""
    from kafka import KafkaAdminClient, KafkaProducer

    servers = proxy.bootstrap_servers
    with KafkaProducer(bootstrap_servers=servers, compression_type="gzip") as producer:
        for index in range(RECORDS):
            producer.send(topic, b"%d" % index, key=b"key")
    name = uuid.uuid4().hex
    with KafkaProducer(bootstrap_servers=servers, transactional_id=name) as producer:
        producer.init_transactions()
        producer.begin_transaction()
        producer.send(topic, b"in a transaction")
        producer.commit_transaction()
    with joining(
        topic,
        bootstrap_servers=servers,
        group_id=name,
        auto_offset_reset="earliest",
        isolation_level="read_committed",
    ) as consumer:
        assert len([next(consumer) for _ in range(RECORDS + 1)]) == RECORDS + 1
        consumer.commit()
    with KafkaAdminClient(bootstrap_servers=servers) as admin:
        assert topic in admin.list_topics()
        assert admin.describe_cluster()
        assert admin.describe_log_dirs()
    _must_have(proxy.compare(), *CONSUMED, *TRANSACTED, "DescribeLogDirs")


def test_confluent_kafka(proxy, topic):
    """Producer, group, transaction and admin of confluent-kafka."""
    from confluent_kafka import Consumer, Producer
    from confluent_kafka.admin import AdminClient, ConfigResource

    common = {"bootstrap.servers": proxy.bootstrap_servers}
    producer = Producer({**common, "compression.type": "zstd"})
    for index in range(RECORDS):
        producer.produce(topic, b"%d" % index, key=b"key")
    assert producer.flush(10) == 0
    name = uuid.uuid4().hex
    producer = Producer({**common, "transactional.id": name})
    producer.init_transactions(10)
    producer.begin_transaction()
    producer.produce(topic, b"in a transaction")
    producer.commit_transaction(10)
    consumer = Consumer({**common, "group.id": name, "auto.offset.reset": "earliest"})
    consumer.subscribe([topic])
    found = []
    while len(found) <= RECORDS:
        found += consumer.consume(RECORDS, timeout=10)
    assert [message.error() for message in found if message.error()] == []
    consumer.commit(asynchronous=False)
    consumer.close()
    admin = AdminClient(common)
    resource = ConfigResource(ConfigResource.Type.TOPIC, topic)
    for future in admin.describe_configs([resource]).values():
        assert future.result(10)
    assert admin.list_topics(timeout=10).topics[topic]
    del producer, admin
    _must_have(proxy.compare(), *CONSUMED, *TRANSACTED, "DescribeConfigs")


async def test_aiokafka(proxy, topic):
    """Producer, group, transaction and admin of aiokafka."""
    from aiokafka.admin import AIOKafkaAdminClient

    from aiokafka import AIOKafkaConsumer, AIOKafkaProducer

    servers = proxy.bootstrap_servers
    name = uuid.uuid4().hex
    async with AIOKafkaProducer(bootstrap_servers=servers) as producer:
        for index in range(RECORDS):
            await producer.send(topic, b"%d" % index, key=b"key")
    async with (
        AIOKafkaProducer(bootstrap_servers=servers, transactional_id=name) as producer,
        producer.transaction(),
    ):
        await producer.send(topic, b"in a transaction")
    async with AIOKafkaConsumer(
        topic, bootstrap_servers=servers, group_id=name, auto_offset_reset="earliest"
    ) as consumer:
        found = [await consumer.getone() for _ in range(RECORDS + 1)]
        await consumer.commit()
    assert len(found) == RECORDS + 1
    admin = AIOKafkaAdminClient(bootstrap_servers=servers)
    await admin.start()
    assert topic in await admin.list_topics()
    await admin.close()
    _must_have(proxy.compare(), *CONSUMED, *TRANSACTED)


@pytest.mark.xdist_group("spark")
@pytest.mark.timeout(500)
def test_spark(proxy, topic, spark, tmp_path):
    """Batch and streaming, in and out, of Spark's Java client."""
    options = {"kafka.bootstrap.servers": proxy.bootstrap_servers}
    frame = spark.range(RECORDS).selectExpr("CAST(id AS STRING) AS value")
    frame.write.format("kafka").options(**options, topic=topic).save()
    stream = (
        spark.readStream.format("kafka")
        .options(**options, subscribe=topic, startingOffsets="earliest")
        .load()
        .selectExpr("value")
        .writeStream.format("kafka")
        .options(**options, topic=topic, checkpointLocation=str(tmp_path))
        .trigger(availableNow=True)
        .start()
    )
    assert stream.awaitTermination(60)
    assert stream.exception() is None
    read = spark.read.format("kafka").options(**options, subscribe=topic).load()
    assert read.count() == 2 * RECORDS
    _must_have(proxy.compare(), "Produce", "Fetch", "ListOffsets", "Metadata")


def test_a_changed_byte_would_be_noticed(proxy, topic):
    """The comparison fails where a fault has changed an answer."""
    from kafka import KafkaAdminClient

    def spoil(answer):
        answer.topics[0].partitions[0].leader_epoch += 1

    proxy.on("Metadata", topic=topic).edit(spoil)
    with KafkaAdminClient(bootstrap_servers=proxy.bootstrap_servers) as admin:
        admin.describe_topics([topic])
    with pytest.raises(StopIteration):
        proxy.compare()
