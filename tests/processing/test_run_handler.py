"""``kafkaguard.testing.run_handler``: a handler's retries, letters and batches."""

from __future__ import annotations

from functools import partial
from types import SimpleNamespace

import pytest

import kafkaguard
from kafkaguard import BatchError, Unavailable
from kafkaguard.testing import run_handler

LETTERS = {"on_reject": "dead_letter"}


def record(offset, key=None, partition=0):
    """Make a record as kafka-python's and aiokafka's are: with attributes."""
    return SimpleNamespace(topic="t", partition=partition, offset=offset, key=key)


def test_records_are_handled_in_their_order():
    """Anything can be a record."""
    seen = []
    run = run_handler(seen.append, ["a", "b", "c"])
    assert seen == ["a", "b", "c"]
    assert (run.report.processed, run.report.committed) == (3, 3)
    assert run.error is None


def test_a_record_that_fails_is_tried_again_and_then_set_aside():
    """With the policy's waits, which cost no time here."""

    def handle(_):
        raise OSError("down")

    run = run_handler(handle, [7], policy={**LETTERS, "handler": {"max_attempts": 4}})
    assert [each.error for each in run.attempts] == ["OSError"] * 4
    times = [each.time for each in run.attempts]
    assert sorted(times) == times
    assert times[-1] > 0
    (letter,) = run.letters
    assert (letter.record, letter.topic, letter.attempts) == (7, "records.dlq", 4)
    assert (
        run.report.dead_lettered,
        run.report.retried,
        run.report.processed,
    ) == (1, 3, 0)


@pytest.mark.parametrize("error", [TypeError, AttributeError])
def test_what_fails_in_the_same_way_again_is_set_aside_at_once(error):
    """A bug in the handler, or a record of another form."""

    def handle(_):
        raise error

    assert len(run_handler(handle, [1], policy=LETTERS).attempts) == 1


def test_on_reject_raise_ends_the_run_with_the_error_and_its_place():
    """What is done before is committed."""

    def handle(each):
        if each.offset == 2:
            raise ValueError("bad")

    policy = {"on_reject": "raise", "handler": {"reject_on": "ValueError"}}
    run = run_handler(handle, [record(n) for n in range(5)], policy=policy)
    assert isinstance(run.error, ValueError)
    (note,) = run.error.__notes__
    assert "t-0 at offset 2 failed (1 attempt)" in note
    assert run.report.committed == 2


@pytest.mark.parametrize("order", ["partition", "key", "none"])
def test_a_poison_record_blocks_its_order_only(order):
    """Its partition, its key, or nothing."""
    seen = []

    def handle(each):
        if each.offset == 0 and kafkaguard.handling().attempt < 3:
            raise OSError
        seen.append(each.offset)

    records = [record(n, b"ab"[n % 2 : n % 2 + 1]) for n in range(6)]
    run = run_handler(handle, records, order=order, policy=LETTERS)
    assert run.report.processed == 6
    expected = {
        "partition": [0, 1, 2, 3, 4, 5],
        "key": [1, 3, 5, 0, 2, 4],
        "none": [1, 2, 3, 4, 5, 0],
    }
    assert expected[order] == seen


def test_a_dependency_that_is_down_makes_no_letters():
    """No attempt is counted, whatever the policy's number of attempts."""
    failures = iter([Unavailable(after=30)] * 10)

    def handle(_):
        for error in failures:
            raise error

    run = run_handler(
        handle, [1, 2], policy={**LETTERS, "handler": {"max_attempts": 1}}
    )
    assert (run.report.processed, len(run.letters)) == (2, 0)
    assert run.seconds >= 300


def test_a_dependency_is_named_by_its_exception():
    """With the policy's backoff."""
    count = iter(range(100))

    def handle(_):
        if next(count) < 20:
            raise ConnectionRefusedError

    policy = {**LETTERS, "handler": {"wait_on": ["ConnectionError"], "max_attempts": 1}}
    run = run_handler(handle, [1], policy=policy)
    assert (run.report.processed, run.report.retried) == (1, 0)


def test_a_batch_is_split_down_to_the_bad_record():
    """Splits cost no attempt."""
    calls = []

    def handle(batch):
        calls.append(len(batch))
        if 5 in batch:
            raise ValueError

    policy = {**LETTERS, "handler": {"reject_on": "ValueError"}}
    run = run_handler(handle, range(16), policy=policy, batch=8)
    assert [letter.record for letter in run.letters] == [5]
    assert run.report.processed == 15
    assert calls[:4] == [8, 4, 4, 2]
    assert run.report.retried == 0
    assert {each.time for each in run.attempts} == {0}  # nor a backoff


def test_a_handler_that_knows_names_the_bad_records():
    """Only these are tried again."""
    calls = []

    def handle(batch):
        calls.append(list(batch))
        if len(calls) == 1:
            raise BatchError({1: OSError(), 3: OSError()})

    run = run_handler(handle, range(4), policy=LETTERS, batch=4)
    assert calls[0] == [0, 1, 2, 3]
    assert {1, 3} == {each for call in calls[1:] for each in call}
    assert (run.report.processed, run.report.retried) == (4, 2)


def test_async_handlers_run_too():
    """As with aiokafka."""
    seen = []

    async def handle(each):
        seen.append(each)

    assert run_handler(handle, [1, 2]).report.processed == 2
    assert seen == [1, 2]


@pytest.mark.parametrize("argument", [{"workers": 0}, {"batch": 0}, {"order": "x"}])
def test_arguments_have_the_bounds_of_process(argument):
    """Otherwise a test would pass that the service refuses."""
    with pytest.raises(ValueError, match=next(iter(argument))):
        run_handler(print, [], **argument)


def test_a_misspelt_class_in_the_policy_is_told(caplog):
    """As at the begin of ``process()``."""
    run_handler(print, [], policy={"handler": {"wait_on": "ConnectionEror"}})
    assert "wait_on: ConnectionEror; did you mean 'ConnectionError'?" in caplog.text


def test_handling_outside_a_handler_says_where_it_works():
    """Not in the thread of another one, for example."""
    with pytest.raises(kafkaguard.errors.ClientStateError, match="in a handler"):
        kafkaguard.handling()


async def _coroutine(_):
    pytest.fail("it must not run")


def _generator(_):
    yield pytest.fail("it must not run")


async def _async_generator(_):
    yield pytest.fail("it must not run")


@pytest.mark.parametrize("call", [_coroutine, _generator, _async_generator])
@pytest.mark.parametrize("batch", [None, 2])
def test_a_result_whose_body_has_not_run_ends_the_run(call, batch):
    """A wrapper hides what the handler is; the record would count as handled."""
    handler = partial(lambda call, record: call(record), call)
    run = run_handler(handler, [1, 2], batch=batch)
    assert isinstance(run.error, kafkaguard.errors.ClientConfigurationError)
    assert "its body has not run" in str(run.error)
    assert run.report.processed == 0


def test_max_age_ends_the_attempts():
    """However many there may be."""

    def handle(_):
        raise OSError

    handler = {"max_attempts": 10_000, "max_age": 20}
    run = run_handler(handle, [1], policy={**LETTERS, "handler": handler})
    assert len(run.letters) == 1
    assert run.seconds <= 20


def test_the_limit_of_letters_holds():
    """A fault of the whole stream does not move it into the dead-letter topic."""

    def handle(_):
        raise TypeError("no such column")

    policy = {
        "on_reject": "dead_letter",
        "dead_letter": {"limit": {"consecutive": 5}},
    }
    run = run_handler(handle, range(100), policy=policy)
    assert len(run.letters) == 5
    assert isinstance(run.error, TypeError)
    assert "consecutive" in "".join(run.error.__notes__)
