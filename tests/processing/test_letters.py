"""Dead letters of consumers: what they say, and the record that comes out of one."""

from __future__ import annotations

import pytest
from aiokafka.structs import ConsumerRecord as AIOKafkaRecord
from confluent_kafka import Message
from kafka.consumer.fetcher import ConsumerRecord as KafkaPythonRecord

from kafkaguard import load_policy
from kafkaguard._delivery.dead_letters import as_first_read, letter_of_read
from kafkaguard._delivery.dialects import LetterFacts
from kafkaguard._delivery.facts import Raw
from kafkaguard_adapters.aiokafka.errors import errors as aiokafka_errors
from kafkaguard_adapters.aiokafka.processing import AIOKafkaProcessShell
from kafkaguard_adapters.confluent.errors import errors as confluent_errors
from kafkaguard_adapters.confluent.processing import ConfluentProcessShell
from kafkaguard_adapters.kafka_python.errors import errors as kafka_python_errors
from kafkaguard_adapters.kafka_python.processing import KafkaPythonProcessShell
from kafkaguard_adapters.policy_uses import USES, unused_settings
from kafkaguard_adapters.processing.settings import letter_policy

PLACE = LetterFacts(None, "orders", 2, 40, 7, "billing")
DIALECTS = ["own", "spring", "connect", "streams", "kip-1191"]


@pytest.mark.parametrize("dialect", DIALECTS)
@pytest.mark.parametrize("value", [None, b"", b"v"])
@pytest.mark.parametrize("key", [None, b"", b"k"])
def test_a_letter_is_again_the_record_that_was_read(dialect, key, value):
    """Null stays apart from empty, and all headers are the record's own."""
    record = Raw(key, value, [("h", b"1"), ("n", None)], 7)
    letter = letter_of_read(record, PLACE, ValueError("x"), dialect=dialect)
    facts, again = as_first_read(letter)
    assert (facts.topic, facts.partition, facts.offset) == ("orders", 2, 40)
    assert again == record


@pytest.mark.parametrize("dialect", DIALECTS)
def test_a_letter_that_is_set_aside_again_keeps_its_null(dialect):
    """Its own value is empty."""
    record = Raw(None, None, [("h", b"1")], 7)
    letter = letter_of_read(record, PLACE, ValueError("x"), dialect=dialect)
    letter = letter_of_read(letter, PLACE, ValueError("y"), dialect=dialect)
    assert as_first_read(letter)[1] == record


def test_the_time_of_a_record_from_1970_is_a_time():
    """Zero is no missing value."""
    record = Raw(b"k", b"v", [], 0)
    facts = LetterFacts(None, "orders", 0, 0, 0, "billing")
    letter = letter_of_read(record, facts, ValueError())._replace(timestamp_ms=99)
    assert as_first_read(letter)[1].timestamp_ms == 0


RECORD = {
    "topic": "orders.dlq",
    "partition": 0,
    "offset": 3,
    "key": b"k",
    "value": b"letter",
}
NEEDLESS = dict.fromkeys(("checksum", "serialized_key_size", "serialized_value_size"))
LETTERS = {
    "kafka-python": (
        KafkaPythonProcessShell,
        KafkaPythonRecord(
            **RECORD, **NEEDLESS, leader_epoch=1, timestamp=99, timestamp_type=0,
            headers=[], serialized_header_size=None,
        ),
    ),
    "confluent-kafka": (ConfluentProcessShell, Message(**RECORD, timestamp=(1, 99))),
    "aiokafka": (
        AIOKafkaProcessShell,
        AIOKafkaRecord(
            **RECORD, **NEEDLESS, timestamp=99, timestamp_type=0, headers=()
        ),
    ),
}  # fmt: skip


@pytest.mark.parametrize("client", LETTERS)
def test_a_handler_of_letters_gets_the_clients_own_record(client):
    """With topic, partition, offset and time of the record that was first read."""
    cls, letter = LETTERS[client]
    shell = object.__new__(cls)
    raw = Raw(b"k", b"first", [("h", b"1")], 40)
    record = shell.restore(letter, PLACE, raw)
    assert type(record) is type(letter)
    again = shell.raw(record)
    assert again._replace(headers=list(again.headers)) == raw
    names = ("topic", "partition", "offset")
    where = [getattr(record, name) for name in names]
    assert [each() if callable(each) else each for each in where] == ["orders", 2, 40]


@pytest.mark.parametrize(
    "errors", [kafka_python_errors, confluent_errors, aiokafka_errors]
)
def test_the_producer_of_letters_uses_all_that_its_policy_sets(errors):
    """Otherwise guard() would warn of it in each run."""
    policy = load_policy(
        {
            "on_reject": "dead_letter",
            "deadline": 7,
            "attempt_timeout": 3,
            "handler": {"max_attempts": 9},
            "keep_pauses": True,
            "overrides": [{"when": {"code": 7}, "action": "REJECT"}],
        }
    )
    made = letter_policy(policy, errors)
    assert unused_settings(made, USES[f"{errors.client} producer"]) == []
    assert (made.on_reject, made.deadline) == ("raise", 7)
