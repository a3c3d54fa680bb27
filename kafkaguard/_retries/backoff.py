"""Backoff: pure functions of settings, a count and a random number."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Literal, Protocol

if TYPE_CHECKING:
    from collections.abc import Callable

#: More doublings than any wait needs to reach its longest, and few enough for a float.
_MOST_DOUBLINGS: Final = 64


class Backoff(Protocol):
    """The settings of the waits; all durations are in seconds."""

    @property
    def kind(self) -> Literal["fixed", "linear", "exponential", "decorrelated"]:
        """How waits grow."""

    @property
    def base(self) -> float:
        """The first wait, before jitter."""

    @property
    def factor(self) -> float:
        """The growth of exponential waits."""

    @property
    def floor(self) -> float:
        """The shortest wait."""

    @property
    def cap(self) -> float:
        """The longest wait, unless the broker asks for a longer one."""

    @property
    def jitter(self) -> Literal["none", "full", "equal"]:
        """Which part of a wait is random."""

    @property
    def honour_throttle(self) -> bool:
        """Whether the broker's ``throttle_time_ms`` is a lower bound."""


def doubled(first: float, times: int, longest: float) -> float:
    """Return a wait that is doubled so many times, and at most the longest."""
    return min(longest, first * 2.0 ** min(times, _MOST_DOUBLINGS))


def worst_wait(backoff: Backoff, number: int) -> float:
    """Return the longest wait after failure ``number`` (from 1), without throttling."""
    try:
        wait = _growth(backoff, number)
    except OverflowError:
        wait = backoff.cap
    return max(backoff.floor, min(wait, backoff.cap))


def _growth(backoff: Backoff, number: int) -> float:
    match backoff.kind:
        case "exponential":
            return backoff.base * backoff.factor ** (number - 1)
        case "fixed":
            return backoff.base
        case "linear":
            return backoff.base * number
        case "decorrelated":
            return backoff.base * 3.0**number


def draw_wait(
    backoff: Backoff,
    number: int,
    previous: float,
    random: Callable[[], float],
    throttle: float = 0.0,
) -> float:
    """Draw the wait after a failure.

    Args:
        backoff: The settings.
        number: The number of the failure, from 1.
        previous: The previous wait in seconds; 0 if there was none.
        random: Returns random numbers from 0 to below 1.
        throttle: How long the broker asks to wait, in seconds.

    Returns:
        Seconds, never below ``floor``, and above ``cap`` only if the broker asks so.
    """
    if backoff.kind == "decorrelated":
        wait = min(_decorrelated(backoff, previous, random), backoff.cap)
    else:
        wait = _with_jitter(worst_wait(backoff, number), backoff.jitter, random)
    wait = max(wait, backoff.floor)
    return throttle if throttle > wait and backoff.honour_throttle else wait


def _decorrelated(
    backoff: Backoff, previous: float, random: Callable[[], float]
) -> float:
    upper = max(backoff.base, previous) * 3
    return backoff.base + (upper - backoff.base) * random()


def _with_jitter(wait: float, jitter: str, random: Callable[[], float]) -> float:
    if jitter == "full":
        return wait * random()
    if jitter == "equal":
        return wait / 2 * (1 + random())
    return wait
