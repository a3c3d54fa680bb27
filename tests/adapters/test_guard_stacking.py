"""What ``guard`` says of a client's own settings: each client, each kind of finding."""

from __future__ import annotations

import logging
import warnings

import pytest
from aiokafka.admin import AIOKafkaAdminClient
from confluent_kafka.admin import AdminClient
from kafka import KafkaAdminClient, KafkaConsumer, KafkaProducer

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer
from kafkaguard import RetryPolicy, guard, load_policy
from kafkaguard.errors import StackingError, StackingWarning
from kafkaguard_adapters.stacking import compare
from tests.own_log import own_records

UNBOUNDED = RetryPolicy(deadline="unbounded")


@pytest.fixture
def producer(kafka_cluster):
    """Makes producers of kafka-python, and closes them."""
    made = []

    def make(**settings):
        servers = kafka_cluster.bootstrap_servers
        made.append(KafkaProducer(bootstrap_servers=servers, **settings))
        return made[-1]

    yield make
    for one in made:
        one.close(timeout=5)


def found(client, **more):
    """The findings of a guard that is strict."""
    with pytest.raises(StackingError) as caught:
        guard(client, strict=True, **more)
    return {finding.id: finding for finding in caught.value.findings}


async def test_default_clients_under_the_default_policy_are_silent(
    kafka_cluster, producer, caplog
):
    """Neither a warning nor a line in the log, strict or not."""
    servers = kafka_cluster.bootstrap_servers
    admin = KafkaAdminClient(bootstrap_servers=servers)
    confluent = {"bootstrap.servers": servers}
    aio = AIOKafkaAdminClient(bootstrap_servers=servers)
    with caplog.at_level(logging.INFO, "kafkaguard.guard"):
        for strict in (False, True):
            guard(producer(), strict=strict)
            guard(admin, strict=strict)
            guard(AdminClient(confluent), config=confluent, strict=strict)
            guard(factory=AdminClient, config=confluent, strict=strict)
            guard(aio, strict=strict)
    admin.close()
    await aio.close()
    assert own_records(caplog) == []


@pytest.mark.parametrize(
    ("policy", "settings", "ids"),
    [
        ({}, {"enable_idempotence": False}, {"retries-without-idempotence"}),
        ({}, {"enable_idempotence": False, "retries": 0, "acks": 0}, {"acks-none"}),
        ({"deadline": "unbounded"}, {}, {"multiplied-waits"}),
        (
            {},
            {"request_timeout_ms": 5_000, "delivery_timeout_ms": 5_000},
            {"client-never-retries"},
        ),
        (
            {},
            {"transactional_id": "t", "transaction_timeout_ms": 50_000},
            {"coordinator-aborts-first"},
        ),
    ],
)
def test_a_producer_of_kafka_python(producer, policy, settings, ids):
    """A warning for each, with both settings as this client spells them; or refused."""
    client, policy = producer(**settings), RetryPolicy(**policy)
    findings = found(client, policy=policy)
    assert ids == findings.keys()
    with pytest.warns(StackingWarning) as caught:
        guard(client, policy=policy)
    caught = [w for w in caught if w.category is StackingWarning]
    assert {str(w.message) for w in caught} == set(map(str, findings.values()))
    for finding in findings.values():
        assert finding.setting in finding.message
        assert finding.setting in KafkaProducer.DEFAULT_CONFIG
    assert {warning.filename for warning in caught} == {__file__}


def test_admins_of_kafka_python_and_confluent(kafka_cluster):
    """Without a deadline each attempt may take the client's own time limit."""
    servers = kafka_cluster.bootstrap_servers
    admin = KafkaAdminClient(bootstrap_servers=servers)
    assert found(admin, policy=UNBOUNDED).keys() == {"multiplied-waits"}
    admin.close()
    config = {"bootstrap.servers": servers, "request.timeout.ms": "9000"}
    with pytest.raises(StackingError, match=r"request\.timeout\.ms \(9 s\)"):
        guard(factory=AdminClient, config=config, policy=UNBOUNDED, strict=True)


async def test_an_admin_of_aiokafka(kafka_cluster):
    """Its settings are read from the instance."""
    admin = AIOKafkaAdminClient(bootstrap_servers=kafka_cluster.bootstrap_servers)
    (finding,) = found(admin, policy=UNBOUNDED).values()
    assert "request_timeout_ms (40 s)" in finding.message
    await admin.close()


def test_a_bare_confluent_client_is_unreadable(kafka_cluster, caplog):
    """Said in the log, no warning; refused only where strict was asked for."""
    admin = AdminClient({"bootstrap.servers": kafka_cluster.bootstrap_servers})
    with caplog.at_level(logging.WARNING, "kafkaguard"), warnings.catch_warnings():
        warnings.simplefilter("error")
        guard(admin)
    (record,) = caplog.records
    assert record.name == "kafkaguard.guard"
    assert "confluent-kafka client cannot be read" in record.getMessage()
    assert found(admin).keys() == {"settings-unreadable"}


def refused(client, home, config=None, policy="default"):
    """The findings about a client of any kind, without wrapping it."""
    home, policy = f"kafkaguard_adapters.{home}", load_policy(policy)
    with pytest.raises(StackingError) as caught:
        compare(client, home, config, policy, strict=True)
    return {finding.id for finding in caught.value.findings}


async def test_producers_that_retry_without_idempotence(kafka_cluster):
    """confluent-kafka's and aiokafka's default can write twice."""
    idempotence = "retries-without-idempotence"
    ids = refused(None, "confluent.producer", {"bootstrap.servers": "x"})
    assert ids == {idempotence}
    ids = refused(None, "confluent.producer", {"delivery.timeout.ms": "200000"})
    assert ids == {idempotence, "policy-overruled"}
    for harmless in ({"enable.idempotence": "true"}, {"transactional.id": "t"}):
        config = {**harmless, "retries": "5", "acks": "0"}
        assert idempotence not in refused(None, "confluent.producer", config)
    servers = kafka_cluster.bootstrap_servers
    client = AIOKafkaProducer(bootstrap_servers=servers)
    assert {idempotence} == refused(client, "aiokafka.producer")
    await client.stop()
    safe = AIOKafkaProducer(bootstrap_servers=servers, enable_idempotence=True)
    compare(
        safe,
        "kafkaguard_adapters.aiokafka.producer",
        None,
        load_policy("default"),
        strict=True,
    )
    await safe.stop()
    transactional = AIOKafkaProducer(
        bootstrap_servers=servers, transactional_id="t", transaction_timeout_ms=50_000
    )
    assert {"coordinator-aborts-first"} == refused(transactional, "aiokafka.producer")
    await transactional.stop()


async def test_consumers_whose_group_loses_patience(kafka_cluster):
    """Each client's consumer: a policy that tries for longer than it may not poll."""
    servers = kafka_cluster.bootstrap_servers
    slow = RetryPolicy(deadline=400, backoff={"cap": 60})
    ids = {"rebalance-while-retrying", "session-ends-while-waiting"}
    consumer = KafkaConsumer(bootstrap_servers=servers)
    assert ids == refused(consumer, "kafka_python.consumer", policy=slow)
    consumer.close()
    assert ids == refused(None, "confluent.consumer", {}, policy=slow)
    aio = AIOKafkaConsumer(bootstrap_servers=servers)
    assert ids == refused(aio, "aiokafka.consumer", policy=slow)
    fitting = load_policy("consumer")
    for client, folder in (
        (consumer, "kafka_python"),
        (None, "confluent"),
        (aio, "aiokafka"),
    ):
        home = f"kafkaguard_adapters.{folder}.consumer"
        compare(client, home, {}, fitting, strict=True)
    await aio.stop()
