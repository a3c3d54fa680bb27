"""A raised ``confluent_kafka.KafkaError``, which no ``except`` with a class meets."""

from __future__ import annotations

import asyncio
import pickle
import threading

import pytest
from confluent_kafka import KafkaError, KafkaException

from kafkaguard import errors, retry
from kafkaguard._verdicts.bare_errors import current_error
from kafkaguard_adapters.producing.lanes import Lane

POLICY = {"max_attempts": 3, "backoff": {"base": 0.001}}


def failing(code, calls):
    """Make a function that raises a bare error, as ``raise message.error()`` does."""

    def fail():
        calls.append(code)
        raise KafkaError(code)

    return fail


@pytest.mark.parametrize(
    ("code", "attempts", "action"), [(10, 1, "REJECT"), (6, 3, "REFRESH")]
)
@pytest.mark.parametrize("is_async", [False, True])
def test_it_is_judged_and_raised_as_an_exception_of_both_kinds(
    code, attempts, action, is_async
):
    """With its code, tried as its verdict says, and whole after pickling."""
    calls = []
    fail = failing(code, calls)

    async def afail():
        fail()

    call = retry(POLICY)(fail)
    if is_async:
        call = lambda: asyncio.run(retry(POLICY)(afail)())  # noqa: E731 - one of two
    with pytest.raises(KafkaException) as caught:
        call()
    error = caught.value
    assert attempts == len(calls)
    assert isinstance(error, errors.for_code(code))
    assert code == error.code == error.args[0].code()
    assert action == error.verdict.action
    assert error.original_type is None
    assert code == pickle.loads(pickle.dumps(error)).code


def test_what_is_an_exception_goes_on_as_it_is():
    """KeyboardInterrupt ends a retried call at once."""

    @retry(POLICY)
    def stop():
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        stop()
    with pytest.raises(SystemExit):
        leave()


def leave():
    """Raise SystemExit, and meet it."""
    try:
        raise SystemExit
    except:  # noqa: E722 - what is tested
        current_error()


def test_it_ends_no_thread_of_ours():
    """Raised in a hook, it is told like anything that a hook raises."""
    told, done = [], threading.Event()
    lane = Lane("test", told.append)
    lane.put(failing(10, []))
    lane.put(done.set)
    lane.start()
    assert done.wait(20)
    (error,) = told
    assert isinstance(error, KafkaException)
