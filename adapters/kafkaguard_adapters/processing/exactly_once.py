"""Exactly once: the rounds of a run are transactions of a guarded producer.

What a handler sends through that producer is kept until the handler returns, and
dropped if it raises. It is sent only if the round of its record is still open, under a
lock that the end of a round takes too: what a late handler has sent never gets into
another transaction.
"""

from __future__ import annotations

import threading
import time
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any, Final, NoReturn

from kafkaguard._errors import ClientStateError, KafkaGuardError
from kafkaguard._errors.base import Action
from kafkaguard._processing.exceptions import BatchError
from kafkaguard._processing.handling import CURRENT
from kafkaguard._processing.rounds import RoundState

if TYPE_CHECKING:
    from collections.abc import Callable

    from kafkaguard._processing.machine import ProcessingMachine

#: What the handler of this thread has sent until now.
_KEPT: ContextVar[list[Any] | None] = ContextVar("kafkaguard kept sends", default=None)
#: How long an end of a transaction is asked for again.
_END_S: Final = 60.0
#: Another call may succeed, and is about the same transaction.
_AGAIN: Final = frozenset({Action.RETRY, Action.REFRESH, Action.WAIT, Action.IN_DOUBT})
#: After these, the producer can make no other transaction.
_ENDS: Final = frozenset({Action.FENCED, Action.CONFIGURE})


class _LaterResult:
    """What ``send`` returns in a handler: the record is sent when that returns."""

    def get(self, timeout: float | None = None) -> NoReturn:
        """Raise: there is no outcome before the handler has returned."""
        del timeout
        raise ClientStateError(
            "with process(producer=...) a record is sent when its handler has "
            "returned, and its outcome is that of the transaction: do not wait for it"
        )

    add_callback = add_errback = add_both = get


class Transactions:
    """The transactions of one run.

    Args:
        producer: The guarded producer.
        send: The name of its method that sends a record.
        machine: The machine of the run.
    """

    def __init__(self, producer: Any, send: str, machine: ProcessingMachine) -> None:
        self._producer = producer
        self._name = send
        self._machine = machine
        self._lock = threading.Lock()
        #: Sends a record in the open transaction.
        self.send: Callable[..., Any] = getattr(producer, send)

    def open(self) -> None:
        """Take over the ``transactional.id``, and keep what handlers send.

        Raises:
            KafkaGuardError: The producer cannot make transactions.
        """
        try:
            self._producer.init_transactions()
        except KafkaGuardError as error:
            if error.verdict.action is not Action.REJECT:  # else it was called before
                raise
        vars(self._producer)[self._name] = self._keep

    def close(self) -> None:
        """Leave the producer to the application, without an open transaction."""
        vars(self._producer).pop(self._name, None)
        rounds = self._machine.rounds
        if rounds is not None and rounds.state is not RoundState.NONE:
            self.end(None, None)

    def _keep(self, *args: Any, **kwargs: Any) -> _LaterResult:
        kept = _KEPT.get()
        if kept is None:
            raise ClientStateError(
                f"while process(producer=...) runs, {self._name}() of this producer "
                "works only in its handlers"
            )
        kept.append((args, kwargs))
        return _LaterResult()

    def wrap(self, handler: Callable[[Any], object]) -> Callable[[Any], object]:
        """Return a handler whose records are sent when it has returned."""

        def call(record: Any) -> object:
            kept: list[Any] = []
            token = _KEPT.set(kept)
            try:
                result = handler(record)
            except BatchError:
                self._send(kept)  # the handler says that the others are done
                raise
            finally:
                _KEPT.reset(token)
            self._send(kept)
            return result

        return call

    def _send(self, kept: list[Any]) -> None:
        current = CURRENT.get()
        if not kept or current is None:
            return
        with self._lock:
            if self._machine.may_send(current[0]):
                for args, kwargs in kept:
                    self.send(*args, **kwargs)

    def begin(self) -> KafkaGuardError | None:
        """Begin a transaction; return why that is not possible."""
        with self._lock:
            try:
                self._producer.begin_transaction()
            except KafkaGuardError as error:
                return error
        return None

    def end(self, offsets: Any, metadata: Any) -> tuple[KafkaGuardError | None, bool]:
        """End the transaction.

        Args:
            offsets: The offsets to commit in it, as the client takes them; None: abort.
            metadata: The group's metadata when the records were read; None: not known,
                so the transaction is aborted.

        Returns:
            Why the producer can make no other transaction, and whether this one is
            committed.
        """
        with self._lock:
            if offsets is not None and metadata is not None:
                error = self._commit(offsets, metadata)
                if error is None:
                    return None, True
                if error.verdict.action in (*_ENDS, Action.IN_DOUBT):
                    return error, False
            error = self._repeat(self._producer.abort_transaction)
            is_end = error is not None and error.verdict.action in _ENDS
            return (error if is_end else None), False

    def _commit(self, offsets: Any, metadata: Any) -> KafkaGuardError | None:
        try:
            self._producer.send_offsets_to_transaction(offsets, metadata)
        except KafkaGuardError as error:
            return error
        return self._repeat(self._producer.commit_transaction)

    def _repeat(self, call: Callable[[], object]) -> KafkaGuardError | None:
        """Call until there is an answer; return the last error."""
        until = time.monotonic() + _END_S
        while True:
            try:
                call()
            except KafkaGuardError as error:
                is_again = error.verdict.action in _AGAIN
                if not is_again or time.monotonic() > until:
                    return error
                time.sleep(0.1)
            else:
                return None
