"""Tenacity's loops; each round asks the machine for the next step.

Attempts return nothing and raise nothing that tenacity would retry, so tenacity never
decides about a failure. The loop has no state, so all threads, tasks and nested calls
share one loop.
"""

from __future__ import annotations

from typing import Any

from tenacity import AsyncRetrying, DoAttempt, DoSleep, RetryCallState, Retrying

_ATTEMPT = DoAttempt()


def _next_of(state: RetryCallState) -> Any:
    """Return tenacity's next action; any other object ends the loop."""
    if state.outcome is None:
        return _ATTEMPT
    step = state.args[0].step
    return DoSleep(step.wait) if step.kind == "again" else state.outcome.result()


class Loop(Retrying):
    """Tenacity's loop for functions."""

    def begin(self) -> None:
        """Keep no statistics; outcomes and events have them."""

    def iter(self, retry_state: RetryCallState) -> Any:
        """Return the next action."""
        return _next_of(retry_state)


class AsyncLoop(AsyncRetrying):
    """Tenacity's loop for coroutines."""

    def begin(self) -> None:
        """Keep no statistics; outcomes and events have them."""

    async def iter(self, retry_state: RetryCallState) -> Any:
        """Return the next action."""
        return _next_of(retry_state)
