"""Lag and offsets while brokers refuse, move or are old; requests are counted."""

from __future__ import annotations

import asyncio
import struct
import time
from collections import Counter
from contextlib import suppress

import pytest
from kafka import KafkaProducer

from kafkaguard import errors
from kafkaguard._cluster.lag import LagReason
from kafkaguard._cluster.reports import make
from kafkaguard.testing import FaultProxy, KafkaCluster
from kafkaguard_adapters.asking import retrying
from kafkaguard_adapters.wire.connection import Connection
from kafkaguard_adapters.wire.settings import Settings
from tests.asking.cluster_clients import admin_of, commit


@pytest.fixture
def admin(kafka_faults):
    """A guarded admin behind the proxy."""
    config = {"bootstrap_servers": kafka_faults.bootstrap_servers}
    with admin_of("kafka-python", config) as guarded:
        yield guarded


@pytest.fixture
def topic(kafka_cluster):
    """A topic with two partitions, of which a group of its name has read half."""
    name = kafka_cluster.create_topic(partitions=2)
    bootstrap = kafka_cluster.bootstrap_servers
    with KafkaProducer(bootstrap_servers=bootstrap) as producer:
        for partition in (0, 1):
            for _ in range(4):
                producer.send(name, b"x", partition=partition)
    commit(bootstrap, name, {(name, 0): 2, (name, 1): 2})
    return name


def asked(proxy, api="ListOffsets"):
    """List the partitions that each request named."""
    return [sorted(p for _, p in each.partitions) for each in proxy.requests(api)]


def test_replica_away_refreshes_metadata_once_per_attempt(kafka_faults, admin, topic):
    """9 on ListOffsets of a plain topic: refresh, then the same partition again."""
    kafka_faults.on("ListOffsets", topic=topic, partition=0).fail(9, times=1)
    found = admin.end_offsets([(topic, 0), (topic, 1)])
    assert {(topic, 0): 4, (topic, 1): 4} == found.offsets
    assert asked(kafka_faults) == [[0, 1], [0]]
    named = kafka_faults.requests("Metadata", topic=topic)
    ours = [each for each in named if each.client_id == named[-1].client_id]
    assert len(ours) == 2


def test_look_up_by_time_goes_on_for_the_slow_partition_only(
    kafka_faults, admin, topic
):
    """7 twice for one partition; the other is asked once."""
    kafka_faults.on("ListOffsets", topic=topic, partition=0).fail(7, times=2)
    found = admin.offsets_for_times({(topic, 0): 0, (topic, 1): 0})
    assert {(topic, 0): 0, (topic, 1): 0} == found.offsets
    assert asked(kafka_faults) == [[0, 1], [0], [0]]


def test_answer_for_followers_is_not_repeated(kafka_faults, admin, topic):
    """109 has its name, says what does not fit, and is asked once."""
    kafka_faults.on("ListOffsets", topic=topic).fail(109)
    found = admin.end_offsets([(topic, 0)])
    (error,) = found.errors
    assert error.name == "OFFSET_MOVED_TO_TIERED_STORAGE"
    assert error.verdict.action == "CONFIGURE"
    assert asked(kafka_faults) == [[0]]


def test_requests_do_not_grow_with_partitions_and_groups(kafka_cluster):
    """200 partitions, 3 groups, one broker: four requests, and three for a lag."""
    name = kafka_cluster.create_topic(partitions=200)
    groups = [f"{name}-{n}" for n in range(3)]
    for group in groups:
        offsets = {(name, p): 0 for p in range(200)}
        commit(kafka_cluster.bootstrap_servers, group, offsets)
    with FaultProxy(kafka_cluster) as proxy:
        config = {"bootstrap_servers": proxy.bootstrap_servers}
        with admin_of("kafka-python", config) as admin:
            admin.lag(groups)  # the connection is up, and the topic settled
            proxy.journal.clear()
            report = admin.lag(groups)
            counts = Counter(each.api for each in proxy.requests())
            proxy.journal.clear()
            admin.lag(groups, columns=["log_start", "last_stable"])
            more = Counter(each.api for each in proxy.requests())
            with KafkaProducer(
                bootstrap_servers=kafka_cluster.bootstrap_servers
            ) as producer:
                producer.send(name, b"x")
            proxy.journal.clear()
            admin.lag(groups)
            behind = Counter(each.api for each in proxy.requests())
    assert report.complete
    assert sum(len(group.partitions) for group in report.groups.values()) == 600
    expected = {"FindCoordinator": 1, "OffsetFetch": 1, "Metadata": 1, "ListOffsets": 1}
    assert expected == counts
    assert {**expected, "Fetch": 1} == more
    described = {"ConsumerGroupDescribe": 1, "DescribeGroups": 1}
    assert {**expected, "ListOffsets": 2, **described} == behind


@pytest.mark.parametrize("code", [5, 6, 74, 75, 78])
def test_after_an_election_only_the_partition_concerned_is_asked_again(
    kafka_faults, admin, topic, code
):
    """Both numbers come, and the second request has one partition.

    The last one is for the starts, since the group is behind.
    """
    kafka_faults.on("ListOffsets", topic=topic, partition=0).fail(code, times=1)
    report = admin.lag(topic)
    assert report.complete
    assert report.groups[topic].total == 4
    assert asked(kafka_faults) == [[0, 1], [0], [0, 1]]


def test_unstable_commits_are_waited_for_only_when_asked(kafka_faults, admin, topic):
    """By default the flag is off; stable: for half of the time, then told as such."""
    flags = []

    def unstable(request):
        flags.append(request.body.require_stable)
        return request.body.require_stable

    kafka_faults.on("OffsetFetch", where=unstable).fail(88, at="partition")
    assert admin.lag(topic).complete
    assert flags == [False]
    started = time.monotonic()
    report = admin.lag(topic, stable=True, timeout=3)
    assert 0.5 < time.monotonic() - started < 15
    assert flags.count(True) > 1
    for each in report.groups[topic].partitions.values():
        assert each.reason == LagReason.ERROR
        assert isinstance(each.error, errors.UnstableOffsetCommitError)


def test_refused_api_versions_are_asked_once_more_in_version_0(
    kafka_faults, admin, topic
):
    """One repetition, then all is as ever; nothing is guessed from a broker's version."""
    kafka_faults.on("ApiVersions").fail(35, times=1)
    before = len(kafka_faults.requests("ApiVersions"))
    assert admin.lag(topic).complete
    ours = [r.version for r in kafka_faults.requests("ApiVersions")][before:]
    assert ours == [4, 0]


async def test_answer_of_an_old_broker_has_the_layout_of_version_0():
    """As Kafka itself answers: 35, and what it has of ApiVersions."""
    versions, ended = [], asyncio.Event()

    async def old_broker(reader, writer):
        for answer in (
            struct.pack(">hihhh", 35, 1, 18, 0, 2),
            struct.pack(">hi", 0, 0),
        ):
            size = int.from_bytes(await reader.readexactly(4), "big")
            _, version, number = struct.unpack(">hhi", await reader.readexactly(8))
            await reader.readexactly(size - 8)
            versions.append(version)
            writer.write(struct.pack(">ii", len(answer) + 4, number) + answer)
        with suppress(ConnectionError):
            await reader.read()
        writer.close()
        ended.set()

    server = await asyncio.start_server(old_broker, "127.0.0.1")
    address = server.sockets[0].getsockname()
    connection = await Connection.connect(address, Settings((address,)), make, None)
    await connection.enter()
    assert versions == [4, 0]
    connection.close()
    await ended.wait()
    server.close()
    await server.wait_closed()


@pytest.mark.parametrize("api", ["FindCoordinator", "OffsetFetch"])
def test_brokers_that_take_one_group_a_request(kafka_faults, admin, topic, api):
    """The lag is the same with the versions before many groups went into one."""
    kafka_faults.on(api).cap(3 if api == "FindCoordinator" else 7)
    report = admin.lag([topic, "no-such-group"])
    assert report.groups[topic].total == 4
    assert report.groups["no-such-group"].partitions == {}


def test_coordinator_that_loads_or_moves_is_asked_again(kafka_faults, admin, topic):
    """14, 15 and 16 pass by themselves."""
    kafka_faults.on("FindCoordinator").fail(15, times=1)
    kafka_faults.on("OffsetFetch").fail(14, at="group", times=1)
    kafka_faults.on("OffsetFetch", skip=1).fail(16, at="group", times=1)
    assert admin.lag(topic).groups[topic].total == 4


REFUSALS = [
    (api, code)
    for api in ("OffsetFetch", "FindCoordinator")
    for code in (
        "COORDINATOR_LOAD_IN_PROGRESS",
        "COORDINATOR_NOT_AVAILABLE",
        "GROUP_AUTHORIZATION_FAILED",
        "UNKNOWN_SERVER_ERROR",
    )
]


@pytest.mark.parametrize(("api", "code"), REFUSALS)
def test_group_that_is_listed_and_refused_is_told(
    kafka_faults, admin, topic, api, code
):
    """No group drops out of a report on all groups because its commits are refused."""
    kafka_faults.on(api).fail(code)
    report = admin.lag(timeout=1.5)
    assert report.groups[topic].error.name == code
    assert not report.complete


@pytest.mark.parametrize("api", ["OffsetFetch", "FindCoordinator"])
@pytest.mark.parametrize("fault", ["drop", "close", "garble"])
def test_group_that_is_listed_and_not_answered_for_is_told(
    kafka_faults, admin, topic, api, fault
):
    """Silence, a closed connection and noise are errors of the group, too."""
    getattr(kafka_faults.on(api, rate=1.0, seed=7), fault)()
    report = admin.lag(timeout=3.0)
    assert report.groups[topic].error is not None
    assert not report.complete


def test_refused_groups_are_told_beside_the_topics_that_are_meant(
    kafka_faults, admin, topic
):
    """Which topics a refused group reads is not known, so it may be one of these."""
    kafka_faults.on("OffsetFetch").fail(29, at="group")
    report = admin.lag(topics=[topic], timeout=3.0)
    assert report.groups[topic].error.code == 29
    assert not report.complete


def test_broker_that_cannot_list_its_groups_is_told(kafka_faults, admin, topic):
    """Groups may be missing then, so the report is not complete."""
    kafka_faults.on("ListGroups").fail(29)
    report = admin.lag()
    assert {0} == set(report.broker_errors)
    assert not report.complete


def test_cut_and_garbled_answers_are_errors_of_their_items(kafka_faults, admin, topic):
    """Whatever comes over the wire, the report stands."""
    kafka_faults.on("ListOffsets").cut(keep=20)
    report = admin.lag(topic, timeout=5.0)
    assert report.groups[topic].unknown == 2
    kafka_faults.clear()
    kafka_faults.on("ListOffsets", rate=1.0, seed=7).garble()
    report = admin.lag(topic, timeout=5.0)
    assert report.groups[topic].unknown == 2
    kafka_faults.clear()
    assert admin.lag(topic).groups[topic].total == 4


@pytest.mark.java
def test_partition_without_leader_has_a_reason_and_hides_no_other():
    """The broker that led it is dead; the other partitions have their lag, at once."""
    with KafkaCluster(brokers=2) as cluster:
        name = cluster.create_topic(partitions=4, replication_factor=1)
        commit(cluster.bootstrap_servers, name, {(name, p): 0 for p in range(4)})
        config = {"bootstrap_servers": cluster.brokers[0].address}
        with admin_of("kafka-python", config) as admin:
            whole = admin.lag(name)
            assert whole.complete
            cluster.broker(1).kill()
            found = without_leader(admin, name)
    for each in found.values():
        assert (each.reason is None) == (each.lag is not None)
    assert {each.lag for each in found.values()} == {0, None}
    (error,) = {type(e.error) for e in found.values() if e.error is not None}
    assert issubclass(error, errors.LeaderNotAvailableError)


def without_leader(admin, name):
    """Ask until the cluster has noticed that the leader is away."""
    deadline = time.monotonic() + 90
    while time.monotonic() < deadline:
        found = admin.lag(name, timeout=5.0).groups[name].partitions
        if LagReason.NO_LEADER in {each.reason for each in found.values()}:
            return found
    raise AssertionError("no partition lost its leader")


def test_backoff_never_falls_below_its_floor_and_is_bounded():
    """0.1 s and more, jittered upwards only, to 1.5 s at most."""
    for uniform in (min, max):
        waits = [retrying.backoff(tries, uniform) for tries in range(1, 9)]
        assert waits == sorted(waits)
        assert 0.1 <= waits[0] <= 0.15 + 1e-9
        assert 1.0 <= waits[-1] <= 1.5
    drawn = {retrying.backoff(1) for _ in range(100)}
    assert len(drawn) > 1
    assert all(0.1 <= each <= 0.15 for each in drawn)
