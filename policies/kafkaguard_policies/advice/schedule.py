"""A schedule of attempts: one row for each wait."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class PreviewRow:
    """One wait. All values but ``attempt`` and ``reached`` are seconds.

    Attributes:
        attempt: The attempt that follows the wait.
        expected: The average wait.
        low: Nine of ten waits are longer than this one and ...
        high: ... shorter than this one (5th and 95th percentile).
        worst: The longest wait there can be, unless the broker asks for more.
        expected_elapsed: The average of the sum of the waits so far.
        worst_elapsed: The sum of the longest waits so far.
        reached: The share of schedules that get here before the deadline.
    """

    attempt: int
    expected: float
    low: float
    high: float
    worst: float
    expected_elapsed: float
    worst_elapsed: float
    reached: float
