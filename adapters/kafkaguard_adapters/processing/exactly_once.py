"""Exactly once: the rounds of a run are transactions of a guarded producer.

What a handler sends through that producer is kept until the handler returns, and
dropped if it raises. It is sent only if the round of its record is still open, under a
lock that the end of a round takes too: what a late handler has sent never gets into
another transaction.
"""

from __future__ import annotations

import asyncio
import threading
import time
from contextlib import suppress
from contextvars import ContextVar
from functools import partial
from typing import TYPE_CHECKING, Any, Final, NoReturn

from kafkaguard._errors import ClientStateError, KafkaGuardError
from kafkaguard._errors.base import Action
from kafkaguard._processing.exceptions import BatchError
from kafkaguard._processing.handling import CURRENT
from kafkaguard._processing.rounds import RoundState
from kafkaguard_adapters.producing.steps import arun, run

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Generator

    from kafkaguard._processing.machine import ProcessingMachine

    #: Why the producer can make no other transaction, and whether this is committed.
    Ended = tuple[KafkaGuardError | None, bool]
    #: Yields calls of the producer, and seconds to wait.
    Steps = Generator[Any, Any, Any]

#: What the handler of this thread or task has sent until now.
_KEPT: ContextVar[list[Any] | None] = ContextVar("kafkaguard kept sends", default=None)
#: How long an end of a transaction is asked for again, and its abort after the run.
_END_S: Final = 60.0
_LAST_ABORT_S: Final = 5.0
#: Another call may succeed, and is about the same transaction.
_AGAIN: Final = frozenset({Action.RETRY, Action.REFRESH, Action.WAIT, Action.IN_DOUBT})
#: After these, the producer can make no other transaction.
_ENDS: Final = frozenset({Action.FENCED, Action.CONFIGURE})


class _LaterResult:
    """What ``send`` returns in a handler: the record is sent when that returns."""

    def get(self, *_: Any, **__: Any) -> NoReturn:
        """Raise: there is no outcome before the handler has returned."""
        raise ClientStateError(
            "with process(producer=...) a record is sent when its handler has "
            "returned, and its outcome is that of the transaction: do not wait for it"
        )

    add_callback = add_errback = add_both = get
    add_done_callback = result = exception = __await__ = get


class BaseTransactions:
    """The transactions of one run: what is kept, and how one ends.

    Args:
        producer: The guarded producer.
        send: The name of its method that sends a record.
        machine: The machine of the run.
    """

    def __init__(self, producer: Any, send: str, machine: ProcessingMachine) -> None:
        self._producer = producer
        self._name = send
        self._machine = machine
        #: Sends a record in the open transaction.
        self.send: Callable[..., Any] = getattr(producer, send)
        self._before: dict[str, Any] = {}

    def _put_in_place(self, methods: dict[str, Callable[..., Any]]) -> None:
        """Replace methods of the producer until :meth:`_take_away`."""
        attributes = vars(self._producer)
        self._before = {name: attributes.get(name) for name in methods}
        attributes.update(methods)

    def _take_away(self) -> None:
        attributes = vars(self._producer)
        for name, method in self._before.items():
            if method is None:
                attributes.pop(name, None)
            else:
                attributes[name] = method

    @property
    def _is_open(self) -> bool:
        rounds = self._machine.rounds
        return rounds is not None and rounds.state is not RoundState.NONE

    def _keep(self, *args: Any, **kwargs: Any) -> _LaterResult:
        kept = _KEPT.get()
        if kept is None:
            raise ClientStateError(
                f"while process(producer=...) runs, {self._name}() of this producer "
                "works only in its handlers"
            )
        kept.append((args, kwargs))
        return _LaterResult()

    def _belongs(self) -> bool:
        """Return whether this handler's records belong to the open transaction."""
        current = CURRENT.get()
        return current is not None and self._machine.may_send(current[0])

    def _ending(self, offsets: Any, metadata: Any) -> Generator[Any, Any, Ended]:
        if offsets is not None and metadata is not None:
            error = yield from self._committing(offsets, metadata)
            if error is None:
                return None, True
            if error.verdict.action in (*_ENDS, Action.IN_DOUBT):
                return error, False
        error = yield from self._repeating(self._producer.abort_transaction)
        is_end = error is not None and error.verdict.action in _ENDS
        return (error if is_end else None), False

    def _committing(self, offsets: Any, metadata: Any) -> Steps:
        try:
            yield partial(self._producer.send_offsets_to_transaction, offsets, metadata)
        except KafkaGuardError as error:
            return error
        return (yield from self._repeating(self._producer.commit_transaction))

    def _repeating(self, call: Callable[[], Any], seconds: float = _END_S) -> Steps:
        """Call until there is an answer; return the last error."""
        until = time.monotonic() + seconds
        while True:
            try:
                yield call
            except KafkaGuardError as error:
                is_again = error.verdict.action in _AGAIN
                if not is_again or time.monotonic() > until:
                    return error
                yield 0.1
            else:
                return None


class Transactions(BaseTransactions):
    """Transactions of a producer whose calls block; handlers run in threads."""

    def __init__(self, producer: Any, send: str, machine: ProcessingMachine) -> None:
        super().__init__(producer, send, machine)
        self._lock = threading.Lock()

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
        self._put_in_place({self._name: self._keep})

    def close(self) -> None:
        """Leave the producer to the application, without an open transaction."""
        self._take_away()
        if self._is_open:
            abort = self._producer.abort_transaction
            with self._lock:
                run(self._repeating(abort, _LAST_ABORT_S), _do)

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
        if not kept:
            return
        with self._lock:
            if self._belongs():
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

    def end(self, offsets: Any, metadata: Any) -> Ended:
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
            return run(self._ending(offsets, metadata), _do)


def _do(step: Any) -> Any:
    return time.sleep(step) if isinstance(step, float) else step()


class AwaitedTransactions(BaseTransactions):
    """The same for a producer whose calls are awaited; handlers run in tasks.

    Args:
        producer: The guarded producer, which was started.
        machine: The machine of the run.
    """

    def __init__(self, producer: Any, machine: ProcessingMachine) -> None:
        super().__init__(producer, "send", machine)
        self._lock = asyncio.Lock()

    def open(self) -> None:
        """Keep what handlers send; refuse calls that would send at once."""

        async def keep(*args: Any, **kwargs: Any) -> _LaterResult:
            return self._keep(*args, **kwargs)

        async def refuse(*_: Any, **__: Any) -> NoReturn:
            _LaterResult().get()

        others = dict.fromkeys(("send_and_wait", "send_batch"), refuse)
        self._put_in_place({self._name: keep, **others})

    async def close(self) -> None:
        """Leave the producer to the application, without an open transaction."""
        self._take_away()
        if self._is_open:
            abort = self._producer.abort_transaction
            with suppress(TimeoutError):
                async with asyncio.timeout(_LAST_ABORT_S), self._lock:
                    await arun(self._repeating(abort, _LAST_ABORT_S), _ado)

    async def send_now(self, *args: Any, **kwargs: Any) -> None:
        """Send a record in the open transaction, whose end is its outcome."""
        future = await self.send(*args, **kwargs)
        future.add_done_callback(_read_outcome)

    def wrap(
        self, handler: Callable[[Any], Awaitable[object]]
    ) -> Callable[[Any], Awaitable[object]]:
        """Return a handler whose records are sent when it has returned."""

        async def call(record: Any) -> None:
            kept: list[Any] = []
            token = _KEPT.set(kept)
            try:
                await handler(record)
            except BatchError:
                await self._send(kept)  # the handler says that the others are done
                raise
            finally:
                _KEPT.reset(token)
            await self._send(kept)

        return call

    async def _send(self, kept: list[Any]) -> None:
        if not kept:
            return
        async with self._lock:
            if self._belongs():
                for args, kwargs in kept:
                    await self.send_now(*args, **kwargs)

    async def begin(self) -> KafkaGuardError | None:
        """Begin a transaction; return why that is not possible."""
        async with self._lock:
            try:
                await self._producer.begin_transaction()
            except KafkaGuardError as error:
                return error
        return None

    async def end(self, offsets: Any, metadata: Any) -> Ended:
        """End the transaction; see :meth:`Transactions.end`."""
        async with self._lock:
            return await arun(self._ending(offsets, metadata), _ado)


def _read_outcome(future: asyncio.Future[Any]) -> None:
    """Read an outcome, so that asyncio does not log it as never read."""
    if not future.cancelled():
        future.exception()


async def _ado(step: Any) -> Any:
    return await (asyncio.sleep(step) if isinstance(step, float) else step())
