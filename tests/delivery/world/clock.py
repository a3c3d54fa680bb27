"""Virtual time: what happens next, in order."""

from __future__ import annotations

from heapq import heappop, heappush
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable


class TooMuchError(AssertionError):
    """Something goes round and round."""


class Clock:
    """Runs what was planned, one thing after the other."""

    def __init__(self) -> None:
        self.now = 0.0
        self.steps = 0
        self._planned: list[tuple[float, int, Callable[..., object], Any]] = []

    def after(self, seconds: float, do: Callable[..., object], *args: Any) -> None:
        """Plan something."""
        self.at(self.now + seconds, do, *args)

    def at(self, when: float, do: Callable[..., object], *args: Any) -> None:
        """Plan something for a time; what comes at the same time comes in order."""
        self.steps += 1
        heappush(self._planned, (max(when, self.now), self.steps, do, args))

    def run(self, most: int) -> None:
        """Run until nothing is planned.

        Raises:
            TooMuchError: It takes more than ``most`` steps.
        """
        planned = self._planned
        while planned:
            self.now, _, do, args = heappop(planned)
            do(*args)
            if self.steps > most:
                raise TooMuchError(f"more than {most} steps")
