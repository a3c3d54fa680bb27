"""What a policy must not say about a producer."""

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
    aside = sorted(policy.ways_of_rejecting - {"raise"})
    if aside:
        raise errors.make(
            ClientConfigurationError,
            f"policy {policy.name} has on_reject {' and '.join(aside)}, and the "
            f"producer is transactional: a refused record fails its whole transaction, "
            f"and its dead letter would be aborted with it; use on_reject: raise",
        )
