"""A schedule of attempts: one row for each wait."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class PreviewRow:
    """One wait. All values but ``attempt`` and ``reached`` are seconds.

    Attributes:
        attempt: The attempt that follows the wait.
        expected: The average wait.
        low: The 5th percentile of the wait.
        high: The 95th percentile of the wait.
        worst: The longest possible wait, unless the broker asks for a longer one.
        expected_elapsed: The average of the sum of the waits so far.
        worst_elapsed: The sum of the longest waits so far.
        reached: The share of schedules that reach this attempt before the deadline.
    """

    attempt: int
    expected: float
    low: float
    high: float
    worst: float
    expected_elapsed: float
    worst_elapsed: float
    reached: float
