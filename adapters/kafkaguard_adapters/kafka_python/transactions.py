"""Transactional calls of a guarded kafka-python producer.

After a refused batch, kafka-python aborts the transaction but continues with a gap in
its sequence numbers, so the next transaction fails. Java's client raises its epoch
after such an abort. Here a new producer takes over the same ``transactional.id``, which
has the same effect, once, when the next transaction begins. The new producer sends the
id and epoch of the old one to the coordinator. So it does not take over if another
instance has already done so.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from kafka import TopicPartition
from kafka.errors import (
    BrokerResponseError,
    KafkaError,
    ProducerFencedError,
    RetriableError,
)
from kafka.structs import OffsetAndMetadata

from kafkaguard._common.logs import Log
from kafkaguard._delivery.table import TransactionEvent, TransactionState
from kafkaguard._delivery.time_limit import TimeLimit
from kafkaguard._delivery.transaction_calls import (
    DONE,
    Answer,
    Step,
    TransactionCalls,
)
from kafkaguard._delivery.transaction_errors import Call, TransactionTraits
from kafkaguard._errors import ClientClosedError
from kafkaguard_adapters.kafka_python._private import reading
from kafkaguard_adapters.kafka_python._private import transactions as inside
from kafkaguard_adapters.kafka_python.errors import errors
from kafkaguard_adapters.producing import send_errors
from kafkaguard_adapters.producing.transactions import ThreadTransactions, left

if TYPE_CHECKING:
    from kafkaguard._delivery.shell import Policy
    from kafkaguard._errors import KafkaGuardError
    from kafkaguard_adapters.kafka_python.shell import KafkaPythonShell
    from kafkaguard_adapters.producing.driver import ThreadDriver

_log = Log("producer")

_POLL_S = 0.01
#: Seconds that the client has to find out whether it was fenced.
_FENCED_S = 5.0
#: UNKNOWN_SERVER_ERROR, and INVALID_TXN_STATE: the coordinator may have ended it.
_UNKNOWN_RESULT = (-1, 48)
_OUT_OF_ORDER = ("Invalid transition", "not in an active transaction")
#: What the client ends also after it was closed.
_ENDING = frozenset(
    {
        TransactionState.COMMITTING,
        TransactionState.ABORTING,
        TransactionState.UNKNOWN_END,
    }
)
_BEFORE = {
    "READY": (TransactionEvent.TOOK_OVER,),
    "IN_TRANSACTION": (TransactionEvent.TOOK_OVER, TransactionEvent.BEGAN),
}


class Transactions(ThreadTransactions):
    """Begins and ends transactions.

    Args:
        shell: The client.
        driver: Tracks the records of the client.
        policy: How often a call of a block is made.
    """

    def __init__(
        self, shell: KafkaPythonShell, driver: ThreadDriver, policy: Policy
    ) -> None:
        config = shell.producer.config
        traits = TransactionTraits(
            config["transactional_id"],
            config["transaction_timeout_ms"] / 1000,
            "transaction_timeout_ms",
        )
        transaction = driver.machine.transaction
        calls = TransactionCalls(transaction, errors, traits, policy)
        super().__init__(driver, calls, transactional=shell.is_transactional)
        self._shell = shell
        #: A request to end the transaction: whether it commits, of which producer, and
        #: its result.
        self._open_end: tuple[bool, Any, Any] | None = None
        self._open_offsets: Any = None
        if shell.is_transactional:
            inside.mend(shell.producer)
            state = reading.transaction_state(shell.producer)
            for event in _BEFORE.get(state, ()):  # before the client was guarded
                transaction.happens(event)

    def _limit(self, timeout: float | None = None) -> TimeLimit:  # noqa: ARG002 - the calls have no timeout
        seconds: float = self._shell.producer.config["max_block_ms"] / 1000
        return TimeLimit(seconds, "max_block_ms")

    def _refuse(self, call: Call) -> None:
        producer = self._shell.producer
        if reading.is_sender_thread(producer):
            raise send_errors.make_waits_for_itself(errors, call.method)
        if reading.is_closed(producer) and self._calls.state not in _ENDING:
            raise errors.make(
                ClientClosedError,
                f"this producer was closed before {call.method}(), which did nothing: "
                "build a new one with the same transactional_id",
            )

    def add_offsets(
        self, offsets: Any, group: Any, timeout: float | None = None
    ) -> None:
        """Add a consumer's offsets within ``max_block_ms``.

        Raises:
            KafkaGuardError: The offsets could not be added.
            TypeError: ``offsets`` is not a dict of offsets.
        """
        if self._transactional:
            _check_offsets(offsets)
        super().add_offsets(offsets, group, timeout)

    def error_of(self, error: KafkaError, topic: str) -> KafkaGuardError | None:
        """Return the error for a record outside a sound transaction; None: it is in."""
        return self.send_error(error, topic, self._look())

    # --- steps ------------------------------------------------------------------------

    def _make(self, step: Step) -> Answer:
        try:
            answer: Answer = super()._make(step)
        except KafkaError as error:
            self._shell.report_ended()
            return self._failed(error)
        return answer

    def _failed(self, error: KafkaError, *, may_be_done: bool = False) -> Answer:
        if any(text in str(error) for text in _OUT_OF_ORDER):
            state = reading.transaction_state(self._shell.producer)
            if state not in ("ABORTABLE_ERROR", "FATAL_ERROR"):
                return Answer("order", error)
        cause = self._cause()  # if there is one, it is the error of a record
        is_dead = reading.is_fatal(self._shell.producer)
        return Answer(
            "dead" if is_dead else "failed",
            cause or error,
            "Produce" if cause else None,
            may_be_done,
        )

    def _init(self, _: Step) -> Answer:
        self._shell.producer.init_transactions()
        return DONE

    def _begin(self, _: Step) -> Answer:
        inside.begin_transaction(self._shell.producer)
        self._open_offsets = None
        return DONE

    def _await_records(self, step: Step) -> Answer:
        if self._driver.wait(step.until):
            return Answer("late")
        return self._look(step)

    def _look(self, _: Step | None = None) -> Answer:
        cause = self._cause()
        return DONE if cause is None else Answer("failed", cause, "Produce")

    def _commit(self, step: Step) -> Answer:
        result = self._end(commit=True)
        try:
            return self._await_end(result, step)
        except KafkaError as error:
            self._shell.report_ended()
            return self._failed(error, may_be_done=_may_be_done(result))

    def _abort(self, step: Step) -> Answer:
        try:
            result = self._end(commit=False)
        except KafkaError as error:  # the client cannot abort in its state
            return self._failed(error)._replace(kind="dead")
        try:
            return self._await_end(result, step)
        except KafkaError as error:
            return self._failed(error)._replace(kind="failed")

    def _end(self, *, commit: bool) -> Any:
        producer = self._shell.producer
        if self._open_end is None or self._open_end[:2] != (commit, producer):
            result = inside.end_transaction(producer, commit=commit)
            self._open_end = (commit, producer, result)
        return self._open_end[2]

    def _await_end(self, result: Any, step: Step) -> Answer:
        try:
            is_answered = result.wait(timeout_ms=left(step) * 1000)
        finally:
            if result.is_done:
                self._open_end = None
        return DONE if is_answered else Answer("late")

    def _offsets(self, step: Step) -> Answer:
        if self._open_offsets is None:
            producer = self._shell.producer
            self._open_offsets = inside.add_offsets(producer, *step.offsets)
        result = self._open_offsets
        try:
            is_answered = result.wait(timeout_ms=left(step) * 1000)
        finally:
            if result.is_done:
                self._open_offsets = None
        return DONE if is_answered else Answer("late")

    def _renew(self, step: Step) -> Answer:
        """Let a new producer take over the ``transactional.id``."""
        old = self._shell.producer
        self._await_epoch(step.until)  # an older epoch would be taken for another's
        self._driver.recreated()

        def take_over(successor: Any) -> None:
            inside.mend(successor)
            inside.init_after(successor, reading.identity(old))

        try:
            self._shell.renew(take_over)
        except KafkaError as error:
            if isinstance(error, ProducerFencedError):
                inside.condemn(old, error)
            return Answer("failed", error)
        self._open_end = None
        self._driver.retire()
        _log.info(
            "producer_id_taken_over",
            "after a failed transaction a new producer took over its id",
        )
        return DONE

    def _cause(self) -> BaseException | None:
        """Return the cause behind the client's text "in an error state", or None."""
        self._await_epoch(time.monotonic() + _FENCED_S)
        return reading.transaction_error(self._shell.producer)

    def _await_epoch(self, until: float) -> None:
        """Wait while the client gets a newer epoch by itself."""
        producer = self._shell.producer
        while reading.is_bumping(producer) and time.monotonic() < until:
            if reading.is_sender_thread(producer):
                break  # this thread itself has to get the new epoch
            time.sleep(_POLL_S)


def _may_be_done(result: Any) -> bool:
    """Return whether a failed commit may have been carried out nevertheless.

    Args:
        result: The client's result of the EndTxn request.
    """
    if not result.failed:
        return False
    cause = reading.unwrapped(result.exception)
    answered = isinstance(cause, BrokerResponseError) and not (
        isinstance(cause, RetriableError) or cause.errno in _UNKNOWN_RESULT
    )
    return reading.was_lost(result) or not answered


def _check_offsets(offsets: Any) -> None:
    """Check the type of offsets before any request.

    Raises:
        TypeError: ``offsets`` is not a dict {TopicPartition: OffsetAndMetadata}, or an
            offset or leader epoch in it is not an int. The client cannot write such a
            request, and never ends the transaction after it.
    """
    if isinstance(offsets, Mapping) and all(
        isinstance(place, TopicPartition) and isinstance(offset, OffsetAndMetadata)
        for place, offset in offsets.items()
    ):
        for place, (offset, _, leader_epoch) in offsets.items():
            if not all(hasattr(n, "__index__") for n in (offset, leader_epoch)):
                raise TypeError(
                    f"send_offsets_to_transaction(offsets): {place.topic}, partition "
                    f"{place.partition}: offset and leader_epoch are ints (an unknown "
                    f"epoch is -1), not {type(offset).__name__} and "
                    f"{type(leader_epoch).__name__}"
                )
        return
    kinds = ""
    if isinstance(offsets, Mapping):
        pairs = {f"{type(k).__name__}: {type(v).__name__}" for k, v in offsets.items()}
        kinds = f" {{{', '.join(sorted(pairs))}}}"
    raise TypeError(
        "send_offsets_to_transaction(offsets): a dict "
        f"{{TopicPartition: OffsetAndMetadata}}; not {type(offsets).__name__}{kinds}"
    )
