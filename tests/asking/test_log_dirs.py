"""Log directories, for each client: rights, versions, filters, brokers, failures."""

from __future__ import annotations

import asyncio
import time

import confluent_kafka
import pytest
from confluent_kafka.admin import AdminClient
from kafka import KafkaConsumer, KafkaProducer

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer
from kafkaguard import errors, guard
from kafkaguard._cluster.reports import make
from kafkaguard.testing import FaultProxy, KafkaCluster
from kafkaguard_adapters.aiokafka.view import view_of as aiokafka_view
from kafkaguard_adapters.asking.cluster_calls import AsyncClusterCalls, ClusterCalls
from kafkaguard_adapters.asking.cluster_view import ClusterView
from kafkaguard_adapters.confluent.view import view_of as confluent_view
from kafkaguard_adapters.kafka_python.settings import read_settings
from kafkaguard_adapters.kafka_python.view import view_of as kafka_python_view
from tests.asking.cluster_clients import admin_of, words_of

VERSIONS = range(1, 6)


class LogDirsContract:
    """What holds for the admin of every client."""

    client: str

    @pytest.fixture
    def as_bob(self, kafka_users):
        """An admin of a user without any right."""
        config = kafka_users.client_config("SASL_PLAIN", client=self.client, user="bob")
        with admin_of(self.client, config) as admin:
            yield admin

    @pytest.fixture
    def as_super_user(self, kafka_users):
        """An admin that may do everything."""
        config = kafka_users.client_config(client=self.client)
        with admin_of(self.client, config) as admin:
            yield admin

    def test_denied_in_each_version_by_request(self, as_bob):
        """Without rights each version ends in error 31; below 3 it is concluded."""
        for version in VERSIONS:
            answer = as_bob.log_dirs(max_version=version).brokers[0]
            assert version == answer.version
            assert isinstance(answer.error, errors.ClusterAuthorizationFailedError)
            assert answer.error.code == 31
            assert answer.is_concluded == (version < 3)
            assert "Describe on the resource Cluster" in str(answer.error)
            assert answer.error.client.startswith(self.client)
            assert not answer.dirs

    def test_denied_in_each_version_by_proxy(self, kafka_users):
        """The same behind a broker that has no higher version."""
        config = kafka_users.client_config("SASL_PLAIN", client=self.client, user="bob")
        address = kafka_users.listener("SASL_PLAIN").bootstrap_servers
        for version in VERSIONS:
            with FaultProxy(address) as proxy:
                proxy.on("DescribeLogDirs").cap(version)
                there = words_of(self.client, proxy.bootstrap_servers)
                with admin_of(self.client, config | there) as admin:
                    report = admin.log_dirs()
                assert [version] == [
                    r.version for r in proxy.requests("DescribeLogDirs")
                ]
            assert report.brokers[0].error.code == 31
            assert not report.complete
            with pytest.raises(errors.ClusterAuthorizationFailedError):
                report.raise_for_errors()

    def test_filter_that_matches_nothing(self, as_super_user):
        """A super user sees the directories, without partitions, in each version."""
        for version in VERSIONS:
            report = as_super_user.log_dirs(["no-such-topic"], max_version=version)
            (log_dir,) = report.brokers[0].dirs.values()
            assert report.complete
            assert () == log_dir.replicas == log_dir.future_replicas
            assert (version >= 4) == (log_dir.total_bytes is not None)
            assert (version >= 4) == (log_dir.usable_bytes is not None)
            assert (None if version < 5 else False) is log_dir.is_cordoned

    def test_filter_by_topic_and_by_partition(self, as_super_user, kafka_users):
        """Only the replicas that were asked for are listed."""
        topic = kafka_users.create_topic(partitions=3)
        other = kafka_users.create_topic()
        report = as_super_user.log_dirs([topic])
        found = sorted((r.topic, r.partition) for _, _, r in report.replicas())
        assert [(topic, 0), (topic, 1), (topic, 2)] == found
        report = as_super_user.log_dirs({topic: [1], other: [0]})
        found = sorted((r.topic, r.partition) for _, _, r in report.replicas())
        assert sorted([(topic, 1), (other, 0)]) == found
        assert report.local_size(topic) == 0

    def test_broker_that_is_not_there(self, as_super_user):
        """It has an error of its own, and the other one its answer."""
        report = as_super_user.log_dirs(brokers=[0, 77])
        assert report.brokers[0].dirs
        assert "no broker 77" in str(report.brokers[77].error)

    def test_stands_for_its_client(self, as_super_user):
        """It passes for the client and hands everything else on."""
        guarded = getattr(as_super_user, "client", as_super_user)
        guarded = guarded if hasattr(guarded, "cluster_view") else as_super_user
        assert isinstance(guarded, type(guarded.client))
        assert "log_dirs" in dir(guarded)
        assert "create_topics" in dir(guarded)
        assert guarded.create_topics.__wrapped__.__self__ is guarded.client
        assert "guarded" in repr(guarded)


class TestKafkaPython(LogDirsContract):
    """kafka-python."""

    client = "kafka-python"


class TestConfluent(LogDirsContract):
    """confluent-kafka, with its settings given."""

    client = "confluent"


class TestAiokafka(LogDirsContract):
    """aiokafka."""

    client = "aiokafka"


def blocking_calls(view):
    """Make the calls of a client that is no admin."""
    calls = ClusterCalls()
    calls.cluster_view = view
    return calls


def test_from_producers_and_consumers(kafka_cluster):
    """Whatever a client is for, its settings lead to the same answer."""
    config = kafka_cluster.client_config()
    confluent = kafka_cluster.client_config(client="confluent")
    with guard(KafkaProducer(**config)) as guarded:
        assert guarded.log_dirs().complete
    with KafkaProducer(**config) as producer, KafkaConsumer(**config) as consumer:
        views = [
            kafka_python_view(producer),
            kafka_python_view(consumer),
            confluent_view(confluent_kafka.Producer(confluent), confluent),
        ]
        for view in views:
            calls = blocking_calls(view)
            assert calls.log_dirs().complete
            calls.close_view()


async def test_from_aiokafkas_producers_and_consumers(kafka_cluster):
    """Likewise, in the event loop that is there."""
    config = kafka_cluster.client_config(client="aiokafka")
    for client in (AIOKafkaProducer(**config), AIOKafkaConsumer(**config)):
        calls = AsyncClusterCalls()
        calls.cluster_view = aiokafka_view(client)
        assert (await calls.log_dirs()).complete
        await calls.cluster_view.close()
        await client.stop()


def test_blocking_calls_within_an_event_loop(kafka_cluster):
    """In a notebook, whose loop runs, the blocking calls work all the same."""

    async def cell():
        with admin_of("kafka-python", kafka_cluster.client_config()) as admin:
            return admin.log_dirs()

    assert asyncio.run(cell()).complete


def test_silence_of_an_old_broker_ends_in_time(kafka_faults):
    """No answer below version 3: the deadline holds, and no lower version is tried."""
    kafka_faults.on("DescribeLogDirs").cap(2)
    kafka_faults.on("DescribeLogDirs").drop()
    config = {"bootstrap_servers": kafka_faults.bootstrap_servers}
    with admin_of("kafka-python", config) as admin:
        started = time.monotonic()
        answer = admin.log_dirs(timeout=3).brokers[0]
        assert time.monotonic() - started < 15
    assert isinstance(answer.error, errors.ClientTimeoutError)
    assert "user's rights" in answer.error.__notes__[0]
    assert [r.version for r in kafka_faults.requests("DescribeLogDirs")] == [2]


def test_newer_versions_are_used_where_they_are(kafka_faults):
    """With 0..4 on offer, 4 is used, and its error is the broker's own."""
    kafka_faults.on("DescribeLogDirs").cap(4)
    kafka_faults.on("DescribeLogDirs").fail(31, at="top")
    config = {"bootstrap_servers": kafka_faults.bootstrap_servers}
    with admin_of("kafka-python", config) as admin:
        answer = admin.log_dirs().brokers[0]
    assert (answer.version, answer.error.code, answer.is_concluded) == (4, 31, False)


@pytest.fixture(scope="module")
def two_brokers():
    """Two brokers, for what differs from one to the other."""
    with KafkaCluster(brokers=2) as cluster:
        yield cluster


@pytest.mark.java
def test_all_brokers_are_asked_and_one_that_is_away_hides_none(two_brokers):
    """Two entries; with one broker away, one entry and one error."""
    with FaultProxy(two_brokers) as proxy:
        config = {"bootstrap_servers": proxy.bootstrap_servers}
        with admin_of("kafka-python", config) as admin:
            report = admin.log_dirs()
            assert {0, 1} == set(report.brokers)
            first, second = (set(each.dirs) for each in report.brokers.values())
            assert first
            assert second
            assert first.isdisjoint(second)
            with proxy.without(1):
                report = admin.log_dirs(timeout=5.0)
            assert report.brokers[0].dirs
            assert report.brokers[1].error is not None
            assert [report.brokers[1].error] == report.errors


@pytest.mark.java
def test_fenced_broker_is_told_though_metadata_leaves_it_out():
    """By DescribeCluster, by replica lists where that is old, and whoever refuses."""
    with KafkaCluster(brokers=2) as cluster, FaultProxy(cluster) as proxy:
        cluster.create_topic(replication_factor=2)
        config = {"bootstrap_servers": proxy.bootstrap_servers.split(",")}
        with admin_of("kafka-python", config) as admin:
            assert admin.log_dirs().complete
            assert len(proxy.requests("DescribeCluster")) == 1
            cluster.broker(1).kill()
            reports = [admin_says_fenced(admin)]
        proxy.on("DescribeCluster").cap(1)
        with admin_of("kafka-python", config) as admin:
            reports.append(admin.log_dirs(timeout=10.0))
        proxy.clear()
        proxy.on("DescribeCluster").fail(-1)
        with admin_of("kafka-python", config) as admin:
            refused = admin.log_dirs(timeout=10.0)
    for report in reports:
        assert report.brokers[0].dirs
        (error,) = report.errors
        assert isinstance(error, errors.ClientNotConnectedError)
        assert "broker 1 is registered but fenced or down" in str(error)
        assert not report.complete
    assert refused.errors == [refused.registry_error]
    assert not refused.complete


def admin_says_fenced(admin):
    """Ask until Metadata leaves the killed broker out; no report may be complete."""
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        report = admin.log_dirs(timeout=5.0)
        assert not report.complete
        if "fenced" in str(report.brokers[1].error):
            return report
    raise AssertionError("the broker was never fenced")


def test_api_that_is_not_there_is_not_asked(kafka_faults):
    """UnsupportedVersion for the broker, and no request."""
    kafka_faults.on("DescribeLogDirs").hide()
    config = {"bootstrap_servers": kafka_faults.bootstrap_servers}
    with admin_of("kafka-python", config) as admin:
        answer = admin.log_dirs().brokers[0]
    assert isinstance(answer.error, errors.UnsupportedVersionError)
    assert answer.version is None
    assert "nothing was sent" in str(answer.error)
    assert kafka_faults.requests("DescribeLogDirs") == []


@pytest.mark.parametrize("highest", [2, 3])
def test_older_versions_have_no_sizes_of_disks(kafka_faults, highest):
    """None, not -1 and not 0, where the version has none."""
    kafka_faults.on("DescribeLogDirs").cap(highest)
    config = {"bootstrap_servers": kafka_faults.bootstrap_servers}
    with admin_of("kafka-python", config) as admin:
        (log_dir,) = admin.log_dirs().brokers[0].dirs.values()
    assert [highest] == [r.version for r in kafka_faults.requests("DescribeLogDirs")]
    assert log_dir.total_bytes is None
    assert log_dir.usable_bytes is None
    assert log_dir.used is None


def test_denied_log_dirs_do_not_hide_the_lag(kafka_users):
    """With Describe on topic and group only: the lag is there, directories are 31."""
    from tests.asking.cluster_clients import commit

    topic = kafka_users.create_topic()
    commit(kafka_users.bootstrap_servers, topic, {(topic, 0): 0})
    kafka_users.grant("bob", "DESCRIBE", "TOPIC", topic)
    kafka_users.grant("bob", "DESCRIBE", "GROUP", topic)
    config = kafka_users.client_config("SASL_PLAIN", user="bob")
    with admin_of("kafka-python", config) as admin:
        lag = admin.lag([topic])
        dirs = admin.log_dirs()
    assert not lag.errors
    assert lag.sees_all_topics is False  # so there may be more lag
    assert lag.groups[topic].partitions[topic, 0].lag == 0
    assert dirs.brokers[0].error.code == 31


def test_confluents_settings_must_be_given(kafka_cluster):
    """Without them the error says what to pass; the client is named."""
    config = kafka_cluster.client_config(client="confluent")
    with guard(AdminClient(config)) as admin:
        with pytest.raises(errors.ClientConfigurationError) as caught:
            admin.log_dirs()
        assert isinstance(caught.value, confluent_kafka.KafkaException)
        assert "guard(client, config=" in str(caught.value)
        assert admin.list_topics(timeout=10).brokers
    with admin_of("confluent", config) as admin:
        assert admin.log_dirs().complete


def test_connection_closed_on_each_request_is_no_retry_loop(kafka_faults):
    """At most two tries; then the version is what is suspected."""
    kafka_faults.on("DescribeLogDirs").close()
    config = {"bootstrap_servers": kafka_faults.bootstrap_servers}
    with admin_of("kafka-python", config) as admin:
        answer = admin.log_dirs(timeout=10.0).brokers[0]
    assert isinstance(answer.error, errors.UnsupportedVersionError)
    assert "So it is concluded" in str(answer.error)
    assert answer.error.verdict.action == "CONFIGURE"
    assert len(kafka_faults.requests("DescribeLogDirs")) <= 3


@pytest.mark.parametrize("fault", ["reset", "cut"])
@pytest.mark.parametrize("api", ["DescribeLogDirs", "Metadata"])
def test_fault_of_the_network_is_no_matter_of_versions(kafka_faults, api, fault):
    """A reset, or an answer that ends in its midst, passes by itself."""
    getattr(kafka_faults.on(api), fault)()
    config = {"bootstrap_servers": kafka_faults.bootstrap_servers}
    calls = blocking_calls(kafka_python_view_of(config))
    with pytest.raises(errors.ClientConnectionError) as caught:
        calls.log_dirs(timeout=10.0).raise_for_errors()
    calls.close_view()
    assert caught.value.verdict.action == "RETRY"
    assert "check the network" in str(caught.value)


def kafka_python_view_of(config):
    """Make a view of a cluster without a client."""
    return ClusterView(lambda: read_settings(config, make), make)


def test_offline_directory_is_listed_with_its_error(kafka_faults):
    """An offline directory does not hide its neighbours, nor make up a size."""
    kafka_faults.on("DescribeLogDirs").fail("KAFKA_STORAGE_ERROR", at="dir")
    config = {"bootstrap_servers": kafka_faults.bootstrap_servers}
    with admin_of("kafka-python", config) as admin:
        report = admin.log_dirs()
    (log_dir,) = report.brokers[0].dirs.values()
    assert isinstance(log_dir.error, errors.KafkaStorageError)
    assert log_dir.path in str(log_dir.error)
    assert not report.complete


def test_unreachable_cluster_is_an_error_that_names_the_address():
    """Nothing can be said of any broker, so this one is raised."""
    calls = blocking_calls(kafka_python_view_of({"bootstrap_servers": "127.0.0.1:1"}))
    with pytest.raises(errors.ClientNotConnectedError, match=r"127\.0\.0\.1:1"):
        calls.log_dirs(timeout=3.0)
