"""kafka-python's producer, guarded, under many threads: nothing lost, twice, or turned."""

from __future__ import annotations

import subprocess
import sys

import pytest
from kafka import KafkaProducer

from kafkaguard import Action, errors, guard
from tests.contracts.producer import stale_topic, until
from tests.kafka_python.broker_away_program import CASES
from tests.kafka_python.producer_load import PARTITIONS, Load, check, outcome, send

pytestmark = pytest.mark.java


@pytest.mark.parametrize("attempt", range(2))
def test_an_oversize_record_costs_no_other_record(kafka_cluster, attempt):
    """The big ones fail with the limit in the text; no other record fails."""
    limit = {"max.message.bytes": 20_000}
    topic = kafka_cluster.create_topic(partitions=PARTITIONS, config=limit)
    client = KafkaProducer(bootstrap_servers=kafka_cluster.bootstrap_servers)
    with guard(client) as producer:
        with Load(producer, topic) as load:
            for n in range(3):
                sent = load.count
                until(lambda sent=sent: load.count > sent + 500)
                big = outcome(send(producer, topic, b"x" * 30_000, b"big"))
                assert isinstance(big, errors.MessageTooLargeError), n
                assert big.verdict.action is Action.REJECT
                assert f"max.message.bytes of topic {topic} is 20000" in str(big)
        producer.flush()
    load.check_innocent()
    check(kafka_cluster, topic, load)


def test_a_refused_batch_keeps_the_order_of_every_key(kafka_cluster):
    """The producer dies ten times under load, through a topic of its own."""
    refusing, stale = stale_topic(kafka_cluster)
    topic = kafka_cluster.create_topic(partitions=PARTITIONS)
    client = KafkaProducer(bootstrap_servers=kafka_cluster.bootstrap_servers)
    with guard(client, topics=stale) as producer:
        with Load(producer, topic) as load:
            for _ in range(10):
                sent = load.count
                until(lambda sent=sent: load.count > sent + 200)
                refused = outcome(send(producer, refusing, b"-", None))
                assert isinstance(refused, errors.InvalidRecordKeyError)
        producer.flush()
    load.check_innocent()
    check(kafka_cluster, topic, load)


@pytest.mark.parametrize("case", CASES)
def test_a_broker_that_goes_away_and_comes_back(case):
    """In the middle of the load: no hang, each record delivered or in doubt.

    In a process of its own, since kafka-python leaves a socket open whose connection
    was refused.
    """
    program = [
        sys.executable,
        "-W",
        "ignore",
        "-m",
        "tests.kafka_python.broker_away_program",
    ]
    ended = subprocess.run(
        [*program, case], capture_output=True, text=True, timeout=120, check=False
    )
    assert ended.returncode == 0, ended.stderr
    assert "checked" in ended.stdout
