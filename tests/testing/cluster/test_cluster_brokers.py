"""Three brokers that are killed, stopped, paused and started again."""

from __future__ import annotations

import signal
from pathlib import Path

import pytest
from confluent_kafka import Consumer, Producer
from kafka import KafkaAdminClient

from kafkaguard.testing import ClusterError, KafkaCluster
from kafkaguard.testing.cluster.requests import knows_brokers, metadata, wait_for

pytestmark = [pytest.mark.xdist_group("three-brokers"), pytest.mark.java]
ALL = {0, 1, 2}


@pytest.fixture(scope="module")
def started_cluster():
    """Start three brokers that soon notice each other's end."""
    with KafkaCluster(3, settings={"broker.session.timeout.ms": 2000}) as cluster:
        yield cluster


@pytest.fixture
def cluster(started_cluster):
    """Hand over three running brokers, whatever the test before did to them."""
    for broker in started_cluster.brokers:
        if not broker.is_running:
            broker.start(wait=False)
        broker.resume()
    for broker in started_cluster.brokers:
        broker.wait_until_ready(ALL, 60)
    return started_cluster


def write(cluster, topic, count):
    """Write records to the only partition of a topic, to all of its replicas."""
    answers = []
    producer = Producer({"bootstrap.servers": cluster.bootstrap_servers, "acks": "all"})
    for number in range(count):
        producer.produce(
            topic, b"%d" % number, on_delivery=lambda error, _: answers.append(error)
        )
    producer.flush(30)
    assert answers == [None] * count


def read(cluster, topic, count):
    """Read that many records."""
    consumer = Consumer(
        {
            "bootstrap.servers": cluster.bootstrap_servers,
            "group.id": topic,
            "auto.offset.reset": "earliest",
        }
    )
    consumer.subscribe([topic])
    records = consumer.consume(count, timeout=30)
    consumer.close()
    return [int(record.value()) for record in records]


def partition(broker, topic):
    """Ask a broker what it knows of the only partition of a topic."""
    (known,) = metadata(broker.address, [topic]).topics
    return known.partitions[0]


def test_topics_are_on_all_brokers(cluster):
    """Three copies are the default, and all controllers are listed."""
    topic = cluster.create_topic()
    assert set(partition(cluster.broker(1), topic).replica_nodes) == ALL
    assert len(cluster.controller_bootstrap.split(",")) == len(ALL)


def test_data_survives_the_leaders_death(cluster):
    """What all replicas have is read from another broker."""
    topic = cluster.create_topic()
    write(cluster, topic, 100)
    leader = cluster.broker(partition(cluster.broker(0), topic).leader_id)
    leader.kill()
    assert not leader.is_running
    assert list(range(100)) == read(cluster, topic, 100)


def test_a_killed_broker_comes_back(cluster):
    """It starts on the same address and catches up with what it missed."""
    topic = cluster.create_topic()
    address, pid = cluster.broker(2).address, cluster.broker(2).pid
    cluster.broker(2).kill()
    write(cluster, topic, 10)
    cluster.broker(2).start()
    assert address == cluster.broker(2).address
    assert pid != cluster.broker(2).pid
    assert wait_for(lambda: in_sync(cluster, topic) == ALL, 30)


def test_a_stopped_broker_hands_over_first(cluster):
    """An orderly end leaves its log closed."""
    before = len(cluster.logs(1))
    cluster.broker(1).stop()
    assert "shut down completed" in cluster.logs(1)[before:]
    with pytest.raises(ClusterError, match="broker 1 is not running"):
        _ = cluster.broker(1).pid


def test_a_paused_broker_is_silent_until_it_goes_on(cluster):
    """Its port is open, nothing is answered, and the others forget it."""
    cluster.broker(0).pause()
    assert not knows_brokers(cluster.broker(0).address, {0})
    assert wait_for(lambda: 0 not in alive(cluster.broker(1)), 30)
    cluster.broker(0).resume()
    assert wait_for(lambda: alive(cluster.broker(1)) == ALL, 30)


def test_all_of_a_broker_has_stopped_when_pause_returns(cluster):
    """None of its threads answers one more request."""
    cluster.broker(0).pause()
    threads = Path(f"/proc/{cluster.broker(0).pid}/task").glob("*/stat")
    states = {each.read_text().rpartition(")")[2].split()[0] for each in threads}
    cluster.broker(0).resume()
    assert states == {"T"}


def test_a_paused_broker_can_be_stopped(cluster):
    """Stopping does not wait for one that cannot hear."""
    cluster.broker(0).pause()
    cluster.broker(0).stop()
    assert not cluster.broker(0).is_running


def test_topics_can_be_made_while_a_controller_is_dead(cluster):
    """Two of three controllers decide; the dead broker is not waited for."""
    with KafkaAdminClient(bootstrap_servers=cluster.bootstrap_servers) as admin:
        (quorum,) = admin.describe_metadata_quorum()["topics"]
    cluster.broker(quorum["partitions"][0]["leader_id"]).kill()
    topic = cluster.create_topic(partitions=2, replication_factor=2)
    write(cluster, topic, 10)


def test_a_broker_that_dies_by_itself_is_noticed(cluster):
    """Whoever asks sees it, and it can be started again."""
    broker = cluster.broker(2)
    broker._process.send_signal(signal.SIGKILL)
    assert wait_for(lambda: not broker.is_running, 10)
    broker.start()
    assert broker.is_serving


def alive(broker):
    """Ask a broker which brokers are alive."""
    return {each.node_id for each in metadata(broker.address).brokers}


def in_sync(cluster, topic):
    """Ask which brokers have all records of the topic's only partition."""
    return set(partition(cluster.broker(0), topic).isr_nodes)
