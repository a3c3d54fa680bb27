"""Transactional calls of a guarded producer: time limits and verdicts.

For each failure, librdkafka says whether the same call can be retried, the transaction
must be aborted, or the producer is dead. ``commit_transaction`` waits for the delivery
reports of all records, and these come only if somebody polls. So the guard serves the
reports before it calls ``commit_transaction``.
"""

from __future__ import annotations

import time
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from confluent_kafka import KafkaError, KafkaException

from kafkaguard._verdicts.verdict import Action
from kafkaguard.errors import ClientClosedError, ClientTimeoutError, KafkaGuardError
from kafkaguard_adapters.confluent.errors import errors
from kafkaguard_adapters.producing.transaction_block import GivenUp
from kafkaguard_adapters.producing.transaction_words import (
    COMMIT,
    TransactionWords,
    explain_fenced,
    why_over,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kafkaguard_adapters.confluent.producer_settings import ProducerSettings
    from kafkaguard_adapters.confluent.shell import ConfluentShell
    from kafkaguard_adapters.producing.driver import ThreadDriver

_words = TransactionWords(
    errors,
    "a new producer with the same transactional.id calls init_transactions()",
    "init_transactions() comes first",
)
_INIT, _END, _OFFSETS = "InitProducerId", "EndTxn", "TxnOffsetCommit"
#: Verdicts after which neither this client nor a new one can go on.
_FINAL = frozenset({Action.FENCED, Action.CONFIGURE})


class Transactions:
    """Begins and ends transactions.

    Args:
        shell: The shell of the client.
        driver: Tracks the client's records.
        settings: The producer's settings.
        limit: Seconds that a call may take by default.
    """

    def __init__(
        self,
        shell: ConfluentShell,
        driver: ThreadDriver,
        settings: ProducerSettings,
        limit: float,
    ) -> None:
        self._shell = shell
        self._driver = driver
        self._settings = settings
        self._limit = limit
        self._is_open = False
        #: When the transaction began, in monotonic seconds.
        self._began = 0.0
        #: Whether another instance uses the id: a new client would fence that one.
        self._is_fenced = False
        #: Whether a commit of the transaction had no answer.
        self._lost_commit = False
        #: Whether the client cannot end a transaction any more.
        self._is_stuck = False
        #: Whether a sequence number is missing: the next transaction would fail.
        self._has_hole = False
        self._can_ask_again = False

    def init(self, timeout: float | None) -> None:
        """Take over the ``transactional.id``.

        Raises:
            KafkaGuardError: The ``transactional.id`` was not taken over.
        """
        with self._judging(_INIT):
            self._shell.client.init_transactions(self._seconds(timeout))

    def begin(self) -> None:
        """Begin a transaction, with a new client if the old one cannot go on.

        Raises:
            KafkaGuardError: The transaction cannot begin.
        """
        can_renew = self._has_hole and self._shell.builder.can_build
        if (self._is_stuck or can_renew) and not self._is_fenced:
            self._renew()
        self._has_hole = False
        with self._judging(None):
            self._shell.client.begin_transaction()
        self._driver.machine.new_transaction()
        self._is_open, self._began = True, time.monotonic()
        self._lost_commit = False

    def add_offsets(self, offsets: Any, group: Any, timeout: float | None) -> None:
        """Add a consumer's offsets.

        Raises:
            KafkaGuardError: The offsets were not added.
        """
        with self._judging(_OFFSETS):
            self._shell.client.send_offsets_to_transaction(
                offsets, group, self._seconds(timeout)
            )

    def commit(self, timeout: float | None = None) -> None:
        """Commit, once each record has its outcome.

        Raises:
            KafkaGuardError: The verdict says whether to abort or to call again.
        """
        end = time.monotonic() + self._seconds(timeout)
        self._await_records(end)
        failure = self._driver.machine.transaction_failure
        if failure is not None:
            self._can_ask_again = False
            raise _words.abort_first(failure, COMMIT)
        with self._judging(_END, "commit"):
            self._shell.client.commit_transaction(max(0.0, end - time.monotonic()))
        self._ended()

    def abort(self, timeout: float | None = None) -> None:
        """Abort, and drop the records that were not sent yet.

        Raises:
            KafkaGuardError: The abort failed. RECREATE: a repeated call does not help.
        """
        end = time.monotonic() + self._seconds(timeout)
        self._has_hole = self._has_hole or self._driver.machine.has_hole
        with self._judging(_END, "abort"):
            self._shell.client.abort_transaction(max(0.0, end - time.monotonic()))
        self._shell.serve_all(end)
        self._ended()

    def _ended(self) -> None:
        self._driver.machine.new_transaction()
        self._is_open = False

    def can_ask_again(self) -> bool:
        """Return whether the call that has just failed can be made again."""
        return self._can_ask_again

    def give_up(self, seconds: float) -> GivenUp | None:
        """Abort an open transaction when the producer is closed.

        Args:
            seconds: Time limit of the abort.

        Returns:
            The result for the transaction; None: no transaction was open, or it had
            failed and is aborted now.
        """
        if not self._is_open:
            return None
        was_sound = self._driver.machine.transaction_failure is None
        try:
            self.abort(seconds)
        except KafkaGuardError as error:
            return GivenUp(error)
        return GivenUp() if was_sound else None

    def _await_records(self, end: float) -> None:
        """Serve reports until each record has its outcome.

        Raises:
            KafkaGuardError: Some records have no outcome in time.
        """
        self._shell.serve_all(end)
        left = self._shell.waiting()
        if left:
            self._can_ask_again = True
            raise errors.make(
                ClientTimeoutError,
                f"{left} records of the transaction had no outcome in time; call "
                "commit_transaction() again to wait for longer, or abort it",
                api=_END,
            )

    def _seconds(self, timeout: float | None) -> float:
        return self._limit if timeout is None or timeout < 0 else timeout

    def _renew(self) -> None:
        """Let a new client take over the ``transactional.id``.

        Raises:
            KafkaGuardError: The client cannot be built, or cannot take over the id.
        """
        if not self._shell.builder.can_build:
            raise errors.make(
                ClientClosedError,
                "this producer could not abort its last transaction and cannot begin "
                "another one: build a new producer with the same transactional.id, or "
                "use guard(factory=..., config={...}), which builds it",
            )
        self._driver.recreated()
        with self._judging(_INIT):
            self._shell.renew(lambda new: new.init_transactions(self._limit))
        self._driver.retire()
        self._is_stuck = self._is_open = False

    @contextmanager
    def _judging(self, api: str | None, phase: Any = None) -> Iterator[None]:
        """Raise the error with a verdict if a call fails."""
        try:
            yield
        except (KafkaException, RuntimeError) as error:
            if isinstance(error, KafkaGuardError):
                raise
            raise self._judged(error, api, phase) from error

    def _judged(self, error: Exception, api: str | None, phase: Any) -> KafkaGuardError:
        said: Any = error.args[0] if error.args else None
        is_told = isinstance(said, KafkaError)
        self._can_ask_again = is_told and said.retriable()
        context = {"transactional": True, "phase": phase}
        judged = errors.translate(error, api=api, context=context)
        if judged.verdict.action is Action.FENCED:
            self._explain_fenced(judged)
        self._lost_commit |= phase == "commit" and self._can_ask_again
        if judged.verdict.action in _FINAL or self._can_ask_again:
            return judged
        is_dead = is_told and said.fatal()
        if phase == "abort" and is_told and (is_dead or said.txn_requires_abort()):
            self._is_stuck = True
            return _words.not_aborted(error)
        failure = self._driver.machine.transaction_failure
        if is_told and said.txn_requires_abort() and failure is not None:
            return _words.abort_first(failure, COMMIT)
        if is_dead:
            self._is_stuck = True
        return judged

    def _explain_fenced(self, error: KafkaGuardError) -> None:
        self._is_fenced = True
        settings, lasted = self._settings, 0.0
        if self._is_open:
            lasted = time.monotonic() - self._began
        limit = settings.transaction_timeout
        explain_fenced(
            error,
            settings.transactional_id,
            why_over(lasted, limit, "transaction.timeout.ms"),
            in_doubt=self._lost_commit,
        )
