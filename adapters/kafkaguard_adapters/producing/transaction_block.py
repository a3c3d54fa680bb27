"""``with producer.transaction():`` for clients with blocking calls."""

from __future__ import annotations

import time
from contextlib import contextmanager
from typing import TYPE_CHECKING, NamedTuple, Protocol

from kafkaguard._delivery.transaction import TransactionRun
from kafkaguard.errors import KafkaGuardError
from kafkaguard_adapters.producing.transaction_words import say_aborted

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kafkaguard._delivery.shell import Policy
    from kafkaguard._delivery.transaction import CallName


class TransactionCalls(Protocol):
    """The transactional calls of a guarded producer, without retries."""

    def begin(self) -> None:
        """Begin a transaction."""

    def commit(self) -> None:
        """Commit the transaction."""

    def abort(self) -> None:
        """Abort the transaction."""

    def can_ask_again(self) -> bool:
        """Return whether the call that has just failed can be made again."""


class LeftOpen(NamedTuple):
    """A transaction that was open when its producer was closed.

    Attributes:
        why: The error of the abort, or of the repeated commit whose answer was lost;
            None if the transaction was aborted.
    """

    why: KafkaGuardError | None = None


@contextmanager
def transaction(calls: TransactionCalls, policy: Policy) -> Iterator[None]:
    """Begin a transaction, and commit it after the body, or abort it.

    Args:
        calls: The producer's calls.
        policy: How often a call is tried.

    Raises:
        KafkaGuardError: The transaction was not committed; the verdict says what to do.
        BaseException: The exception of the body, after the abort.
    """
    run = TransactionRun(policy)
    _make(run, calls, "begin")
    try:
        yield
    except BaseException as error:
        if run.aborts_after(error):
            try:
                _make(run, calls, "abort")
            except KafkaGuardError as failure:
                error.add_note(f"besides, its transaction was not aborted: {failure}")
            else:
                say_aborted(error)
        raise
    _make(run, calls, "commit")


def _make(run: TransactionRun, calls: TransactionCalls, call: CallName) -> None:
    """Make a call; if it fails, repeat it or abort, as the transaction run decides.

    Raises:
        KafkaGuardError: The call has failed finally.
    """
    run.starts(call, time.monotonic())
    while True:
        try:
            getattr(calls, call)()
        except KafkaGuardError as error:
            again = calls.can_ask_again()
            step = run.failed(error, time.monotonic(), can_ask_again=again)
            if step.do == "abort":
                _make(run, calls, "abort")
                say_aborted(error)
            if step.do != "again":
                raise
        else:
            return
        time.sleep(step.wait)
