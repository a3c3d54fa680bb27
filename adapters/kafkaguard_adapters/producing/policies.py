"""What a policy means for a producer: shared limits, and checks of its settings."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from kafkaguard._delivery.attempts import AttemptLimits
from kafkaguard._errors import ClientConfigurationError, KafkaGuardError
from kafkaguard._retries.machine import CallContext
from kafkaguard_policies.model.policy import ways_of_rejecting
from kafkaguard_policies.running.shared_limits import SharedLimits

if TYPE_CHECKING:
    from collections.abc import Callable

    from kafkaguard._delivery.facts import Traits
    from kafkaguard._delivery.shell import ClientErrors
    from kafkaguard_adapters.wire.settings import Settings
    from kafkaguard_policies.retry_policy import RetryPolicy


def shared_by(
    policy: RetryPolicy, traits: Traits, settings: Callable[[], Settings]
) -> AttemptLimits | None:
    """Return the limits that a policy's attempts share; None if it makes no attempts.

    The client retries a record for its whole delivery timeout before the guard gets the
    record back. If the policy's deadline is not longer, the guard makes no attempts.

    Args:
        policy: The policy.
        traits: What the client can do and report.
        settings: Returns the connection settings; may raise.
    """
    attempts = [policy.max_attempts, *_of_overrides(policy, "max_attempts")]
    longest = max(policy.deadline, *_of_overrides(policy, "deadline"), 0.0)
    is_over = longest <= traits.delivery_timeout
    if traits.transactional or max(attempts) == 1 or is_over:
        return None
    context = CallContext(api="Produce", cluster=_cluster(settings))
    limits = SharedLimits(policy, context)
    breaker = None if policy.breaker is None else limits.breaker
    pauses = policy.breaker is not None and policy.breaker.when_open == "pause"
    longest_s = longest if longest < math.inf else 0.0
    return AttemptLimits(limits.budget, breaker, pauses, longest_s)


def _of_overrides(policy: RetryPolicy, name: str) -> list[Any]:
    values = (getattr(override, name) for override in policy.overrides)
    return [value for value in values if value is not None]


def _cluster(settings: Callable[[], Settings]) -> str | None:
    try:
        return ",".join(sorted(f"{host}:{port}" for host, port in settings().bootstrap))
    except KafkaGuardError:  # the client's settings are not known
        return None


def check_transactional(policy: RetryPolicy, errors: ClientErrors) -> None:
    """Refuse a policy that dead-letters or drops records, for transactional producers.

    Raises:
        ClientConfigurationError: The policy has an ``on_reject`` other than ``raise``.
    """
    _refuse_setting_aside(
        policy,
        errors,
        "the producer is transactional: a refused record fails its whole transaction, "
        "and its dead letter would be aborted with it",
    )


def check_checks_only(policy: RetryPolicy, errors: ClientErrors, why: str) -> None:
    """Refuse a policy that dead-letters or drops records, if outcomes are not tracked.

    Args:
        policy: The policy.
        errors: Makes the client's errors.
        why: Why the outcomes of records are not tracked.

    Raises:
        ClientConfigurationError: The policy has an ``on_reject`` other than ``raise``.
            A record that the broker refuses would be lost without a dead letter.
    """
    _refuse_setting_aside(
        policy, errors, f"{why}, so no refused record can be dead-lettered or dropped"
    )


def _refuse_setting_aside(policy: RetryPolicy, errors: ClientErrors, why: str) -> None:
    aside = sorted(ways_of_rejecting(policy) - {"raise"})
    if aside:
        raise errors.make(
            ClientConfigurationError,
            f"policy {policy.name} has on_reject {' and '.join(aside)}, and {why}; use "
            "on_reject: raise",
        )
