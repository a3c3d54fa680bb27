"""A policy's words as the delivery machine reads them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from kafkaguard._delivery.shell import InDoubt, LetterLimit, Rescue
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

    @property
    def dead_letter(self) -> LetterWords:
        """Where rejected records go."""
        return LetterWords(self._policy.dead_letter)

    def __getattr__(self, name: str) -> Any:
        """Hand everything else on to the policy."""
        return getattr(self._policy, name)


class LetterWords:
    """``dead_letter`` of a policy, which has no bound yet.

    Args:
        where: What the policy says.
    """

    limit: LetterLimit | None = None

    def __init__(self, where: Any) -> None:
        self._where = where

    def __getattr__(self, name: str) -> Any:
        """Hand everything else on to the policy."""
        return getattr(self._where, name)
