"""Each claim of the README's first screen, with the clients that are installed.

That a bare job of Spark fails, ``test_start.py`` shows.
"""

from __future__ import annotations

import re
import subprocess
import sys
from importlib.metadata import version
from pathlib import Path

import pytest
from confluent_kafka import KafkaError, Producer
from kafka import KafkaConsumer, KafkaProducer, TopicPartition
from kafka.errors import InvalidRecordError

from aiokafka import AIOKafkaProducer
from kafkaguard._errors.generated import BY_CODE, RETRIABLE_CODES

README = Path(__file__).resolve().parents[2] / "README.md"
SCREEN = re.sub(r"\s+", " ", README.read_text().partition("**The one line")[0])
COMPACTED = pytest.mark.kafka_topic(config={"cleanup.policy": "compact"})


@pytest.mark.parametrize("client", ["kafka-python", "confluent-kafka", "aiokafka"])
def test_the_versions_are_those_that_are_tested(client):
    """A claim about another version would be hearsay."""
    assert f"{client} {version(client).rpartition('.')[0]}" in SCREEN


@COMPACTED
def test_one_record_without_a_key_fails_all_100_of_its_batch(
    kafka_cluster, kafka_topic
):
    """Afterwards kafka-python's producer sends nothing."""
    assert "100 of 100 records are lost. kafka-python's producer is dead" in SCREEN
    client = KafkaProducer(
        bootstrap_servers=kafka_cluster.bootstrap_servers, linger_ms=500
    )
    keys = [None, *(b"%d" % number for number in range(99))]
    futures = [client.send(kafka_topic, b"value", key=key) for key in keys]
    client.flush()
    assert [future.failed() for future in futures] == [True] * 100
    with pytest.raises(InvalidRecordError):  # though it has a key
        client.send(kafka_topic, b"value", key=b"k").get(20)
    client.close(0)


def written(servers, topic):
    """Count the records of a topic's only partition."""
    with KafkaConsumer(bootstrap_servers=servers) as consumer:
        place = TopicPartition(topic, 0)
        return consumer.end_offsets([place])[place]


def send_with_confluent(servers, topic):
    """Send a record, and return the error of its report."""
    errors = []
    producer = Producer({"bootstrap.servers": servers})
    producer.produce(topic, b"v", on_delivery=lambda error, _: errors.append(error))
    producer.flush(30)
    return errors


async def send_with_aiokafka(servers, topic):
    """Send a record; an error would be raised."""
    async with AIOKafkaProducer(bootstrap_servers=servers) as producer:
        await producer.send_and_wait(topic, b"v")


async def test_an_answer_that_is_lost_twice_leaves_three_copies_and_success(
    kafka_cluster, kafka_faults, kafka_topic
):
    """Both clients have no idempotence by default."""
    assert "write three copies and report success" in SCREEN
    servers = kafka_faults.bootstrap_servers
    kafka_faults.on("Produce", topic=kafka_topic).reset(times=2, written=True)
    assert send_with_confluent(servers, kafka_topic) == [None]
    assert written(kafka_cluster.bootstrap_servers, kafka_topic) == 3
    kafka_faults.on("Produce", topic=kafka_topic).reset(times=2, written=True)
    await send_with_aiokafka(servers, kafka_topic)
    assert written(kafka_cluster.bootstrap_servers, kafka_topic) == 6


def test_aiokafka_does_not_know_63_of_137_codes():
    """It has the same class for all of them."""
    program = (  # in a process of its own: other tests make aiokafka know more
        "from aiokafka.errors import UnknownError, for_code\n"
        "from kafkaguard._errors.generated import BY_CODE\n"
        "print(sum(for_code(c) is UnknownError for c in BY_CODE if c > 0))"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True
    )
    assert (
        f"does not know {done.stdout.strip()} of Kafka's {len(BY_CODE)} err" in SCREEN
    )


def test_the_retriable_flag_of_confluent_kafka_says_nothing_about_a_record(
    kafka_faults, kafka_topic
):
    """It is meant for the calls of transactions; Kafka retries 32 codes."""
    assert f"is False for all {len(RETRIABLE_CODES)} that Kafka retries" in SCREEN
    assert not any(KafkaError(code).retriable() for code in RETRIABLE_CODES)
    kafka_faults.on("Produce", topic=kafka_topic).fail(19)
    errors = []
    producer = Producer(
        {"bootstrap.servers": kafka_faults.bootstrap_servers, "retries": 0}
    )
    producer.produce(
        kafka_topic, b"v", on_delivery=lambda error, _: errors.append(error)
    )
    producer.flush(30)
    (error,) = errors
    assert (error.code(), error.retriable()) == (19, False)
    assert 19 in RETRIABLE_CODES
