"""Limits that the calls of a retrier share: budget and breaker."""

from __future__ import annotations

from itertools import count
from typing import TYPE_CHECKING, Any

from kafkaguard._retries.breaker import CircuitBreaker, shared_breaker
from kafkaguard._retries.budget import RetryBudget, shared_budget
from kafkaguard_policies.running.watchdog import PERIOD, SHORT

if TYPE_CHECKING:
    from kafkaguard._retries.machine import CallContext
    from kafkaguard_policies.running.rulings import RuledPolicy


class SharedLimits:
    """A policy with its shared budget and breaker, for the hot path.

    Args:
        policy: The policy.
        context: Facts about the calls.
    """

    def __init__(self, policy: RuledPolicy, context: CallContext) -> None:
        self.policy = policy
        self.policy_id = policy.policy_id
        self.periods = policy.deadline / PERIOD
        self.budget = _get_budget(policy, context)
        self.breaker = _get_breaker(policy, context)
        self.count_success = self.budget.succeeded if self.budget else count().__next__
        #: Whether plain functions are refused: nothing can stop one that runs.
        self.refuses = policy.attempt_timeout is not None
        # A call uses the fast path unless its gate is disturbed: not if the call must
        # be refused, or needs a timer.
        needs_timer = self.refuses or policy.deadline < SHORT
        self.gate = _SHUT if self.refuses else self.breaker
        self.async_gate = _SHUT if needs_timer else self.breaker


class _NoBreaker:
    """The null object for a policy without a breaker."""

    def __init__(self, *, disturbed: bool = False) -> None:
        self.disturbed = disturbed

    def failed(self, _now: float) -> None:
        """Ignore a failure."""

    def abandoned(self) -> None:
        """Ignore a cancellation."""


_SHUT = _NoBreaker(disturbed=True)


def _get_breaker(policy: RuledPolicy, context: CallContext) -> Any:
    rules = policy.breaker
    if rules is None:
        return _NoBreaker()
    settings = (rules.failures, rules.open_for, rules.probes)
    if context.cluster is None:
        return CircuitBreaker(*settings)
    return shared_breaker(context.cluster, context.api, *settings)


def _get_budget(policy: RuledPolicy, context: CallContext) -> RetryBudget | None:
    rules = policy.budget
    if rules is None:
        return None
    if context.cluster is None:
        return RetryBudget(rules.capacity, rules.deposit)
    return shared_budget(context.cluster, rules.capacity, rules.deposit)
