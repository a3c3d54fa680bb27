"""Changes to kafka-python's transaction manager (3.x).

It gives up for good where Java's client asks again, waits forever where that one stops
waiting, and can fence another instance where that one finds out that it was fenced.
"""

# ruff: noqa: SLF001 - moving what is inside is what this module is for

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kafka.errors import (
    InvalidProducerEpochError,
    InvalidProducerIdMappingError,
    InvalidTxnStateError,
    KafkaConnectionError,
    NoError,
    ProducerFencedError,
    RequestTimedOutError,
    RetriableError,
    TransactionAbortedError,
    for_code,
)
from kafka.producer.transaction_manager import (
    InitProducerIdHandler,
    Priority,
    TransactionState,
    TxnOffsetCommitHandler,
    TxnRequestHandler,
)
from kafka.protocol.metadata import CoordinatorType
from kafka.protocol.producer import EndTxnRequest

if TYPE_CHECKING:
    from collections.abc import Callable

    from kafka.producer.transaction_manager import ProducerIdAndEpoch

#: Answers to an abort that say: nothing is open, and nobody else is here.
_NOTHING_OPEN = (NoError, InvalidTxnStateError, InvalidProducerIdMappingError)


class _AbortFirst(TxnRequestHandler):  # type: ignore[misc]  # kafka-python has no types
    """Aborts what is open under an id and epoch before these are renewed.

    A coordinator compares them in an InitProducerId only once nothing is open: before
    that, it aborts another instance's transaction and fences it. An EndTxn of an old
    epoch is refused and does no harm.
    """

    def __init__(self, manager: Any, then: Any) -> None:
        super().__init__(manager, result=then.result)
        self._then = then
        self.request = EndTxnRequest(
            transactional_id=self.transactional_id,
            producer_id=self.producer_id,
            producer_epoch=self.producer_epoch,
            committed=False,
            max_version=3,
        )

    @property
    def priority(self) -> Any:
        """Before all but the look-up of the coordinator."""
        return Priority.INIT_PRODUCER_ID

    def handle_response(self, response: Any) -> None:
        """Go on where nobody else has taken over."""
        manager, answer = self.transaction_manager, for_code(response.error_code)
        if answer in _NOTHING_OPEN:
            manager._enqueue_request(self._then)
        elif issubclass(answer, RetriableError):
            manager._lookup_coordinator(
                CoordinatorType.TRANSACTION, self.transactional_id
            )
            self.reenqueue()
        elif answer is InvalidProducerEpochError:
            self.fatal_error(ProducerFencedError())
        else:
            self.fatal_error(answer())


def mend(producer: Any) -> None:
    """Let a transactional producer do what Java's client does.

    A request without an answer within ``request_timeout_ms`` is sent again. Offsets
    that the brokers refuse are given up when the transaction is aborted. An epoch is
    raised only where no other instance has taken over.
    """
    manager = producer._transaction_manager
    enqueue = type(manager)._enqueue_request

    def enqueue_mended(request_handler: Any) -> None:
        handler = request_handler
        if isinstance(handler, TxnOffsetCommitHandler) and manager.is_aborting():
            handler.fail(TransactionAbortedError())
            return
        if "on_complete" not in vars(handler):
            handler.on_complete = _repeats_if_lost(handler)
            if isinstance(handler, InitProducerIdHandler) and handler._is_epoch_bump:
                # Else it would ask again without the epoch, and so fence the others.
                handler._is_epoch_bump = False
                handler = _AbortFirst(manager, handler)
                handler.on_complete = _repeats_if_lost(handler)
        enqueue(manager, handler)

    manager._enqueue_request = enqueue_mended


def _repeats_if_lost(handler: Any) -> Callable[[int, Any], None]:
    complete = handler.on_complete

    def on_complete(correlation_id: int, response_or_exc: Any) -> None:
        answer = response_or_exc
        if isinstance(answer, RequestTimedOutError):
            answer = KafkaConnectionError(str(answer))
        if isinstance(answer, KafkaConnectionError):
            handler.result.was_lost = True
        complete(correlation_id, answer)

    return on_complete


def init_after(producer: Any, identity: ProducerIdAndEpoch | None) -> None:
    """Have a new producer take a ``transactional.id`` over, unless others have.

    Args:
        producer: The new producer.
        identity: The predecessor's id and epoch, which the coordinator compares
            (KIP-360). None where that is not known, or brokers are too old for it.

    Raises:
        ProducerFencedError: Another producer has taken over in between.
        KafkaError: It cannot be initialised.
    """
    if identity is not None:
        manager = producer._transaction_manager
        with manager._lock:
            manager._transition_to(TransactionState.INITIALIZING)
            manager.set_producer_id_and_epoch(identity)
            handler = InitProducerIdHandler(
                manager, manager.transaction_timeout_ms, is_epoch_bump=True
            )
            manager._enqueue_request(handler)
        producer._init_transactions_result = handler.result
        producer._sender.wakeup()
    producer.init_transactions()


def condemn(producer: Any, error: BaseException) -> None:
    """Have a transactional producer refuse whatever comes, for this reason."""
    producer._transaction_manager.transition_to_fatal_error(error)


def begin_transaction(producer: Any) -> None:
    """Begin a transaction without offsets that an aborted one has left behind."""
    producer.begin_transaction()
    producer._transaction_manager._pending_txn_offset_commits.clear()


def end_transaction(producer: Any, *, commit: bool) -> Any:
    """Begin to end a transaction; what is returned can be waited for."""
    manager = producer._transaction_manager
    result = manager.begin_commit() if commit else manager.begin_abort()
    producer._sender.wakeup()
    return result


def add_offsets(producer: Any, offsets: Any, group: Any) -> Any:
    """Begin to add offsets to a transaction; what is returned can be waited for."""
    manager = producer._transaction_manager
    result = manager.send_offsets_to_transaction(offsets, group)
    producer._sender.wakeup()
    return result
