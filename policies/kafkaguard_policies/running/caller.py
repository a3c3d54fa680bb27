"""The parts of a retrier that its calls use."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from kafkaguard._retries.events import EventHook
    from kafkaguard.errors._base import Action


class Caller(Protocol):
    """A retrier, as the driver of one call sees it."""

    hooks: Sequence[EventHook]
    repairs: Mapping[Action, Callable[[], Any]]
    random: Callable[[], float]
    confirm: Callable[[], object] | None

    def now(self) -> float:
        """Return the time in seconds."""

    def pause(self, wait: float) -> None:
        """Wait, for plain functions."""

    async def apause(self, wait: float) -> None:
        """Wait, for coroutines."""
