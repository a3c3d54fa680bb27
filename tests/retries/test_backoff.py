"""Waits: their growth, their bounds, their randomness."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafkaguard._retries.backoff import draw_wait, worst_wait


def backoff(**changes):
    """A description of waits, exponential without jitter unless changed."""
    values = {"kind": "exponential", "base": 0.1, "factor": 2.0, "floor": 0.0}
    values |= {"cap": 5.0, "jitter": "none", "honour_throttle": True}
    return SimpleNamespace(**{**values, **changes})


anything = st.builds(
    lambda kind, base, factor, bounds, jitter: backoff(
        kind=kind,
        base=base,
        factor=factor,
        floor=bounds[0],
        cap=bounds[1],
        jitter=jitter,
    ),
    st.sampled_from(["fixed", "linear", "exponential", "decorrelated"]),
    st.floats(0.001, 100),
    st.floats(1, 100),
    st.tuples(st.floats(0, 100), st.floats(0.001, 100)).map(sorted),
    st.sampled_from(["none", "full", "equal"]),
)
chances = st.floats(0, 1, exclude_max=True)


@pytest.mark.parametrize(
    ("kind", "waits"),
    [
        ("fixed", [0.1, 0.1, 0.1, 0.1]),
        ("linear", [0.1, 0.2, 0.3, 0.4]),
        ("exponential", [0.1, 0.2, 0.4, 0.8]),
    ],
)
def test_growth(kind, waits):
    """Each kind grows as its name says."""
    drawn = [draw_wait(backoff(kind=kind), n, 0, lambda: 0.5) for n in range(1, 5)]
    assert waits == pytest.approx(drawn)


def test_decorrelated_grows_from_the_wait_before():
    """It is drawn between base and three times the wait before."""
    rules = backoff(kind="decorrelated")
    assert draw_wait(rules, 1, 0.0, lambda: 0.0) == pytest.approx(0.1)
    assert draw_wait(rules, 2, 1.0, lambda: 0.0) == pytest.approx(0.1)
    assert draw_wait(rules, 2, 1.0, lambda: 1.0) == pytest.approx(3.0)


def test_jitter_draws_all_or_half():
    """Full jitter starts at 0, equal jitter at half the wait."""
    assert draw_wait(backoff(jitter="full"), 1, 0, lambda: 0.0) == 0
    assert draw_wait(backoff(jitter="equal"), 1, 0, lambda: 0.0) == pytest.approx(0.05)


@given(anything, st.integers(1, 10_000), st.floats(0, 1000), chances)
def test_never_below_the_floor_nor_above_the_worst(rules, number, previous, chance):
    """No wait leaves its bounds, also where the growth overflows a float."""
    wait = draw_wait(rules, number, min(previous, rules.cap), lambda: chance)
    assert rules.floor <= wait <= rules.cap
    if rules.kind != "decorrelated":
        assert wait <= worst_wait(rules, number) * (1 + 1e-12)


@given(anything, chances, st.floats(0, 1000))
def test_throttle_is_a_floor_of_its_own(rules, chance, throttle):
    """The broker's wish counts, above the cap too, unless it is not honoured."""
    plain = draw_wait(rules, 1, 0, lambda: chance)
    assert draw_wait(rules, 1, 0, lambda: chance, throttle) == max(plain, throttle)
    rules.honour_throttle = False
    assert draw_wait(rules, 1, 0, lambda: chance, throttle) == plain
