"""Requests that are repeated for the items that failed."""

from __future__ import annotations

import asyncio

import pytest

from kafkaguard import errors
from kafkaguard._cluster.reports import make
from kafkaguard_adapters.asking import retrying

LOADING = make(14, api="OffsetFetch")
LATE = make(errors.ClientTimeoutError, "no answer", api="OffsetFetch")


async def ask_in_turn(monkeypatch, answers, seconds=30.0):
    """Request an item whose answers come in this order; the last one stays.

    Returns:
        What is told in the end, and how often it was asked.
    """
    monkeypatch.setattr(retrying, "backoff", lambda _: 0.0)
    left, asked = list(answers), []

    async def ask(items, tries):
        asked.append(tries)
        answer = left.pop(0) if len(left) > 1 else left[0]
        return dict.fromkeys(items, answer)

    deadline = asyncio.get_running_loop().time() + seconds
    found = await retrying.ask_until_answered(["g"], ask, deadline)
    return found["g"], len(asked)


async def test_a_broker_s_word_is_kept_when_a_later_try_is_not_answered(monkeypatch):
    """It says more than "no answer", also after two of them."""
    error, asked = await ask_in_turn(monkeypatch, [LOADING, LATE], 0.05)
    assert error is LOADING
    assert asked > 2


async def test_without_a_word_of_a_broker_it_is_the_timeout(monkeypatch):
    """Items that no broker has answered by the deadline have a ClientTimeoutError."""
    error, _ = await ask_in_turn(monkeypatch, [LATE], 0.05)
    assert error is LATE


async def test_the_newest_word_of_a_broker_counts(monkeypatch):
    """A refusal for good, and an answer, end the repetition."""
    denied = make(30, api="OffsetFetch")
    assert await ask_in_turn(monkeypatch, [LOADING, LATE, denied]) == (denied, 3)
    assert await ask_in_turn(monkeypatch, [LOADING, LOADING, 5]) == (5, 3)


@pytest.mark.parametrize(
    ("error", "is_patient"),
    [(make(14), True), (make(15), True), (make(-1), False), (make(6), True)],
)
async def test_some_errors_are_asked_again_a_few_times_only(
    monkeypatch, error, is_patient
):
    """An unknown error of the server may stay for ever."""
    _, asked = await ask_in_turn(monkeypatch, [error], 0.05)
    assert (asked > 4) == is_patient


async def test_a_leader_that_is_sought_for_seconds_is_waited_for(monkeypatch):
    """Electing one takes seconds, and no longer: then the error is told."""
    loop = asyncio.get_running_loop()
    clock, shift = loop.time, 0.0

    def later(_):
        nonlocal shift
        shift += 1.0
        return 0.0

    loop.time = lambda: clock() + shift
    try:
        monkeypatch.setattr(retrying, "backoff", later)
        asked = []

        async def ask(items, tries):
            asked.append(tries)
            return dict.fromkeys(items, make(6))

        await retrying.ask_until_answered(["p"], ask, loop.time() + 60)
    finally:
        del loop.time
    assert 4 <= len(asked) <= 6
