"""What a policy must not say about a producer."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kafkaguard.errors import ClientConfigurationError

if TYPE_CHECKING:
    from kafkaguard._delivery.shell import ClientErrors
    from kafkaguard_policies import RetryPolicy


def ways_of_rejecting(policy: RetryPolicy) -> set[str]:
    """Return all that becomes of a record that is refused, whatever its topic."""
    ways = {policy.on_reject, *(each.on_reject for each in policy.overrides)}
    return {way for way in ways if way is not None}


def check_transactional(policy: RetryPolicy, errors: ClientErrors) -> None:
    """Refuse a policy that sets records of transactions aside.

    Raises:
        ClientConfigurationError: It does.
    """
    aside = sorted(ways_of_rejecting(policy) - {"raise"})
    if aside:
        raise errors.make(
            ClientConfigurationError,
            f"policy {policy.name} has on_reject {' and '.join(aside)}, and the "
            f"producer is transactional: a refused record fails its whole transaction, "
            f"and its dead letter would be aborted with it; use on_reject: raise",
        )
