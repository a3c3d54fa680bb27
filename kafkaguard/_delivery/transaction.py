"""The decisions about a transaction block, for all clients. No I/O.

A block is ``begin``, the body, ``commit``. A failed call is repeated if its verdict
says so. The coordinator executes a commit or an abort once, so a call whose answer was
lost is repeated. If the result of a commit is unknown, the transaction is not aborted.
The body never runs twice. After any other failure there is one abort. If the abort
fails for good, the client is dead.
"""

from __future__ import annotations

from random import random
from typing import TYPE_CHECKING, Literal, NamedTuple

from kafkaguard._retries.machine import CallContext, Machine
from kafkaguard._verdicts.classification import classify
from kafkaguard.errors import KafkaGuardError, TransactionAbortableError
from kafkaguard.errors._base import Action

if TYPE_CHECKING:
    from collections.abc import Callable

    from kafkaguard._delivery.shell import Policy

CallName = Literal["begin", "commit", "abort"]
#: After these actions the client has no transaction that it could abort.
_OVER = frozenset({Action.FENCED, Action.RECREATE})
_PHASES: dict[CallName, CallContext] = {
    "begin": CallContext(api="InitProducerId", transactional=True),
    "commit": CallContext(
        api="EndTxn", transactional=True, phase="commit", repeatable=True
    ),
    "abort": CallContext(
        api="EndTxn", transactional=True, phase="abort", repeatable=True
    ),
}
#: The verdict for an abort that failed for good: the client is dead.
NOT_ABORTED = classify(TransactionAbortableError(), api="EndTxn", phase="abort")


class Next(NamedTuple):
    """The next step after a failed call.

    Attributes:
        do: Make the same call again, abort, or raise the error.
        wait: Seconds to wait before that.
    """

    do: Literal["again", "abort", "raise"]
    wait: float = 0.0


class TransactionRun:
    """The decisions about one transaction.

    Args:
        policy: Decides about attempts and waits.
        random: Returns random numbers from 0 to below 1.
    """

    def __init__(self, policy: Policy, *, random: Callable[[], float] = random) -> None:
        self._policy = policy
        self._random = random
        self._call: CallName = "begin"
        self._machine = Machine(0.0, random)

    def starts(self, call: CallName, now: float) -> None:
        """Record the first attempt of a call."""
        self._call = call
        self._machine = Machine(now, self._random, repeatable=_PHASES[call].repeatable)

    def failed(
        self, error: KafkaGuardError, now: float, *, can_ask_again: bool
    ) -> Next:
        """Record that the current call failed, and return the next step.

        Args:
            error: Why it failed.
            now: The time, as for ``starts``.
            can_ask_again: Whether the client can make the same call again. A client
                that has given up a commit cannot, and the result stays unknown.
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
            error: The exception. Each one that is no Kafka error leads to an abort.
        """
        if not isinstance(error, KafkaGuardError):
            return True
        verdict = error.verdict
        if verdict.action in _OVER:
            return False
        if verdict.action is Action.ABORT:
            return True  # the coordinator refuses to abort what it has committed
        return self._call != "commit" or verdict.written == "no"
