"""A policy governs the producer that it is given to, and shows how."""

from __future__ import annotations

import logging

import pytest
from confluent_kafka import Producer
from kafka import KafkaProducer

from aiokafka import AIOKafkaProducer
from kafkaguard import RetryPolicy, guard
from kafkaguard_adapters.stacking import _warn_once
from tests.own_log import own_records

POLICY = RetryPolicy(name="orders", deadline=60, backoff={"base": 0.3, "cap": 2})


@pytest.fixture(autouse=True)
def _forget_what_was_said():
    _warn_once.cache_clear()


def became(producer):
    """What the settings of the policy became, for those that did."""
    effect = producer.policy_in_effect()
    assert str(effect).startswith(f"policy {effect.policy}, producer of")
    return {row.became: row.obeyed_by for row in effect.settings if row.became}


class Own(KafkaProducer):
    """A class of the user's own, with other arguments."""

    def __init__(self, servers):
        super().__init__(bootstrap_servers=servers)


async def test_the_guard_builds_the_client_with_the_policy(kafka_cluster, caplog):
    """Each client gets the settings that it has, and nothing is to be said."""
    servers = kafka_cluster.bootstrap_servers
    config = {"bootstrap.servers": servers, "enable.idempotence": True}
    with caplog.at_level(logging.WARNING, "kafkaguard"):
        with guard(factory=Producer, config=config, policy=POLICY) as confluent:
            assert became(confluent) == {
                "delivery.timeout.ms = 60000": "the client",
                "request.timeout.ms = 15000": "the client",
                "retry.backoff.ms = 300": "the client",
                "retry.backoff.max.ms = 2000": "the client",
            }
        config = {"bootstrap_servers": servers, "max_block_ms": 70_000}
        with guard(factory=KafkaProducer, config=config, policy=POLICY) as python:
            assert python.client.config["delivery_timeout_ms"] == 60_000
            assert python.client.config["retry_backoff_ms"] == 300
            assert became(python) == {
                "delivery_timeout_ms = 60000": "the client",
                "request_timeout_ms = 15000": "the client",
                "max_block_ms = 70000": (
                    "nobody: overruled; max_block_ms = 60000 would do it"
                ),
                "retry_backoff_ms = 300": "the client",
            }
        config = {"bootstrap_servers": servers, "enable_idempotence": True}
        async with guard(factory=AIOKafkaProducer, config=config, policy=POLICY) as aio:
            assert became(aio) == {
                "request_timeout_ms = 60000": "the client",
                "retry_backoff_ms = 300": "the client",
            }
    (record,) = own_records(caplog)
    assert "max_block_ms = 70000 overrules deadline = 60" in record.getMessage()


def test_a_client_that_exists_overrules_the_policy_and_that_is_said_once(
    kafka_cluster, caplog
):
    """One WARNING with both numbers and what to write; equal ones are silent."""
    client = KafkaProducer(bootstrap_servers=kafka_cluster.bootstrap_servers)
    with caplog.at_level(logging.WARNING, "kafkaguard"):
        for _ in range(2):
            with guard(client, policy=POLICY) as producer:
                assert "delivery_timeout_ms = 120000" in str(
                    producer.policy_in_effect()
                )
            client = KafkaProducer(bootstrap_servers=kafka_cluster.bootstrap_servers)
    client.close(timeout=5)
    (record,) = own_records(caplog)
    text = record.getMessage()
    assert record.levelno == logging.WARNING
    assert "delivery_timeout_ms = 120000 overrules deadline = 60" in text
    assert "delivery_timeout_ms = 60000 works" in text
    assert "retry_backoff_ms = 100 overrules backoff.base = 0.3" in text
    assert "max_block_ms" not in text


def test_an_own_class_gets_no_settings_it_may_not_take(kafka_cluster):
    """Its constructor may have other arguments."""
    config = {"servers": kafka_cluster.bootstrap_servers}
    with guard(factory=Own, config=config, policy=POLICY) as producer:
        assert "delivery_timeout_ms = 120000" in str(producer.policy_in_effect())


def test_settings_that_are_not_known_show_as_such(kafka_cluster):
    """A bare producer of confluent-kafka keeps its settings to itself."""
    client = Producer({"bootstrap.servers": kafka_cluster.bootstrap_servers})
    with guard(client, policy=POLICY) as producer:
        assert "delivery.timeout.ms = ?" in str(producer.policy_in_effect())
