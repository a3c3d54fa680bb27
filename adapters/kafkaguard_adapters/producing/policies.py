"""Checks of a producer's policy."""

from __future__ import annotations

import logging
import math
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from kafkaguard._delivery.attempts import Shared
from kafkaguard._retries.machine import CallContext
from kafkaguard.errors import ClientConfigurationError, KafkaGuardError
from kafkaguard_policies.running.shared_limits import SharedLimits

if TYPE_CHECKING:
    from collections.abc import Callable

    from kafkaguard._delivery.facts import Traits
    from kafkaguard._delivery.shell import ClientErrors
    from kafkaguard_adapters.wire.settings import Settings
    from kafkaguard_policies import RetryPolicy


_log = logging.getLogger("kafkaguard.producer")


def shared_by(
    policy: RetryPolicy, traits: Traits, settings: Callable[[], Settings]
) -> Shared | None:
    """Return what the attempts of a policy share with others; None: there are none.

    The client has tried for all of its own time before the guard gets a record back. So
    a policy whose deadline is over by then sends nothing again, and that is told once.

    Args:
        policy: The policy.
        traits: What the client can do and tell.
        settings: Reads how to reach the cluster; may raise.
    """
    attempts = [policy.max_attempts, *_of_overrides(policy, "max_attempts")]
    if traits.transactional or max(attempts) == 1:
        return None
    longest = max(policy.deadline, *_of_overrides(policy, "deadline"), 0.0)
    if longest <= traits.delivery_timeout:
        _tell_once(
            f"guard(): policy {policy.name} has a deadline of {longest:g} s, and "
            f"{traits.timeout_setting} of {traits.client} is "
            f"{traits.delivery_timeout:g} s: when the client has tried for that long, "
            "the guard sends nothing again. Give the policy a longer deadline, or the "
            f"client a shorter {traits.timeout_setting}",
        )
        return None
    limits = SharedLimits(
        policy,
        CallContext(api="Produce", cluster=_cluster(settings)),
        passes_timeout=True,
    )
    breaker = None if policy.breaker is None else limits.breaker
    pauses = policy.breaker is not None and policy.breaker.when_open == "pause"
    seconds = longest if longest < math.inf else 0.0
    return Shared(limits.budget, breaker, pauses, seconds)


def _of_overrides(policy: RetryPolicy, name: str) -> list[Any]:
    values = (getattr(override, name) for override in policy.overrides)
    return [value for value in values if value is not None]


def _cluster(settings: Callable[[], Settings]) -> str | None:
    try:
        return ",".join(sorted(f"{host}:{port}" for host, port in settings().bootstrap))
    except KafkaGuardError:  # of a client whose settings nobody has given
        return None


@lru_cache(maxsize=256)
def _tell_once(text: str) -> None:
    """Tell once in a process. What is likely a mistake, `stacking` warns of."""
    _log.info("%s", text)


def check_transactional(policy: RetryPolicy, errors: ClientErrors) -> None:
    """Refuse a policy that sets records of transactions aside.

    Raises:
        ClientConfigurationError: It does.
    """
    _refuse_setting_aside(
        policy,
        errors,
        "the producer is transactional: a refused record fails its whole transaction, "
        "and its dead letter would be aborted with it",
    )


def check_checks_only(policy: RetryPolicy, errors: ClientErrors, why: str) -> None:
    """Refuse a policy that sets records aside where no outcome is followed.

    Args:
        policy: The policy.
        errors: The client's.
        why: Why none is.

    Raises:
        ClientConfigurationError: It does: a record that the broker refuses would be
            lost without a dead letter.
    """
    _refuse_setting_aside(
        policy, errors, f"{why}, so no refused record can be dead-lettered or dropped"
    )


def _refuse_setting_aside(policy: RetryPolicy, errors: ClientErrors, why: str) -> None:
    aside = sorted(policy.ways_of_rejecting - {"raise"})
    if aside:
        raise errors.make(
            ClientConfigurationError,
            f"policy {policy.name} has on_reject {' and '.join(aside)}, and {why}; use "
            "on_reject: raise",
        )
