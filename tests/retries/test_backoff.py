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


def test_the_worst_wait_of_a_decorrelated_backoff():
    """Three times the base, then three times the worst wait before."""
    rules = backoff(kind="decorrelated")
    worst = [worst_wait(rules, number) for number in range(1, 6)]
    assert worst == pytest.approx([0.3, 0.9, 2.7, 5.0, 5.0])


@pytest.mark.parametrize("chance", [0.0, 0.5, 1.0])
def test_decorrelated_grows_from_the_wait_before(chance):
    """It is drawn between the base and three times the wait before (or the base)."""
    rules = backoff(kind="decorrelated")
    for previous, upper in ((0.0, 0.3), (0.05, 0.3), (0.2, 0.6), (1.0, 3.0), (4.0, 12)):
        drawn = draw_wait(rules, 7, previous, lambda: chance)
        assert min(0.1 + (upper - 0.1) * chance, 5.0) == pytest.approx(drawn)


@pytest.mark.parametrize(
    ("jitter", "chance", "share"),
    [
        ("none", 0.0, 1.0),
        ("none", 0.5, 1.0),
        ("full", 0.0, 0.0),
        ("full", 0.5, 0.5),
        ("full", 1.0, 1.0),
        ("equal", 0.0, 0.5),
        ("equal", 0.5, 0.75),
        ("equal", 1.0, 1.0),
    ],
)
def test_jitter_draws_all_half_or_nothing(jitter, chance, share):
    """Full: from 0 to the wait. Equal: from half of it. None: the wait itself."""
    drawn = draw_wait(backoff(jitter=jitter), 3, 0, lambda: chance)
    assert 0.4 * share == pytest.approx(drawn)


@pytest.mark.parametrize("number", [1, 6, 7, 100, 1_024, 2_000, 100_000])
@pytest.mark.parametrize("kind", ["exponential", "decorrelated"])
def test_from_the_cap_on_every_wait_is_the_cap(kind, number):
    """At any attempt, also where the growth is too large for a float."""
    assert worst_wait(backoff(kind=kind, base=5.0), number) == 5.0
    if number > 6:
        assert worst_wait(backoff(kind=kind), number) == 5.0


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
