"""Virtual time: planned calls in order."""

from __future__ import annotations

from heapq import heappop, heappush
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable


class TooMuchError(AssertionError):
    """There is an endless loop."""


class Clock:
    """Runs planned calls, one after the other."""

    def __init__(self) -> None:
        self.now = 0.0
        self.steps = 0
        self._planned: list[tuple[float, int, Callable[..., object], Any]] = []

    def after(self, seconds: float, do: Callable[..., object], *args: Any) -> None:
        """Plan a call after some seconds."""
        self.at(self.now + seconds, do, *args)

    def at(self, when: float, do: Callable[..., object], *args: Any) -> None:
        """Plan a call at a time; calls at the same time keep their order."""
        self.steps += 1
        heappush(self._planned, (max(when, self.now), self.steps, do, args))

    def run(self, most: int) -> None:
        """Run until no call is planned.

        Raises:
            TooMuchError: There were more than ``most`` calls.
        """
        planned = self._planned
        while planned:
            self.now, _, do, args = heappop(planned)
            do(*args)
            if self.steps > most:
                raise TooMuchError(f"more than {most} steps")
