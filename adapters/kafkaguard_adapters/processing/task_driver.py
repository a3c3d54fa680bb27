"""The driver of clients whose calls are awaited: one pump, and workers in tasks.

All of it runs in the event loop of the client; other threads may ask for the progress.
The coroutine that called ``run`` is the *pump*; it alone polls the client.
"""

from __future__ import annotations

import asyncio
import time
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final

from kafkaguard._errors import KafkaGuardError
from kafkaguard._processing.handling import CURRENT, decode_batch
from kafkaguard._processing.work import WHOLE
from kafkaguard_adapters.processing.driver_base import SLICE_S, BaseDriver
from kafkaguard_adapters.processing.exactly_once import AwaitedTransactions
from kafkaguard_adapters.producing.steps import arun

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Coroutine, Iterable

    from kafkaguard._cluster.reports import TopicPartition
    from kafkaguard._processing.handling import Attempted
    from kafkaguard._processing.report import ProcessReport
    from kafkaguard._processing.work import Chunk
    from kafkaguard._retries.events import Event
    from kafkaguard_adapters.processing.arguments import Arguments
    from kafkaguard_adapters.processing.driver_base import Steps
    from kafkaguard_adapters.processing.shell import AwaitedShell
    from kafkaguard_policies.retry_policy import RetryPolicy

    _Handler = Callable[[Any], Awaitable[object]]

_IDLE_S: Final = 0.5
#: UNKNOWN_MEMBER_ID and ILLEGAL_GENERATION: the partitions are lost.
_LOST: Final = frozenset({25, 22})


class TaskDriver(BaseDriver):
    """One run of ``process()`` in tasks.

    Args:
        shell: The client's.
        arguments: What ``process()`` was told.
        policy: The policy.
        hook: ``on_event``, or None.
    """

    _shell: AwaitedShell
    _transactions: AwaitedTransactions | None = None
    _event = asyncio.Event

    def __init__(
        self,
        shell: AwaitedShell,
        arguments: Arguments,
        policy: RetryPolicy,
        hook: Callable[[Event], object] | None,
    ) -> None:
        super().__init__(shell, arguments, policy, hook)
        if arguments.producer is not None:
            self._transactions = AwaitedTransactions(arguments.producer, self.machine)
        self._idle: list[asyncio.Future[None]] = []
        self._letters = asyncio.Queue()
        self._tasks: set[asyncio.Task[Any]] = set()
        self._commits: set[asyncio.Task[Any]] = set()
        self._is_cancelled = False

    async def run(self) -> ProcessReport:
        """Handle records until the run ends.

        Raises:
            BaseException: What has ended the run.
        """
        try:
            await arun(self._check_topics())
            if self._transactions is not None:
                self._transactions.open()
            assigned = self._shell.listen(self)
            for _ in range(self._arguments.workers):
                self._start(self._work())
            self._begin(self._send_letters())
            if assigned:
                self.assigned(assigned)
            await self._pump()
            for place, offset in self._seeks():
                self._shell.seek(place, offset)
        finally:
            self._over.set()
            for task in self._tasks:
                task.cancel()
            self._shell.unlisten()
            if self._transactions is not None:
                await self._transactions.close()
            self._tell()
            await self._shell.close_letters()
        assert self._end is not None
        if self._is_cancelled:
            raise asyncio.CancelledError
        if self._end.error is not None:
            raise self._end.error
        return self.report()

    async def finish(self) -> None:
        """End the run; wait for it, unless this is one of its own tasks."""
        self.request_stop()
        if asyncio.current_task() not in self._tasks:
            await self._over.wait()

    def _start(self, coroutine: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        task = asyncio.ensure_future(coroutine)
        self._tasks.add(task)
        task.add_done_callback(self._ended)
        return task

    def _begin(self, steps: Steps) -> None:
        self._start(arun(steps))

    def _ended(self, task: asyncio.Task[Any]) -> None:
        """Forget a task; if the guard failed in it, end the run instead of hanging."""
        self._tasks.discard(task)
        error = None if task.cancelled() else task.exception()
        if error is not None and not self.machine.is_ended:
            self._fail(error)

    # --- the pump ---------------------------------------------------------------------

    async def _pump(self) -> None:
        while self._end is None:
            try:
                await arun(self._step())
            except asyncio.CancelledError:
                if self._is_cancelled:
                    raise  # the second time
                self._is_cancelled = True
                self.request_stop()

    async def _wait(self, seconds: float) -> None:
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._wakes.wait()

    def _commit(self, number: int, offsets: Any) -> None:
        task = self._start(self._send_commit(number, offsets))
        self._commits.add(task)
        task.add_done_callback(self._commits.discard)

    async def _send_commit(self, number: int, offsets: Any) -> None:
        refused: Any = {}
        if self._shell.group is not None:
            try:
                refused = await self._shell.commit(offsets)
            except KafkaGuardError as error:
                refused = dict.fromkeys(offsets, error)
        self._report_fact(self.machine.committed, number, refused)
        if any(error.code in _LOST for error in refused.values()):
            self.lost(self.machine.slots)

    async def revoke(self, places: Iterable[TopicPartition]) -> None:
        """Let what runs of revoked partitions end within a bound, and commit it."""
        revocation = self.begin_revocation(places)
        while not self.is_given_up(revocation):  # a poll may wait for the listener
            with suppress(TimeoutError):
                async with asyncio.timeout(SLICE_S):
                    await revocation.over.wait()
        if self._commits:
            await asyncio.wait(self._commits)

    # --- workers ----------------------------------------------------------------------

    def _wake_workers(self) -> None:
        while self._wake_worker():
            pass

    def _wake_worker(self) -> bool:
        """Let one idle worker look for work; return whether there was one."""
        while self._idle:
            waiter = self._idle.pop()
            if not waiter.done():
                waiter.set_result(None)
                return True
        return False

    async def _work(self) -> None:
        batch = self._arguments.batch
        machine, clock = self.machine, time.monotonic
        work = self._handle if batch is None else self._handle_batch
        offset_of, handler = self._shell.offset_of, self._make_handler()
        while True:
            with self._lock:
                chunk = machine.take(clock())
            if chunk is None:
                await self._wait_for_work()
                continue
            CURRENT.set((chunk, self.seconds_of, offset_of))
            attempted, failures = await work(chunk, handler)
            now = clock()
            with self._lock:
                machine.finished(chunk, attempted, failures, now)
                self._after_fact()
            self._note_time(chunk, now)
            self._wake_worker()
            await asyncio.sleep(0)  # a handler need not suspend

    async def _wait_for_work(self) -> None:
        waiter = asyncio.get_running_loop().create_future()
        self._idle.append(waiter)
        seconds = self.machine.work_due() - time.monotonic()
        try:
            async with asyncio.timeout(
                min(_IDLE_S, seconds) if seconds > 0 else _IDLE_S
            ):
                await waiter
        except TimeoutError:
            if waiter in self._idle:
                self._idle.remove(waiter)

    async def _handle(self, chunk: Chunk, handler: _Handler) -> Attempted:
        """Handle the records of a chunk one after the other."""
        decode, stops = self._decode, chunk.stops
        try:
            for record in chunk.begin():
                if stops:
                    return chunk.at, {}
                await handler(record if decode is None else decode(record))
        except BaseException as error:  # noqa: BLE001 - the machine judges it
            self._pass_cancellation(error)
            index = chunk.at
            return index + 1, {index: error}
        return len(chunk.records), {}

    async def _handle_batch(self, chunk: Chunk, handler: _Handler) -> Attempted:
        """Handle the records of a chunk as one batch."""
        records, failures = decode_batch(chunk, self._shell.decode)
        if records:
            try:
                await handler(records)
            except BaseException as error:  # noqa: BLE001 - the machine judges it
                self._pass_cancellation(error)
                return len(chunk.records), {WHOLE: error}
        return len(records) + len(failures), failures

    def _pass_cancellation(self, error: BaseException) -> None:
        """Let the end of the run cancel a handler."""
        if isinstance(error, asyncio.CancelledError) and self._over.is_set():
            raise error

    def _limited(self, handler: _Handler) -> _Handler:
        seconds = self._policy.handler.timeout
        if seconds is None:
            return handler

        async def limited(record: Any) -> None:
            async with asyncio.timeout(seconds):
                await handler(record)

        return limited

    def _traced(self, handler: _Handler) -> _Handler:
        """Return a handler that makes a span for each call."""

        async def handle_traced(record: Any) -> None:
            with self._span():
                await handler(record)

        return handle_traced
