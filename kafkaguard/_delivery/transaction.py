"""The end of a transaction block, for all clients. No I/O.

``begin``, the body, ``commit``; each call is made again while its verdict says so. The
coordinator carries a commit or an abort out once, so one whose answer was lost is asked
again, and nothing is aborted whose commit has an unknown result. The body never runs
twice. What else fails is aborted once; an abort that fails for good ends the client.
"""

from __future__ import annotations

from random import random
from typing import TYPE_CHECKING, Literal, NamedTuple

from kafkaguard._retries.machine import CallContext, Machine
from kafkaguard._verdicts.classification import classify
from kafkaguard._verdicts.verdict import Action
from kafkaguard.errors import KafkaGuardError, TransactionAbortableError

if TYPE_CHECKING:
    from collections.abc import Callable

    from kafkaguard._delivery.shell import Policy

Call = Literal["begin", "commit", "abort"]
#: There is nothing that this client could still abort.
_OVER = frozenset({Action.FENCED, Action.RECREATE})
_PHASES: dict[Call, CallContext] = {
    "begin": CallContext(api="InitProducerId", transactional=True),
    "commit": CallContext(
        api="EndTxn", transactional=True, phase="commit", repeatable=True
    ),
    "abort": CallContext(
        api="EndTxn", transactional=True, phase="abort", repeatable=True
    ),
}
#: What an abort that has failed for good means: its client is dead.
NOT_ABORTED = classify(TransactionAbortableError(), api="EndTxn", phase="abort")


class Next(NamedTuple):
    """What comes after a call that failed.

    Attributes:
        do: Make the same call again, abort, or raise the error.
        wait: Seconds to wait before that.
    """

    do: Literal["again", "abort", "raise"]
    wait: float = 0.0


class TransactionRun:
    """The decisions about one transaction.

    Args:
        policy: How hard to try.
        random: Returns random numbers from 0 to below 1.
    """

    def __init__(self, policy: Policy, *, random: Callable[[], float] = random) -> None:
        self._policy = policy
        self._random = random
        self._call: Call = "begin"
        self._machine = Machine(0.0, random)

    def starts(self, call: Call, now: float) -> None:
        """Record that a call is made for the first time."""
        self._call = call
        self._machine = Machine(now, self._random, repeatable=_PHASES[call].repeatable)

    def failed(
        self, error: KafkaGuardError, now: float, *, can_ask_again: bool
    ) -> Next:
        """Say what comes after the call in progress has failed.

        Args:
            error: Why.
            now: The time, as for ``starts``.
            can_ask_again: The client can make the same call again. One that has given
                up a commit can not: its result stays unknown.
        """
        context = _PHASES[self._call]
        if can_ask_again:
            ruling = self._policy.ruling(error.verdict, context, error)
            step = self._machine.failed(error.verdict, ruling, now)
            if step.kind == "again":
                return Next("again", step.wait)
        if self._call == "commit" and self.aborts_after(error):
            return Next("abort")
        return Next("raise")

    def aborts_after(self, error: BaseException) -> bool:
        """Return whether to abort after the body has raised, or the commit has failed.

        Args:
            error: What was raised. Anything but an error of Kafka's is aborted.
        """
        if not isinstance(error, KafkaGuardError):
            return True
        verdict = error.verdict
        if verdict.action in _OVER:
            return False
        return self._call != "commit" or verdict.written == "no"
