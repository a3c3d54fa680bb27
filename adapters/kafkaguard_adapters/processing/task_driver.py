"""The driver of clients whose calls are awaited: one pump, and workers in tasks.

All of it runs in the event loop of the client, so there is no lock. The coroutine that
called ``run`` is the *pump*; it alone polls the client.
"""

from __future__ import annotations

import asyncio
import time
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final

from kafkaguard._common.logs import Log
from kafkaguard._errors import KafkaGuardError
from kafkaguard._processing.handling import CURRENT, decode_batch
from kafkaguard._processing.work import (
    WHOLE,
    AbortRound,
    BeginRound,
    Commit,
    CommitRound,
    Pause,
    Resume,
)
from kafkaguard_adapters.processing.driver_base import (
    AFTER_ERROR_S,
    KEEP_ALIVE_S,
    LETTER_S,
    LOOK_UPS,
    MOST,
    SLICE_S,
    BaseDriver,
    Revocation,
    as_letter_error,
    changed_letters,
)
from kafkaguard_adapters.processing.exactly_once import AwaitedTransactions

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Collection, Coroutine, Iterable

    from kafkaguard._cluster.reports import TopicPartition
    from kafkaguard._delivery.facts import Raw
    from kafkaguard._processing.handling import Attempted
    from kafkaguard._processing.report import ProcessReport
    from kafkaguard._processing.work import Chunk, SendLetter
    from kafkaguard._retries.events import Event
    from kafkaguard_adapters.processing.arguments import Arguments
    from kafkaguard_adapters.processing.shell import AwaitedShell
    from kafkaguard_policies.retry_policy import RetryPolicy

    _Handler = Callable[[Any], Awaitable[object]]

_IDLE_S: Final = 0.5
_log = Log("processing")
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

    def __init__(
        self,
        shell: AwaitedShell,
        arguments: Arguments,
        policy: RetryPolicy,
        hook: Callable[[Event], object] | None,
    ) -> None:
        super().__init__(shell, arguments, policy, hook)
        self._transactions = None
        if arguments.producer is not None:
            self._transactions = AwaitedTransactions(arguments.producer, self.machine)
        self._shell = shell
        self._idle: list[asyncio.Future[None]] = []
        self._wakes = asyncio.Event()
        self._over = asyncio.Event()
        self._letters: asyncio.Queue[SendLetter] = asyncio.Queue()
        self._tasks: set[asyncio.Task[Any]] = set()
        self._is_cancelled = False

    async def run(self) -> ProcessReport:
        """Handle records until the run ends.

        Raises:
            BaseException: What has ended the run.
        """
        self._refuse_missing(await self._find_missing(self._letter_topics()))
        self._refuse_absent(await self._find_missing(self._topics_with_ends()))
        if self._transactions is not None:
            self._transactions.open()
        assigned = self._shell.listen(self)
        for _ in range(self._arguments.workers):
            self._start(self._work())
        self._start(self._send_letters())
        try:
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

    def _start(self, coroutine: Coroutine[Any, Any, None]) -> None:
        task = asyncio.ensure_future(coroutine)
        self._tasks.add(task)
        task.add_done_callback(self._ended)

    def _ended(self, task: asyncio.Task[Any]) -> None:
        """Forget a task; if the guard failed in it, end the run instead of hanging."""
        self._tasks.discard(task)
        error = None if task.cancelled() else task.exception()
        if error is not None and not self.machine.is_ended:
            self.machine.fail(error, time.monotonic())
            self._after_fact()

    # --- the pump ---------------------------------------------------------------------

    async def _pump(self) -> None:
        while self._end is None:
            try:
                await self._step()
            except asyncio.CancelledError:
                if self._is_cancelled:
                    raise  # the second time
                self._is_cancelled = True
                self.request_stop()

    async def _step(self) -> None:
        """Poll once, and execute what the machine says."""
        machine, now = self.machine, time.monotonic()
        if self._must_stop():
            machine.stop(now)
        machine.tick(now)
        self._after_fact()
        self._wakes.clear()
        await self._execute()
        self._tell()
        if self._end is not None:
            return
        if machine.is_open:
            await self._read(MOST, SLICE_S)
            return
        await self._wait(KEEP_ALIVE_S)
        if time.monotonic() - self._read_at >= KEEP_ALIVE_S:
            await self._read(1, 0.0)

    async def _wait(self, seconds: float) -> None:
        """Wait for commands."""
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._wakes.wait()

    async def _read(self, most: int, seconds: float) -> None:
        machine, self._read_at = self.machine, time.monotonic()
        try:
            if self._arguments.until_end:
                await self._look_up_ends()
            fetched = await self._shell.poll(most, seconds)
        except KafkaGuardError as error:
            if self._poll_failed(error, time.monotonic()):
                await self._wait(AFTER_ERROR_S)
            return
        now = time.monotonic()
        machine.polled(now)
        if self._fetched(fetched, now):
            self._after_fact()
            self._wake_workers(len(self._idle))
            await asyncio.sleep(0)  # a poll that has records need not suspend
            return
        places = self._resting(now)
        if places:
            machine.at_rest(await self._shell.positions(places), now)
            self._after_fact()

    async def _look_up_ends(self) -> None:
        """Look up where to stop, once for each partition."""
        new = [place for place in self.machine.slots if place not in self._known_ends]
        if new:
            self.machine.ends(await self._shell.ends(new))
            self._known_ends.update(new)

    def _after_fact(self) -> None:
        """Take the machine's commands to where they are executed."""
        for letter in self._sort(self.machine.take_commands()):
            self._letters.put_nowait(letter)
        if self._for_pump or self._events or self._end is not None:
            self._wakes.set()

    async def _execute(self) -> None:
        """Execute the commands for the client."""
        while self._for_pump:
            match self._for_pump.popleft():
                case Commit(number, offsets):
                    self._start(self._commit(number, offsets))
                case (BeginRound() | CommitRound() | AbortRound()) as command:
                    self._start(self._execute_round(command))
                case Pause(places):
                    self._shell.pause(places)
                case Resume(places):
                    self._shell.resume(places)

    async def _execute_round(
        self, command: BeginRound | CommitRound | AbortRound
    ) -> None:
        transactions, shell, machine = self._transactions, self._shell, self.machine
        assert transactions is not None
        if isinstance(command, BeginRound):
            machine.round_began(await transactions.begin(), time.monotonic())
        else:
            offsets = None
            if isinstance(command, CommitRound):
                offsets = shell.client_offsets(command.offsets)
            error, is_committed = await transactions.end(offsets, shell.group)
            machine.round_ended(error, time.monotonic(), is_committed=is_committed)
        self._after_fact()
        self._wake_workers(len(self._idle))

    async def _commit(self, number: int, offsets: Any) -> None:
        refused: Any = {}
        if self._shell.group is not None:
            try:
                refused = await self._shell.commit(offsets)
            except KafkaGuardError as error:
                refused = dict.fromkeys(offsets, error)
        now = time.monotonic()
        self.machine.committed(number, refused, now)
        if any(error.code in _LOST for error in refused.values()):
            self.machine.lost(list(self.machine.slots), now)
        self._after_fact()

    # --- rebalances -------------------------------------------------------------------

    def assigned(self, places: Iterable[TopicPartition]) -> None:
        """Record new partitions."""
        self.machine.assigned(list(places), time.monotonic())
        self._after_fact()

    def lost(self, places: Iterable[TopicPartition]) -> None:
        """Record that partitions are lost."""
        self.machine.lost(list(places), time.monotonic())
        self._after_fact()

    async def revoke(self, places: Iterable[TopicPartition]) -> None:
        """Let what runs of revoked partitions end within a bound, and commit it."""
        revocation = Revocation(list(places), asyncio.Event())
        if self.machine.is_ended:
            return
        self._revocations.append(revocation)
        self.machine.revoked(revocation.places, self._within(), time.monotonic())
        self._after_fact()
        while not revocation.over.is_set():  # a poll may wait for the listener
            with suppress(TimeoutError):
                async with asyncio.timeout(SLICE_S):
                    await revocation.over.wait()
            self.machine.tick(time.monotonic())
            self._after_fact()
        self._revocations.remove(revocation)
        commits = [each for each in self._for_pump if isinstance(each, Commit)]
        for each in commits:
            self._for_pump.remove(each)
            await self._commit(each.number, each.offsets)

    # --- workers ----------------------------------------------------------------------

    def _wake_workers(self, count: int) -> None:
        while count and self._idle:
            waiter = self._idle.pop()
            if not waiter.done():
                waiter.set_result(None)
                count -= 1

    async def _find_missing(self, topics: Collection[str]) -> Collection[str]:
        """Return the topics that do not exist; asked again if there is no answer."""
        for _ in range(LOOK_UPS - 1):
            try:
                return await self._shell.missing_topics(topics)
            except Exception as error:  # noqa: BLE001 - the last one is raised
                _log.warning(
                    "topics_not_found_out",
                    "process(): %s could not be looked up: %s",
                    topics,
                    error,
                    group=self._group or None,
                    error=error,
                )
                await asyncio.sleep(AFTER_ERROR_S)
        return await self._shell.missing_topics(topics)

    async def _work(self) -> None:
        batch = self._arguments.batch
        machine, clock = self.machine, time.monotonic
        work = self._handle if batch is None else self._handle_batch
        offset_of, handler = self._shell.offset_of, self._make_handler()
        while True:
            chunk = machine.take(clock())
            if chunk is None:
                await self._wait_for_work()
                continue
            CURRENT.set((chunk, self.seconds_of, offset_of))
            attempted, failures = await work(chunk, handler)
            now = clock()
            machine.finished(chunk, attempted, failures, now)
            self._note_time(chunk, now)
            self._after_fact()
            self._wake_workers(1)
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
        decode = self._shell.decode
        if self._arguments.letters is not None:
            decode = None  # the handler of letters does it
        stops = chunk.stops
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

    def _make_handler(self) -> _Handler:
        """Return the handler, with the policy's time limit, in the open transaction."""
        handler: _Handler = self._arguments.handler
        if self._arguments.letters is not None:
            handler = self._letter_handler(handler)
        seconds = self._policy.handler.timeout
        if seconds is not None:
            handler = _limited(handler, seconds)
        if self._transactions is not None:
            handler = self._transactions.wrap(handler)
        return self._traced(handler) if self._traces else handler

    def _traced(self, handler: _Handler) -> _Handler:
        """Return a handler that makes a span for each call."""

        async def handle_traced(record: Any) -> None:
            with self._span():
                await handler(record)

        return handle_traced

    # --- dead letters -----------------------------------------------------------------

    async def _send_letters(self) -> None:
        """Send dead letters in their order, in a task of its own."""
        while True:
            letters = [await self._letters.get()]
            while not self._letters.empty():
                letters.append(self._letters.get_nowait())
            results = await self._send([self._make_letter(each) for each in letters])
            for letter, result in zip(letters, results, strict=True):
                self.machine.letter_sent(letter, result, time.monotonic())
            self._after_fact()

    async def _send(self, letters: list[tuple[str, Raw]]) -> list[Any]:
        """Send dead letters, once more those that can be changed to be accepted."""
        if self._transactions is not None:
            return [await self._send_in_round(*letter) for letter in letters]
        seconds = min(self._policy.deadline, LETTER_S)
        try:
            results = list(await self._shell.send_letters(letters, seconds))
        except Exception as error:  # noqa: BLE001 - each letter has its outcome
            return [as_letter_error(error)] * len(letters)
        changed = changed_letters(letters, results)
        if changed:
            again = await self._send(list(changed.values()))
            for index, result in zip(changed, again, strict=True):
                results[index] = result
        return results

    async def _send_in_round(self, topic: str, raw: Raw) -> KafkaGuardError | None:
        """Send a dead letter in the open transaction, whose commit confirms it."""
        assert self._transactions is not None
        try:
            await self._shell.send_raw(self._transactions.send_now, topic, raw)
        except KafkaGuardError as error:
            return error
        return None


def _limited(handler: _Handler, seconds: float) -> _Handler:
    async def limited(record: Any) -> None:
        async with asyncio.timeout(seconds):
            await handler(record)

    return limited
