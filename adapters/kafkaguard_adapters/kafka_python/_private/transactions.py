"""Changes to kafka-python's transaction manager (3.x).

In some cases kafka-python fails finally where Java's client tries again, and waits
forever where Java's client has a timeout. It can also fence another instance in a case
where Java's client finds out that it was fenced itself.
"""

# ruff: noqa: SLF001 - this module is for changes to private attributes

from __future__ import annotations

import heapq
from typing import TYPE_CHECKING, Any

from kafka.errors import (
    InvalidProducerEpochError,
    InvalidProducerIdMappingError,
    InvalidTxnStateError,
    KafkaConnectionError,
    KafkaTimeoutError,
    NodeNotReadyError,
    NoError,
    ProducerFencedError,
    RequestTimedOutError,
    RetriableError,
    TransactionAbortedError,
    for_code,
)
from kafka.producer.transaction_manager import (
    FindCoordinatorHandler,
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

#: Answers to an abort which mean that no transaction is open, and that no other
#: instance has taken over.
_NOTHING_OPEN = (NoError, InvalidTxnStateError, InvalidProducerIdMappingError)
#: TRANSACTION_ABORTABLE.
_ABORTABLE = 120
#: Other ends of a request without an answer; kafka-python takes them for final errors.
#: Not ``Cancelled``: the producer was closed, and sends nothing more.
_NO_ANSWER = (KafkaTimeoutError, NodeNotReadyError, RequestTimedOutError)


class _AbortFirst(TxnRequestHandler):  # type: ignore[misc]  # kafka-python has no types
    """Aborts an open transaction before its id gets a new epoch.

    In an InitProducerId request, a coordinator compares id and epoch only if no
    transaction is open. If another instance has an open transaction, the coordinator
    aborts it and fences that instance. An EndTxn request with an old epoch is refused
    and does no harm.
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
        """Before all other requests except the look-up of the coordinator."""
        return Priority.INIT_PRODUCER_ID

    def handle_response(self, response: Any) -> None:
        """Continue if no other instance has taken over, else fail."""
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
    """Change a transactional producer to behave as Java's client.

    A request without an answer within ``request_timeout_ms`` is sent again, and so is
    one that could not be sent. Offsets that the brokers refuse are given up when the
    transaction is aborted. The epoch is raised only if no other instance has taken
    over; it ends the requests of the transaction that it aborts.
    """
    _keep_unsent_requests(producer._sender._client)
    manager = producer._transaction_manager
    enqueue = type(manager)._enqueue_request
    ended = _EndedByEpoch(manager)

    def enqueue_mended(request_handler: Any) -> None:
        handler = request_handler
        if isinstance(handler, TxnOffsetCommitHandler) and manager.is_aborting():
            handler.fail(TransactionAbortedError())
            return
        if "on_complete" not in vars(handler):
            handler.on_complete = ended.watch(handler, _repeats_if_lost(handler))
            if isinstance(handler, InitProducerIdHandler) and handler._is_epoch_bump:
                # Else kafka-python would retry InitProducerId without the epoch, which
                # fences other instances.
                handler._is_epoch_bump = False
                handler = _AbortFirst(manager, handler)
                handler.on_complete = _repeats_if_lost(handler)
        elif ended.includes(handler):
            ended.refuse(handler)
            return
        enqueue(manager, handler)

    manager._enqueue_request = enqueue_mended


#: Requests that outlast a transaction.
_LASTING = (FindCoordinatorHandler, InitProducerIdHandler, _AbortFirst)


class _EndedByEpoch:
    """The requests of transactions that ended since the client got a newer epoch.

    They fail. kafka-python would take a commit that was not sent for done, and a late
    answer to AddPartitionsToTxn for one of the next transaction.

    Args:
        manager: The client's transaction manager.
    """

    def __init__(self, manager: Any) -> None:
        self.manager = manager
        self.epochs = 0
        self.bump = manager.bump_producer_id_and_epoch
        manager.bump_producer_id_and_epoch = self.bump_and_refuse

    def watch(
        self, handler: Any, complete: Callable[[int, Any], None]
    ) -> Callable[[int, Any], None]:
        """Return what handles the answer to a request of the transaction now."""
        handler.epochs = self.epochs

        def on_complete(correlation_id: int, response_or_exc: Any) -> None:
            if self.includes(handler):
                self.manager.clear_in_flight_transactional_request_correlation_id()
                self.refuse(handler)
            else:
                complete(correlation_id, response_or_exc)

        return on_complete

    def includes(self, handler: Any) -> bool:
        """Return whether a request's transaction has ended so."""
        is_lasting = isinstance(handler, _LASTING)
        return not is_lasting and bool(getattr(handler, "epochs", 0) != self.epochs)

    @staticmethod
    def refuse(handler: Any) -> None:
        """Fail a request."""
        text = "the transaction was aborted, since a record of it has failed"
        handler.fail(for_code(_ABORTABLE)(text))

    def bump_and_refuse(self) -> None:
        """Get a newer epoch, and fail the requests that wait for the older one."""
        manager = self.manager
        with manager._lock:
            if manager.is_bumping_epoch() or manager.has_fatal_error():
                return
            self.bump()
            self.epochs += 1
            requests = manager._pending_requests
            refused = [each[-1] for each in requests if self.includes(each[-1])]
            requests[:] = [each for each in requests if not self.includes(each[-1])]
            heapq.heapify(requests)
            for handler in refused:
                self.refuse(handler)


def _keep_unsent_requests(client: Any) -> None:
    """Let the client queue a request again if it cannot connect to the coordinator.

    kafka-python queues it again if ``await_ready`` returns False. But the method raises
    instead, and then the request is dropped: nobody asks to end the transaction again.
    """
    await_ready = client.await_ready

    def is_ready(node_id: Any, timeout_ms: Any = 30000) -> Any:
        try:
            return await_ready(node_id, timeout_ms=timeout_ms)
        except KafkaConnectionError:
            return False

    client.await_ready = is_ready


def _repeats_if_lost(handler: Any) -> Callable[[int, Any], None]:
    complete = handler.on_complete

    def on_complete(correlation_id: int, response_or_exc: Any) -> None:
        answer = response_or_exc
        if isinstance(answer, (*_NO_ANSWER, KafkaConnectionError)):
            if not isinstance(answer, NodeNotReadyError):  # else it was not sent
                handler.result.was_lost = True
            answer = KafkaConnectionError(str(answer))
        complete(correlation_id, answer)

    return on_complete


def init_after(producer: Any, identity: ProducerIdAndEpoch | None) -> None:
    """Let a new producer take over a ``transactional.id``, unless others have done so.

    Args:
        producer: The new producer.
        identity: The predecessor's id and epoch, which the coordinator compares
            (KIP-360); None if they are not known, or if the brokers are too old.

    Raises:
        ProducerFencedError: Another producer has taken over in the meantime.
        KafkaError: The new producer cannot be initialised.
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
    """Let a transactional producer refuse all further calls with this error."""
    producer._transaction_manager.transition_to_fatal_error(error)


def begin_transaction(producer: Any) -> None:
    """Begin a transaction, and remove offsets that an aborted transaction has left."""
    producer.begin_transaction()
    producer._transaction_manager._pending_txn_offset_commits.clear()


def end_transaction(producer: Any, *, commit: bool) -> Any:
    """Begin to end a transaction; return a result that can be waited for."""
    manager = producer._transaction_manager
    result = manager.begin_commit() if commit else manager.begin_abort()
    producer._sender.wakeup()
    return result


def add_offsets(producer: Any, offsets: Any, group: Any) -> Any:
    """Begin to add offsets to a transaction; return a result to wait for."""
    manager = producer._transaction_manager
    result = manager.send_offsets_to_transaction(offsets, group)
    producer._sender.wakeup()
    return result
