"""Transactional calls of a guarded producer: time limits and verdicts.

After a refused batch kafka-python aborts the transaction, but goes on with a hole in
its sequence, so that the next one fails. Java's client raises its epoch after such an
abort. Here a new producer takes over the same ``transactional.id``, which does the
same: once, when the next transaction begins. It shows the coordinator the id and epoch
of the old one, so it does not take over where another instance has done so before.
"""

from __future__ import annotations

import logging
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from kafka.errors import IllegalStateError, KafkaError, ProducerFencedError

from kafkaguard._delivery.judging import ends_all
from kafkaguard._delivery.transaction import NOT_ABORTED
from kafkaguard._verdicts.verdict import Action
from kafkaguard.errors import KafkaGuardError
from kafkaguard_adapters.kafka_python import transaction_errors
from kafkaguard_adapters.kafka_python._private import (
    reading,
)
from kafkaguard_adapters.kafka_python._private import (
    transactions as inside,
)
from kafkaguard_adapters.kafka_python.errors import errors
from kafkaguard_adapters.kafka_python.transaction_errors import BEGIN, INIT
from kafkaguard_adapters.producing import told
from kafkaguard_adapters.producing.transaction_block import GivenUp
from kafkaguard_adapters.producing.transaction_words import (
    ABORT,
    COMMIT,
    OFFSETS,
    Call,
    explain_fenced,
    stops,
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
        driver: Follows its records.
    """

    def __init__(self, shell: KafkaPythonShell, driver: ThreadDriver) -> None:
        self._shell = shell
        self._driver = driver
        #: The producer has a hole in its sequence.
        self._needs_new_epoch = False
        self._open_end: tuple[bool, Any, Any] | None = None
        self._forget()
        if shell.is_transactional:
            inside.mend(shell.producer)

    def _forget(self) -> None:
        """Know of no transaction any more."""
        self._driver.machine.new_transaction()
        self._stuck: KafkaGuardError | None = None
        self._lost_commit: BaseException | None = None
        self._open_offsets: tuple[Any, Any, Any] | None = None
        self._began = float("inf")

    @property
    def _failure(self) -> KafkaGuardError | None:
        return self._driver.machine.transaction_failure

    def refused_at_once(self, error: KafkaGuardError) -> None:
        """Record a record that was never handed over: the rest is incomplete.

        As Java's producer does, which then takes no commit either.
        """
        if self._shell.is_transactional and reading.is_in_transaction(
            self._shell.producer
        ):
            self._driver.machine.spoil_transaction(error)

    def has_failed(self) -> bool:
        """Return whether the transaction can only be aborted."""
        return self._failure is not None or self._cause() is not None

    def is_not_begun(self) -> bool:
        """Return whether there is no transaction to send anything in."""
        in_use = self._shell.producer
        return not (reading.is_in_transaction(in_use) or self.has_failed())

    def init(self) -> None:
        """Initialise within ``max_block_ms``.

        Raises:
            KafkaGuardError: It could not be done.
        """
        self._check(INIT)
        try:
            self._shell.producer.init_transactions()
        except KafkaError as error:
            raise errors.translate(error, api=INIT.api) from error

    def begin(self) -> None:
        """Begin a transaction, if need be with a new producer.

        Raises:
            KafkaGuardError: It cannot begin.
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
            KafkaGuardError: Its verdict says whether to abort.
        """
        self._check(COMMIT)
        self._raise_doubt()
        with self._judging(COMMIT):
            # Not while any is on its way: a commit that waits for one that fails is
            # carried out when the transaction is aborted.
            self._await_records(COMMIT, None)
            self._raise_unconfirmed()
            if self._failure is not None:
                raise IllegalStateError("a record has failed")
            self._end(COMMIT)
        self._forget()

    def abort(self) -> None:
        """Abort within ``max_block_ms``.

        Raises:
            KafkaGuardError: It cannot be aborted.
        """
        self._check(ABORT)
        self._raise_doubt()
        self._abort_within(None)

    def can_ask_again(self, error: KafkaGuardError) -> bool:  # noqa: ARG002 - the state tells
        """Return whether the call that has just failed can be made again."""
        return self._lost_commit is None

    def give_up(self, seconds: float) -> GivenUp | None:
        """Abort what is open when the producer is closed, as Java's producer does.

        Until then, whoever reads only what is committed gets nothing that came later.

        Args:
            seconds: The time that it has.

        Returns:
            What became of the transaction; None: none was open, or one that had failed
            is aborted now.
        """
        if self._stuck is not None and self._stuck.verdict is NOT_ABORTED:
            return GivenUp(self._stuck)
        if not reading.is_in_transaction(self._shell.producer) and not self._stuck:
            return None
        was_sound = not self.has_failed()
        try:
            self._abort_within(seconds)
        except KafkaGuardError as error:
            return GivenUp(error)
        return GivenUp() if was_sound else None

    def _abort_within(self, seconds: float | None) -> None:
        with self._judging(ABORT):
            self._abort(seconds)
            self._await_records(ABORT, seconds)
        self._needs_new_epoch = self._needs_new_epoch or self._driver.machine.has_hole
        self._forget()

    def _abort(self, seconds: float | None) -> None:
        try:
            self._end(ABORT, seconds)
        except KafkaGuardError:
            raise
        except KafkaError:
            if not (self._is_open() and self.has_failed()) or self._is_over_for_good():
                raise
            # The client is in no state to do so; a successor's first request does.
            self._renew()
            self._forget()

    def add_offsets(self, offsets: Any, group: Any) -> None:
        """Add a consumer's offsets within ``max_block_ms``.

        Raises:
            KafkaGuardError: They could not be added.
            TypeError: They are no offsets.
        """
        self._check(OFFSETS)
        transaction_errors.check_offsets(offsets)
        with self._judging(OFFSETS):
            if self._open_offsets is None or self._open_offsets[:2] != (offsets, group):
                # kafka-python mixes two such requests up.
                self._raise_unconfirmed()
                result = inside.add_offsets(self._shell.producer, offsets, group)
                self._open_offsets = (dict(offsets), group, result)
            happened = transaction_errors.unconfirmed(offsets, group, self._limit(None))
            try:
                self._await(self._open_offsets[2], OFFSETS, happened, None)
            finally:
                if self._open_offsets[2].is_done:
                    self._open_offsets = None

    def _raise_unconfirmed(self) -> None:
        """Refuse what would go on without offsets that were asked for."""
        if self._open_offsets is None:
            return
        offsets, group, result = self._open_offsets
        if result.succeeded:
            return
        happened = transaction_errors.unconfirmed(offsets, group, self._limit(None))
        failed = transaction_errors.not_in_time(OFFSETS, happened)
        error = IllegalStateError("offsets are not confirmed")
        raise transaction_errors.abort_first(error, failed, COMMIT) from failed

    def _end(self, call: Call, seconds: float | None = None) -> None:
        producer, commit = self._shell.producer, call is COMMIT
        if self._open_end is None or self._open_end[:2] != (commit, producer):
            result = inside.end_transaction(producer, commit=commit)
            self._open_end = (commit, producer, result)
        result = self._open_end[2]
        happened = (
            f"the coordinator did not answer within {self._limit(seconds):g} s "
            f"(max_block_ms): call the same method again ({call.method})"
        )
        if not commit:
            happened += ", or begin_transaction(), which then uses a new producer"
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
        """Say again that a commit is in doubt: its transaction is over."""
        if self._lost_commit is not None and not self._is_over_for_good():
            raise transaction_errors.commit_in_doubt(self._lost_commit)

    def _await_records(self, call: Call, seconds: float | None) -> None:
        """Wait until each record has its outcome."""
        if not self._driver.wait(time.monotonic() + self._limit(seconds)):
            return
        raise transaction_errors.not_in_time(
            call,
            f"records had no outcome within {self._limit(seconds):g} s "
            f"(max_block_ms): call the same method again ({call.method})",
        )

    def _limit(self, seconds: float | None) -> float:
        limit: float = self._shell.producer.config["max_block_ms"] / 1000
        return limit if seconds is None else min(limit, seconds)

    def _await(
        self, result: Any, call: Call, happened: str, seconds: float | None
    ) -> None:
        if result.wait(timeout_ms=self._limit(seconds) * 1000):
            return
        late = transaction_errors.not_in_time(call, happened)
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
        if made.verdict.action is Action.ABORT:  # which is what was just refused
            made = self._stuck = transaction_errors.words.not_aborted(error)
        return made

    def _is_over_for_good(self) -> bool:
        """Return whether a new producer would do harm, or not help."""
        cause = self._cause()
        return cause is not None and ends_all(cause)

    def _is_open(self) -> bool:
        return self._began != float("inf")

    def _cause(self) -> BaseException | None:
        """Return what the client's bare "in an error state" hides."""
        producer = self._shell.producer
        end = time.monotonic() + _FENCED_S
        while reading.is_bumping(producer) and time.monotonic() < end:
            if reading.is_sender_thread(producer):
                break  # which is the one that asks
            time.sleep(_POLL_S)
        return reading.transaction_error(producer)

    def _why_over(self) -> str | None:
        """Say that a transaction was open for too long, if so: codes do not tell."""
        limit = self._shell.producer.config["transaction_timeout_ms"] / 1000
        lasted = time.monotonic() - self._began
        return why_over(lasted, limit, "transaction_timeout_ms")

    def _check(self, call: Call) -> None:
        """Refuse what cannot succeed here, before anything is done or waited for."""
        producer = self._shell.producer
        if not self._shell.is_transactional:
            raise transaction_errors.not_transactional(call)
        if reading.is_sender_thread(producer):
            raise told.waits_for_itself(errors, call.method)
        is_settled = self._lost_commit is None and self._open_end is None
        if is_settled and reading.is_closed(producer):
            raise transaction_errors.closed(call)

    @contextmanager
    def _judging(self, call: Call) -> Iterator[None]:
        """Say what it means when a call fails."""
        try:
            yield
        except KafkaError as error:
            self._shell.tell_done()
            if isinstance(error, KafkaGuardError):
                raise
            judged = self.judged(error, call)
            raise judged from judged.__cause__

    def _explain(self, error: KafkaGuardError) -> None:
        in_doubt = self._lost_commit is not None
        explain_fenced(error, self._why_over(), in_doubt=in_doubt)

    def judged(self, error: KafkaError, call: Call) -> KafkaGuardError:
        """Say what a failed call means."""
        producer = self._shell.producer
        cause = self._cause()  # which is a record's, if there is one
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
            return transaction_errors.commit_in_doubt(self._lost_commit)
        has_failed = cause is not None and (
            reading.is_in_transaction(producer) or self._is_open()
        )
        if (self._failure is not None or has_failed) and call is ABORT:
            self._stuck = transaction_errors.words.not_aborted(error)
            return self._stuck
        if self._failure is not None or has_failed:
            return transaction_errors.abort_first(error, self._failure or judged, call)
        if transaction_errors.is_out_of_order(error):
            state = reading.transaction_state(producer)
            return transaction_errors.out_of_order(error, call, state)
        return errors.translate(error, api=call.api, context=context)


def _take_over(successor: Any, identity: Any) -> None:
    inside.mend(successor)
    inside.init_after(successor, identity)
