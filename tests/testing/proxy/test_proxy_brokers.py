"""Several brokers behind one proxy: no client gets round it, and any can be taken away."""

from __future__ import annotations

import contextlib
import gc
import socket
import time

import pytest
from kafka.protocol.admin import DescribeClusterRequest
from kafka.protocol.metadata import FindCoordinatorRequest, MetadataRequest

from kafkaguard.testing import FaultProxy, KafkaCluster, ProxyError
from tests.testing.proxy import raw_requests as raw
from tests.testing.proxy.raw_client import RawClient

pytestmark = [pytest.mark.java, pytest.mark.xdist_group("proxy-brokers")]


@pytest.fixture(scope="module")
def cluster():
    """Start three brokers."""
    with KafkaCluster(brokers=3) as running:
        yield running


@pytest.fixture
def proxy(cluster):
    """Start a proxy that knows one of them."""
    with FaultProxy(cluster.bootstrap_servers.split(",")[0]) as running:
        yield running


@pytest.fixture
def client(proxy):
    """Connect through the proxy; its brokers are known then."""
    with RawClient(proxy.bootstrap_servers) as connected:
        connected.ask(MetadataRequest(version=12, topics=[]))
        yield connected


def _address(endpoint):
    return f"{endpoint.host}:{endpoint.port}"


def test_every_broker_gets_a_door(proxy, client):
    """Metadata and DescribeCluster name the proxy, with the ids of the brokers."""
    assert {0, 1, 2} == set(proxy.brokers)
    answer = client.ask(MetadataRequest(version=12, topics=[]))
    assert proxy.brokers == {b.node_id: _address(b) for b in answer.brokers}
    answer = client.ask(DescribeClusterRequest(version=1))
    assert proxy.brokers == {b.broker_id: _address(b) for b in answer.brokers}


@pytest.mark.parametrize("version", [2, 4])
def test_coordinators_are_behind_the_proxy(version, proxy, client):
    """FindCoordinator in its old form and in its new one."""
    raw.await_coordinator_known(client)
    request = FindCoordinatorRequest(
        version=version, key=raw.GROUP, coordinator_keys=[raw.GROUP]
    )
    answer = client.ask(request)
    found = answer.coordinators[0] if version >= 4 else answer
    assert proxy.brokers[found.node_id] == _address(found)


@pytest.mark.parametrize("api", ["produce", "fetch"])
def test_new_leaders_are_behind_the_proxy(api, proxy, client, cluster):
    """KIP-951: an answer of the wrong broker names the right one's address."""
    topic = cluster.create_topic(replication_factor=1)
    topic_id = client.topic_id(topic)
    metadata = client.ask(raw.list_metadata(12, topic, None))
    leader = metadata.topics[0].partitions[0].leader_id
    other = next(broker for broker in proxy.brokers if broker != leader)
    with RawClient(proxy.brokers[other]) as stray:
        version = stray.version(0 if api == "produce" else 1)
        answer = stray.ask(getattr(raw, api)(version, topic, topic_id))
    assert [proxy.brokers[leader]] == [_address(e) for e in answer.node_endpoints]


def test_another_name_is_advertised(cluster):
    """Clients are told a name of the machine that the proxy runs on."""
    with (
        FaultProxy(cluster, advertised_host="localhost") as proxy,
        RawClient(proxy.bootstrap_servers) as client,
    ):
        brokers = client.ask(MetadataRequest(version=12, topics=[])).brokers
        assert {broker.host for broker in brokers} == {"localhost"}
        assert proxy.bootstrap_servers.count("localhost:") == 3


def test_requests_are_counted_by_broker(proxy, client):
    """The journal knows which broker was asked, and so do faults."""
    proxy.on("DescribeCluster", broker=2).fail("BROKER_NOT_AVAILABLE")
    codes = {}
    for broker, address in proxy.brokers.items():
        with RawClient(address) as asker:
            answer = asker.ask(DescribeClusterRequest(version=0))
            codes[broker] = answer.error_code
    assert codes == {0: 0, 1: 0, 2: 8}
    assert len(proxy.requests("DescribeCluster", broker=1)) == 1


def _refused(address):
    host, port = address.split(":")
    try:
        socket.create_connection((host, int(port)), timeout=5).close()
    except ConnectionRefusedError:
        return True
    return False


def test_a_broker_is_taken_away_and_brought_back(proxy, client):
    """Its connections end, new ones are refused; later it is at the same address."""
    address = proxy.brokers[1]
    with RawClient(address) as connected:
        connected.ask(MetadataRequest(version=12, topics=[]))
        with proxy.without(1):
            assert connected.receive_bytes() == b""
            assert _refused(address)
            assert not _refused(proxy.brokers[2])
    assert not _refused(address)
    assert "the broker was taken away" in {c.reason for c in proxy.closures}


def test_a_fault_takes_a_broker_away_for_a_while(proxy, client):
    """The request that met the fault is lost with it."""
    proxy.on("DescribeCluster", broker=1).down(0.3)
    address = proxy.brokers[1]
    with RawClient(address) as connected:
        connected.send(DescribeClusterRequest(version=0))
        assert connected.receive_bytes() == b""
    assert _refused(address)
    deadline = time.monotonic() + 10
    while _refused(address):
        assert time.monotonic() < deadline
    assert proxy.requests("DescribeCluster", broker=2) == []


def test_clearing_brings_brokers_back(proxy, client):
    """After clear() everything is as it was."""
    proxy.take_away(0)
    proxy.clear()
    assert not _refused(proxy.brokers[0])


def test_a_client_finds_its_way(proxy, cluster):
    """A real client produces to all brokers, and every byte goes through the proxy."""
    from confluent_kafka import Producer

    topic = cluster.create_topic(partitions=6)
    producer = Producer({"bootstrap.servers": proxy.bootstrap_servers})
    for partition in range(6):
        producer.produce(topic, b"value", partition=partition)
    assert producer.flush(20) == 0
    assert {0, 1, 2} == {r.broker for r in proxy.requests("Produce", topic=topic)}


def test_an_unknown_broker(proxy):
    """The error tells which brokers are known, and since when."""
    with pytest.raises(ProxyError, match="broker 9 is not known yet"):
        proxy.take_away(9)


@pytest.mark.parametrize("upstream", ["", "localhost", "localhost:http", []])
def test_an_upstream_that_is_none(upstream):
    """What is not host:port is refused at once."""
    with pytest.raises(ProxyError, match="upstream"):
        FaultProxy(upstream)


def test_start_and_stop(kafka_cluster):
    """Twice started is an error, twice stopped is not; a taken port is named."""
    proxy = FaultProxy(kafka_cluster)
    with pytest.raises(ProxyError, match="does not run"):
        proxy.bootstrap_servers  # noqa: B018 - reading it is the test
    with proxy:
        with pytest.raises(ProxyError, match="is already running"):
            proxy.start()
        port = int(proxy.bootstrap_servers.split(":")[1])
        with pytest.raises(ProxyError, match=f"cannot listen.*{port}"):
            FaultProxy(kafka_cluster, port=port).start()
    proxy.stop()
    assert _refused(f"127.0.0.1:{port}")
    with proxy, RawClient(proxy.bootstrap_servers) as client:
        assert proxy.bootstrap_servers == f"127.0.0.1:{port}"
        assert client.ask(MetadataRequest(version=12, topics=[])).brokers


def test_stopping_ends_what_is_going_on(kafka_cluster, kafka_topic):
    """A delayed answer does not delay the end."""
    proxy = FaultProxy(kafka_cluster).start()
    proxy.on("ListOffsets").delay(60)
    with RawClient(proxy.bootstrap_servers) as client:
        client.send(raw.list_offsets(7, kafka_topic, None))
        proxy.wait_for("ListOffsets")
        start = time.monotonic()
        proxy.stop()
        assert time.monotonic() - start < 30
        assert client.receive_bytes() == b""
    assert [c.reason for c in proxy.closures] == ["the proxy stopped"]


@pytest.mark.parametrize("mechanism", ["PLAIN", "SCRAM-SHA-256"])
def test_sasl_passes(mechanism, kafka_users):
    """Logging in works through the proxy, and after it faults are met."""
    from kafka import KafkaProducer

    name = "SASL_PLAIN" if mechanism == "PLAIN" else "SASL_SCRAM"
    listener = kafka_users.listener(name)
    topic = kafka_users.create_topic()
    settings = kafka_users.client_config(name, user="alice")
    with FaultProxy(listener) as proxy:
        settings["bootstrap_servers"] = proxy.bootstrap_servers
        fault = proxy.on("Produce").fail("NOT_LEADER_OR_FOLLOWER", times=1)
        with KafkaProducer(**settings) as producer:
            producer.send(topic, b"value").get(20)
    assert fault.fired == 1
    assert proxy.requests("SaslAuthenticate")


def test_stopping_at_once_leaves_no_socket_behind(kafka_cluster):
    """Clients that have just come are turned away, whatever was done for them so far."""
    for _ in range(20):
        proxy = FaultProxy(kafka_cluster).start()
        host, port = proxy.bootstrap_servers.split(":")
        clients = [socket.create_connection((host, int(port)), 5) for _ in range(5)]
        proxy.stop()
        for client in clients:
            with client, contextlib.suppress(ConnectionResetError):
                assert client.recv(1) == b""
    gc.collect()
