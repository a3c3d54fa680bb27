"""The asyncio driver of the delivery machine: facts in, commands out, in one loop.

A method that has a fact calls the machine and executes the commands that the machine
returns: quick commands at once and in order, commands that wait in a task of their own.
While nothing fails, there are no tasks, and only one timer for the batches in flight.
There is no lock, because nothing here awaits between a fact and its commands.
"""

from __future__ import annotations

import asyncio
import inspect
import time
from collections import deque
from typing import TYPE_CHECKING, Any

from kafkaguard._common.logs import Log
from kafkaguard._delivery.command_table import TABLE, Row, Turn
from kafkaguard._delivery.transaction_calls import proceed
from kafkaguard._retries.events import emit
from kafkaguard_adapters.producing.application_calls import write_warning
from kafkaguard_adapters.producing.driver_base import BUG, DriverBase
from kafkaguard_adapters.producing.steps import arun

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Coroutine, Hashable, Sequence

    from kafkaguard._delivery import commands as c
    from kafkaguard._delivery.facts import Batch, Place, Raw, Refusal
    from kafkaguard._delivery.records import Record
    from kafkaguard._delivery.report import DeliveryReport
    from kafkaguard._delivery.shell import AwaitedShell
    from kafkaguard._delivery.time_limit import TimeLimit
    from kafkaguard._delivery.transaction_calls import Answer, Flow, Step, T
    from kafkaguard._errors import KafkaGuardError
    from kafkaguard._retries.events import Event
    from kafkaguard_adapters.asking.cluster_view import ClusterView
    from kafkaguard_adapters.building import Wish

_log = Log("producer")
#: Seconds that tasks have to end when the producer is closed.
_END_S = 1.0
#: Seconds until the next scheduled step after a bug of the guard.
_REST_S = 1.0
_now = time.monotonic


class TaskDriver(DriverBase):
    """Runs a delivery machine for a client with tasks.

    Args:
        shell: The client.
        wish: What ``guard()`` was told.
        view: The cluster view for the guard's own requests.
        loop: The event loop that the client and the driver belong to.

    Attributes:
        machine: The state machine.
    """

    def __init__(
        self,
        shell: AwaitedShell,
        wish: Wish,
        view: ClusterView,
        loop: asyncio.AbstractEventLoop,
    ) -> None:
        super().__init__(shell, wish, view)
        self.shell: AwaitedShell = shell
        self.machine.transaction.on_end = shell.note_reported
        self._loop = loop
        self._hooks = () if wish.on_event is None else (wish.on_event,)
        self._commands: deque[c.Command] = deque()
        self._is_busy = self._is_stopped = False
        self._tasks: set[asyncio.Task[None]] = set()
        self._timer: asyncio.TimerHandle | None = None
        self._timer_due = 0.0
        #: Futures of the coroutines that wait for a change of the machine.
        self._waiters: set[asyncio.Future[None]] = set()
        shell.listen(self)

    # --- facts ------------------------------------------------------------------------

    def began(self, batch: Batch) -> None:
        """Report a batch that the client has begun."""
        self.machine.began(batch)
        if self._letter_topics is not None:
            self._letter_topics.look_up_once(batch.place.topic)
        if self._timer is None:
            self._set_timer(batch.next_check)

    def accepted(self, batch: Batch) -> None:
        """Report a batch that the broker has accepted."""
        # Once a batch is often enough to find facts that are too old.
        self._cache.recheck_expiry()
        self.take(self.machine.accepted(batch, _now()))

    def failed(self, batch: Batch, refusals: Sequence[Refusal]) -> None:
        """Report a batch of which some records failed."""
        self.take(self.machine.failed(batch, refusals, _now()))

    def died(self, cause: BaseException, place: Place | None) -> None:
        """Report that the client has died."""
        if self._is_ending():
            why = "the event loop ended before stop() was called"
            self.take(self.machine.settle_all(why, _now()))
        else:
            self.take(self.machine.died(cause, place, _now()))

    def _is_ending(self) -> bool:
        """Return whether asyncio.run() is cancelling the tasks that are left."""
        return all(each.cancelling() for each in asyncio.all_tasks(self._loop))

    def refused_at_once(
        self, token: Hashable, place: Place, raw: Raw | None, error: KafkaGuardError
    ) -> None:
        """Settle a record that ``send`` refuses, as the policy requires."""
        fact = self.machine.refused_at_once
        self.take(fact(token, place, raw, error, _now()))

    def raised(self, error: KafkaGuardError) -> None:
        """Report that ``send`` raises an error."""
        self.take(self.machine.raised(error))

    def locked(self, call: Callable[[], T]) -> T:
        """Call a function that uses the machine; as in ``ThreadDriver``."""
        return call()

    def fault(self, what: str, error: BaseException) -> None:
        """Log a bug of the guard."""
        self._loop.call_soon(_log_fault, what, error)

    # --- commands ---------------------------------------------------------------------

    def take(self, commands: Sequence[c.Command]) -> None:
        """Execute commands in their order; a command may queue further commands."""
        if self._waiters:
            self._wake()
        if not commands:
            if self.machine.holds:  # the machine may have begun a timed wait
                self._adjust_timer()
            return
        self._commands.extend(commands)
        if self._is_busy:
            return
        self._is_busy = True
        try:
            while self._commands:
                command = self._commands.popleft()
                try:
                    self._execute(command)
                except Exception as error:  # noqa: BLE001 - the next commands must run, too
                    self.fault(f"a command of the delivery machine failed {BUG}", error)
        finally:
            self._is_busy = False
        if self._waiters:
            self._wake()
        self._adjust_timer()

    def _execute(self, command: c.Command) -> None:
        row = TABLE[type(command)]
        if row.reply is None and row.turn is not Turn.CLIENT:
            # Also TakeBack: before the client sends these batches.
            row.do(self, command)
        else:
            self._start(self._run(row, command))

    def _start(self, work: Coroutine[Any, Any, None]) -> None:
        task = self._loop.create_task(work, name="kafkaguard-recovery")
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _run(self, row: Row, command: c.Command) -> None:
        try:
            result = row.do(self, command)
            if inspect.isawaitable(result):
                result = await result
        except Exception as error:  # noqa: BLE001 - the machine waits for a reply
            self.fault(f"a command of the delivery machine failed {BUG}", error)
            result = row.if_raised(command, error)
        if row.reply is not None:
            self.take(row.reply(self, command, result, _now()))

    # --- what the table of commands calls ---------------------------------------------

    def settle(self, record: Record) -> None:
        """Complete the application's future of a record."""
        self.shell.settle(record)

    def tell(self, event: Event) -> None:
        """Call the hook of the application in a later round of the loop."""
        if self._hooks:
            self._loop.call_soon(emit, self._hooks, event)

    def warn(self, warning: c.Warn) -> None:
        """Write a warning to the log in a later round of the loop."""
        self._loop.call_soon(write_warning, _log, warning)

    def hold(self, topic: str) -> None:
        """Do nothing: a send never awaits between the check for holds and its batch."""

    async def hand_over(
        self, records: Sequence[Record]
    ) -> Sequence[Hashable | BaseException]:
        """Give records to the client, one after the other; return tokens or errors."""
        return await arun(
            self._hand_over_each(records),
            lambda record: self.shell.hand_over(record, record.due),
        )

    async def end_client(self) -> None:
        """Stop the client; a send that was running in it starts again, and waits."""
        await self.shell.stop()

    async def replace(self, locking_out: Batch | None) -> BaseException | None:
        """Put a successor in use; return None, or why there is none."""
        try:
            await self.shell.put_successor_in_use(locking_out)
        # A factory of the application may raise SystemExit, which would end the loop.
        except (Exception, SystemExit) as error:  # noqa: BLE001 - the machine decides
            return error
        self.retire()
        return None

    def retire(self) -> None:
        """Start to close the dead clients in a task, which may take long."""
        self._start(self.shell.retire())

    def recreated(self) -> None:
        """Report that the client is about to be replaced for a transaction."""
        self.take(self.machine.recreated())

    # --- sends that wait --------------------------------------------------------------

    async def wait_while_held(self, topic: str, limit: TimeLimit) -> float:
        """Wait with a send until its topic is no longer held.

        Args:
            topic: The topic of the record.
            limit: The longest wait.

        Returns:
            The seconds of the limit that are left.

        Raises:
            KafkaGuardError: The wait has exceeded the limit, or the client is dead and
                could not be replaced.
        """
        return await arun(self._wait_until_free(topic, limit), self._changes)

    async def _changes(self, deadline: float) -> bool:
        """Wait for a change of the machine; return whether there was one in time."""
        left = deadline - _now()
        if left <= 0:
            return False
        waiter = self._loop.create_future()
        self._waiters.add(waiter)
        try:
            await asyncio.wait([waiter], timeout=left)
        finally:
            self._waiters.discard(waiter)
        return waiter.done()

    def _wake(self) -> None:
        waiters, self._waiters = self._waiters, set()
        for waiter in waiters:
            if not waiter.done():
                waiter.set_result(None)

    # --- the application waits --------------------------------------------------------

    async def wait(self, deadline: float) -> int:
        """Wait for all records without an outcome, including those that are sent again.

        Args:
            deadline: In monotonic seconds.

        Returns:
            How many of these records still have no outcome. Records that were sent
            since this call began are not counted.
        """
        work = self.machine.open_work()
        self.shell.send_now()
        while self.machine.count_open(work) and await self._changes(deadline):
            self.shell.send_now()
        await self.let_readers_run()
        return self.machine.count_open(work)

    async def let_readers_run(self) -> None:
        """Let coroutines that await a record's future run first."""
        for _ in range(3):  # gather() and shield() take a round each
            await asyncio.sleep(0)

    async def run(self, flow: Flow[T], make: Callable[[Step], Awaitable[Answer]]) -> T:
        """Make the steps of a transactional call, as ``ThreadDriver.run`` does."""
        result: Answer | BaseException | None = None
        while True:
            try:
                step = proceed(flow, result)
            except StopIteration as end:
                return end.value  # type: ignore[no-any-return]  # is T
            try:
                result = await make(step)
            except BaseException as error:  # noqa: BLE001 - the flow raises it
                result = error

    # --- the end ----------------------------------------------------------------------

    async def stop(self) -> None:
        """Accept no more records, and fail those that the client still holds."""
        self.take(self.machine.closing(_now()))
        if self.pending():
            await self.shell.stop()

    async def settle_all(self) -> None:
        """Settle all records without an outcome, and end all tasks."""
        why = "the producer was closed before it was confirmed"
        self.take(self.machine.settle_all(why, _now()))
        self._is_stopped = True
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self._tasks:
            await asyncio.wait(self._tasks, timeout=_END_S)
        for task in list(self._tasks):
            task.cancel()
        if self._tasks:
            await asyncio.wait(self._tasks, timeout=_END_S)

    def pending(self) -> int:
        """Count the records that have no outcome yet."""
        return self.machine.pending()

    def report(self, pending: int) -> DeliveryReport:
        """Return the counts since the last report."""
        self.shell.note_seen()
        report = self.machine.report(pending)
        self.shell.note_reported()
        return report

    # --- time -------------------------------------------------------------------------

    def _adjust_timer(self) -> None:
        due = self.machine.next_due()
        if due is not None and (self._timer is None or due < self._timer_due):
            self._set_timer(due)

    def _set_timer(self, due: float) -> None:
        if self._timer is not None:
            self._timer.cancel()
        if self._is_stopped:
            return
        self._timer_due = due
        left = max(0.0, due - _now())
        self._timer = self._loop.call_later(left, self._time_is_up)

    def _time_is_up(self) -> None:
        self._timer = None
        try:
            due = self.machine.next_due()
            if due is not None and due <= _now():
                self.take(self.machine.tick(_now()))
                due = self.machine.next_due()
        except Exception as error:  # noqa: BLE001 - else records would wait forever
            self.fault(f"a scheduled step failed {BUG}", error)
            due = _now() + _REST_S
        if due is not None:
            self._set_timer(due)


def _log_fault(what: str, error: BaseException) -> None:
    _log.error("producer_fault", "%s; the producer continues", what, error=error)
