"""Consumers of tiered topics: not ready remote storage, and a restart under load."""

from __future__ import annotations

import time
from contextlib import closing, contextmanager

import pytest
from kafka import KafkaConsumer, KafkaProducer, TopicPartition

from kafkaguard import errors
from kafkaguard._consuming import events as ev
from kafkaguard.testing import FaultProxy, KafkaCluster
from tests.aiokafka.test_aiokafka_consumer import TestAiokafkaConsumer as Aiokafka
from tests.confluent.test_confluent_consumer import TestConfluentConsumer as Confluent
from tests.contracts.consumer import three, writing
from tests.kafka_python.test_kafka_python_consumer import (
    TestKafkaPythonConsumer as KafkaPython,
)

TIERED = {
    "remote.storage.enable": "true",
    "segment.bytes": 1048576,
    "local.retention.ms": 1000,
}
CLIENTS = pytest.mark.parametrize(
    "client",
    [KafkaPython(), Aiokafka(), Confluent()],
    ids=lambda each: each.client_name,
)
pytestmark = pytest.mark.java


@contextmanager
def tiered_cluster():
    """Start a broker with tiered storage that coordinates groups already.

    Only so are all clients alike from the first read: each asks a coordinator that is
    not ready in a way of its own.
    """
    with KafkaCluster(tiered=True) as cluster:
        topic = cluster.create_topic()
        with closing(
            KafkaConsumer(
                bootstrap_servers=cluster.bootstrap_servers, group_id="the-first"
            )
        ) as consumer:
            consumer.committed(TopicPartition(topic, 0), timeout_ms=60_000)
        yield cluster


@pytest.fixture(scope="module")
def tiered():
    """A broker with tiered storage."""
    with tiered_cluster() as cluster:
        yield cluster


def with_remote_segments(cluster):
    """Make a topic of three partitions whose first segments are remote only."""
    topic = cluster.create_topic(partitions=3, config=TIERED)
    with KafkaProducer(bootstrap_servers=cluster.bootstrap_servers) as producer:
        for number in range(3 * 300):
            producer.send(topic, b"x" * 8000, partition=number % 3)
        producer.flush(30)
    end = time.monotonic() + 60
    while len(list(cluster.remote_storage.rglob(f"*{topic}*/**/*.log"))) < 3:
        assert time.monotonic() < end, "no segment became remote"
        time.sleep(0.1)
    return topic


@CLIENTS
def test_a_tiered_partition_that_is_not_ready_waits_alone(tiered, client):
    """9 of a tiered topic is remote storage that is not ready (KIP-1007)."""
    topic = tiered.create_topic(partitions=3, config=TIERED)
    with FaultProxy(tiered) as proxy:
        waits = client.check_waits_alone(tiered, topic, proxy, 5.0)
    assert isinstance(waits.error, errors.RemoteStorageNotReadyError)


@CLIENTS
def test_a_restart_of_a_tiered_broker_loses_nothing_and_spins_nowhere(client):
    """Every record once, in order; few refused reads, and few events."""
    with tiered_cluster() as cluster:
        topic = with_remote_segments(cluster)
        with (
            FaultProxy(cluster) as proxy,
            client.open(proxy.bootstrap_servers, assign=three(topic)) as reader,
            writing(cluster, topic) as written,
        ):
            reader.read_until(lambda: len(reader.read) > 50, 60)
            cluster.broker(0).stop()
            cluster.broker(0).start()
            restarted = time.monotonic()
            reader.read_until(lambda: time.monotonic() - restarted > 8, 60)
            written.stop()
            count = {n: 300 + len(written[n]) for n in range(3)}
            reader.read_until(
                lambda: all(len(reader.values(n)) >= count[n] for n in range(3)), 60
            )
            for number in range(3):
                offsets = [at for part, at, _ in reader.read if part == number]
                assert list(range(count[number])) == offsets
                tail = reader.values(number)[300:]
                assert written[number] == tail
            refused = [each for each in proxy.requests("Fetch") if each.errors]
            assert len(refused) < 60
            assert len(reader.told(ev.PartitionWaitsEvent)) <= 12
