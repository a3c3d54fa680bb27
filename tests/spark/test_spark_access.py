"""The sink on a secured cluster, with the options that a Spark user has already."""

from __future__ import annotations

import json
import threading
import time

import pyarrow as pa
import pytest

from kafkaguard import errors as e
from kafkaguard._errors.base import Action
from kafkaguard.testing import KafkaCluster
from kafkaguard_adapters.spark.driver.options import from_options
from kafkaguard_adapters.spark.executor.delivery import Delivery
from kafkaguard_adapters.spark.settings import make_settings
from kafkaguard_adapters.spark.topics import SinkTopic, look_up
from tests.spark.spark_reading import letters_to, values

pytestmark = [pytest.mark.xdist_group("spark_access"), pytest.mark.java]


@pytest.fixture(scope="module")
def secured():
    """A cluster with three users and TLS; kim has no rights at all."""
    with KafkaCluster(
        users={"bob": "b-secret", "eve": "e-secret", "kim": "k-secret"}, tls=True
    ) as cluster:
        yield cluster


def options(cluster, listener, user, topic, **more):
    """Write the options of Spark's own sink, as the cluster's users would."""
    way = cluster.client_config(listener, client="spark", user=user, **more)
    return {**way, "topic": topic}


def send(given, key=None):
    """Send one record as a task does."""
    settings = from_options(given)
    columns = {"key": pa.array([key], pa.string()), "value": pa.array(["v"])}
    with Delivery(settings, look_up(settings)) as delivery:
        delivery.send(pa.record_batch(columns))
        delivery.end_window()
    return delivery.counts


def test_client_that_may_only_write_is_warned_once_and_writes(secured):
    """The look-up is advisory; the warning names what to grant."""
    topic = secured.create_topic()
    secured.grant("bob", "WRITE", "TOPIC", topic)
    with pytest.warns(UserWarning, match="Grant DescribeConfigs on the topic") as seen:
        counts = send(options(secured, "SASL_PLAIN", "bob", topic))
    assert len(seen) == 1
    assert counts.delivered == 1
    assert values(secured, topic) == ["v"]


def test_client_that_may_only_write_can_declare_what_it_knows(secured):
    """Then a record without a key is refused without a look at the topic."""
    topic = secured.create_topic(config={"cleanup.policy": "compact"})
    secured.grant("bob", "WRITE", "TOPIC", topic)
    given = options(secured, "SASL_PLAIN", "bob", topic) | {"compacted": "true"}
    with (
        pytest.warns(UserWarning, match="declare compacted"),
        pytest.raises(e.InvalidRecordKeyError),
    ):
        send(given)


def test_java_options_for_scram_over_tls_are_translated(secured):
    """Trust store, mechanism and JAAS line, as Spark's own sink takes them."""
    topic = secured.create_topic()
    for operation in ("WRITE", "DESCRIBE_CONFIGS"):
        secured.grant("bob", operation, "TOPIC", topic)
    given = options(secured, "SASL_TLS", "bob", topic, mechanism="SCRAM-SHA-256")
    assert send(given, "k").delivered == 1


def test_client_that_may_not_write_is_told_so(secured):
    """Not as a missing topic, and not after a timeout."""
    topic = secured.create_topic()
    with pytest.raises(e.TopicAuthorizationFailedError) as caught:
        send(options(secured, "SASL_PLAIN", "eve", topic))
    assert caught.value.topic == topic


@pytest.mark.parametrize("role", ["topic", "dead letters"])
def test_client_that_may_only_see_a_topic_is_told_so_before_anything_is_sent(
    secured, role
):
    """At the first refused record it would be too late: Spark tries four times."""
    seen, written = secured.create_topic(), secured.create_topic()
    secured.grant("bob", "DESCRIBE", "TOPIC", seen)
    secured.grant("bob", "WRITE", "TOPIC", written)
    topic, dead = (seen, written) if role == "topic" else (written, seen)
    given = options(secured, "SASL_PLAIN", "bob", topic)
    given |= {"policy": json.dumps(letters_to(dead))}
    with pytest.raises(
        e.TopicAuthorizationFailedError, match="grant the ACL Write"
    ) as caught:
        look_up(from_options(given))
    assert caught.value.topic == seen
    assert caught.value.verdict.action is Action.CONFIGURE


def test_wrong_password_is_not_called_a_missing_topic(secured):
    """Spark's own sink says that the topic is not present, after a minute."""
    given = options(secured, "SASL_PLAIN", "bob", "t")
    login = given["kafka.sasl.jaas.config"].replace("b-secret", "wrong")
    started = time.monotonic()
    with pytest.raises(e.AuthenticationError) as caught:
        send(given | {"kafka.sasl.jaas.config": login})
    assert time.monotonic() - started < 40
    assert "wrong" not in str(caught.value)


def test_right_that_comes_later_is_waited_for_where_the_policy_says_so(secured):
    """An override may call it passing; without one the task fails at once."""
    topic = secured.create_topic()
    secured.grant("bob", "DESCRIBE", "TOPIC", topic)
    # Whoever may write to no topic at all may have no idempotent producer.
    secured.grant("bob", "WRITE", "TOPIC", secured.create_topic())
    denied = {"when": {"code": 29, "topic": topic}, "action": "RETRY"}
    waits = {"kind": "fixed", "base": 0.5, "jitter": "none"}
    policy = {"max_attempts": 60, "backoff": waits, "overrides": [denied]}
    given = options(secured, "SASL_PLAIN", "bob", topic)
    topics = {topic: SinkTopic(topic, 1, compacted=False)}
    columns = {"key": pa.array(["k"]), "value": pa.array(["v"])}

    def send_with(policy):
        settings = from_options(given | {"policy": json.dumps(policy)})
        with Delivery(settings, topics) as delivery:
            delivery.send(pa.record_batch(columns))
            delivery.end_window()
        return delivery.counts

    with pytest.raises(e.TopicAuthorizationFailedError) as caught:
        send_with(policy | {"overrides": []})
    assert caught.value.verdict.action is Action.CONFIGURE
    later = threading.Timer(2, secured.grant, ("bob", "WRITE", "TOPIC", topic))
    later.start()
    counts = send_with(policy)
    later.join()
    assert (counts.delivered, counts.resent) == (1, 1)
    assert values(secured, topic) == ["v"]


def test_client_that_may_not_write_at_all_fails_with_what_the_brokers_said(secured):
    """Its producer is dead from the beginning, and every record fails with that."""
    topic = secured.create_topic()
    given = options(secured, "SASL_PLAIN", "kim", topic)
    topics = {topic: SinkTopic(topic, 1, compacted=False)}
    columns = {"key": pa.array(["k"]), "value": pa.array(["v"])}
    delivery = Delivery(from_options(given), topics)

    def send_all():
        delivery.send(pa.record_batch(columns))  # says it where it is known by then
        delivery.end_window()

    # Brokers refuse the producer's id (31) or the topic (29), whichever comes first.
    denied = (e.ClusterAuthorizationFailedError, e.TopicAuthorizationFailedError)
    with pytest.raises(denied) as caught:
        send_all()
    assert caught.value.verdict.action is Action.CONFIGURE


@pytest.mark.parametrize(
    ("config", "said"),
    [
        ({"kafka.security.protocol": "SSL"}, "as a listener without TLS does"),
        (
            {
                "kafka.security.protocol": "SASL_PLAINTEXT",
                "kafka.sasl.mechanism": "PLAIN",
                "kafka.sasl.username": "bob",
                "kafka.sasl.password": "secret",
            },
            "the listener takes no SASL login",
        ),
    ],
)
def test_listener_that_does_less_than_the_settings_say_is_told(
    kafka_cluster, kafka_topic, config, said
):
    """A listener without TLS or login has the verdict CONFIGURE."""
    servers = kafka_cluster.bootstrap_servers
    with pytest.raises(e.KafkaGuardError) as caught:
        look_up(make_settings(servers, topic=kafka_topic, config=config))
    assert caught.value.verdict.action is Action.CONFIGURE
    assert said in str(caught.value)
