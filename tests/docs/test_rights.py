"""The page on access rights: each use works with exactly the rights that it names."""

from __future__ import annotations

import importlib.util
import secrets
import sys
from pathlib import Path

import pytest
from kafka import KafkaAdminClient, KafkaConsumer, KafkaProducer, TopicPartition

from kafkaguard import guard
from kafkaguard.errors import KafkaGuardError
from kafkaguard.testing import KafkaCluster
from kafkaguard_adapters.spark.once.offsets import Home, offsets_for
from kafkaguard_adapters.spark.once.rules import Marker, Plan
from kafkaguard_adapters.spark.once.transaction import open_producer

pytestmark = [pytest.mark.java, pytest.mark.xdist_group("rights")]

DOCS = Path(__file__).resolve().parents[2] / "docs"
TIMEOUT_S = 30
#: The longest metadata that the brokers accept, and a plan and a marker of that size.
METADATA_BYTES = 200
LATE = 2**33
PLAN = Plan("f" * 16, "q" * 36, 10**18, 99_999, 99_999, "c" * 16, LATE, LATE)
MARKER = Marker("f" * 16, 10**18, 10**18, "d" * 32, LATE)


def _uses():
    sys.path.insert(0, str(DOCS))
    try:
        spec = importlib.util.spec_from_file_location("rights", DOCS / "rights.py")
        module = importlib.util.module_from_spec(spec)
        sys.modules["rights"] = module
        spec.loader.exec_module(module)
    finally:
        sys.path.remove(str(DOCS))
    return module.USES


USES = _uses()


@pytest.fixture(scope="module")
def cluster():
    """A broker with a user for each use, and one that may do nothing."""
    names = [use.task for use in USES] + ["nobody", "once", "undeclared"]
    passwords = {name: secrets.token_urlsafe() for name in names}
    settings = {"offset.metadata.max.bytes": METADATA_BYTES}
    with KafkaCluster(users=passwords, settings=settings) as running:
        for topic in ("topic", "letters"):
            config = {"cleanup.policy": "compact"} if topic == "topic" else {}
            running.create_topic(topic, config=config)
        servers = running.bootstrap_servers
        with KafkaProducer(bootstrap_servers=servers) as producer:
            producer.send("topic", b"1", key=b"k")
        with KafkaConsumer(bootstrap_servers=servers, group_id="group") as consumer:
            consumer.assign([TopicPartition("topic", 0)])
            consumer.seek(TopicPartition("topic", 0), 0)
            consumer.commit()
        process({"bootstrap_servers": servers})
        for use in USES:
            for grant in use.grants:
                running.grant(use.task, *grant)
        yield running


def send(config):
    """A record with a key is delivered, one without a key is refused by the guard."""
    with guard(KafkaProducer(**config)) as producer:
        producer.send("topic", b"1", key=b"k").get(TIMEOUT_S)
        with pytest.raises(KafkaGuardError) as refused:
            producer.send("topic", b"1")
    assert refused.value.name == "INVALID_RECORD_KEY"


def dead_letter(config):
    """The refused record arrives in the dead-letter topic."""
    policy = {"on_reject": "dead_letter", "dead_letter": {"topic": "letters"}}
    with guard(KafkaProducer(**config), policy=policy) as producer:
        producer.send("topic", b"1")
        assert producer.flush(TIMEOUT_S).dead_lettered == 1


def transaction(config):
    """A transaction is committed."""
    client = KafkaProducer(**config, transactional_id="transaction")
    with guard(client) as producer:
        producer.init_transactions()
        producer.begin_transaction()
        producer.send("topic", b"1", key=b"k")
        producer.commit_transaction()


def consume(config):
    """A record is read and committed."""
    client = KafkaConsumer(
        "topic", **config, group_id="group", auto_offset_reset="earliest"
    )
    with guard(client) as consumer:
        records = []
        while not records:
            for found in consumer.poll(timeout_ms=500).values():
                records += found
            if consumer.assignment():  # another test may have committed the record
                consumer.seek_to_beginning()
        consumer.commit()


def handling(config):
    """Guard a consumer whose rejected records are set aside."""
    return guard(
        factory=KafkaConsumer,
        config={**config, "group_id": "group", "auto_offset_reset": "earliest"},
        policy={
            "on_reject": "dead_letter",
            "dead_letter": {"topic": "letters"},
            "handler": {"reject_on": ["KeyError"]},
        },
    )


def process(config):
    """A record whose handler raises is in the dead-letter topic."""
    with handling(config) as consumer:
        consumer.assign([TopicPartition("topic", 0)])
        consumer.seek(TopicPartition("topic", 0), 0)
        assert consumer.process({}.__getitem__, until_end=True).dead_lettered


def handle_letters(config):
    """The group handles its letters."""
    with handling(config) as consumer:
        assert consumer.process(str, letters="letters").processed


def lag(config):
    """The group has a lag, and nothing is missing."""
    with guard(KafkaAdminClient(**config)) as admin:
        report = admin.lag("group")
        report.raise_for_errors()
        assert report.sees_all_topics is False  # the group might have another topic
        assert not report.complete
        assert admin.lag("group", topics=["topic"]).complete
        assert report.groups["group"].total is not None


def lag_of_all(config):
    """All groups are seen."""
    with guard(KafkaAdminClient(**config)) as admin:
        report = admin.lag()
        report.raise_for_errors()
        assert report.sees_all_groups
        assert report.groups["group"].total is not None


def offsets(config):
    """Offsets are told."""
    with guard(KafkaAdminClient(**config)) as admin:
        report = admin.end_offsets([("topic", 0)])
        report.raise_for_errors()
        assert report.offsets


def log_dirs(config):
    """Directories are listed."""
    with guard(KafkaAdminClient(**config)) as admin:
        report = admin.log_dirs()
        report.raise_for_errors()
        assert report.brokers


@pytest.mark.parametrize("use", USES, ids=lambda use: use.task)
def test_these_rights_are_enough(cluster, use):
    """A user with exactly the rights of the row can do it."""
    globals()[use.task](cluster.client_config("SASL_PLAIN", user=use.task))


def test_rights_of_a_write_exactly_once(cluster):
    """The rights of the page, and a declared retention instead of the last one.

    Plan and marker are as long as they can be, and so is what the brokers accept.
    """
    for user in ("once", "undeclared"):
        for operation, kind, name in (
            ("WRITE", "TOPIC", "topic"),
            ("READ", "TOPIC", "topic"),
            ("WRITE", "TRANSACTIONAL_ID", "pay-driver"),
            ("WRITE", "TRANSACTIONAL_ID", "pay-0"),
            ("READ", "GROUP", "kafkaguard.once.pay"),
            ("READ", "GROUP", "kafkaguard.once.pay.plan"),
        ):
            cluster.grant(user, operation, kind, name)
    cluster.grant("once", "DESCRIBE_CONFIGS", "CLUSTER", "kafka-cluster")
    for user, limits in (("once", (604_800.0, 900.0)), ("undeclared", (None, None))):
        client = cluster.client_config("SASL_PLAIN", user=user, client="confluent")
        reader = offsets_for(client)
        assert reader.limits() == limits
        home = Home("pay", "topic", reader.count_partitions("topic"))
        for shard, entry in ((None, PLAN), (0, MARKER)):
            transaction = open_producer(client, home, shard, TIMEOUT_S)
            transaction.init()
            transaction.commit(entry)
        reader.fence([home.id_of(0)], TIMEOUT_S)
        found = reader.look(home, [0], stable=True)[:2]
        assert found == (PLAN, {0: MARKER})


@pytest.mark.parametrize("use", USES, ids=lambda use: use.task)
def test_without_rights_it_is_refused(cluster, use):
    """A user without any right cannot: the row is about rights at all."""
    config = cluster.client_config("SASL_PLAIN", user="nobody")
    if use.task in ("send", "dead_letter", "transaction"):
        config["max_block_ms"] = config["delivery_timeout_ms"] = 5_000
        config["request_timeout_ms"] = 4_000
    with pytest.raises((KafkaGuardError, AssertionError, KeyError)):
        globals()[use.task](config)
