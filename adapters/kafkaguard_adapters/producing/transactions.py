"""Transactional calls of a guarded producer; the base of each client's."""

from __future__ import annotations

import time
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from kafkaguard._delivery.time_limit import TimeLimit
from kafkaguard._delivery.transaction_calls import DONE, Answer
from kafkaguard._delivery.transaction_errors import (
    ABORT,
    BEGIN,
    COMMIT,
    INIT,
    OFFSETS,
    Call,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kafkaguard._delivery.transaction_calls import Flow, Step, TransactionCalls
    from kafkaguard._errors import KafkaGuardError


class TransactionsBase:
    """Begins and ends transactions, as the machine decides.

    A subclass has a method for each step, ``_commit(step)`` for ``"commit"``. If its
    methods are coroutines, so is what each call here returns.

    Args:
        driver: Tracks the client's records, and runs the machine.
        calls: Decides.
        transactional: Whether the producer has a ``transactional.id``.
    """

    #: How long the client tries to send offsets, whatever timeout it is given.
    _longest: TimeLimit | None = None

    def __init__(
        self, driver: Any, calls: TransactionCalls, *, transactional: bool
    ) -> None:
        self._driver = driver
        self._calls = calls
        self._transactional = transactional

    def _limit(self, timeout: float | None = None) -> TimeLimit:
        """Return how long a call may take, for a timeout of the application."""
        raise NotImplementedError

    def _refuse(self, call: Call) -> None:
        """Raise an error if a call cannot be made here and now."""

    def _make(self, step: Step) -> Any:
        return getattr(self, f"_{step.do}")(step)

    def begin(self) -> Any:
        """Begin a transaction, with a new client if the old one cannot go on.

        Raises:
            KafkaGuardError: The transaction cannot begin.
        """
        return self._run(BEGIN, self._calls.begin(self._limit()))

    def add_offsets(
        self, offsets: Any, group: Any, timeout: float | None = None
    ) -> Any:
        """Add a consumer's offsets.

        Raises:
            KafkaGuardError: The offsets were not added.
        """
        limit = self._limit(timeout)
        flow = self._calls.add_offsets(offsets, group, limit, self._longest)
        return self._run(OFFSETS, flow)

    def commit(self, timeout: float | None = None) -> Any:
        """Commit, once each record has its outcome.

        Raises:
            KafkaGuardError: The verdict says whether to abort or to call again.
        """
        return self._run(COMMIT, self._calls.commit(self._limit(timeout)))

    def abort(self, timeout: float | None = None) -> Any:
        """Abort, and drop the records that were not sent yet.

        Raises:
            KafkaGuardError: The abort failed. RECREATE: a repeated call does not help.
        """
        return self._run(ABORT, self._calls.abort(self._limit(timeout)))

    def close(self, seconds: float) -> Any:
        """End an open transaction when the producer is closed.

        Returns:
            None, or a ``LeftOpen``.
        """
        limit = TimeLimit(round(seconds, 1), "what the call to close had left")
        return self._driver.run(self._calls.close(limit), self._make)

    def _run(self, call: Call, flow: Flow[None]) -> Any:
        self._refuse(call)
        if not self._transactional:
            raise self._not_transactional(call)
        return self._driver.run(flow, self._make)

    def _not_transactional(self, call: Call) -> KafkaGuardError:
        return self._calls.errors.make_not_transactional(call)

    def spoil(self, error: KafkaGuardError) -> None:
        """Fail the transaction for a record that the client never got."""
        if self._transactional:
            self._driver.locked(lambda: self._calls.transaction.spoil(error))

    def send_error(
        self, original: BaseException, topic: str, answer: Answer = DONE
    ) -> KafkaGuardError | None:
        """Return the error of a record outside a sound transaction; None: it is in."""
        error: KafkaGuardError | None = self._driver.locked(
            lambda: self._calls.send_error(original, topic, answer)
        )
        return error


class ThreadTransactions(TransactionsBase):
    """The transactional calls of a producer whose calls block."""

    def init(self, timeout: float | None = None) -> None:
        """Take over the ``transactional.id``.

        Raises:
            KafkaGuardError: The ``transactional.id`` was not taken over.
        """
        self._run(INIT, self._calls.init(self._limit(timeout)))

    @contextmanager
    def block(self) -> Iterator[None]:
        """Begin a transaction, and commit it after the body, or abort it.

        Raises:
            KafkaGuardError: The transaction was not committed; the verdict says what
                to do.
            BaseException: The exception of the body, after the abort.
        """
        calls, limit = self._calls, self._limit()
        self._run(BEGIN, calls.begin_block(limit))
        try:
            yield
        except BaseException as error:
            self._driver.run(calls.abort_block(limit, error), self._make)
            raise
        self._run(COMMIT, calls.commit_block(limit))

    def _sleep(self, step: Step) -> Answer:
        time.sleep(left(step))
        return DONE


def left(step: Step) -> float:
    """Return the seconds that a step has left."""
    return max(0.0, step.until - time.monotonic())
