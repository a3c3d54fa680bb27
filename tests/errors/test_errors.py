"""What every error carries, and that it survives being copied and sent elsewhere."""

from __future__ import annotations

import copy
import multiprocessing
import pickle
import subprocess
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafkaguard import errors as e
from kafkaguard._errors.generated import BY_CODE
from kafkaguard._errors.librdkafka import LOCAL_CODES
from kafkaguard._errors.made import CLASS_NAMES
from kafkaguard.errors import for_code, for_name

ATTRIBUTES = {
    "api": "Produce",
    "topic": "flights",
    "partition": 3,
    "broker": 1,
    "client": "kafka-python",
    "broker_message": "the broker's words",
}
KEPT = (
    *("code", "name", "api", "topic", "partition", "broker", "client"),
    *("broker_message", "original_type", "original_text", "verdict"),
)


def copies(error):
    """Every way in which an exception is copied."""
    return [
        copy.copy(error),
        copy.deepcopy(error),
        *(
            pickle.loads(pickle.dumps(error, protocol))
            for protocol in range(pickle.HIGHEST_PROTOCOL + 1)
        ),
    ]


@pytest.mark.parametrize("code", [*BY_CODE, 0, 999, -500, *LOCAL_CODES])
def test_every_error_survives_copies(code):
    """Class, attributes, text and arguments are the same afterwards."""
    error = for_code(code)("it went wrong", original=OSError("lost"), **ATTRIBUTES)
    for copied in copies(error):
        assert type(copied) is type(error)
        assert copied.args == ("it went wrong",)
        assert str(copied) == str(error)
        for name in KEPT:
            assert getattr(copied, name) == getattr(error, name), name


@pytest.mark.parametrize("cls", [getattr(e, name) for name in sorted(CLASS_NAMES)])
def test_every_class_can_be_raised_with_nothing(cls):
    """No argument is needed, and the text names the error and the next step."""
    with pytest.raises(cls) as caught:
        raise cls
    assert cls.name in str(caught.value)
    assert str(caught.value.verdict.action) in str(caught.value)


def test_error_raised_in_a_pool_worker_arrives_whole():
    """A pool raises the error itself, no pickling error (confluent-kafka-python #637)."""
    with (
        multiprocessing.get_context("spawn").Pool(1) as pool,
        pytest.raises(e.InvalidRecordKeyError) as caught,
    ):
        pool.apply(_raise_in_worker)
    assert caught.value.topic == "flights"
    assert caught.value.partition == 3
    assert caught.value.code == 87


def _raise_in_worker():
    raise e.InvalidRecordKeyError("no key", **ATTRIBUTES)


def test_text_says_what_where_and_next():
    """One line holds the code, the place, the broker's words and the next step."""
    text = str(e.NotCoordinatorError(**{**ATTRIBUTES, "api": "OffsetFetch"}))
    assert text == (
        "NOT_COORDINATOR (16) [OffsetFetch, topic flights, partition 3, broker 1, "
        "kafka-python]: the broker's words -> REFRESH: the client's metadata is "
        "stale: send the same request again when the client has refreshed its metadata "
        "or found the coordinator"
    )


def test_original_is_kept_as_text():
    """Pickling loses __cause__, so type and text of the original are attributes."""
    error = e.UnknownServerError(original=ValueError("bad"))
    assert (error.original_type, error.original_text) == ("builtins.ValueError", "bad")
    assert "bad" in str(error)


@given(st.integers(min_value=-(2**31), max_value=2**31))
def test_for_code_never_fails_and_keeps_the_number(code):
    """Known or not, the class has the number, and an unknown one is fatal."""
    cls = for_code(code)
    assert code == cls().code
    assert cls is for_code(code)
    if code not in BY_CODE and code not in LOCAL_CODES and code != 0:
        assert issubclass(cls, e.UnrecognisedCodeError)
        assert issubclass(cls, e.FatalError)
    assert pickle.loads(pickle.dumps(cls)) is cls


def test_an_unrecognised_code_has_a_name_with_its_number():
    """The class itself, which stands for all of them, has a name without one."""
    assert e.UnrecognisedCodeError().name == "UNRECOGNISED"
    assert for_code(999)().name == "UNRECOGNISED_999"


def test_local_codes_are_those_of_librdkafka():
    """Numbers and names agree with the installed confluent_kafka, both ways."""
    from confluent_kafka import KafkaError

    theirs = {
        getattr(KafkaError, name): name
        for name in dir(KafkaError)
        if name.startswith("_") and name[1].isupper()
    }
    assert theirs == {code: name for code, (name, _) in LOCAL_CODES.items()}


def test_for_name_finds_and_suggests():
    """A wrong name is answered with the nearest right one."""
    assert for_name("NOT_COORDINATOR") is e.NotCoordinatorError
    with pytest.raises(KeyError, match="did you mean 'NOT_COORDINATOR'"):
        for_name("NOT_COORDINATER")


def test_for_code_refuses_what_is_no_number():
    """for_code() raises TypeError for the name of a code."""
    with pytest.raises(TypeError, match="for_name"):
        for_code("NOT_COORDINATOR")


def test_the_two_special_classes_stand_where_their_kips_put_them():
    """KIP-1007 is retriable; KIP-135 is fatal and an invalid record."""
    assert issubclass(e.RemoteStorageNotReadyError, e.RetriableError)
    assert issubclass(e.InvalidRecordKeyError, e.InvalidRecordError)
    assert issubclass(e.InvalidRecordKeyError, e.FatalError)


def test_public_names_are_what_is_visible():
    """__all__ holds every public class, and nothing that is not there."""
    visible = {
        name
        for name, value in vars(e).items()
        if isinstance(value, type) and not name.startswith("_")
    }
    assert CLASS_NAMES <= visible <= set(e.__all__)


@pytest.mark.parametrize(
    "made",
    [
        "import kafkaguard.errors as e; error = e.NotLeaderOrFollowerError('x')",
        "from kafkaguard.errors import for_code; error = for_code(6)('x')",
        f"import pickle; error = pickle.loads({pickle.dumps(e.for_code(6)('x'))!r})",
    ],
    ids=["its package", "a function", "a pickle"],
)
def test_an_error_has_its_verdict_in_a_process_that_imports_nothing_else(made):
    """Whatever is imported first, an error finds its classifier."""
    program = f"{made}; print(error.verdict.action, error.verdict.error_class.name)"
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    assert done.stdout.split() == ["REFRESH", "NOT_LEADER_OR_FOLLOWER"]
