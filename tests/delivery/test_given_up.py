"""Records that their client gave up: whether they may be written, and why."""

from __future__ import annotations

import pytest
from aiokafka.errors import ProducerClosed
from confluent_kafka import KafkaError, KafkaException
from kafka.errors import for_code

from kafkaguard import Action, errors
from kafkaguard._delivery.facts import Place, Refusal, Traits
from kafkaguard._delivery.judging import Judge, RefusalFacts
from kafkaguard_adapters.aiokafka.errors import errors as aiokafka_errors
from kafkaguard_adapters.confluent.errors import errors as confluent_errors
from kafkaguard_adapters.kafka_python.errors import errors as kafka_python_errors

CLIENTS = [kafka_python_errors, aiokafka_errors, confluent_errors]


def given_up(made_by, sent, cause=None, *, closed=True):
    """Judge a record that a client gave up; return its error."""
    refusal = Refusal(None, 0, cause or ProducerClosed(), "client", sent)
    known = RefusalFacts(Place("t", 0), 1, closed=closed)
    return Judge(Traits(made_by.client, 1.0, "t"), made_by).judge(refusal, known).error


@pytest.mark.parametrize("made_by", CLIENTS)
def test_a_record_that_never_left_was_not_written(made_by):
    """It is told that the producer was closed, not which class was raised inside."""
    error = given_up(made_by, "never")
    assert error.verdict.action is Action.RETRY
    assert error.verdict.written == "no"
    assert (
        error.summary
        == "the producer was closed before this record was sent: it was not written"
    )


@pytest.mark.parametrize("made_by", CLIENTS)
def test_a_record_without_an_answer_may_be_written(made_by):
    """Only librdkafka has a code of its own for it."""
    error = given_up(made_by, "maybe")
    assert isinstance(error, errors.RecordPurgedError)
    assert error.verdict.action is Action.IN_DOUBT
    assert "the producer was closed while this record had no answer" in str(error)
    code = -151 if made_by is confluent_errors else None
    assert code == error.code
    assert ("_PURGE_INFLIGHT" in str(error)) == (code is not None)


@pytest.mark.parametrize(
    ("cause", "name"),
    [
        (KafkaException(KafkaError(KafkaError._PURGE_QUEUE)), "_PURGE_QUEUE"),
        (for_code(45)(), "OUT_OF_ORDER_SEQUENCE_NUMBER"),
        (ProducerClosed(), "ProducerClosed"),
    ],
)
def test_a_client_that_gives_up_by_itself_says_why(cause, name):
    """By the name that Kafka or librdkafka has for it."""
    error = given_up(confluent_errors, "maybe", cause, closed=False)
    assert f"the producer gave up ({name}) while" in str(error)
