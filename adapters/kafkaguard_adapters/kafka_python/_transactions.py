"""The transactional calls of a guarded producer: bounded, their failures told apart.

After a refused batch kafka-python aborts the transaction, but goes on with a hole in
its sequence, so that the next one fails. Java's client raises its epoch after such an
abort. Here a new producer takes over the same ``transactional.id``, which does the
same: once, when the next transaction begins, and never where another instance has
fenced this one.
"""

from __future__ import annotations

import logging
import threading
import time
from typing import TYPE_CHECKING, Any

from kafka.errors import IllegalStateError, KafkaError, KafkaTimeoutError

from kafkaguard._verdict import Action
from kafkaguard.errors import KafkaGuardError
from kafkaguard_adapters.kafka_python import _failures, _insides, _levers, errors
from kafkaguard_adapters.kafka_python._successor import retire

if TYPE_CHECKING:
    from kafkaguard_adapters.kafka_python._session import Session

_log = logging.getLogger("kafkaguard.producer")

_POLL_S = 0.01
#: Seconds that the client has to find out whether it was fenced.
_FENCED_S = 5.0


class Transactions:
    """Begins and ends transactions.

    Args:
        session: Whose.
    """

    def __init__(self, session: Session) -> None:
        self._session = session
        self._failure: KafkaGuardError | None = None
        self._has_hole = False
        self._is_worn = False
        self._began = float("inf")
        self._open_end: tuple[bool, Any, Any] | None = None

    def failed(self, error: KafkaGuardError) -> None:
        """Take note that a record of this transaction failed on its way."""
        self._failure = self._failure or error
        self._has_hole = True

    def refused_at_once(self, error: KafkaGuardError) -> None:
        """Take note of a record that was never handed over: the rest is incomplete.

        As Java's producer does, which then takes no commit either.
        """
        if _insides.is_in_transaction(self._session.producer):
            self._failure = self._failure or error

    def has_failed(self) -> bool:
        """Tell whether the transaction can only be aborted."""
        return self._failure is not None or self._cause() is not None

    def is_not_begun(self) -> bool:
        """Tell whether there is no transaction to send anything in."""
        in_use = self._session.producer
        return not (_insides.is_in_transaction(in_use) or self.has_failed())

    def begin(self) -> None:
        """Begin a transaction, if need be with a new producer.

        Raises:
            KafkaGuardError: It cannot begin.
        """
        try:
            if self._is_worn:
                self._renew()
            self._session.producer.begin_transaction()
        except KafkaError as error:
            raise self.judged(error, {}) from error
        self._forget()
        self._began = time.monotonic()

    def commit(self) -> None:
        """Commit within ``max_block_ms``; call it again to wait for longer.

        Raises:
            KafkaGuardError: Its verdict says whether to abort.
        """
        try:
            # Not while any is on its way: a commit that waits for one that fails is
            # carried out when the transaction is aborted.
            self._await_records(None)
            if self._failure is not None:
                raise IllegalStateError("a record has failed")
            self._end(commit=True)
        except KafkaError as error:
            self._session.tracker.settle_done()
            raise self.judged(error, {"phase": "commit"}) from error

    def abort(self) -> None:
        """Abort within ``max_block_ms``.

        Raises:
            KafkaGuardError: It cannot be aborted.
        """
        self._abort_within(None)

    def give_up(self, seconds: float) -> bool:
        """Abort what is open when the producer is closed, as Java's producer does.

        Until then, whoever reads only what is committed gets nothing that came later.

        Args:
            seconds: The time that it has.

        Returns:
            Whether a transaction was open that had not failed.
        """
        if not _insides.is_in_transaction(self._session.producer):
            return False
        was_sound = not self.has_failed()
        try:
            self._abort_within(seconds)
        except KafkaGuardError as error:
            _log.warning(
                "an open transaction could not be aborted on closing (%s): its "
                "records hide later ones from readers until transaction_timeout_ms",
                error,
            )
        return was_sound

    def _abort_within(self, seconds: float | None) -> None:
        try:
            self._abort(seconds)
            self._await_records(seconds)
        except KafkaError as error:
            self._session.tracker.settle_done()
            raise self.judged(error, {"phase": "abort"}) from error
        self._is_worn = self._is_worn or self._has_hole
        self._forget()

    def _abort(self, seconds: float | None) -> None:
        try:
            self._end(commit=False, seconds=seconds)
        except KafkaTimeoutError:
            raise
        except KafkaError:
            if self._failure is None or self._is_over_for_good():
                raise
            # The client is in no state to do so; a successor's first request does.
            self._renew()
            self._forget()

    def _forget(self) -> None:
        self._failure, self._has_hole = None, False

    def add_offsets(self, offsets: Any, group: Any) -> None:
        """Add a consumer's offsets within ``max_block_ms``.

        Raises:
            KafkaGuardError: They could not be added.
        """
        producer = self._session.producer
        try:
            if not _insides.is_idempotent(producer):
                producer.send_offsets_to_transaction(offsets, group)
            self._await(_levers.add_offsets(producer, offsets, group))
        except KafkaError as error:
            raise self.judged(error, {}, api="TxnOffsetCommit") from error

    def _end(self, *, commit: bool, seconds: float | None = None) -> None:
        producer = self._session.producer
        if not _insides.is_idempotent(producer):
            call = producer.commit_transaction if commit else producer.abort_transaction
            call()
        if self._open_end is None or self._open_end[:2] != (commit, producer):
            result = _levers.end_transaction(producer, commit=commit)
            self._open_end = (commit, producer, result)
        self._await(self._open_end[2], seconds)
        self._open_end = None

    def _await_records(self, seconds: float | None) -> None:
        """Wait until each record has its outcome."""
        session = self._session
        end = time.monotonic() + self._limit(seconds)
        with _levers.flushing(session.producer):
            done = session.tracker.wait(session.tracker.batches(), end)
        if done and session.recovery.wait(max(0.0, end - time.monotonic())):
            return
        raise KafkaTimeoutError(
            f"records had no outcome within {self._limit(seconds):g} s "
            "(max_block_ms): call the same method again"
        )

    def _limit(self, seconds: float | None) -> float:
        limit: float = self._session.producer.config["max_block_ms"] / 1000
        return limit if seconds is None else min(limit, seconds)

    def _await(self, result: Any, seconds: float | None = None) -> None:
        limit = self._limit(seconds)
        try:
            done = result.wait(timeout_ms=limit * 1000)
        except KafkaError:
            self._open_end = None
            raise
        if not done:
            raise KafkaTimeoutError(
                f"the coordinator did not answer within {limit:g} s "
                "(max_block_ms): call the same method again"
            )

    def _renew(self) -> None:
        """Let a new producer take over the ``transactional.id``."""
        session, old = self._session, self._session.producer
        session.teller.recreated(None)
        successor = session.builder.build(old)
        try:
            successor.init_transactions()
        except KafkaError:
            retire(successor)
            raise
        session.put_in_use(successor)
        self._is_worn, self._open_end = False, None
        _log.info("after a failed transaction a new producer took over its id")
        threading.Thread(
            target=retire, args=(old,), name="kafkaguard-retire", daemon=True
        ).start()
        session.teller.tell()

    def _is_over_for_good(self) -> bool:
        """Tell whether a new producer would do harm, or not help."""
        cause = self._cause()
        return cause is not None and _failures.ends_all(cause)

    def _cause(self) -> BaseException | None:
        """Return what the client's bare "in an error state" hides."""
        producer = self._session.producer
        if not _insides.is_idempotent(producer):
            return None
        end = time.monotonic() + _FENCED_S
        while _insides.is_bumping(producer) and time.monotonic() < end:
            time.sleep(_POLL_S)
        return _insides.transaction_error(producer)

    def _why_over(self) -> str | None:
        """Say that a transaction was open for too long, if so: codes do not tell."""
        limit = self._session.producer.config["transaction_timeout_ms"] / 1000
        lasted = time.monotonic() - self._began
        if lasted < limit:
            return None
        return (
            f"the transaction was open for {lasted:.0f} s, and after {limit:g} s "
            "(transaction_timeout_ms) the coordinator aborts one by itself, which it "
            "reports as if another instance used the transactional.id"
        )

    def judged(
        self, error: KafkaError, context: dict[str, Any], api: str = "EndTxn"
    ) -> KafkaGuardError:
        """Say what a failed call means."""
        cause = self._cause()  # which is a record's, if there is one
        context = {"transactional": True, **context}
        judged = errors.translate(
            cause or error,
            message=self._why_over(),
            api="Produce" if cause else api,
            context=context,
        )
        if judged.verdict.action in (Action.FENCED, Action.CONFIGURE):
            return judged
        has_failed = cause is not None and _insides.is_in_transaction(
            self._session.producer
        )
        if self._failure is None and not has_failed:
            # "Invalid transition": the calls came in a wrong order, no client is dead.
            wrong = _is_out_of_order(error)
            known = {"verdict": _failures.OUT_OF_ORDER} if wrong else {}
            return errors.translate(error, api=api, context=context, **known)
        failed = self._failure or judged
        return errors.translate(
            error,
            api=api,
            topic=failed.topic,
            partition=failed.partition,
            verdict=_failures.ABORT,
            message=f"a record of this transaction failed ({failed.name}): call "
            "abort_transaction(), then begin again without it",
        )


def _is_out_of_order(error: KafkaError) -> bool:
    return "Invalid transition" in str(error)
