"""Private state of aiokafka's transactions."""

# ruff: noqa: SLF001 - this module exists to use private attributes

from __future__ import annotations

import asyncio
from collections import deque
from typing import TYPE_CHECKING, Any

from aiokafka.producer.transaction_manager import TransactionState

if TYPE_CHECKING:
    from collections.abc import Awaitable

#: States in which a transaction may be open at the coordinator.
_OPEN = frozenset(
    {
        TransactionState.IN_TRANSACTION,
        TransactionState.COMMITTING_TRANSACTION,
        TransactionState.ABORTING_TRANSACTION,
        TransactionState.ABORTABLE_ERROR,
    }
)


class _Dropped(deque[Any]):
    """A queue without offsets, which a late answer to dropped ones leaves as it is.

    The answer is looked up at the head of the queue. If nothing were there, it would
    end aiokafka's task that sends.

    Args:
        head: The group, the offsets and the future that were at the head.
    """

    def __init__(self, head: tuple[Any, Any, Any]) -> None:
        super().__init__()
        group, offsets, _ = head  # the future was cancelled
        self._head = group, offsets, asyncio.get_running_loop().create_future()

    def __getitem__(self, index: Any) -> Any:
        """Return an entry; without any, what was dropped."""
        return super().__getitem__(index) if self else self._head

    def popleft(self) -> Any:
        """Remove the first entry; without any, nothing."""
        return super().popleft() if self else self._head


def remember_partitions(producer: Any) -> None:
    """Keep what belongs to a transaction when it fails, so that its abort is sent.

    aiokafka forgets it, and then takes the transaction for an empty one: it aborts
    without a request, and the next commit commits the records of both.
    """
    manager = producer._txn_manager
    if manager is None:
        return
    fail = manager.error_transaction

    def error_transaction(exc: BaseException) -> None:
        partitions, group = set(manager._txn_partitions), manager._txn_consumer_group
        fail(exc)
        manager._txn_partitions.update(partitions)
        manager._txn_consumer_group = group

    manager.error_transaction = error_transaction


def is_open(producer: Any) -> bool:
    """Return whether the client has an open transaction."""
    return producer._txn_manager.state in _OPEN


def is_in_transaction(producer: Any) -> bool:
    """Return whether records can be sent in the transaction."""
    return bool(producer._txn_manager.is_in_transaction())


def has_failed(producer: Any) -> bool:
    """Return whether the transaction can only be aborted."""
    return producer._txn_manager.state is TransactionState.ABORTABLE_ERROR


def why_failed(producer: Any) -> BaseException | None:
    """Return the error of a transaction that has failed; None: it has not."""
    waiter = producer._txn_manager._transaction_waiter
    if waiter is None or not waiter.done() or waiter.cancelled():
        return None
    error: BaseException | None = waiter.exception()
    if error is None:
        return None
    return error.__cause__ or error  # "Unexpected error" hides the cause


def time_limit(producer: Any) -> float:
    """Return the seconds after which the coordinator aborts a transaction."""
    seconds: float = producer._txn_manager.transaction_timeout_ms / 1000
    return seconds


def end(producer: Any, *, commit: bool) -> None:
    """Start to commit or abort the transaction, unless that has been started."""
    manager = producer._txn_manager
    if manager.state in (
        TransactionState.COMMITTING_TRANSACTION,
        TransactionState.ABORTING_TRANSACTION,
    ):
        return
    if commit:
        manager.committing_transaction()
    else:
        manager.aborting_transaction()


def drop_offsets(producer: Any) -> None:
    """Drop the offsets that no broker has confirmed.

    aiokafka asks for them again without end, and sends no abort until they are
    confirmed. It first waits for the answer to a request that is in flight.
    """
    manager = producer._txn_manager
    if manager._pending_txn_offsets:
        manager._pending_txn_offsets = _Dropped(manager._pending_txn_offsets[0])


def ended(producer: Any) -> Awaitable[None]:
    """Return an awaitable that waits for the end of the transaction, or raises."""
    return asyncio.shield(producer._txn_manager.wait_for_transaction_end())
