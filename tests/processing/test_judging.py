"""What an exception of a handler means."""

from __future__ import annotations

import math
import sys
from types import ModuleType
from unittest import mock

import pytest

from kafkaguard import Unavailable, errors, load_policy
from kafkaguard._processing.class_names import warn_of_unknown
from kafkaguard._processing.judging import Decision, Judge, is_of_kafka


def judge(error, **handler):
    """Judge an exception under a policy."""
    return Judge(load_policy({"handler": handler}), "model").judge(error, "t")


class OwnError(OSError):
    """An exception of the application."""


@pytest.mark.parametrize(
    ("error", "decision"),
    [
        (OwnError(), Decision.RETRY),
        (TypeError(), Decision.REJECT),
        (AttributeError(), Decision.REJECT),
        (ValueError(), Decision.RETRY),
        (Unavailable(), Decision.WAIT),
        (KeyboardInterrupt(), Decision.END),
        (errors.RequestTimedOutError(), Decision.RETRY),
        (errors.DuplicateSequenceNumberError(), Decision.DONE),
        (errors.InvalidRecordError(), Decision.REJECT),
        (errors.SerializationFailedError(), Decision.REJECT),
        (errors.TopicAuthorizationFailedError(), Decision.END),
        (errors.ProducerFencedError(), Decision.END),
    ],
)
def test_each_exception_has_its_meaning(error, decision):
    """By its class, or by its verdict."""
    assert judge(error).decision is decision


def test_pydantics_validation_error_is_rejected():
    """The record has another form than the model."""
    from pydantic import BaseModel, ValidationError

    class Order(BaseModel):
        total: int

    with pytest.raises(ValidationError) as caught:
        Order(total="x")
    assert judge(caught.value).decision is Decision.REJECT


@pytest.mark.parametrize("name", ["OwnError", f"{OwnError.__module__}.OwnError"])
@pytest.mark.parametrize(
    ("setting", "decision"),
    [
        ("retry_on", Decision.RETRY),
        ("reject_on", Decision.REJECT),
        ("wait_on", Decision.WAIT),
    ],
)
def test_a_class_is_named_with_or_without_its_module(setting, decision, name):
    """Subclasses are included."""

    class ChildError(OwnError):
        pass

    for error in (OwnError(), ChildError()):
        assert judge(error, **{setting: name}).decision is decision


def test_a_class_has_the_name_under_which_a_package_lists_it():
    """As code writes it: ``kafka.errors`` is not where this one is defined."""
    setting = {"wait_on": f"{__name__}.listed.Listed"}
    module = ModuleType("listed")
    module.Listed = OwnError
    assert judge(OwnError(), **setting).decision is Decision.RETRY
    with mock.patch.dict(sys.modules, {f"{__name__}.listed": module}):
        assert judge(OwnError(), **setting).decision is Decision.WAIT


def test_names_that_no_loaded_class_has_are_told_in_one_line(caplog):
    """A misspelt name would change nothing, without a word."""
    names = {
        "reject_on": ["ValueError", "OwnErorr", "tests.nowhere.OwnError"],
        "wait_on": [f"{__name__}.OwnEror", f"{__name__}.OwnError", "json.JSONDecoder"],
        "retry_on": ["json.JSONDecodeError", "os.error"],
    }
    warn_of_unknown(load_policy({"handler": names}).handler)
    (line,) = caplog.messages
    assert "reject_on: OwnErorr; did you mean 'OwnError'?, reject_on: tests.n" in line
    assert f"wait_on: {__name__}.OwnEror; did you mean '{__name__}.OwnError'?" in line
    assert "wait_on: json.JSONDecoder" in line
    for name in ("ValueError", "JSONDecodeError,", "os.error"):
        assert f": {name}" not in line


def test_a_policy_with_known_names_tells_nothing(caplog):
    """Neither does one without names."""
    for names in ({}, {"wait_on": ["OwnError", "builtins.OSError"]}):
        warn_of_unknown(load_policy({"handler": names}).handler)
    assert caplog.messages == []


@pytest.mark.parametrize(
    ("base", "usual"),
    [(KeyError, Decision.REJECT), (ConnectionResetError, Decision.RETRY)],
)
def test_what_a_deserialiser_raised_may_have_a_name(base, usual):
    """A schema registry that is down makes no dead letters."""
    cause = type("OwnError", (base,), {})()
    error = errors.SerializationFailedError("the value cannot be deserialized")
    error.__cause__ = cause
    assert judge(error).decision is usual
    assert judge(error, wait_on="TimeoutError").decision is usual
    assert judge(error, wait_on="OwnError").decision is Decision.WAIT
    assert judge(error, retry_on="Exception").decision is Decision.RETRY


def test_the_most_specific_name_wins():
    """Whichever setting it is in, and before the defaults."""
    settings = {"reject_on": "OSError", "wait_on": "OwnError", "retry_on": "TypeError"}
    assert judge(OwnError(), **settings).decision is Decision.WAIT
    assert judge(OSError(), **settings).decision is Decision.REJECT
    assert judge(TypeError(), **settings).decision is Decision.RETRY


def test_a_handler_has_limits_of_its_own():
    """Not those of calls, and no retry takes from the budget."""
    ruling = judge(OSError(), max_attempts=7, max_age=9).ruling
    assert (ruling.max_attempts, ruling.deadline, ruling.cost) == (7, 9, 0)
    assert judge(OSError()).ruling.deadline == math.inf


def test_unavailable_says_when():
    """None: the policy's backoff."""
    assert judge(Unavailable("db", after=3)).after == 3
    assert judge(Unavailable("db")).after is None
    assert str(Unavailable("db")) == "db"


def test_an_override_changes_what_a_kafka_error_means():
    """As for calls."""
    policy = load_policy({"overrides": [{"when": {"code": 7}, "action": "REJECT"}]})
    judgement = Judge(policy, "model").judge(errors.RequestTimedOutError(), "t")
    assert judgement.decision is Decision.REJECT


def test_errors_of_clients_are_kafkas():
    """Each client's own, and ours."""
    import aiokafka.errors
    import confluent_kafka
    import kafka.errors

    assert is_of_kafka(confluent_kafka.KafkaException())
    assert is_of_kafka(aiokafka.errors.KafkaTimeoutError())
    assert is_of_kafka(kafka.errors.KafkaTimeoutError())
    assert is_of_kafka(errors.UnknownServerError())
    assert not is_of_kafka(TimeoutError())
