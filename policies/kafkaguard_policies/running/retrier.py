"""Calls under a policy, of functions and coroutine functions.

The first attempt is a direct call. A driver runs only after a failure, which counts as
attempt 1.
"""

from __future__ import annotations

import asyncio
import math
import random as _random
import time
from datetime import timedelta
from typing import TYPE_CHECKING, Any, TypeVar

from kafkaguard._common.arguments import flag, hook
from kafkaguard._retries.events import logger
from kafkaguard._retries.machine import CallContext
from kafkaguard._verdicts.bare_errors import current_error
from kafkaguard_policies.running import testing
from kafkaguard_policies.running.drivers import AsyncDriver, Driver
from kafkaguard_policies.running.not_repeatable import (
    LAZY,
    checked_hooks,
    raise_lazy,
    raise_timeout,
)
from kafkaguard_policies.running.retried_call import RetriedCall
from kafkaguard_policies.running.shared_limits import SharedLimits
from kafkaguard_policies.running.watchdog import leave, was_ours, watch

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping, Sequence

    from kafkaguard._retries.events import EventHook
    from kafkaguard.errors._base import Action
    from kafkaguard_policies.running.rulings import RuledPolicy

T = TypeVar("T")
_NO_KWARGS: dict[str, Any] = {}


class Retrier:
    """Runs calls of one kind under a policy.

    Args:
        policy: The policy.
        context: Facts about the calls. Default: none.
        hooks: Callables that receive each event.
        repairs: Functions to run before another attempt (for ``acall`` also coroutine
            functions), by action: ``REFRESH``, ``REJOIN``, ``ABORT``, ``RECREATE``. A
            repair that raises or returns False ends the call. Without a repair for the
            last three actions, such a failure ends the call.
        confirm: Checks, when a repeated create finds that the object exists, whether it
            is as requested. False, or text on the differences, is logged as a warning.
        passes_timeout: The function passes ``attempt_timeout`` to its client, so plain
            functions may have a policy with it.
        clock: Returns the time in seconds.
        sleep: Waits, for plain functions; adapters may poll instead.
        asleep: Waits, for coroutines.
        random: Returns random numbers from 0 to below 1.
    """

    def __init__(  # noqa: PLR0913 - clock, sleep and randomness are arguments
        self,
        policy: RuledPolicy,
        context: CallContext | None = None,
        *,
        hooks: Sequence[EventHook] = (),
        repairs: Mapping[Action, Callable[[], Any]] | None = None,
        confirm: Callable[[], object] | None = None,
        passes_timeout: bool = False,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], Any] = time.sleep,
        asleep: Callable[[float], Awaitable[Any]] = asyncio.sleep,
        random: Callable[[], float] = _random.random,
    ) -> None:
        self.context = context or CallContext()
        self.hooks: Sequence[EventHook] = checked_hooks(hooks)
        self.repairs: Mapping[Action, Callable[[], Any]] = dict(repairs or {})
        self.confirm = hook("confirm", confirm)
        self.random = random
        self._passes_timeout = flag("Retrier(): passes_timeout", passes_timeout)
        self._clock = clock
        self._sleep = sleep
        self._asleep = asleep
        self._on_success = [
            hook.on_success for hook in self.hooks if hasattr(hook, "on_success")
        ]
        self.use(policy)

    def use(self, policy: RuledPolicy) -> None:
        """Use another policy for new calls; running calls keep theirs."""
        self.shared = SharedLimits(
            policy, self.context, passes_timeout=self._passes_timeout
        )

    @property
    def policy(self) -> RuledPolicy:
        """The policy for the next call."""
        return self.shared.policy

    def pause(self, wait: float) -> None:
        """Wait, or record the wait in a test."""
        (testing.active.sleep if testing.active else self._sleep)(wait)

    async def apause(self, wait: float) -> None:
        """Wait, or record the wait in a test."""
        await (testing.active.asleep if testing.active else self._asleep)(wait)

    def now(self) -> float:
        """Return the time, plus the waits that a test skipped."""
        return self._clock() + (testing.active.skipped if testing.active else 0.0)

    def start_call(
        self, context: CallContext | None = None, deadline: Any = None
    ) -> RetriedCall:
        """Begin a call whose outcomes arrive in callbacks.

        Args:
            context: Facts about this call. Default: the retrier's.
            deadline: Seconds (or a ``timedelta``) for the whole call. Default: the
                policy's.
        """
        started = self.now()
        until = math.inf if deadline is None else started + seconds(deadline)
        return RetriedCall(self, self.shared, context or self.context, started, until)

    def call(
        self,
        fn: Callable[..., T],
        /,
        *args: Any,
        deadline: float | timedelta | None = None,
        **kwargs: Any,
    ) -> T:
        """Call a function under this retrier's policy; see ``RetryPolicy.call``."""
        return self.run(fn, args, kwargs, deadline)

    async def acall(
        self,
        fn: Callable[..., Awaitable[T]],
        /,
        *args: Any,
        deadline: float | timedelta | None = None,
        **kwargs: Any,
    ) -> T:
        """Await a coroutine function likewise; see ``RetryPolicy.acall``."""
        return await self.arun(fn, args, kwargs, deadline)

    def run(
        self,
        fn: Callable[..., T],
        args: tuple[Any, ...] = (),
        kwargs: dict[str, Any] = _NO_KWARGS,
        deadline: float | timedelta | None = None,
    ) -> T:
        """Call a function and retry it; see ``RetryPolicy.call``."""
        if deadline is not None:
            deadline = seconds(deadline)
        started = self._clock()
        shared = self.shared
        if shared.gate.disturbed or testing.active:
            return self._from_start(fn, args, kwargs, deadline)
        try:
            result = fn(*args, **kwargs)
        except Exception as error:  # noqa: BLE001 - judged, and raised again if it ends
            failure = error
        except:  # noqa: E722 - a raised KafkaError is no exception
            failure = current_error()
        else:
            if result.__class__ in LAZY:
                raise_lazy(result, fn)
            shared.count_success()
            if self._on_success:
                self._tell_success(started, shared.policy_id)
            return result
        run: Driver[T] = Driver(
            self, fn, args, kwargs, self._began(shared, started, deadline), failure
        )
        try:
            return run.run()
        finally:
            del failure, run

    def _from_start(
        self,
        fn: Callable[..., T],
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
        deadline: float | timedelta | None,
    ) -> T:
        """Call with the breaker or in a test, from the first attempt on."""
        if self.shared.refuses:
            raise_timeout(fn)
        return Driver(self, fn, args, kwargs, self.start_call(deadline=deadline)).run()

    def _began(
        self, shared: SharedLimits, started: float, deadline: float | timedelta | None
    ) -> RetriedCall:
        until = math.inf if deadline is None else started + seconds(deadline)
        return RetriedCall(self, shared, self.context, started, until)

    async def arun(
        self,
        fn: Callable[..., Awaitable[T]],
        args: tuple[Any, ...] = (),
        kwargs: dict[str, Any] = _NO_KWARGS,
        deadline: float | timedelta | None = None,
    ) -> T:
        """Await a coroutine function and retry it; see ``RetryPolicy.acall``."""
        started = self._clock()
        shared = self.shared
        if deadline is not None or shared.async_gate.disturbed or testing.active:
            call = self.start_call(deadline=deadline)
            begun: AsyncDriver[T] = AsyncDriver(self, fn, args, kwargs, call)
            return await begun.run()
        watched = watch(shared.periods)
        try:
            result = await fn(*args, **kwargs)
        except asyncio.CancelledError as cancelled:
            if not was_ours(watched):
                raise
            failure: Exception = TimeoutError(*cancelled.args)
        except Exception as error:  # noqa: BLE001 - judged, and raised again if it ends
            failure = error
        except:  # noqa: E722 - a raised KafkaError is no exception
            failure = current_error()
        else:
            shared.count_success()
            if self._on_success:
                self._tell_success(started, shared.policy_id)
            return result
        finally:
            leave(watched)
        call = self._began(shared, started, deadline)
        run: AsyncDriver[T] = AsyncDriver(self, fn, args, kwargs, call, failure)
        try:
            return await run.run()
        finally:
            del failure, run

    def _tell_success(self, started: float, policy_id: str) -> None:
        elapsed = self._clock() - started
        for tell in self._on_success:
            try:
                tell(self.context, elapsed, policy_id)
            except Exception:  # noqa: BLE001 - a broken hook never breaks a call
                logger.exception("hook %r failed at a success; going on", tell)


def seconds(value: float | timedelta) -> float:
    """Return a duration in seconds.

    Raises:
        TypeError: The value is not a duration.
        ValueError: The value is not above 0.
    """
    if isinstance(value, bool) or not isinstance(value, int | float | timedelta):
        raise TypeError(f"{_A_DEADLINE}, not {value!r}")
    number = value.total_seconds() if isinstance(value, timedelta) else float(value)
    if not number > 0:
        raise ValueError(f"{_A_DEADLINE}, not {value!r}")
    return number


_A_DEADLINE = "a deadline is a number of seconds above 0, or a timedelta"
