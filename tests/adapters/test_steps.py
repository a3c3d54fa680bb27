"""A generator that waits is run by blocking, and by awaiting."""

from __future__ import annotations

import asyncio

import pytest

from kafkaguard_adapters.producing.steps import arun, run


def steps(log):
    """Wait twice; an error of the second wait is a result."""
    try:
        first = yield "first"
        try:
            second = yield "second"
        except ValueError as error:
            second = error
    finally:
        log.append("ended")
    return first, second


def do(wanted):
    """Return the first, and raise the second."""
    if wanted == "second":
        raise ValueError(wanted)
    return wanted.upper()


async def ado(wanted):
    """Do the same."""
    return do(wanted)


def test_both_runners_give_the_generator_its_results_and_errors():
    """And return what it returns."""
    log = []
    for first, second in (run(steps(log), do), asyncio.run(arun(steps(log), ado))):
        assert first == "FIRST"
        assert isinstance(second, ValueError)
    assert log == ["ended", "ended"]


async def test_a_cancellation_ends_the_generator_at_once():
    """It is not taken for an error of the wait."""
    log = []
    task = asyncio.create_task(arun(steps(log), lambda _: asyncio.sleep(60)))
    await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert log == ["ended"]
