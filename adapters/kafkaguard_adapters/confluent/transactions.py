"""Transactional calls of a guarded producer: time limits and verdicts.

For each failure, librdkafka says whether the same call can be retried, the transaction
must be aborted, or the producer is dead. ``commit_transaction`` waits for the delivery
reports of all records, and these come only if somebody polls. So the guard serves the
reports before it calls ``commit_transaction``.
"""

from __future__ import annotations

import re
import time
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from confluent_kafka import KafkaError, KafkaException

from kafkaguard.errors import ClientClosedError, KafkaGuardError
from kafkaguard.errors._base import Action
from kafkaguard_adapters.confluent.errors import errors
from kafkaguard_adapters.producing import transaction_words as words
from kafkaguard_adapters.producing.time_limit import TimeLimit
from kafkaguard_adapters.producing.transaction_block import LeftOpen
from kafkaguard_adapters.producing.transaction_words import (
    ABORT,
    COMMIT,
    OFFSETS,
    SEND,
    Call,
    TransactionWords,
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
INIT = Call("init_transactions", "InitProducerId")
#: Sends no request, unless a new client takes over.
BEGIN = Call("begin_transaction", None)
PRODUCE = SEND._replace(method="produce")
#: Verdicts after which neither this client nor a new one can go on.
_FINAL = frozenset({Action.FENCED, Action.CONFIGURE})
#: librdkafka's texts for calls in a wrong order, and its names of the states.
_IN_STATE = re.compile(r"not valid in state (\w+)")
_CONFLICT = re.compile(r"Conflicting (\w+) API call")
_STATES = {
    "Init": "UNINITIALIZED",
    "WaitPID": "INITIALIZING",
    "ReadyNotAcked": "INITIALIZING",
    "init_transactions": "INITIALIZING",
    "Ready": "READY",
    "InTransaction": "IN_TRANSACTION",
    "BeginCommit": "COMMITTING_TRANSACTION",
    "CommittingTransaction": "COMMITTING_TRANSACTION",
    "CommitNotAcked": "COMMITTING_TRANSACTION",
    "commit_transaction": "COMMITTING_TRANSACTION",
    "BeginAbort": "ABORTING_TRANSACTION",
    "AbortingTransaction": "ABORTING_TRANSACTION",
    "AbortedNotAcked": "ABORTING_TRANSACTION",
    "abort_transaction": "ABORTING_TRANSACTION",
    "AbortableError": "ABORTABLE_ERROR",
}


def state_of(text: str) -> str | None:
    """Return the state that librdkafka names when it refuses a call, or None."""
    found = _IN_STATE.search(text) or _CONFLICT.search(text)
    return None if found is None else _STATES.get(found[1])


class Transactions:
    """Begins and ends transactions.

    Args:
        shell: The shell of the client.
        driver: Tracks the client's records.
        settings: The producer's settings.
        limit: What a call may take by default.
    """

    def __init__(
        self,
        shell: ConfluentShell,
        driver: ThreadDriver,
        settings: ProducerSettings,
        limit: TimeLimit,
    ) -> None:
        self._shell = shell
        self._driver = driver
        self._settings = settings
        self._limit = limit
        self._is_open = False
        #: When the transaction began, in monotonic seconds.
        self._began = 0.0
        #: When the application was told that the producer is fenced. A new client would
        #: fence the other instance.
        self._fenced: float | None = None
        #: The call that had no answer, if it was the last one to end the transaction.
        self._unanswered: Call | None = None
        #: Whether the client cannot end a transaction any more.
        self._is_stuck = False
        #: Whether a sequence number is missing: the next transaction would fail.
        self._has_gap = False
        self._can_ask_again = False
        #: Whether the client was asked to commit. It repeats a request without an
        #: answer by itself, so the transaction may be committed whatever comes later.
        self._may_be_committed = False
        #: Why offsets were not sent, by partition, until they were sent again. After
        #: some failures, librdkafka would commit the transaction without them.
        self._unsent: dict[tuple[str, int], KafkaGuardError] = {}

    @property
    def _failure(self) -> KafkaGuardError | None:
        return self._driver.machine.transaction_failure

    # --- records ----------------------------------------------------------------------

    def spoil(self, error: KafkaGuardError) -> None:
        """Fail the transaction for a record that the client never got.

        Java's producer does the same: it then refuses the commit.
        """
        # Before the look at the state: another thread may end the transaction now.
        number = self._driver.machine.transactions_ended
        if self._is_open and self._unanswered is None:
            self._driver.spoil_transaction(error, number)

    def error_of(self, error: KafkaException, topic: str) -> KafkaGuardError | None:
        """Return the error for a record outside a sound transaction; None: it is in."""
        said = error.args[0] if error.args else None
        if not isinstance(said, KafkaError) or said.code() != KafkaError._STATE:  # noqa: SLF001 - a documented constant
            return None
        state = "READY"
        if self._unanswered is not None:
            ends = "COMMITTING" if self._unanswered is COMMIT else "ABORTING"
            state = f"{ends}_TRANSACTION"
        elif self._is_open:
            failed = self._failure or errors.translate(error, api=PRODUCE.api)
            return _words.abort_first(failed, PRODUCE, error)
        made = _words.out_of_order(PRODUCE, state, error)
        made.topic = topic
        return made

    # --- calls ------------------------------------------------------------------------

    def init(self, timeout: float | None) -> None:
        """Take over the ``transactional.id``.

        Raises:
            KafkaGuardError: The ``transactional.id`` was not taken over.
        """
        self._refuse_inside(INIT)
        try:
            with self._judging(INIT):
                self._shell.client.init_transactions(self._seconds(timeout))
        except KafkaGuardError as error:
            raise self._shell.explained(error) from error.__cause__

    def begin(self) -> None:
        """Begin a transaction, with a new client if the old one cannot go on.

        Raises:
            KafkaGuardError: The transaction cannot begin.
        """
        is_unfit = self._has_gap or self._unanswered is ABORT
        is_unfit = is_unfit and self._shell.builder.can_build
        if (self._is_stuck or is_unfit) and self._fenced is None:
            self._renew()
        with self._judging(BEGIN):
            self._shell.client.begin_transaction()
        self._ended()
        self._has_gap = False
        self._is_open, self._began = True, time.monotonic()

    def add_offsets(self, offsets: Any, group: Any, timeout: float | None) -> None:
        """Add a consumer's offsets.

        Raises:
            KafkaGuardError: The offsets were not added.
        """
        self._refuse_inside(OFFSETS)
        try:
            with self._judging(OFFSETS):
                self._shell.client.send_offsets_to_transaction(
                    offsets, group, self._seconds(timeout)
                )
        except KafkaGuardError as error:
            is_fenced = error.verdict.action is Action.FENCED
            is_closed = isinstance(error, ClientClosedError)
            if is_fenced or is_closed or error.verdict is words.OUT_OF_ORDER_CALL:
                raise
            failed, cause = error, error.__cause__ or error
            if self._can_ask_again:
                failed = _words.unconfirmed(offsets, self._offsets_limit, cause)
            self._unsent.update(dict.fromkeys(_places(offsets), failed))
            raise failed from cause
        for place in _places(offsets):
            self._unsent.pop(place, None)

    @property
    def _offsets_limit(self) -> TimeLimit:
        """How long librdkafka tries to send offsets, whatever timeout it is given."""
        seconds = self._settings.transaction_timeout
        return TimeLimit(seconds, "transaction.timeout.ms")

    def commit(self, timeout: float | None = None) -> None:
        """Commit, once each record has its outcome.

        Raises:
            KafkaGuardError: The verdict says whether to abort or to call again.
        """
        self._refuse_inside(COMMIT)
        limit = self._limit_of(timeout)
        end = time.monotonic() + limit.seconds
        self._await_records(end, limit)
        if self._failure is not None:
            self._can_ask_again = False
            self.raise_fenced(COMMIT)
            raise _words.abort_first(self._failure, COMMIT)
        for failed in self._unsent.values():
            self._can_ask_again = False
            raise _words.abort_first(failed, COMMIT)
        self._may_be_committed = True
        with self._judging(COMMIT, limit):
            self._shell.client.commit_transaction(max(0.0, end - time.monotonic()))
        self._ended()

    def abort(self, timeout: float | None = None) -> None:
        """Abort, and drop the records that were not sent yet.

        Raises:
            KafkaGuardError: The abort failed. RECREATE: a repeated call does not help.
        """
        self._refuse_inside(ABORT)
        self._abort(self._limit_of(timeout))
        self._ended()

    def _abort(self, limit: TimeLimit) -> None:
        end = time.monotonic() + limit.seconds
        with self._judging(ABORT, limit):
            self._shell.client.abort_transaction(max(0.0, end - time.monotonic()))
        self._serve_records(end)
        self._has_gap = self._has_gap or self._driver.machine.has_gap

    def _refuse_inside(self, call: Call) -> None:
        self._shell.callbacks.refuse_inside(call.method)

    def _ended(self) -> None:
        self._driver.transaction_ended()
        self._is_open, self._unanswered = False, None
        self._may_be_committed = False
        self._unsent.clear()

    def can_ask_again(self) -> bool:
        """Return whether the call that has just failed can be made again."""
        return self._can_ask_again

    def end_open_transaction(self, seconds: float) -> LeftOpen | None:
        """End an open transaction when the producer is closed.

        A commit whose answer was lost is repeated; others are aborted.

        Args:
            seconds: Time limit.

        Returns:
            The result; None: no transaction was open, the application was told its end,
            or it had already failed and is aborted now.
        """
        if not self._is_open:
            return None
        was_sound = self._failure is None
        try:
            if self._unanswered is COMMIT:
                self.commit(seconds)
                return None
            self.raise_fenced(ABORT)
            self._abort(TimeLimit(round(seconds, 1), "what close() had left"))
        except KafkaGuardError as error:
            if self._may_be_committed and error.verdict.action is not Action.FENCED:
                return LeftOpen(_words.commit_in_doubt(error.__cause__ or error))
            return LeftOpen(error)
        return LeftOpen() if was_sound else None

    def _await_records(self, end: float, limit: TimeLimit) -> None:
        """Serve reports until each record has its outcome.

        Raises:
            KafkaGuardError: Some records have no outcome in time.
        """
        if self._serve_records(end):
            self._can_ask_again = True
            raise _words.pending(COMMIT, limit)

    def _serve_records(self, end: float) -> bool:
        """Serve reports until monotonic seconds; return whether a record is left."""
        self._shell.serve_all(end)
        is_judging = self._driver.machine.is_troubled
        return bool(self._shell.waiting() or (is_judging and self._driver.wait(end)))

    def _seconds(self, timeout: float | None) -> float:
        return self._limit_of(timeout).seconds

    def _limit_of(self, timeout: float | None) -> TimeLimit:
        if timeout is None or timeout < 0:
            return self._limit
        return TimeLimit(timeout, "timeout")

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
        self._refuse_inside(BEGIN)
        self._driver.recreated()
        with self._judging(INIT):
            self._shell.renew(lambda new: new.init_transactions(self._limit.seconds))
        self._driver.retire()
        self._is_stuck = self._is_open = False

    @contextmanager
    def _judging(self, call: Call, limit: TimeLimit | None = None) -> Iterator[None]:
        """Raise the error with a verdict if a call fails.

        Args:
            call: The call.
            limit: Its time limit, for the text of a call that had no answer.
        """
        try:
            yield
        except (KafkaException, RuntimeError) as error:
            if isinstance(error, KafkaGuardError):
                raise
            raise self._judged(error, call, limit) from error

    def _judged(
        self, error: Exception, call: Call, limit: TimeLimit | None
    ) -> KafkaGuardError:
        said: Any = error.args[0] if error.args else None
        is_kafka_error = isinstance(said, KafkaError)
        self._can_ask_again = is_kafka_error and said.retriable()
        state = state_of(said.str()) if is_kafka_error else None
        if state is not None:
            self._can_ask_again = False
            return _words.out_of_order(call, state, error)
        judged = self._translated(error, call)
        if limit is not None and self._can_ask_again:
            self._unanswered = call
            judged.summary = words.unanswered(call, limit)
            judged.original_text = None
        if judged.verdict.action in _FINAL or self._can_ask_again:
            return self._doubted(judged)
        is_dead = is_kafka_error and said.fatal()
        if call is ABORT and is_kafka_error and (is_dead or said.txn_requires_abort()):
            self._is_stuck = True
            if self._may_be_committed:
                return _words.commit_in_doubt(error)
            return _words.not_aborted(error)
        if is_kafka_error and said.txn_requires_abort() and self._failure is not None:
            return _words.abort_first(self._failure, COMMIT)
        if is_dead:
            self._is_stuck = True
        return self._doubted(judged)

    def _doubted(self, judged: KafkaGuardError) -> KafkaGuardError:
        """Let an error say that the transaction may be committed, if it may."""
        if self._may_be_committed and judged.verdict.written == "no":
            judged._verdict = replace(judged.verdict, written="maybe")  # noqa: SLF001 - kafkaguard's own class
        return judged

    def _translated(self, error: Exception, call: Call) -> KafkaGuardError:
        context = {"transactional": True, "phase": call.phase}
        judged = errors.translate(error, api=call.api, context=context)
        if judged.verdict.action is Action.FENCED:
            self._explain_fenced(judged)
        return judged

    def raise_fenced(self, call: Call) -> None:
        """Raise an error if the client has told that another instance uses the id."""
        death = self._shell.death
        judged = None if death is None else self._translated(death, call)
        if judged is not None and judged.verdict.action is Action.FENCED:
            raise judged from death

    def _explain_fenced(self, error: KafkaGuardError) -> None:
        if self._fenced is None:
            self._fenced = time.monotonic()
        lasted = self._fenced - self._began if self._began else 0.0
        words.explain_fenced(
            error,
            self._settings.transactional_id,
            words.why_over(
                lasted,
                self._settings.transaction_timeout,
                "transaction.timeout.ms",
            ),
            in_doubt=self._may_be_committed,
        )
        self._driver.transaction_ended()
        self._is_open = False


def _places(offsets: Any) -> set[tuple[str, int]]:
    """Return the partitions of offsets."""
    return {(each.topic, each.partition) for each in offsets}
