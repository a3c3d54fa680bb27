"""``RetryPolicy``: settings, and calls under them."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, Any, TypeVar

from kafkaguard._errors.base import Action
from kafkaguard_policies.advice.preview import Preview, draw_preview
from kafkaguard_policies.running.retrier import Retrier
from kafkaguard_policies.running.rulings import RuledPolicy

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Coroutine
    from datetime import timedelta

T = TypeVar("T")


class RetryPolicy(RuledPolicy):
    """How often and how long to try, and what happens to rejected records.

    Frozen: a policy never changes; ``replace`` makes another one. All durations are
    seconds, as a number or a ``timedelta``. Every value has a bound. To remove it,
    where that is possible, give ``unbounded``.

    Example:
        >>> RetryPolicy(max_attempts=3, deadline=10).max_attempts
        3
    """

    @cached_property
    def _retrier(self) -> Retrier:
        return Retrier(self)

    def preview(
        self,
        *,
        action: Action = Action.RETRY,
        seed: int = 0,
        runs: int = 1_000,
        limit: int = 50,
    ) -> Preview:
        """Return the schedule of waits: a table, JSON and a picture.

        Args:
            action: The kind of failure: RETRY, REFRESH and the repairs count attempts;
                WAIT does not. If the action ends the call there is no wait, and
                ``ending`` says why. Only overrides that select by action alone are
                used.
            seed: The seed of the random numbers; the same seed gives the same preview.
            runs: How many schedules are drawn for averages and percentiles.
            limit: How many waits are shown at most.
        """
        return draw_preview(self, action, seed=seed, runs=runs, limit=limit)

    def call(
        self,
        fn: Callable[..., T],
        /,
        *args: Any,
        deadline: float | timedelta | None = None,
        **kwargs: Any,
    ) -> T:
        """Call a function and retry it under this policy.

        Args:
            fn: The function.
            args: Its arguments.
            deadline: Seconds (or a ``timedelta``) that the call may take with all
                attempts and waits, if that is less than the policy's.
            kwargs: Its keyword arguments.

        Returns:
            The result of ``fn``, or None if its exception is not a failure (IGNORE).

        Raises:
            TypeError: ``fn`` is a generator or a coroutine function, or the policy has
                an ``attempt_timeout``.
            Exception: The last exception of ``fn``; ``outcome_of`` returns why there
                was no other attempt.
        """
        return self._retrier.run(fn, args, kwargs, deadline)

    def acall(
        self,
        fn: Callable[..., Awaitable[T]],
        /,
        *args: Any,
        deadline: float | timedelta | None = None,
        **kwargs: Any,
    ) -> Coroutine[Any, Any, T]:
        """Await a coroutine function and retry it under this policy.

        As ``call``; the deadline and ``attempt_timeout`` also end an attempt that
        hangs, with ``TimeoutError``. Cancellation is passed on.
        """
        return self._retrier.arun(fn, args, kwargs, deadline)
