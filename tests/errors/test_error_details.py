"""What an error carries and says, argument by argument."""

from __future__ import annotations

import pickle
from operator import attrgetter

import kafka.errors
import pytest

from kafkaguard import classify, errors
from kafkaguard._errors.made import _dual_again, dual


@pytest.mark.parametrize(
    ("known", "place"),
    [
        ({}, ""),
        ({"topic": "t"}, "topic t"),
        ({"partition": 0}, "partition 0"),
        ({"broker": 0}, "broker 0"),
        ({"api": "Fetch", "client": "aiokafka"}, "Fetch, aiokafka"),
        (
            {"api": "Fetch", "topic": "t", "partition": 3, "broker": 1},
            "Fetch, topic t, partition 3, broker 1",
        ),
    ],
)
def test_a_place_is_what_is_known_of_it(known, place):
    """Partition 0 and broker 0 are known places."""
    error = errors.NotCoordinatorError(**known)
    assert error.place == place
    assert str(error).startswith(f"NOT_COORDINATOR (16) [{place}]" if place else "NOT")


@pytest.mark.parametrize(
    ("given", "text"),
    [
        ({}, ""),
        ({"message": "ours"}, ": ours"),
        ({"broker_message": "theirs"}, ": theirs"),
        ({"message": "ours", "broker_message": "theirs"}, ": ours: theirs"),
        ({"message": "same", "broker_message": "same"}, ": same"),
        ({"original": ValueError("client")}, ": client"),
        ({"message": "ours", "original": ValueError("client")}, ": ours"),
        ({"broker_message": "theirs", "original": ValueError("client")}, ": theirs"),
        ({"original": ValueError()}, ""),
    ],
)
def test_the_texts_stand_in_one_line(given, text):
    """Ours, the broker's, and only without these the client's; none of them twice."""
    error = errors.NotCoordinatorError(**given)
    verdict = classify(16)
    assert str(error) == (
        f"NOT_COORDINATOR (16){text} -> {verdict.action}: {verdict.rule.sentence}"
    )


def test_a_message_is_an_argument_by_name_too():
    """`message=` is the same as the first argument."""
    assert errors.NotCoordinatorError(message="m").args == ("m",)
    assert errors.NotCoordinatorError("m").args == ("m",)
    assert errors.NotCoordinatorError().args == ()


def test_a_verdict_that_is_given_goes_before_what_the_code_says():
    """A verdict that was given to an error replaces the one of its code."""
    error = errors.NotCoordinatorError(verdict=classify(10, api="Produce"))
    assert error.verdict is classify(10, api="Produce")
    assert error.given_verdict is error.verdict
    assert errors.NotCoordinatorError().given_verdict is None
    assert errors.NotCoordinatorError().verdict is classify(16)


CLASSES = sorted(
    {
        found
        for name in errors.__all__
        if isinstance(found := getattr(errors, name), type)
        and issubclass(found, errors.KafkaGuardError)
    }
    - {errors.StackingError},
    key=attrgetter("__name__"),
)


@pytest.mark.parametrize("cls", CLASSES)
def test_an_error_has_one_verdict(cls):
    """Whether it is asked for its own, or classified; also in a group."""
    error = cls("text")
    assert classify(error) is error.verdict
    assert classify(ExceptionGroup("group", [error])) is error.verdict
    given = cls("text", api="Produce", verdict=classify(10))
    assert classify(given) is given.verdict
    assert classify(given, api="Produce") is given.verdict


def test_a_context_that_says_more_goes_before_the_verdict_that_was_given():
    """Another request, or a transaction; but not the request alone if none was known."""
    error = errors.NotCoordinatorError(verdict=classify(10, api="Produce"))
    assert classify(error, api="EndTxn") is error.verdict
    assert classify(error, transactional=True) is classify(16, transactional=True)
    assert classify(error, null_key=False) is classify(16, null_key=False)
    produced = errors.NotCoordinatorError(api="Produce", verdict=classify(10))
    assert classify(produced, api="EndTxn") is classify(16, api="EndTxn")
    with pytest.raises(ValueError, match="no request"):
        classify(error, api="Prodduce")


def test_a_code_of_its_own_goes_before_that_of_the_class():
    """The code of an error replaces the code of its class."""
    assert errors.KafkaGuardError(code=7).code == 7
    assert errors.NotCoordinatorError().code == 16
    assert errors.NotCoordinatorError(code=0).code == 0


def test_a_class_that_is_a_clients_already_is_its_own_dual():
    """dual() returns a class that already has the client's class as it is."""
    theirs = kafka.errors.NotCoordinatorError
    both = dual(errors.NotCoordinatorError, theirs)
    assert dual(both, theirs) is both
    assert dual(errors.NotCoordinatorError, Exception) is errors.NotCoordinatorError


def test_a_dual_class_looks_like_ours():
    """Its name, its words, and where it is said to be from."""
    both = dual(errors.NotCoordinatorError, kafka.errors.NotCoordinatorError)
    assert both.__name__ == "NotCoordinatorError"
    assert both.__doc__ == errors.NotCoordinatorError.__doc__
    assert both.__module__ == "kafkaguard.errors"
    assert errors.for_code(4711).__module__ == "kafkaguard.errors"


@pytest.mark.parametrize(
    "path", ["no_such_package:KafkaError", "kafka.errors:NoSuchError"]
)
def test_where_the_clients_class_is_missing_ours_alone_is_made(path):
    """In a process without that client, or with another version of it."""
    ours = errors.NotCoordinatorError
    assert _dual_again(ours, path) is ours
    there = _dual_again(ours, "kafka.errors:NotCoordinatorError")
    assert issubclass(there, kafka.errors.NotCoordinatorError)
    error = pickle.loads(pickle.dumps(there("m", topic="t")))
    assert (type(error), error.summary, error.topic) == (there, "m", "t")


def test_conditions_that_only_a_client_meets_have_names_of_their_own():
    """They say where they come from; all codes come from a broker."""
    names = [name for name in errors.__all__ if name.startswith("Client")]
    conditions = [getattr(errors, name) for name in names]
    assert len(conditions) > 5
    for cls in conditions:
        assert (cls.origin, cls.code) == ("client", None)
        assert cls.name.startswith("CLIENT_")


@pytest.mark.parametrize(
    ("code", "api", "right"),
    [
        (29, "Produce", "Produce needs Write on the topic flights"),
        (29, "Fetch", "Fetch needs Read on the topic flights"),
        (29, "ListOffsets", "ListOffsets needs Describe on the topic flights"),
        (30, "JoinGroup", "JoinGroup needs Read on the group"),
        (30, "OffsetFetch", "OffsetFetch needs Describe on the group"),
        (53, "InitProducerId", "InitProducerId needs Write on the transactional id"),
    ],
)
def test_a_denied_request_says_which_operation_on_what_is_missing(code, api, right):
    """A group needs Read to consume, and Describe for its lag: the code is the same."""
    error = errors.for_code(code)("refused", api=api, topic="flights")
    assert f": refused: {right} -> CONFIGURE: access is denied" in str(error)


def test_a_denied_request_without_a_name_says_no_right():
    """The code alone does not tell it."""
    assert "needs" not in str(errors.for_code(29)("refused"))
    assert "needs" not in str(errors.for_code(29)("refused", api="ApiVersions"))
