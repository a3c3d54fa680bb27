"""Dead-letter topics that cannot take a letter are found before the first bad record."""

from __future__ import annotations

import logging
import time

import pytest
from kafka import KafkaProducer

from kafkaguard import RetryPolicy, guard
from kafkaguard.testing import KafkaCluster
from kafkaguard_adapters.asking import topic_settings
from kafkaguard_adapters.kafka_python.errors import errors
from kafkaguard_adapters.kafka_python.settings import read_settings
from kafkaguard_adapters.producing import letter_topics
from kafkaguard_adapters.producing.letter_topics import LetterTopics
from kafkaguard_adapters.wire.io_thread import run, start

ASIDE = RetryPolicy(on_reject="dead_letter")


@pytest.fixture
def look(monkeypatch, caplog):
    """Look for dead-letter topics, and return what is said of them."""
    looks = []
    monkeypatch.setattr(letter_topics, "start", lambda coro: looks.append(start(coro)))

    def _look(config, policy, topics=(), met=()):
        with caplog.at_level(logging.DEBUG, "kafkaguard.producer"):
            letters = LetterTopics(
                policy, lambda: read_settings(config, errors.make), errors.make, topics
            )
            for topic in met:
                letters.look_up_once(topic)
            for each in looks:
                each.result(60)
        return [
            record.getMessage()
            for record in caplog.records  # others' clients may log meanwhile
            if record.name.startswith("kafkaguard")
        ]

    return _look


@pytest.fixture
def config(kafka_cluster):
    """The settings of a client."""
    return kafka_cluster.client_config(client="kafka-python")


def to(topic):
    """A policy with one dead-letter topic for all."""
    return ASIDE.replace(dead_letter={"topic": topic})


def test_missing_topic_is_found_when_the_client_is_wrapped(config, look):
    """Where the policy names it, nothing has to be sent."""
    (said,) = look(config, to("no-such-letters"))
    assert said.startswith("dead-letter topic no-such-letters does not exist: ")
    assert said.endswith("Create it")


def test_each_topic_of_a_pattern_is_looked_for_once(config, look):
    """Declared topics at once, others with their first batch."""
    said = look(config, ASIDE, topics=["a"], met=["a", "b", "b", "b.dlq", "c.dlq"])
    missing = sorted(line.split()[2] for line in said)
    assert missing == ["a.dlq", "b.dlq"]


def test_override_sets_records_aside_too(config, look):
    """Its dead letters go to the same topic."""
    policy = RetryPolicy(
        overrides=[{"when": {"code": 87}, "on_reject": "dead_letter"}],
        dead_letter={"topic": "no-such-letters"},
    )
    assert len(look(config, policy)) == 1


def test_policy_without_dead_letters_asks_nothing(config, look):
    """This holds for every topic of a record."""
    policy = to("no-such-letters").replace(on_reject="drop")
    assert look(config, policy, topics=["a"], met=["b"]) == []


def test_topic_that_is_there_is_not_spoken_of(kafka_cluster, config, look):
    """No warning is logged for a dead-letter topic that takes every record."""
    assert look(config, to(kafka_cluster.create_topic())) == []


def test_compacted_topic_takes_no_letter_without_a_key(kafka_cluster, config, look):
    """It would be refused as its record was."""
    topic = kafka_cluster.create_topic(config={"cleanup.policy": "compact"})
    (said,) = look(config, to(topic))
    assert "is compacted and refuses records without a key" in said


def test_topic_that_the_user_may_not_see(kafka_users, look):
    """Whether it is there or not, its ACLs are missing."""
    config = kafka_users.client_config("SASL_PLAIN", user="bob")
    (said,) = look(config, to(kafka_users.create_topic()))
    assert "Grant the ACLs Describe and Write" in said


def size_limit(config, topic):
    """Return what the guard asks before it sends a dead letter."""
    settings = read_settings(config, errors.make)
    return run(topic_settings.size_limit(settings, errors.make, topic))


def test_missing_topic_gets_no_dead_letter(config):
    """An error that says what to do."""
    error = size_limit(config, "no-such-letters")
    assert (error.topic, error.verdict.action) == ("no-such-letters", "CONFIGURE")


def test_size_limit_of_a_topic_that_the_user_may_not_see_is_unknown(kafka_users):
    """Without rights, neither the size limit nor the existence of the topic is known."""
    config = kafka_users.client_config("SASL_PLAIN", user="bob")
    assert size_limit(config, "no-such-letters") is None


@pytest.mark.java
def test_broker_that_makes_topics_is_left_to_do_so(look):
    """The first dead letter makes its topic."""
    name = "made-by-its-first-letter"
    with KafkaCluster(settings={"auto.create.topics.enable": "true"}) as cluster:
        config = cluster.client_config()
        assert look(config, to(name)) == []
        assert size_limit(config, name) is None


def test_silent_cluster_is_no_news(look, monkeypatch):
    """No warning is logged if no broker answers: each record reports that by itself."""
    monkeypatch.setattr(letter_topics, "_TIMEOUT_S", 1.0)
    (said,) = look({"bootstrap_servers": "localhost:1"}, to("letters"))
    assert said.startswith("dead-letter topic letters could not be looked up: ")


def test_guarded_producer_looks(kafka_cluster, kafka_topic, caplog):
    """By its topic's name, as its first batch goes out; the send does not wait."""
    bare = KafkaProducer(bootstrap_servers=kafka_cluster.bootstrap_servers)
    with guard(bare, policy=ASIDE) as producer:
        producer.send(kafka_topic, b"value").get(60)
        until = time.monotonic() + 60
        while "does not exist" not in caplog.text and time.monotonic() < until:
            time.sleep(0.01)
    assert f"dead-letter topic {kafka_topic}.dlq does not exist" in caplog.text


def test_settings_of_a_topic_that_is_not_told_are_no_trouble(
    kafka_cluster, config, look, monkeypatch
):
    """No warning is logged for a topic that exists and whose settings are hidden."""

    async def nothing(*_):
        return {}

    monkeypatch.setattr(topic_settings, "ask", nothing)
    assert look(config, to(kafka_cluster.create_topic())) == []
