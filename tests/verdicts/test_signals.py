"""What exceptions say: by class, by text, by their causes, and by what they carry."""

from __future__ import annotations

import enum
import importlib.util
from pathlib import Path

import aiokafka.errors
import confluent_kafka
import kafka.errors
import pytest
from confluent_kafka import KafkaError, KafkaException
from confluent_kafka.error import ValueSerializationError

from kafkaguard import Action, classify, errors
from kafkaguard._verdicts import signals
from kafkaguard._verdicts.signals import quick_signal, signal_of


def caused(error, cause):
    """An error that was raised from another one."""
    error.__cause__ = cause
    return error


@pytest.fixture(autouse=True)
def _nothing_met_before(monkeypatch):
    """No class was met before."""
    monkeypatch.setattr(signals, "_BY_CLASS", {})
    monkeypatch.setattr(signals, "_CARRIERS", {})


@pytest.mark.parametrize(
    "make",
    [
        kafka.errors.NotCoordinatorError,
        kafka.errors.KafkaConnectionError,
        lambda: kafka.errors.KafkaTimeoutError("Unable to bootstrap from x"),
        lambda: kafka.errors.KafkaTimeoutError("slow"),
        lambda: caused(kafka.errors.KafkaTimeoutError(), kafka.errors.for_code(29)()),
        kafka.errors.for_code(4711),
        aiokafka.errors.NotCoordinatorForGroupError,
        lambda: KafkaException(KafkaError(6)),
        lambda: KafkaException(KafkaError(-192)),
        lambda: KafkaException(KafkaError(6, fatal=True)),
        lambda: KafkaException(KafkaError(6, retriable=True)),
        lambda: KafkaException(KafkaError(6, txn_requires_abort=True)),
        lambda: caused(KafkaException(KafkaError(-192)), kafka.errors.for_code(29)()),
        lambda: KafkaException("a text"),
        KafkaException,
        lambda: KafkaError(6),
        lambda: KafkaError(-192),
        lambda: ValueSerializationError("bad"),
    ],
)
def test_the_hot_path_says_what_a_close_look_does(make):
    """If it cannot decide, it says that a close look is needed."""
    looked = signal_of(make())
    assert quick_signal(make()) in (None, tuple(looked))
    assert classify(make()) is classify(make())


@pytest.mark.parametrize(
    "make",
    [
        kafka.errors.NotCoordinatorError,
        kafka.errors.KafkaConnectionError,
        lambda: KafkaException(KafkaError(6)),
        lambda: KafkaError(-192),
    ],
)
def test_the_hot_path_knows_what_was_met_before(make):
    """A class that was classified before needs no look-up."""
    assert quick_signal(make()) is None
    signal_of(make())
    assert quick_signal(make()) == tuple(signal_of(make()))


def test_a_code_of_one_instance_is_not_that_of_its_class():
    """The code of an instance does not change the signal of its class."""
    odd = kafka.errors.NotCoordinatorError()
    odd.errno = 99
    assert signal_of(odd).key == 99
    assert signal_of(kafka.errors.NotCoordinatorError()).key == 16
    assert quick_signal(kafka.errors.NotCoordinatorError())[0] == 16


def test_classes_that_a_client_makes_on_the_spot_are_not_kept():
    """There is one for each number that nobody knows."""
    assert signal_of(kafka.errors.for_code(4711)()).key == 4711
    assert signals._BY_CLASS == {}


def test_a_class_of_a_clients_that_nobody_knows_is_a_state_of_it():
    """By the package that it is from."""
    for package, client in (("kafka", "kafka-python"), ("aiokafka", "aiokafka")):
        cls = type("Odd", (Exception,), {"__module__": f"{package}.odd"})
        assert signal_of(cls())[:2] == (errors.ClientStateError, client)


def test_a_brokers_code_says_more_than_its_causes():
    """Also -1, and that of an error of ours."""
    denied = kafka.errors.for_code(29)
    for code in (-1, 16):
        assert signal_of(caused(kafka.errors.for_code(code)(), denied())).key == code
        ours = caused(errors.for_code(code)(), denied())
        assert classify(ours, api="Fetch") is classify(
            errors.for_code(code)(), api="Fetch"
        )


def test_a_code_of_the_client_says_less_than_a_brokers():
    """A timeout that hides a denial, as theirs and as ours."""
    denied = kafka.errors.for_code(29)
    timeout = caused(errors.for_code(-192)(), denied())
    assert classify(timeout).action is Action.CONFIGURE
    assert signal_of(caused(KafkaException(KafkaError(-192)), denied())).key == 29


def test_a_context_is_followed_from_a_clients_error_only():
    """A bug in an except block is not the error that was handled there."""
    context = kafka.errors.for_code(29)()
    for error, key in (
        (kafka.errors.KafkaTimeoutError(), 29),
        (ValueError(), errors.UnrelatedError),
    ):
        error.__context__ = context
        assert signal_of(error).key == key
    hidden = kafka.errors.KafkaTimeoutError()
    hidden.__context__ = context
    hidden.__suppress_context__ = True
    assert signal_of(hidden).key is errors.ClientTimeoutError


def _registry_error_class():
    """Load confluent-kafka's class alone: its package needs more libraries."""
    folder = Path(confluent_kafka.__file__).parent / "schema_registry"
    name = "confluent_kafka.schema_registry.error"
    spec = importlib.util.spec_from_file_location(name, folder / "error.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.SchemaRegistryError


SchemaRegistryError = _registry_error_class()


class Answered(Exception):  # noqa: N818 - of a schema registry
    """What a schema registry's client raises."""

    def __init__(self, status):
        super().__init__(status)
        self.http_status_code = status


@pytest.mark.parametrize(
    ("status", "action"),
    [
        (500, Action.RETRY),
        (503, Action.RETRY),
        (599, Action.RETRY),
        (429, Action.RETRY),
        (408, Action.RETRY),
        (401, Action.CONFIGURE),
        (403, Action.CONFIGURE),
        (404, Action.CONFIGURE),
        (409, Action.CONFIGURE),
        (422, Action.REJECT),
        (600, Action.REJECT),
    ],
)
def test_what_a_registry_answers_decides(status, action):
    """Behind a serialiser's error, as its cause or beside it."""
    error = ValueSerializationError("no schema")
    assert classify(caused(error, Answered(status))).action is action
    beside = ValueSerializationError("no schema")
    beside.exception = Answered(status)
    assert classify(beside).action is action


@pytest.mark.parametrize(
    ("status", "action"),
    [
        (503, Action.RETRY),
        (429, Action.RETRY),
        (401, Action.CONFIGURE),
        (403, Action.CONFIGURE),
        (404, Action.CONFIGURE),
        (409, Action.CONFIGURE),
        (422, Action.REJECT),
    ],
)
@pytest.mark.parametrize("api", [None, "Produce"])
def test_a_registry_error_of_a_serialiser_that_the_user_calls_decides(
    status, action, api
):
    """It is raised bare, without a serialiser's error around it; nothing was sent."""
    error = SchemaRegistryError(status, status * 100 + 1, "no")
    verdict = classify(error, api=api)
    assert (verdict.action, verdict.written) == (action, "no")
    if action is Action.CONFIGURE:
        assert "schema registry" in verdict.rule.sentence
        assert classify(caused(ValueSerializationError("x"), error)) is verdict


def test_a_registry_that_does_not_answer_is_tried_again():
    """By the classes of HTTP clients, those of their parents, and Python's own."""
    for module, name in (
        ("httpx", "TransportError"),
        ("httpx._exceptions", "TransportError"),
        ("requests.exceptions", "Timeout"),
        ("urllib3.exceptions", "ProtocolError"),
    ):
        parent = type(name, (Exception,), {"__module__": module})
        child = type("Special", (parent,), {"__module__": "elsewhere"})
        for cls in (parent, child):
            error = caused(ValueSerializationError("x"), cls())
            assert classify(error).rule.id == "serialiser-had-no-answer"
    error = caused(ValueSerializationError("x"), ConnectionResetError())
    assert classify(error).rule.id == "serialiser-had-no-answer"


def test_a_number_of_an_enumeration_is_a_code():
    """The other arguments are checked as usual."""

    class Code(enum.IntEnum):
        STALE = 6

    assert classify(Code.STALE, api="Fetch") is classify(6, api="Fetch")
    with pytest.raises(TypeError, match="facts takes TopicFacts"):
        classify(Code.STALE, facts={"compacted": True})


def test_a_message_that_carries_no_error_is_read_all_the_same():
    """KafkaException is what its users raise themselves, too."""
    signal_of(KafkaException(KafkaError(6)))
    assert signal_of(KafkaException("text"))[:2] == (
        errors.ClientStateError,
        "confluent-kafka",
    )
    assert confluent_kafka.KafkaException is KafkaException
