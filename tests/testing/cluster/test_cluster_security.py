"""Users, TLS and OAUTHBEARER: each listener, with each client."""

from __future__ import annotations

import subprocess

import pytest
from aiokafka.admin import AIOKafkaAdminClient
from aiokafka.errors import KafkaConnectionError
from confluent_kafka.admin import AdminClient
from kafka import KafkaAdminClient, KafkaProducer
from kafka.errors import (
    ClusterAuthorizationFailedError,
    TopicAuthorizationFailedError,
)
from kafka.protocol.admin import DescribeLogDirsRequest

from kafkaguard.testing import ClusterError, KafkaCluster
from kafkaguard.testing.cluster.java import Runtime
from kafkaguard.testing.cluster.properties import render

pytestmark = [pytest.mark.xdist_group("secure-cluster"), pytest.mark.java]

WAYS = [
    ("PLAINTEXT", None),
    ("SASL_PLAIN", "PLAIN"),
    ("SASL_SCRAM", "SCRAM-SHA-256"),
    ("SASL_SCRAM", "SCRAM-SHA-512"),
    ("TLS", None),
    ("SASL_TLS", "PLAIN"),
    ("SASL_TLS", "SCRAM-SHA-512"),
    ("OAUTHBEARER", "OAUTHBEARER"),
]


@pytest.fixture(scope="module")
def secure_cluster():
    """Start a broker with every listener; passwords hold what needs escaping."""
    users = {"alice": 'a "quoted", \\ pass#wörd]', "bob": "secret"}
    with KafkaCluster(
        users=users, super_users=["alice"], tls=True, oauth=True
    ) as cluster:
        yield cluster


@pytest.fixture(scope="module")
def topic(secure_cluster):
    """Create a topic that every super user sees."""
    return secure_cluster.create_topic()


def settings(cluster, way, client):
    """Write down how alice comes in one way."""
    listener, mechanism = way
    user = "alice" if mechanism else None
    return cluster.client_config(
        listener, client=client, user=user, mechanism=mechanism
    )


@pytest.mark.parametrize("way", WAYS)
def test_kafka_python_comes_in(secure_cluster, topic, way):
    """client_config() connects kafka-python through each listener."""
    with KafkaAdminClient(**settings(secure_cluster, way, "kafka-python")) as admin:
        assert topic in admin.list_topics()


@pytest.mark.parametrize("way", WAYS)
def test_confluent_comes_in(secure_cluster, topic, way):
    """client_config() connects confluent-kafka through each listener."""
    admin = AdminClient(settings(secure_cluster, way, "confluent"))
    assert topic in admin.list_topics(timeout=10).topics


@pytest.mark.parametrize("way", WAYS)
async def test_aiokafka_comes_in(secure_cluster, topic, way):
    """client_config() connects aiokafka through each listener."""
    admin = AIOKafkaAdminClient(**settings(secure_cluster, way, "aiokafka"))
    await admin.start()
    try:
        assert topic in await admin.list_topics()
    finally:
        await admin.close()


@pytest.mark.parametrize("way", [WAYS[2], WAYS[5], WAYS[7]])
def test_the_java_client_of_spark_comes_in(secure_cluster, topic, way, tmp_path):
    """The settings serve the Java client, which Spark hands them to."""
    options = settings(secure_cluster, way, "spark")
    java_options = {key.removeprefix("kafka."): val for key, val in options.items()}
    file = tmp_path / "client.properties"
    file.write_text(render(java_options))
    described = subprocess.run(
        Runtime.of(secure_cluster.version, tiered=False).command(
            "kafka.admin.ConfigCommand",
            *("--bootstrap-server", options["kafka.bootstrap.servers"]),
            *("--command-config", str(file), "--describe", "--topic", topic),
        ),
        capture_output=True,
        text=True,
        timeout=60,
        cwd=tmp_path,
        check=False,
    )
    assert f"Dynamic configs for topic {topic}" in described.stdout, described.stderr


def test_users_may_do_what_was_granted(secure_cluster, topic):
    """Without a grant 29 TOPIC_AUTHORIZATION_FAILED, with it the write succeeds."""
    bob = secure_cluster.client_config("SASL_PLAIN", user="bob")
    with KafkaProducer(**bob) as producer:
        refused = producer.send(topic, b"hello")
        with pytest.raises(TopicAuthorizationFailedError):
            refused.get(10)
    secure_cluster.grant("bob", "write", "topic", topic)
    with KafkaProducer(**bob) as producer:
        assert producer.send(topic, b"hello").get(10).offset == 0


def test_a_user_without_grants_may_not_see_the_cluster(secure_cluster):
    """A user without grants gets 31 for DescribeLogDirs."""
    bob = secure_cluster.client_config("SASL_SCRAM", user="bob")
    with KafkaAdminClient(**bob) as admin:
        request = DescribeLogDirsRequest(topics=None, min_version=3)
        answer = admin._manager.run(admin._manager.send, request)
    assert answer.error_code == ClusterAuthorizationFailedError.errno


@pytest.mark.parametrize("listener", ["SASL_PLAIN", "SASL_SCRAM"])
async def test_a_wrong_password_is_refused(secure_cluster, listener):
    """A login with a wrong password fails."""
    bob = secure_cluster.client_config(listener, user="bob", client="aiokafka")
    admin = AIOKafkaAdminClient(**{**bob, "sasl_plain_password": "guessed"})
    with pytest.raises(KafkaConnectionError):
        await admin.start()
    await admin.close()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"listener": "SASL_PLAIN"}, "give user= to log in"),
        ({"listener": "SASL_PLAIN", "user": "eve"}, "no user 'eve'"),
        (
            {"listener": "SASL_PLAIN", "user": "bob", "mechanism": "SCRAM-SHA-256"},
            "takes PLAIN, not SCRAM-SHA-256",
        ),
    ],
)
def test_mistakes_are_explained(secure_cluster, options, message):
    """Who is missing and which mechanism is not there is named."""
    with pytest.raises(ClusterError, match=message):
        secure_cluster.client_config(**options)


def test_passwords_are_in_no_log_and_no_text(secure_cluster):
    """Neither what the broker printed nor our own objects show one."""
    assert "pass#w" not in secure_cluster.logs()
    assert "pass#w" not in repr(secure_cluster._blueprint)
