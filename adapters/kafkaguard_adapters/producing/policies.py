"""Checks of a producer's policy."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kafkaguard.errors import ClientConfigurationError

if TYPE_CHECKING:
    from kafkaguard._delivery.shell import ClientErrors
    from kafkaguard_policies import RetryPolicy


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
