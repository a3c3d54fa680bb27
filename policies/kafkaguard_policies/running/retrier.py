"""Calls under a policy, of functions and coroutine functions.

The first attempt is a direct call. A driver runs only after a failure, which counts as
attempt 1.
"""

from __future__ import annotations

import asyncio
import math
from datetime import timedelta
from typing import TYPE_CHECKING, Any, TypeVar

from kafkaguard._common.logs import Log
from kafkaguard._verdicts.bare_errors import current_error
from kafkaguard_policies.running import testing
from kafkaguard_policies.running.caller import Caller
from kafkaguard_policies.running.drivers import AsyncDriver, Driver
from kafkaguard_policies.running.not_repeatable import (
    LAZY,
    raise_lazy,
    raise_timeout,
)
from kafkaguard_policies.running.retried_call import RetriedCall
from kafkaguard_policies.running.shared_limits import SharedLimits
from kafkaguard_policies.running.watchdog import leave, undo_cancellation, watch

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from kafkaguard_policies.running.rulings import RuledPolicy

_log = Log("events")
T = TypeVar("T")
_NO_KWARGS: dict[str, Any] = {}


class Retrier(Caller):
    """Runs calls of one kind under a policy."""

    shared: SharedLimits

    def __post_init__(self) -> None:
        """Prepare the success path."""
        super().__post_init__()
        self._on_success = [
            each.on_success for each in self.hooks if hasattr(each, "on_success")
        ]
        self.use(self.policy)

    def use(self, policy: RuledPolicy) -> None:
        """Use another policy for new calls; running calls keep theirs."""
        self.policy = policy
        self.shared = SharedLimits(policy, self.context)

    def start_call(
        self,
        deadline: float | timedelta | None = None,
        started: float | None = None,
        shared: SharedLimits | None = None,
    ) -> RetriedCall:
        """Begin the retries of a call.

        Args:
            deadline: Seconds (or a ``timedelta``) for the whole call. Default: the
                policy's.
            started: When the first attempt began. Default: now.
            shared: The policy of the call. Default: the policy of new calls.
        """
        started = self.now() if started is None else started
        until = math.inf if deadline is None else started + seconds(deadline)
        return RetriedCall(self, shared or self.shared, started, until)

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
        started = self.clock()
        shared = self.shared
        if shared.gate.disturbed or testing.active:
            if shared.refuses:
                raise_timeout(fn)
            return Driver(self, fn, args, kwargs, self.start_call(deadline)).run()
        try:
            result = fn(*args, **kwargs)
        except Exception as error:  # noqa: BLE001 - judged, and raised again if it ends
            failure = error
        except:  # noqa: E722 - a raised KafkaError is not an exception
            failure = current_error()
        else:
            if result.__class__ in LAZY:
                raise_lazy(result, fn)
            shared.count_success()
            if self._on_success:
                self._report_success(started, shared.policy_id)
            return result
        call = self.start_call(deadline, started, shared)
        run: Driver[T] = Driver(self, fn, args, kwargs, call, failure)
        try:
            return run.run()
        finally:
            del failure, run

    async def arun(
        self,
        fn: Callable[..., Awaitable[T]],
        args: tuple[Any, ...] = (),
        kwargs: dict[str, Any] = _NO_KWARGS,
        deadline: float | timedelta | None = None,
    ) -> T:
        """Await a coroutine function and retry it; see ``RetryPolicy.acall``."""
        started = self.clock()
        shared = self.shared
        if deadline is not None or shared.async_gate.disturbed or testing.active:
            call = self.start_call(deadline)
            first: AsyncDriver[T] = AsyncDriver(self, fn, args, kwargs, call)
            return await first.run()
        watched = watch(shared.periods)
        try:
            result = await fn(*args, **kwargs)
        except asyncio.CancelledError as cancelled:
            if not undo_cancellation(watched):
                raise
            failure: Exception = TimeoutError(*cancelled.args)
        except Exception as error:  # noqa: BLE001 - judged, and raised again if it ends
            failure = error
        except:  # noqa: E722 - a raised KafkaError is not an exception
            failure = current_error()
        else:
            shared.count_success()
            if self._on_success:
                self._report_success(started, shared.policy_id)
            return result
        finally:
            leave(watched)
        call = self.start_call(deadline, started, shared)
        run: AsyncDriver[T] = AsyncDriver(self, fn, args, kwargs, call, failure)
        try:
            return await run.run()
        finally:
            del failure, run

    def _report_success(self, started: float, policy_id: str) -> None:
        elapsed = self.clock() - started
        for report in self._on_success:
            try:
                report(self.context, elapsed, policy_id)
            except Exception:  # noqa: BLE001 - a broken hook never breaks a call
                _log.exception(
                    "on_success_raised",
                    "on_success of a hook (%r) raised an exception; the call succeeded "
                    "and its result is returned: correct the hook",
                    report,
                )


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
