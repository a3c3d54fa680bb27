"""Each kind of fault, on the wire."""

from __future__ import annotations

import time

import pytest
from kafka.protocol.admin import DescribeLogDirsRequest, ListGroupsRequest
from kafka.protocol.consumer import HeartbeatRequest, OffsetFetchRequest
from kafka.protocol.metadata import MetadataRequest

from kafkaguard.testing import FaultSpecError
from tests.testing.proxy import raw_requests as raw
from tests.testing.proxy.raw_client import RawClient

SLOW_S = 0.2


@pytest.fixture
def client(kafka_faults):
    """Connect a client through the proxy."""
    with RawClient(kafka_faults.bootstrap_servers) as raw_client:
        yield raw_client


@pytest.fixture
def produce(client, kafka_topic):
    """Make the request that writes to the topic."""
    topic_id = client.topic_id(kafka_topic)
    return raw.produce(client.version(0), kafka_topic, topic_id)


def _end_offset(client, topic, partition=0):
    answer = client.ask(raw.list_offsets(7, topic, None))
    return answer.topics[0].partitions[partition].offset


def _code(answer):
    return answer.responses[0].partition_responses[0].error_code


def _write(topic, address):
    from kafka import KafkaProducer

    with KafkaProducer(bootstrap_servers=address) as producer:
        producer.send(topic, b"value").get(10)


def test_refused_instead_of_written(kafka_faults, client, kafka_topic):
    """By default the broker never sees what is refused."""
    kafka_faults.on("Produce", topic=kafka_topic).fail("INVALID_RECORD")
    client.ask(raw.produce(8, kafka_topic, None))
    assert _end_offset(client, kafka_topic) == 0


def test_refused_after_it_was_written(kafka_faults, kafka_topic, client):
    """With ``written`` the broker has the record, and the client an error."""
    fault = kafka_faults.on("Produce").fail("REQUEST_TIMED_OUT", times=3, written=True)
    with pytest.raises(Exception, match="RequestTimedOutError"):
        _write_once(kafka_topic, kafka_faults.bootstrap_servers)
    assert fault.fired == 1
    assert _end_offset(client, kafka_topic) == 1


def _write_once(topic, address):
    from kafka import KafkaProducer

    with KafkaProducer(
        bootstrap_servers=address, enable_idempotence=False, retries=0
    ) as producer:
        producer.send(topic, b"value").get(10)


@pytest.mark.kafka_topic(partitions=3)
def test_only_the_partition_that_is_meant(kafka_faults, client, kafka_topic):
    """The other partitions of a request reach the broker, and its answer the client."""
    kafka_faults.on("OffsetCommit", topic=kafka_topic, partition=1).fail(28)
    kafka_faults.on("OffsetCommit", topic=kafka_topic, partition=2).fail(12)
    raw.await_coordinator(client)
    request = raw.offset_commit(8, kafka_topic, None)
    only = request.topics[0].partitions[0]
    request.topics[0].partitions = [_at(only, index) for index in range(3)]
    answer = client.ask(request)
    found = {p.partition_index: p.error_code for p in answer.topics[0].partitions}
    assert found == {0: 0, 1: 28, 2: 12}
    group = raw.offset_fetch(8, kafka_topic, None)
    group.groups[0].topics[0].partition_indexes = [0, 1, 2]
    committed = client.ask(group).groups[0].topics[0].partitions
    assert {p.partition_index: p.committed_offset for p in committed} == {
        0: 1,
        1: -1,
        2: -1,
    }


def _at(partition, index):
    return type(partition)(
        version=partition.version,
        partition_index=index,
        committed_offset=1,
        committed_metadata="",
    )


def test_times_nth_and_skip(kafka_faults, client):
    """Faults count the requests that they meet."""
    kafka_faults.on("FindCoordinator", nth=2).fail(14)
    kafka_faults.on("FindCoordinator", skip=3).fail(16, times=2)
    request = raw.find_coordinator(4, None, None)
    codes = [client.ask(request).coordinators[0].error_code for _ in range(7)]
    assert [
        code if code in {14, 16} and index else False
        for index, code in enumerate(codes)
    ] == [False, 14, False, 16, 16, False, False]


def test_a_share_of_the_requests_is_repeatable(kafka_faults, client):
    """The same seed chooses the same requests."""
    request = HeartbeatRequest(version=4, group_id="g", generation_id=1, member_id="m")
    runs = []
    for _ in range(2):
        with kafka_faults.on("Heartbeat", rate=0.3, seed=5).fail(27):
            runs.append([client.ask(request).error_code == 27 for _ in range(100)])
    assert runs[0] == runs[1]
    assert 15 <= sum(runs[0]) <= 45


def test_predicate_client_and_broker(kafka_faults, client):
    """A fault can be meant for one client, one broker, or what a predicate says."""
    request = HeartbeatRequest(version=4, group_id="g", generation_id=1, member_id="m")
    client.ask(MetadataRequest(version=12, topics=[]))
    kafka_faults.on("Heartbeat", client_id="other-*").fail(1)
    kafka_faults.on("Heartbeat", broker=7).fail(2)
    kafka_faults.on("Heartbeat", where=lambda r: r.body.group_id == "h").fail(3)
    kafka_faults.on("Heartbeat", where=lambda r: r.body.nothing).fail(4)
    kafka_faults.on(["Heartbeat", "Fetch"], client_id="r?w", broker=0).fail(27)
    assert client.ask(request).error_code == 27


def test_several_faults_meet_one_request(kafka_faults, client):
    """Delays and throttling add up; of the others the first decides."""
    kafka_faults.on("Heartbeat").delay(SLOW_S)
    kafka_faults.on("Heartbeat").throttle(1.5)
    kafka_faults.on("Heartbeat").fail("REBALANCE_IN_PROGRESS", times=1)
    kafka_faults.on("Heartbeat").fail("UNKNOWN_MEMBER_ID")
    request = HeartbeatRequest(version=4, group_id="g", generation_id=1, member_id="m")
    start = time.monotonic()
    answers = [client.ask(request) for _ in range(2)]
    assert time.monotonic() - start >= 2 * SLOW_S
    assert [answer.error_code for answer in answers] == [27, 25]
    assert [answer.throttle_time_ms for answer in answers] == [1500, 1500]


def test_a_request_can_be_held_back(kafka_faults, client, kafka_topic):
    """With ``before`` the broker gets the request late."""
    kafka_faults.on("ListOffsets").delay(SLOW_S, before=True)
    start = time.monotonic()
    assert _end_offset(client, kafka_topic) == 0
    assert time.monotonic() - start >= SLOW_S


def test_an_answer_can_be_lost(kafka_faults, client, produce, kafka_topic):
    """The broker did the work, the client hears nothing, the connection stays open."""
    kafka_faults.on("Produce").edit(lambda answer: None)
    kafka_faults.on("Produce").drop()
    client._socket.settimeout(SLOW_S)
    client.send(raw.produce(8, kafka_topic, None))
    with pytest.raises(TimeoutError):
        client.receive_bytes()
    assert kafka_faults.requests("Produce")[0].outcome == "dropped"
    client.send(HeartbeatRequest(version=4, group_id="g"))
    with pytest.raises(TimeoutError):
        client.receive_bytes()


@pytest.mark.parametrize("written", [False, True], ids=["before", "after"])
@pytest.mark.parametrize("how", ["close", "reset"])
def test_a_connection_breaks(how, written, kafka_faults, kafka_topic, kafka_cluster):
    """It is closed or reset before the broker got the request, or after it answered."""
    getattr(kafka_faults.on("Produce"), how)(written=written)
    with RawClient(kafka_faults.bootstrap_servers) as client:
        client.send(raw.produce(8, kafka_topic, None))
        if how == "reset":
            with pytest.raises(ConnectionResetError):
                client.receive_bytes()
        else:
            assert client.receive_bytes() == b""
    closure = _last_closure(kafka_faults)
    assert f"a fault: {how} {'after' if written else 'before'}" in closure.reason
    with RawClient(kafka_cluster.bootstrap_servers) as direct:
        assert int(written) == _end_offset(direct, kafka_topic)


def _last_closure(proxy, seconds=5):
    deadline = time.monotonic() + seconds
    while not proxy.closures and time.monotonic() < deadline:
        with proxy.journal.changed:
            proxy.journal.changed.wait(0.1)
    return proxy.closures[-1]


def test_an_answer_is_cut_off(kafka_faults, client):
    """Some bytes of the answer arrive, then the end of the stream."""
    kafka_faults.on("ListGroups").cut(keep=6)
    client.send(ListGroupsRequest(version=2))
    assert len(client._socket.recv(100)) == 6
    assert client._socket.recv(100) == b""


def test_an_answer_is_garbled(kafka_faults, client, kafka_topic):
    """The length and the number are right, the rest is noise, the same for a seed."""
    request = raw.list_offsets(7, kafka_topic, None)
    client.send(request)
    good = client.receive_bytes()
    noise = []
    for _ in range(2):
        with kafka_faults.on("ListOffsets", seed=3).garble():
            client.send(request)
            noise.append(client.receive_bytes())
    assert len(good) == len(noise[0]) == len(noise[1])
    assert noise[0][4:] == noise[1][4:] != good[4:]


def test_an_empty_answer(kafka_faults, client, kafka_topic):
    """Below DescribeLogDirs v3 this is how a broker says "not authorized"."""
    request = DescribeLogDirsRequest(version=2, topics=None)
    assert len(client.ask(request).results) == 1
    kafka_faults.on("DescribeLogDirs").empty()
    assert client.ask(request).results == []
    with kafka_faults.on("Metadata").empty():
        answer = client.ask(raw.list_metadata(12, kafka_topic, None))
        assert answer.topics == []
        assert len(answer.brokers) == 1


def test_an_answer_can_be_edited(kafka_faults, client, kafka_topic):
    """A function of one's own changes what no word of the language does."""

    def raise_offset(answer):
        answer.topics[0].partitions[0].offset = 41

    kafka_faults.on("ListOffsets").edit(raise_offset)
    assert _end_offset(client, kafka_topic) == 41


def test_versions_are_capped_and_hidden(kafka_faults, client):
    """An older broker, or one without an API, as ApiVersions shows it."""
    with kafka_faults.on("DescribeLogDirs").cap(2):
        assert client.offers(35) == (1, 2)
    with kafka_faults.on("DescribeLogDirs").hide():
        assert client.offers(35) is None
    assert client.offers(35) == (1, 5)


def test_a_request_beyond_the_offer_ends_its_connection(kafka_faults, client):
    """As at a broker that does not know the version."""
    kafka_faults.on("DescribeLogDirs").cap(2)
    assert len(client.ask(DescribeLogDirsRequest(version=2)).results) == 1
    client.send(DescribeLogDirsRequest(version=3))
    assert client.receive_bytes() == b""
    assert "offer versions 0 to 2" in _last_closure(kafka_faults).reason


def test_a_write_without_acks_is_never_answered(kafka_faults, client, kafka_topic):
    """Nothing is sent back for it, also when it is refused: the connection ends."""
    request = raw.produce(8, kafka_topic, None)
    request.acks = 0
    client.send(request)
    assert _poll(lambda: _end_offset(client, kafka_topic), 1) == 1
    assert kafka_faults.requests("Produce")[0].outcome == "no answer wanted"
    kafka_faults.on("Produce").fail("INVALID_RECORD")
    client.send(request)
    assert client.receive_bytes() == b""
    assert "acks=0" in _last_closure(kafka_faults).reason


def _poll(function, wanted, seconds=10):
    deadline = time.monotonic() + seconds
    while (found := function()) != wanted and time.monotonic() < deadline:
        pass
    return found


@pytest.mark.kafka_topic(partitions=2)
def test_a_session_of_fetch_is_followed(kafka_faults, client, kafka_topic):
    """A later Fetch names no partition, and is met all the same."""
    opening = raw.fetch(12, kafka_topic, None, (0, 1), session=(0, 0))
    first = client.ask(opening)
    assert first.session_id
    later = raw.fetch(12, kafka_topic, None, (), (first.session_id, 1), 100)
    kafka_faults.on("Fetch", topic=kafka_topic, partition=1).fail("KAFKA_STORAGE_ERROR")
    answer = client.ask(later)
    codes = {
        p.partition_index: p.error_code
        for topic in answer.responses
        for p in topic.partitions
    }
    assert codes[1] == 56
    assert codes.get(0) != 56
    exchange = kafka_faults.requests("Fetch")[-1]
    assert ((kafka_topic, 0), (kafka_topic, 1)) == exchange.partitions


def test_all_topics_of_metadata_are_met(kafka_faults, client, kafka_topic):
    """A request for all topics is met by a fault for one of them."""
    kafka_faults.on("Metadata", topic=kafka_topic).fail("LEADER_NOT_AVAILABLE")
    answer = client.ask(MetadataRequest(version=12, topics=None))
    assert {5} == {t.error_code for t in answer.topics if t.name == kafka_topic}
    assert {0} >= {t.error_code for t in answer.topics if t.name != kafka_topic}


def test_an_error_of_a_partition_in_metadata(kafka_faults, client, kafka_topic):
    """There it is a remark: the leader stays where it is."""
    kafka_faults.on("Metadata").fail("REPLICA_NOT_AVAILABLE", at="partition")
    partition = (
        client.ask(raw.list_metadata(12, kafka_topic, None)).topics[0].partitions[0]
    )
    assert (partition.error_code, partition.leader_id) == (9, 0)


def test_a_group_without_named_topics(kafka_faults, client):
    """A request for all offsets of a group is refused at the group."""
    kafka_faults.on("OffsetFetch").fail("NOT_COORDINATOR")
    group = OffsetFetchRequest.OffsetFetchRequestGroup(
        version=8, group_id="g", topics=None
    )
    answer = client.ask(OffsetFetchRequest(version=8, groups=[group]))
    assert answer.groups[0].error_code == 16


def test_pausing_is_a_kill_switch(kafka_faults, client):
    """While paused, nothing happens; afterwards the faults are there again."""
    kafka_faults.on("Heartbeat").fail(27)
    request = HeartbeatRequest(version=4, group_id="g", generation_id=1, member_id="m")
    assert client.ask(request).error_code == 27
    kafka_faults.paused = True
    assert client.ask(request).error_code != 27
    kafka_faults.paused = False
    assert client.ask(request).error_code == 27
    kafka_faults.clear()
    assert client.ask(request).error_code != 27


@pytest.mark.parametrize(
    ("wrong", "hint"),
    [
        (lambda on: on("Produse").close(), "'Produce'"),
        (lambda on: on("Produce").fail("NOT_LEADER"), "'NOT_LEADER_OR_FOLLOWER'"),
        (lambda on: on("produce").fail(1), "'Produce'"),
        (lambda on: on("Produce").fail(99_999), "16 bits"),
        (lambda on: on("Produce").fail(1, at="partitions"), "'partition'"),
        (lambda on: on("Heartbeat").fail(1, at="topic"), "did you mean 'top'"),
        (lambda on: on("ShareFetch").fail(1), "delayed, dropped or cut off"),
        (lambda on: on().hide(), "name it"),
        (lambda on: on("Fetch", rate=1.5), "(0, 1]"),
        (lambda on: on("Fetch", nth=0), "nth takes a whole number of 1 or more"),
        (
            lambda on: on("Fetch").close(times=0),
            "times takes a whole number of 1 or more",
        ),
        (lambda on: on("Fetch").delay(-1), "from 0 on"),
    ],
)
def test_a_wrong_word_is_answered_with_the_right_one(wrong, hint, kafka_faults):
    """One clear message, with the nearest right name."""
    with pytest.raises(FaultSpecError) as caught:
        wrong(kafka_faults.on)
    assert hint in str(caught.value)
    assert kafka_faults.faults == ()


def test_an_edit_that_fails_is_logged(kafka_faults, client, kafka_topic, caplog):
    """The answer goes on as it is."""
    kafka_faults.on("ListOffsets").edit(lambda answer: answer.no_such_field)
    assert _end_offset(client, kafka_topic) == 0
    assert "the function of an edit raised" in caplog.text
