"""Errors that are ours and a client's: what the users of each client reach for stays."""

from __future__ import annotations

import copy
import pickle
import subprocess
import sys

import aiokafka.errors as aiokafka_errors
import kafka.errors as kafka_errors
import pytest
from confluent_kafka import KafkaError, KafkaException
from confluent_kafka.error import ProduceError, ValueSerializationError

from kafkaguard import errors as e
from kafkaguard._errors.generated import BY_CODE
from kafkaguard.errors import for_code
from kafkaguard_adapters.aiokafka.errors import errors as of_aiokafka
from kafkaguard_adapters.confluent.errors import errors as of_confluent
from kafkaguard_adapters.kafka_python.errors import errors as of_kafka_python

CLIENTS = {
    "kafka-python": of_kafka_python,
    "confluent-kafka": of_confluent,
    "aiokafka": of_aiokafka,
}
CODES = [*BY_CODE, 999]


def copies(error):
    """The error and every kind of copy of it."""
    pickled = pickle.loads(pickle.dumps(error))
    return [error, copy.copy(error), copy.deepcopy(error), pickled]


@pytest.mark.parametrize("client", CLIENTS)
@pytest.mark.parametrize("code", CODES)
def test_each_class_together_with_each_clients(client, code):
    """An instance of both, which keeps code and place through every copy."""
    door = CLIENTS[client]
    made = door.make(code, "refused", api="Produce", topic="t", partition=3)
    for error in copies(made):
        assert type(error) is type(made)
        assert isinstance(error, for_code(code))
        assert isinstance(error, door.class_for(code))
        assert (code, "Produce", "t", 3, client) == (
            *(error.code, error.api, error.topic, error.partition),
            error.client,
        )
        assert str(error) == str(made)


@pytest.mark.parametrize("code", CODES)
def test_kafka_python_attributes(code):
    """errno, retriable, invalid_metadata and args are as kafka-python has them."""
    theirs = of_kafka_python.class_for(code)
    for error in copies(of_kafka_python.make(code, "refused")):
        assert code == error.errno
        assert theirs.retriable == error.retriable
        assert theirs.invalid_metadata == error.invalid_metadata
        assert error.args == ("refused",)
        assert error.name == for_code(code).name


@pytest.mark.parametrize("code", CODES)
def test_confluent_attributes(code):
    """e.args[0] is a KafkaError with its methods."""
    for error in copies(of_confluent.make(code, "refused")):
        inner = error.args[0]
        assert isinstance(inner, KafkaError)
        assert (code, "refused") == (inner.code(), inner.str())
        assert code == error.code


@pytest.mark.parametrize("code", CODES)
def test_aiokafka_attributes(code):
    """Errno and retriable, also for the 63 codes that aiokafka does not know."""
    for error in copies(of_aiokafka.make(code, "refused")):
        assert code == error.errno
        assert isinstance(error, aiokafka_errors.BrokerResponseError)


@pytest.mark.parametrize("client", CLIENTS)
@pytest.mark.parametrize(
    "cls", [e.InvalidRecordKeyError, e.RemoteStorageNotReadyError, e.ClientTimeoutError]
)
def test_classes_of_context_and_of_clients_can_be_made_too(client, cls):
    """Our own classes, with the client's base or the class of the code."""
    for error in copies(CLIENTS[client].make(cls, "why", topic="t")):
        assert isinstance(error, cls)
        base = {
            "kafka-python": kafka_errors.KafkaError,
            "confluent-kafka": KafkaException,
            "aiokafka": aiokafka_errors.KafkaError,
        }[client]
        assert isinstance(error, base)


def test_null_key_error_is_kafka_pythons_invalid_record():
    """Code that catches kafka-python's error for 87 also catches a refused null key."""
    error = of_kafka_python.make(e.InvalidRecordKeyError, topic="t")
    assert isinstance(error, kafka_errors.InvalidRecordError)
    assert error.errno == 87


def test_completed_table_lets_the_real_code_through():
    """Aiokafka knows 63 codes fewer than the broker; in a process of its own."""
    script = """
import aiokafka.errors as theirs
from kafkaguard import classify
from kafkaguard_adapters.aiokafka.errors import complete_table
before = dict(theirs.kafka_errors)
assert theirs.for_code(87) is theirs.UnknownError
complete_table()
complete_table()
assert theirs.for_code(87).errno == 87
assert issubclass(theirs.for_code(87), theirs.BrokerResponseError)
assert {k: theirs.kafka_errors[k] for k in before} == before
assert classify(theirs.for_code(87)("x"), api="Produce", null_key=True).rule.id == (
    "null-key-on-compacted-topic")
assert theirs.for_code(999) is theirs.UnknownError
print(len(theirs.kafka_errors) - len(before))
"""
    run = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, timeout=60
    )
    assert run.returncode == 0, run.stderr
    assert run.stdout.strip() == "63"


def raised(error):
    """Raise and catch, so that the exception has a traceback."""
    try:
        raise error
    except BaseException as caught:
        return caught


def test_translating_keeps_the_clients_exception_whole():
    """A translated error has the class, arguments, attributes and cause of the original."""
    original = raised(kafka_errors.NotLeaderForPartitionError("moved"))
    original.hint = "kept"
    error = of_kafka_python.translate(original, api="Fetch", topic="t", partition=1)
    assert error.__cause__ is original
    for copied in copies(error):
        assert isinstance(copied, e.NotLeaderOrFollowerError)
        assert isinstance(copied, kafka_errors.NotLeaderForPartitionError)
        assert copied.args == ("moved",)
        assert (copied.code, copied.errno, copied.hint) == (6, 6, "kept")
        assert copied.original_type == "kafka.errors.NotLeaderForPartitionError"
        assert copied.verdict.action == "REFRESH"


def test_translating_an_unknown_code_of_kafka_python_pickles():
    """kafka-python's class for it was made on the spot and cannot be imported."""
    error = of_kafka_python.translate(kafka_errors.for_code(999)("new"), api="Fetch")
    for copied in copies(error):
        assert (copied.code, copied.errno) == (999, 999)
        assert isinstance(copied, kafka_errors.UnknownError)


def test_translating_confluent_exceptions_with_properties():
    """ProduceError has a read-only `code`, which ours answers the same."""
    inner = KafkaError(10, "too large")
    error = of_confluent.translate(raised(ProduceError(inner)), topic="t")
    for copied in copies(error):
        assert isinstance(copied, ProduceError)
        assert isinstance(copied, e.MessageTooLargeError)
        assert (copied.code, copied.args[0].code()) == (10, 10)
    failed = ValueSerializationError(ValueError("bad"))
    error = of_confluent.translate(failed, topic="t")
    assert isinstance(error, e.SerializationFailedError)
    assert isinstance(error.exception, ValueError)


def test_translating_a_bare_kafka_error():
    """A delivery report hands over a KafkaError, which is no exception."""
    error = of_confluent.translate(KafkaError(-192), topic="t", api="Produce")
    assert isinstance(error, KafkaException)
    assert isinstance(error, e.ClientTimeoutError)
    assert error.code == -192
    assert error.name == "_MSG_TIMED_OUT"
    assert error.verdict.action == "IN_DOUBT"


def test_context_reaches_the_verdict_and_the_class():
    """A null key makes 87 an InvalidRecordKeyError, and it stays so when judged anew."""
    error = of_kafka_python.translate(
        kafka_errors.InvalidRecordError("x"),
        api="Produce",
        context={"null_key": True},
    )
    assert isinstance(error, e.InvalidRecordKeyError)
    assert isinstance(error, kafka_errors.InvalidRecordError)
    assert error.verdict.rule.id == "null-key-on-compacted-topic"


def test_pickle_arrives_where_the_client_is_not_installed():
    """Ours alone is left when theirs cannot be imported."""
    data = pickle.dumps(of_kafka_python.make(87, "refused", topic="t"))
    script = """
import pickle, sys
sys.modules["kafka.errors"] = None
error = pickle.loads(bytes.fromhex(sys.argv[1]))
print(type(error).__mro__[0].__name__, error.code, error.topic)
"""
    run = subprocess.run(
        [sys.executable, "-c", script, data.hex()],
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert run.stdout.strip() == "InvalidRecordError 87 t", run.stderr
