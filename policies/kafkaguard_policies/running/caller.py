"""What all calls of a retrier share: policy, hooks, repairs, clock and waits."""

from __future__ import annotations

import asyncio
import random as _random
import time
from dataclasses import KW_ONLY, dataclass, field
from typing import TYPE_CHECKING, Any

from kafkaguard._common.arguments import hook
from kafkaguard._retries.machine import CallContext
from kafkaguard_policies.running import testing
from kafkaguard_policies.running.not_repeatable import check_hooks

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping, Sequence

    from kafkaguard._errors.base import Action
    from kafkaguard._retries.events import EventHook
    from kafkaguard_policies.running.rulings import RuledPolicy


@dataclass(eq=False)
class Caller:
    """What all calls of a retrier share.

    Args:
        policy: The policy.
        context: Facts about the calls. Default: none.
        hooks: Callables that receive each event.
        repairs: Functions to run before another attempt (for ``arun`` also coroutine
            functions), by action: ``REFRESH``, ``REJOIN``, ``ABORT``, ``RECREATE``. A
            repair that raises or returns False ends the call. Without a repair for the
            last three actions, such a failure ends the call.
        confirm: Checks, when a repeated create finds that the object exists, whether it
            is as requested. False, or text on the differences, is logged as a warning.
        clock: Returns the time in seconds.
        sleep: Waits, for plain functions.
        asleep: Waits, for coroutines.
        random: Returns random numbers from 0 to below 1.
    """

    policy: RuledPolicy
    context: CallContext = field(default_factory=CallContext)
    _: KW_ONLY
    hooks: Sequence[EventHook] = ()
    repairs: Mapping[Action, Callable[[], Any]] = field(default_factory=dict)
    confirm: Callable[[], object] | None = None
    clock: Callable[[], float] = time.monotonic
    sleep: Callable[[float], Any] = time.sleep
    asleep: Callable[[float], Awaitable[Any]] = asyncio.sleep
    random: Callable[[], float] = _random.random

    def __post_init__(self) -> None:
        """Check the hooks.

        Raises:
            TypeError: A hook or ``confirm`` cannot be called.
        """
        self.hooks = check_hooks(self.hooks)
        hook("confirm", self.confirm)

    def now(self) -> float:
        """Return the time in seconds, plus the waits that a test skipped."""
        return self.clock() + (testing.active.skipped if testing.active else 0.0)

    def pause(self, wait: float) -> None:
        """Wait, or record the wait in a test."""
        (testing.active.sleep if testing.active else self.sleep)(wait)

    async def apause(self, wait: float) -> None:
        """Wait, or record the wait in a test."""
        await (testing.active.asleep if testing.active else self.asleep)(wait)
