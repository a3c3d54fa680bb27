"""A plain cluster: records, topics, and what it tells about itself."""

from __future__ import annotations

import uuid

import pytest
from kafka import KafkaAdminClient, KafkaConsumer, KafkaProducer
from kafka.admin import ConfigResource, ConfigResourceType
from kafka.errors import (
    KafkaTimeoutError,
    SecurityDisabledError,
    TopicAlreadyExistsError,
    UnknownTopicOrPartitionError,
)
from kafka.protocol.metadata import ApiVersionsRequest, ApiVersionsResponse

from kafkaguard.testing import ClusterError, KafkaCluster
from kafkaguard.testing.cluster.requests import ask
from tests.groups import joining

pytestmark = pytest.mark.java


BROKER_REGISTRATION = 62


@pytest.fixture
def admin(kafka_cluster):
    """Open an admin client as anybody."""
    with KafkaAdminClient(bootstrap_servers=kafka_cluster.bootstrap_servers) as client:
        yield client


def test_a_record_comes_back(kafka_cluster, kafka_topic):
    """What is written to the broker can be read from it."""
    with KafkaProducer(bootstrap_servers=kafka_cluster.bootstrap_servers) as producer:
        producer.send(kafka_topic, b"hello").get(10)
    with KafkaConsumer(
        kafka_topic,
        bootstrap_servers=kafka_cluster.bootstrap_servers,
        auto_offset_reset="earliest",
        consumer_timeout_ms=10_000,
    ) as consumer:
        assert next(consumer).value == b"hello"


def test_a_group_commits(kafka_cluster, kafka_topic):
    """A consumer group can commit on a cluster of one broker."""
    with KafkaProducer(bootstrap_servers=kafka_cluster.bootstrap_servers) as producer:
        producer.send(kafka_topic, b"hello").get(10)
    with joining(
        kafka_topic,
        bootstrap_servers=kafka_cluster.bootstrap_servers,
        group_id=str(uuid.uuid4()),
        auto_offset_reset="earliest",
        consumer_timeout_ms=10_000,
    ) as consumer:
        next(consumer)
        consumer.commit()
        (partition,) = consumer.assignment()
        assert consumer.committed(partition) == 1


def test_topics_are_made_as_asked(kafka_cluster, admin):
    """Name, partitions and settings are those of the call."""
    asked = f"orders-{uuid.uuid4()}"
    name = kafka_cluster.create_topic(
        asked, 3, config={"cleanup.policy": "compact", "preallocate": True}
    )
    (topic,) = admin.describe_topics([name])
    assert asked == name
    assert [each["leader_id"] for each in topic["partitions"]] == [0, 0, 0]
    assert settings(admin, name) == {"cleanup.policy": "compact", "preallocate": "true"}


def test_an_existing_topic_is_refused(kafka_cluster, kafka_topic):
    """The broker's own answer reaches the caller."""
    with pytest.raises(TopicAlreadyExistsError):
        kafka_cluster.create_topic(kafka_topic)


def test_settings_of_a_topic_change(kafka_cluster, kafka_topic, admin):
    """A changed setting is there when the call returns, others stay."""
    kafka_cluster.alter_topic(kafka_topic, {"retention.ms": 1000})
    kafka_cluster.alter_topic(kafka_topic, {"cleanup.policy": "compact"})
    expected = {"retention.ms": "1000", "cleanup.policy": "compact"}
    assert expected == settings(admin, kafka_topic)


def test_records_of_any_time_stay(kafka_topic, admin):
    """No test depends on when the broker looks for old records."""
    resource = ConfigResource(ConfigResourceType.TOPIC, kafka_topic)
    described = admin.describe_configs([resource], config_filter="all")
    assert described["topic"][kafka_topic]["retention.ms"]["value"] == "-1"


def test_grants_need_users(kafka_cluster):
    """The broker's own answer says that it has no access control."""
    with pytest.raises(SecurityDisabledError):
        kafka_cluster.grant("bob", "READ", "TOPIC", "orders")


def test_a_deleted_topic_is_gone(kafka_cluster, kafka_topic):
    """Nobody finds the topic when the call returns."""
    kafka_cluster.delete_topic(kafka_topic)
    with pytest.raises(UnknownTopicOrPartitionError):
        kafka_cluster.delete_topic(kafka_topic)


def test_topics_are_not_made_by_writing_to_them(kafka_cluster, admin):
    """A misspelt topic is an error, not a new topic."""
    misspelt = f"misspelt-{uuid.uuid4()}"
    with (
        KafkaProducer(
            bootstrap_servers=kafka_cluster.bootstrap_servers, max_block_ms=300
        ) as producer,
        pytest.raises(KafkaTimeoutError),
    ):
        producer.send(misspelt, b"hello")
    assert misspelt not in admin.list_topics()


def test_it_tells_what_it_is(kafka_cluster, admin):
    """Ids, addresses, version and log are the broker's own."""
    described = admin.describe_cluster()
    (broker,) = kafka_cluster.brokers
    assert described["cluster_id"] == kafka_cluster.cluster_id
    assert [each["broker_id"] for each in described["brokers"]] == [0]
    assert broker.address == kafka_cluster.bootstrap_servers
    assert kafka_cluster.version == "4.3.1"
    assert "Kafka Server started" in kafka_cluster.logs()
    assert kafka_cluster.authority is None
    assert kafka_cluster.remote_storage is None


def test_the_controller_listens(kafka_cluster):
    """Its own listener takes what brokers send, such as BrokerRegistration."""
    answer = ask(
        kafka_cluster.controller_bootstrap,
        ApiVersionsRequest(),
        ApiVersionsResponse,
        version=0,
    )
    assert BROKER_REGISTRATION in [each.api_key for each in answer.api_keys]


@pytest.mark.parametrize(
    ("ask", "message"),
    [
        (lambda cluster: cluster.listener("TLS"), "no listener 'TLS'.*PLAINTEXT"),
        (lambda cluster: cluster.broker(1), "no broker 1: ids go to 0"),
        (lambda cluster: cluster.start(), "is already running"),
        (lambda cluster: cluster.broker(0).start(), r"is already running \(pid"),
        (lambda cluster: cluster.client_config(client="x"), "no client 'x'"),
        (lambda cluster: cluster.grant("bob", "FLY", "TOPIC", "t"), "knows no 'FLY'"),
    ],
)
def test_mistakes_are_explained(kafka_cluster, ask, message):
    """What is not there is named, with what is."""
    with pytest.raises(ClusterError, match=message):
        ask(kafka_cluster)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"brokers": 0}, "at least one broker, not 0"),
        ({"users": {"a b": "secret"}}, "user 'a b'"),
        ({"users": {"bob": ""}}, "'bob' has an empty password"),
    ],
)
def test_senseless_options_are_refused(options, message):
    """Before anything is started, without a word of a password."""
    with pytest.raises(ClusterError, match=message):
        KafkaCluster(**options)


def test_a_cluster_that_does_not_run_says_so():
    """Reading an address before the start is a mistake with a name."""
    cluster = KafkaCluster()
    with pytest.raises(ClusterError, match="is not running"):
        _ = cluster.bootstrap_servers
    cluster.stop()


def test_another_version_with_other_settings():
    """The version and the broker's settings are a choice."""
    settings = {"message.max.bytes": 2_000_000, "compression.type": "gzip"}
    with KafkaCluster(version="4.4.0", settings=settings) as cluster:
        assert "Kafka version: 4.4.0" in cluster.logs()
        with KafkaAdminClient(bootstrap_servers=cluster.bootstrap_servers) as admin:
            broker = ConfigResource(ConfigResourceType.BROKER, "0")
            described = admin.describe_configs([broker], config_filter="all")
    values = described["broker"]["0"]
    assert values["message.max.bytes"]["value"] == "2000000"
    assert values["compression.type"]["value"] == "gzip"


def settings(admin, topic):
    """Read the settings of a topic that differ from the broker's."""
    resource = ConfigResource(ConfigResourceType.TOPIC, topic)
    described = admin.describe_configs([resource])["topic"][topic]
    return {key: entry["value"] for key, entry in described.items()}
