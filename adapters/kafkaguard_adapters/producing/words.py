"""A policy's words as the delivery machine reads them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from kafkaguard._delivery.shell import InDoubt, Rescue
    from kafkaguard_policies import RetryPolicy


class PolicyWords:
    """A policy, with ``rescue`` and ``in_doubt`` in the machine's words.

    Args:
        policy: The policy.
    """

    def __init__(self, policy: RetryPolicy) -> None:
        self._policy = policy
        self.rescue: Rescue = "ordered" if policy.rescue else "never"
        self.in_doubt: InDoubt = "resend" if policy.resend_in_doubt else "raise"

    def __getattr__(self, name: str) -> Any:
        """Hand everything else on to the policy."""
        return getattr(self._policy, name)
