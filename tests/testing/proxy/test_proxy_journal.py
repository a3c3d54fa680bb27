"""The record of what happened: to count, to assert and to read."""

from __future__ import annotations

import re

import pytest
from kafka.protocol.consumer import HeartbeatRequest

from kafkaguard.testing import AnsweredError, FaultProxy, FaultSpecError
from tests.testing.proxy import raw_requests as raw
from tests.testing.proxy.raw_client import RawClient

HEARTBEAT = HeartbeatRequest(version=4, group_id="g", generation_id=1, member_id="m")


@pytest.fixture
def client(kafka_faults):
    """Connect through the proxy."""
    with RawClient(kafka_faults.bootstrap_servers, "me") as connected:
        yield connected


def test_an_exchange_says_everything(kafka_faults, client, kafka_topic):
    """API, version, time, client, broker, partitions, codes, sizes."""
    topic_id = client.topic_id(kafka_topic)
    fault = kafka_faults.on("Produce").fail("INVALID_RECORD")
    client.ask(raw.produce(13, kafka_topic, topic_id))
    exchange = kafka_faults.requests("Produce")[0]
    assert fault.fired == 1
    assert (
        exchange.api,
        exchange.version,
        exchange.client_id,
        exchange.broker,
    ) == ("Produce", 13, "me", 0)
    assert ((kafka_topic, 0),) == exchange.partitions
    assert (AnsweredError(87, kafka_topic, 0),) == exchange.errors
    assert exchange.codes == (87,)
    assert exchange.outcome == "answered"
    assert exchange.faults == ("fail with INVALID_RECORD(87)",)
    assert 0 < exchange.took < 10
    assert 0 < exchange.answer_size < exchange.size


def test_the_conversation_can_be_read(kafka_faults, client, kafka_topic):
    """One line for each exchange and for each end of a connection."""
    kafka_faults.on("ListOffsets").fail("NOT_LEADER_OR_FOLLOWER", written=True)
    client.topic_id(kafka_topic)
    client.ask(raw.list_offsets(7, kafka_topic, None))
    client._socket.close()
    kafka_faults.journal.changed.acquire()
    kafka_faults.journal.changed.wait_for(lambda: kafka_faults.closures, 10)
    kafka_faults.journal.changed.release()
    lines = str(kafka_faults.journal).splitlines()
    assert re.search(
        rf"#1 broker \? me: Metadata v12 \[{kafka_topic}\] -> answered in [\d.]+ ms$",
        lines[0],
    )
    assert re.search(
        rf"ListOffsets v7 \[{kafka_topic}-0\] -> NOT_LEADER_OR_FOLLOWER\(6\) "
        rf"{kafka_topic}-0 in [\d.]+ ms \(fail with NOT_LEADER_OR_FOLLOWER\(6\) after",
        lines[1],
    )
    assert lines[2].endswith("#1 broker 0 ends: the client closed it")


@pytest.mark.kafka_topic(partitions=9)
def test_many_partitions_are_shortened(kafka_faults, client, kafka_topic):
    """A line names four partitions and counts the rest."""
    client.ask(raw.fetch(12, kafka_topic, None, range(9)))
    assert f"{kafka_topic}-3, and 5 more]" in str(kafka_faults.requests("Fetch")[0])


def test_requests_are_chosen(kafka_faults, client, kafka_topic):
    """API, topic, client and broker can be given."""
    client.topic_id(kafka_topic)
    client.ask(HEARTBEAT)
    assert [e.api for e in kafka_faults.requests()] == ["Metadata", "Heartbeat"]
    assert len(kafka_faults.requests(topic=kafka_topic)) == 1
    assert len(kafka_faults.requests(client_id="you")) == 0
    assert len(kafka_faults.requests("Heartbeat", client_id="me", broker=0)) == 1
    with pytest.raises(FaultSpecError, match="did you mean 'Heartbeat'"):
        kafka_faults.requests("Heartbeats")


def test_waiting_for_requests(kafka_faults, client):
    """A wait ends with the requests, or with the conversation in its error."""
    client.ask(HEARTBEAT)
    assert len(kafka_faults.wait_for("Heartbeat", timeout=5)) == 1
    with pytest.raises(TimeoutError, match="1 of 2 Heartbeat requests"):
        kafka_faults.wait_for("Heartbeat", count=2, timeout=0.05)


def test_the_journal_is_bounded_and_counts_on(kafka_cluster):
    """The newest are kept, all are counted, and it can be cleared."""
    with (
        FaultProxy(kafka_cluster, journal_size=3) as proxy,
        RawClient(proxy.bootstrap_servers) as client,
    ):
        proxy.on("Heartbeat").fail(27, times=4)
        for _ in range(5):
            client.ask(HEARTBEAT)
        assert [e.number for e in proxy.requests()] == [3, 4, 5]
        assert proxy.journal.counts().requests["Heartbeat"] == 5
        assert proxy.journal.counts().errors["Heartbeat", 27] == 4
        proxy.journal.clear()
        assert str(proxy.journal) == ""
        assert proxy.journal.counts().requests["Heartbeat"] == 0


def test_a_code_without_a_name(kafka_faults, client):
    """A number from the future is kept and shown."""
    kafka_faults.on("Heartbeat").fail(999)
    assert client.ask(HEARTBEAT).error_code == 999
    assert "(999)" in str(kafka_faults.requests()[0])
