"""Transactional calls of a guarded producer: time limits and verdicts.

After a refused batch, kafka-python aborts the transaction but continues with a gap in
its sequence numbers, so the next transaction fails. Java's client raises its epoch
after such an abort. Here a new producer takes over the same ``transactional.id``, which
has the same effect, once, when the next transaction begins. The new producer sends the
id and epoch of the old one to the coordinator. So it does not take over if another
instance has already done so.
"""

from __future__ import annotations

import logging
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from kafka.errors import IllegalStateError, KafkaError, ProducerFencedError

from kafkaguard._delivery.judging import ends_all
from kafkaguard._delivery.transaction import NOT_ABORTED
from kafkaguard.errors import KafkaGuardError
from kafkaguard.errors._base import Action
from kafkaguard_adapters.kafka_python import transaction_errors
from kafkaguard_adapters.kafka_python._private import (
    reading,
)
from kafkaguard_adapters.kafka_python._private import (
    transactions as inside,
)
from kafkaguard_adapters.kafka_python.errors import errors
from kafkaguard_adapters.kafka_python.transaction_errors import BEGIN, INIT, words
from kafkaguard_adapters.producing import send_errors
from kafkaguard_adapters.producing.time_limit import TimeLimit
from kafkaguard_adapters.producing.transaction_block import LeftOpen
from kafkaguard_adapters.producing.transaction_words import (
    ABORT,
    COMMIT,
    OFFSETS,
    Call,
    explain_fenced,
    stops,
    unanswered,
    unconfirmed,
    why_over,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kafkaguard_adapters.kafka_python.shell import KafkaPythonShell
    from kafkaguard_adapters.producing.driver import ThreadDriver

_log = logging.getLogger("kafkaguard.producer")

_POLL_S = 0.01
#: Seconds that the client has to find out whether it was fenced.
_FENCED_S = 5.0


class Transactions:
    """Begins and ends transactions.

    Args:
        shell: The client.
        driver: Tracks the records of the client.
    """

    def __init__(self, shell: KafkaPythonShell, driver: ThreadDriver) -> None:
        self._shell = shell
        self._driver = driver
        #: Whether the producer has a gap in its sequence numbers.
        self._needs_new_epoch = False
        self._open_end: tuple[bool, Any, Any] | None = None
        #: When the application was told that the producer is fenced.
        self._fenced: float | None = None
        self._forget()
        if shell.is_transactional:
            inside.mend(shell.producer)

    def _forget(self) -> None:
        """Forget the state of the last transaction."""
        self._driver.transaction_ended()
        self._stuck: KafkaGuardError | None = None
        self._lost_commit: BaseException | None = None
        self._open_offsets: tuple[Any, Any, Any] | None = None
        self._began = float("inf")

    @property
    def _failure(self) -> KafkaGuardError | None:
        return self._driver.machine.transaction_failure

    def spoil(self, error: KafkaGuardError) -> None:
        """Fail the transaction, because a record was refused before it was sent.

        Java's producer does the same, and then refuses to commit.
        """
        # Before the look at the client: another thread may end the transaction now.
        number = self._driver.machine.transactions_ended
        if self._shell.is_transactional and reading.is_in_transaction(
            self._shell.producer
        ):
            self._driver.spoil_transaction(error, number)

    def has_failed(self) -> bool:
        """Return whether the transaction can only be aborted."""
        return self._failure is not None or self._cause() is not None

    def is_not_begun(self) -> bool:
        """Return whether no transaction is open."""
        in_use = self._shell.producer
        return not (reading.is_in_transaction(in_use) or self.has_failed())

    def init(self) -> None:
        """Initialise transactions, within ``max_block_ms``.

        Raises:
            KafkaGuardError: The producer could not be initialised.
        """
        self._check(INIT)
        try:
            self._shell.producer.init_transactions()
        except KafkaError as error:
            raise errors.translate(error, api=INIT.api) from error

    def begin(self) -> None:
        """Begin a transaction, with a new producer if this is necessary.

        Raises:
            KafkaGuardError: The transaction cannot begin.
        """
        self._check(BEGIN)
        is_unfit = (
            self._needs_new_epoch
            or self._stuck is not None
            or self._lost_commit is not None
        )
        with self._judging(BEGIN):
            if is_unfit and not self._is_over_for_good():
                self._renew()
            inside.begin_transaction(self._shell.producer)
        self._forget()
        self._began = time.monotonic()

    def commit(self) -> None:
        """Commit within ``max_block_ms``; call it again to wait for longer.

        Raises:
            KafkaGuardError: The commit failed; the verdict says whether to abort.
        """
        self._check(COMMIT)
        self._raise_doubt()
        with self._judging(COMMIT):
            # Commit only when no record is pending: if the client's commit waits for a
            # record and this record fails, a later abort executes the commit instead.
            self._await_records(COMMIT, None)
            self._raise_unconfirmed()
            if self._failure is not None:
                raise IllegalStateError("a record has failed")
            self._end(COMMIT)
        self._forget()

    def abort(self) -> None:
        """Abort within ``max_block_ms``.

        Raises:
            KafkaGuardError: The transaction could not be aborted.
        """
        self._check(ABORT)
        self._raise_doubt()
        self._abort_within(None)
        self._forget()

    def can_ask_again(self) -> bool:
        """Return whether the call that has just failed can be made again."""
        return self._lost_commit is None

    def end_open_transaction(self, seconds: float) -> LeftOpen | None:
        """End an open transaction when the producer is closed, as Java's client does.

        While a transaction is open, consumers with ``read_committed`` get no later
        records. A commit whose answer was lost is repeated; others are aborted.

        Args:
            seconds: The time limit.

        Returns:
            The result; None: no transaction was open, the application was told its end,
            or it had already failed and is aborted now.
        """
        if self._fenced is not None:
            return None
        if self._stuck is not None and self._stuck.verdict is NOT_ABORTED:
            return LeftOpen(self._stuck)
        try:
            self._raise_doubt()
            if self._open_end is not None and self._open_end[0]:
                with self._judging(COMMIT):
                    self._end(COMMIT, seconds)
                return None
            return self._abort_at_close(seconds)
        except KafkaGuardError as error:
            return LeftOpen(error)

    def _abort_at_close(self, seconds: float) -> LeftOpen | None:
        cause = self._cause() if self._is_open() else None
        if cause is not None and ends_all(cause):
            raise self.judged(IllegalStateError("the producer is fenced"), ABORT)
        if not reading.is_in_transaction(self._shell.producer) and not self._stuck:
            return None
        was_sound = not self.has_failed()
        self._abort_within(seconds)
        return LeftOpen() if was_sound else None

    def _abort_within(self, seconds: float | None) -> None:
        producer = self._shell.producer
        with self._judging(ABORT):
            self._abort(seconds)
            self._await_records(ABORT, seconds)
        if self._driver.machine.has_gap and producer is self._shell.producer:
            self._needs_new_epoch = True

    def _abort(self, seconds: float | None) -> None:
        try:
            self._end(ABORT, seconds)
        except KafkaGuardError:
            raise
        except KafkaError:
            if not (self._is_open() and self.has_failed()) or self._is_over_for_good():
                raise
            # The client cannot abort in its state. The first request of a new producer
            # aborts the transaction.
            self._renew()

    def add_offsets(self, offsets: Any, group: Any) -> None:
        """Add a consumer's offsets within ``max_block_ms``.

        Raises:
            KafkaGuardError: The offsets could not be added.
            TypeError: ``offsets`` is not a dict of offsets.
        """
        self._check(OFFSETS)
        transaction_errors.check_offsets(offsets)
        with self._judging(OFFSETS):
            if self._open_offsets is None or self._open_offsets[:2] != (offsets, group):
                # kafka-python confuses two such requests.
                self._raise_unconfirmed()
                result = inside.add_offsets(self._shell.producer, offsets, group)
                self._open_offsets = (dict(offsets), group, result)
            happened = unconfirmed(offsets, group, self._limit(None))
            try:
                self._await(self._open_offsets[2], OFFSETS, happened, None)
            finally:
                if self._open_offsets[2].is_done:
                    self._open_offsets = None

    def _raise_unconfirmed(self) -> None:
        """Raise an error if offsets were sent that are not confirmed yet."""
        if self._open_offsets is None:
            return
        offsets, group, result = self._open_offsets
        if result.succeeded:
            return
        happened = unconfirmed(offsets, group, self._limit(None))
        failed = words.not_in_time(OFFSETS, happened)
        error = IllegalStateError("offsets are not confirmed")
        raise words.abort_first(failed, COMMIT, error) from failed

    def _end(self, call: Call, seconds: float | None = None) -> None:
        producer, commit = self._shell.producer, call is COMMIT
        if self._open_end is None or self._open_end[:2] != (commit, producer):
            result = inside.end_transaction(producer, commit=commit)
            self._open_end = (commit, producer, result)
        result = self._open_end[2]  # another thread may reset the attribute
        happened = unanswered(call, self._limit(seconds))
        try:
            self._await(result, call, happened, seconds)
        finally:
            if result.is_done:
                self._open_end = None
            if commit and reading.is_fatal(producer):
                self._note_lost_commit(result)

    def _note_lost_commit(self, result: Any) -> None:
        if transaction_errors.may_be_done(result):
            self._lost_commit = result.exception

    def _raise_doubt(self) -> None:
        """Raise the error again if a commit is in doubt: its transaction has ended."""
        if self._lost_commit is not None and not self._is_over_for_good():
            raise words.commit_in_doubt(self._lost_commit)

    def _await_records(self, call: Call, seconds: float | None) -> None:
        """Wait until each record has its outcome."""
        limit = self._limit(seconds)
        if self._driver.wait(time.monotonic() + limit.seconds):
            raise words.pending(call, limit)

    def _limit(self, seconds: float | None) -> TimeLimit:
        limit: float = self._shell.producer.config["max_block_ms"] / 1000
        return TimeLimit(
            limit if seconds is None else min(limit, seconds), "max_block_ms"
        )

    def _await(
        self, result: Any, call: Call, happened: str, seconds: float | None
    ) -> None:
        if result.wait(timeout_ms=self._limit(seconds).seconds * 1000):
            return
        late = words.not_in_time(call, happened)
        if call is ABORT:
            self._stuck = self._stuck or late
        raise late

    def _renew(self) -> None:
        """Let a new producer take over the ``transactional.id``."""
        old = self._shell.producer
        self._driver.recreated()
        try:
            self._shell.renew(lambda new: _take_over(new, reading.identity(old)))
        except KafkaError as error:
            raise self._not_renewed(error, old) from error
        self._needs_new_epoch, self._open_end = False, None
        self._driver.retire()
        _log.info("after a failed transaction a new producer took over its id")

    def _not_renewed(self, error: KafkaError, old: Any) -> KafkaGuardError:
        made = errors.translate(error, api=INIT.api, context={"transactional": True})
        if isinstance(error, ProducerFencedError):
            inside.condemn(old, error)
        if made.verdict.action is Action.FENCED:
            self._explain(made)
        if made.verdict.action is Action.ABORT:  # an abort is what has just failed
            made = self._stuck = words.not_aborted(error)
        return made

    def _is_over_for_good(self) -> bool:
        """Return whether a new producer would do harm, or would not help."""
        cause = self._cause()
        return cause is not None and ends_all(cause)

    def _is_open(self) -> bool:
        return self._began != float("inf")

    def _cause(self) -> BaseException | None:
        """Return the cause behind the client's text "in an error state", or None."""
        producer = self._shell.producer
        end = time.monotonic() + _FENCED_S
        while reading.is_bumping(producer) and time.monotonic() < end:
            if reading.is_sender_thread(producer):
                break  # this thread itself has to get the new epoch
            time.sleep(_POLL_S)
        return reading.transaction_error(producer)

    def _why_over(self) -> str | None:
        """Return the text for a transaction that was open for too long, or None.

        The coordinator's codes do not show this.
        """
        limit = self._shell.producer.config["transaction_timeout_ms"] / 1000
        now = time.monotonic() if self._fenced is None else self._fenced
        lasted = now - self._began
        return why_over(lasted, limit, "transaction_timeout_ms")

    def _check(self, call: Call) -> None:
        """Raise an error if the call cannot succeed, before anything is done."""
        producer = self._shell.producer
        if not self._shell.is_transactional:
            raise words.not_transactional(call)
        if reading.is_sender_thread(producer):
            raise send_errors.waits_for_itself(errors, call.method)
        is_settled = self._lost_commit is None and self._open_end is None
        if is_settled and reading.is_closed(producer):
            raise transaction_errors.closed(call)

    @contextmanager
    def _judging(self, call: Call) -> Iterator[None]:
        """Convert errors of a call to errors with a verdict."""
        try:
            yield
        except KafkaError as error:
            self._shell.report_ended()
            if isinstance(error, KafkaGuardError):
                raise
            judged = self.judged(error, call)
            raise judged from judged.__cause__

    def _explain(self, error: KafkaGuardError) -> None:
        explain_fenced(
            error,
            self._shell.producer.config["transactional_id"],
            self._why_over(),
            in_doubt=self._lost_commit is not None,
        )
        if self._fenced is None:
            self._fenced = time.monotonic()
            self._driver.transaction_ended()

    def judged(self, error: KafkaError, call: Call) -> KafkaGuardError:
        """Make the error, with its verdict, for a call that has failed."""
        producer = self._shell.producer
        cause = self._cause()  # if there is one, it is the error of a record
        context = {"transactional": True, "phase": call.phase}
        judged = errors.translate(
            cause or error,
            message=self._why_over(),
            api="Produce" if cause else call.api,
            context=context,
        )
        if judged.verdict.action is Action.FENCED:
            judged.api = call.api
            self._explain(judged)
        if stops(judged):
            return judged
        if self._lost_commit is not None:
            return words.commit_in_doubt(self._lost_commit)
        has_failed = cause is not None and (
            reading.is_in_transaction(producer) or self._is_open()
        )
        if (self._failure is not None or has_failed) and call is ABORT:
            self._stuck = words.not_aborted(error)
            return self._stuck
        if self._failure is not None or has_failed:
            return words.abort_first(self._failure or judged, call, error)
        if transaction_errors.is_out_of_order(error):
            state = reading.transaction_state(producer)
            return words.out_of_order(call, state, error)
        return errors.translate(error, api=call.api, context=context)


def _take_over(successor: Any, identity: Any) -> None:
    inside.mend(successor)
    inside.init_after(successor, identity)
