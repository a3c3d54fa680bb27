"""Tenacity's loops, led by the engine: each round they ask the run for its step.

Attempts return nothing and raise nothing that is to be tried again, so tenacity never
decides what a failure means. It keeps no state of its own either, so one loop serves
all threads, tasks and calls within calls.
"""

from __future__ import annotations

from typing import Any

from tenacity import AsyncRetrying, DoAttempt, DoSleep, RetryCallState, Retrying

_ATTEMPT = DoAttempt()


def _next_of(state: RetryCallState) -> Any:
    """Return what tenacity does next; anything but its own two words ends the loop."""
    if state.outcome is None:
        return _ATTEMPT
    step = state.args[0].step
    return DoSleep(step.wait) if step.kind == "again" else state.outcome.result()


class Loop(Retrying):
    """Tenacity's loop for functions."""

    def begin(self) -> None:
        """Keep no statistics: outcomes and events tell more."""

    def iter(self, retry_state: RetryCallState) -> Any:
        """Return what is next."""
        return _next_of(retry_state)


class AsyncLoop(AsyncRetrying):
    """Tenacity's loop for coroutines."""

    def begin(self) -> None:
        """Keep no statistics: outcomes and events tell more."""

    async def iter(self, retry_state: RetryCallState) -> Any:
        """Return what is next."""
        return _next_of(retry_state)
