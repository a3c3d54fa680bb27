"""The thread driver of the delivery machine: one lock, facts in, commands out.

A thread that has a fact calls the machine under the lock and queues the commands that
the machine returns. Other threads execute the commands without the lock: one for each
topic with records to send again, one for commands about the client itself, one for
commands that end quickly, one to close dead clients, and one for the application's
code. None of these threads exists while nothing fails. One more, the watch thread,
runs while batches are open: it reports to the machine that a batch is overdue.
"""

from __future__ import annotations

import threading
import time
import weakref
from functools import partial
from typing import TYPE_CHECKING, Any

from kafkaguard._delivery.command_table import TABLE, Row, Turn
from kafkaguard._delivery.transaction_calls import proceed
from kafkaguard_adapters.producing.application_calls import ApplicationCalls
from kafkaguard_adapters.producing.driver_base import BUG, DriverBase
from kafkaguard_adapters.producing.lanes import Lane
from kafkaguard_adapters.producing.steps import run
from kafkaguard_adapters.producing.watch import Watch

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Sequence

    from kafkaguard._delivery import commands as c
    from kafkaguard._delivery.facts import Batch, Place, Raw, Refusal
    from kafkaguard._delivery.records import Record
    from kafkaguard._delivery.report import DeliveryReport
    from kafkaguard._delivery.shell import ProducerShell
    from kafkaguard._delivery.time_limit import TimeLimit
    from kafkaguard._delivery.transaction_calls import Answer, Flow, Step, T
    from kafkaguard._errors import KafkaGuardError
    from kafkaguard._retries.events import Event
    from kafkaguard_adapters.asking.cluster_view import ClusterView
    from kafkaguard_adapters.building import Wish
    from kafkaguard_adapters.producing.barrier import Barrier

#: Seconds to wait for running sends, before records of their topic are sent again.
HOLD_S = 5.0
#: Seconds that the watch thread sleeps after a bug of the guard.
_REST_S = 1.0
_now = time.monotonic


class ThreadDriver(DriverBase):
    """Runs a delivery machine for a client with threads.

    Args:
        shell: The client.
        wish: What ``guard()`` was told.
        barrier: Waits for running sends.
        view: The cluster view for the guard's own requests.

    Attributes:
        machine: The state machine. All methods that report a fact are called under the
            lock. Without it are only the reads of one value: ``holds``, ``on_reject``,
            ``keeps``, ``longest_s``, ``is_troubled``, ``failed_and_open`` and
            ``transaction.state``.
        app_calls: Calls the application's code.
    """

    def __init__(
        self,
        shell: ProducerShell,
        wish: Wish,
        barrier: Barrier,
        view: ClusterView | None = None,
    ) -> None:
        super().__init__(shell, wish, view)
        self.shell: ProducerShell = shell
        self.app_calls = ApplicationCalls(wish.on_event)
        self._barrier = barrier
        #: The lock around the machine; notified when the machine has changed.
        self._changed = threading.Condition()
        #: Added under the lock, and copied without it (``is_own_thread``).
        self._lanes: dict[str | None, Lane] = {}
        self._quick = Lane("quick", self._lane_failed)
        self._retiring = Lane("retire", self._lane_failed)
        self._callback_error: BaseException | None = None
        #: Whether this process is a forked child, to which nothing is reported.
        self.is_inherited = False
        self.watch = Watch(self._next_due, self._tick)
        shell.listen(_WeakDriver(self))

    # --- facts from the client ----------------------------------------------------

    def began(self, batch: Batch) -> None:
        """Report a batch that the client has begun."""
        with self._changed:
            self.machine.began(batch)
        self.watch.begin()
        if self._letter_topics is not None:
            self._letter_topics.look_up_once(batch.place.topic)

    def accepted(self, batch: Batch) -> None:
        """Report a batch that the broker has accepted."""
        # Once a batch is often enough to find facts that are too old.
        self._cache.recheck_expiry()
        with self._changed:
            commands = self.machine.accepted(batch, _now())
            if commands:
                self.take(commands)
            self._changed.notify_all()
        if commands:
            self.app_calls.start()

    def failed(self, batch: Batch, refusals: Sequence[Refusal]) -> None:
        """Report a batch of which some records failed."""
        self._report_fact(self.machine.failed, batch, refusals, _now())

    def died(self, cause: BaseException, place: Place | None) -> None:
        """Report that the client has died."""
        self._report_fact(self.machine.died, cause, place, _now())

    def _report_fact(
        self, fact: Callable[..., Sequence[c.Command]], *what: Any
    ) -> None:
        with self._changed:
            self.take(fact(*what))
            self._changed.notify_all()
        self.app_calls.start()

    # --- facts from a send, in the application's thread ---------------------------

    def refused_at_once(
        self, token: Hashable, place: Place, raw: Raw | None, error: KafkaGuardError
    ) -> None:
        """Settle a record that ``send`` refuses, as the policy requires."""
        with self._changed:
            fact = self.machine.refused_at_once
            self.take(fact(token, place, raw, error, _now()))
            self._changed.notify_all()
        self.app_calls.work_here()

    def raised(self, error: KafkaGuardError) -> None:
        """Report that ``send`` raises an error."""
        with self._changed:
            self.take(self.machine.raised(error))
        self.app_calls.work_here()

    def locked(self, call: Callable[[], T]) -> T:
        """Call a function that uses the machine, under the lock."""
        with self._changed:
            return call()

    # --- commands -----------------------------------------------------------------

    def take(self, commands: Sequence[c.Command]) -> None:
        """Queue commands for execution in their order. The caller holds the lock."""
        for command in commands:
            row = TABLE[type(command)]
            if row.turn is Turn.NOW:
                row.do(self, command)
            else:
                if row.turn is Turn.QUICK:
                    lane = self._quick
                else:
                    # Commands about the client have no topic.
                    lane = self._lane(getattr(command, "topic", None))
                lane.put(partial(self._run, row, command))
                lane.start()
        self.watch.wake()

    def _lane(self, topic: str | None) -> Lane:
        if topic not in self._lanes:
            name = "recovery" if topic is None else f"recovery-{topic}"
            self._lanes[topic] = Lane(name, self._lane_failed)
        return self._lanes[topic]

    def _lane_failed(self, error: BaseException) -> None:
        self.fault(f"a command of the delivery machine failed {BUG}", error)

    def _run(self, row: Row, command: c.Command) -> None:
        try:
            result = row.do(self, command)
        except BaseException as error:  # noqa: BLE001 - the machine waits for a reply
            self._lane_failed(error)
            result = row.if_raised(command, error)
        if row.reply is not None:
            self._report_fact(row.reply, self, command, result, _now())

    # --- what the table of commands calls ----------------------------------------

    def settle(self, record: Record) -> None:
        """Complete the application's future of a record. The caller holds the lock."""
        self.shell.settle(record)
        for call in record.shell or ():
            self.app_calls.put(call)

    def tell(self, event: Event) -> None:
        """Call the hook of the application, soon."""
        self.app_calls.event(event)

    def warn(self, warning: c.Warn) -> None:
        """Write a warning to the log, soon."""
        self.app_calls.warn(warning)

    def hold(self, topic: str) -> None:
        """Wait until no send of a topic is running, at most ``HOLD_S``.

        A send that hangs in a serialiser must not stop the rescue. Its record may then
        reach the client before older ones of its key.
        """
        self._barrier.wait_for_sends(topic, _now() + HOLD_S)

    def hand_over(
        self, records: Sequence[Record]
    ) -> Sequence[Hashable | BaseException]:
        """Give records to the client, one after the other; return tokens or errors."""
        return run(
            self._hand_over_each(records),
            lambda record: self.shell.hand_over(record, record.due),
        )

    def end_client(self) -> None:
        """Stop the client, and wait until no send to it is running.

        A send that checked for holds before this hold began would otherwise reach the
        successor before the records that are sent again.
        """
        self.shell.stop()
        self._barrier.wait_for_sends(None, _now() + HOLD_S)

    def replace(self, locking_out: Batch | None) -> BaseException | None:
        """Put a successor in use; return None, or why there is none."""
        try:
            self.shell.put_successor_in_use(locking_out)
        except BaseException as error:  # noqa: BLE001 - the machine decides about it
            return error
        self.retire()
        return None

    def retire(self) -> None:
        """Start to close the dead clients in the background, which may take long."""
        self._retiring.put(self.shell.retire)
        self._retiring.start()

    def recreated(self) -> None:
        """Report that the client is about to be replaced for a transaction."""
        self._report_fact(self.machine.recreated)

    # --- sends that wait ----------------------------------------------------------

    def is_own_thread(self) -> bool:
        """Return whether the caller's thread must not wait for a hold to end."""
        return self.shell.is_own_thread() or any(
            lane.is_mine for lane in (self._quick, *self._lanes.copy().values())
        )

    def wait_while_held(self, topic: str, limit: TimeLimit) -> None:
        """Block a send until its topic is no longer held.

        Args:
            topic: The topic of the record.
            limit: The longest wait.

        Raises:
            KafkaGuardError: The wait has exceeded the limit, or the client is dead and
                could not be replaced.
        """
        if self.is_own_thread():
            return
        with self._changed:
            run(
                self._wait_until_free(topic, limit),
                lambda deadline: self._changed.wait(max(0.0, deadline - _now())),
            )
        self.app_calls.start()

    # --- the application waits ----------------------------------------------------

    def when_settled(self, record: Record, call: Callable[[], object]) -> None:
        """Call a function once a record has its outcome; at once if it has one.

        The function never runs in the client's own thread, because it may send a record
        and wait for it.
        """
        with self._changed:
            is_open = record.outcome is None
            if is_open:
                record.shell = [*(record.shell or ()), call]
        if is_open:
            return
        if self.shell.is_own_thread():
            self.app_calls.put(call)
            self.app_calls.start()
        else:
            call()

    def report_early(self, token: Hashable) -> None:
        """Report the failure of a record now, before the client's callback does."""
        self.shell.report_early(token)

    def wait_until_settled(self, record: Record, timeout: float | None) -> bool:
        """Wait for a record's outcome; return whether there is one in time.

        Args:
            record: The record.
            timeout: Seconds to wait; None: without a limit.
        """
        with self._changed:
            return self._changed.wait_for(lambda: record.outcome is not None, timeout)

    def wait(self, deadline: float) -> int:
        """Wait for all records without an outcome, including those that are sent again.

        Args:
            deadline: In monotonic seconds.

        Returns:
            How many of these records still have no outcome. Records that other threads
            have sent since this call began are not counted.
        """
        with self._changed:
            work = self.machine.open_work()
        with self.shell.sending_now():
            self.shell.await_batches(work.batches, deadline)
            with self._changed:
                self._changed.wait_for(
                    lambda: not self.machine.count_open(work),
                    max(0.0, deadline - _now()),
                )
                count = self.machine.count_open(work)
        self.app_calls.start()
        self.app_calls.wait(deadline)
        return count

    def run(self, flow: Flow[T], make: Callable[[Step], Answer]) -> T:
        """Make the steps of a transactional call.

        Args:
            flow: The call.
            make: Makes a step with the client. If it raises, for example by Ctrl-C, the
                flow decides what to do before the exception goes on.

        Returns:
            What the flow returns.

        Raises:
            KafkaGuardError: The call has failed.
        """
        result: Answer | BaseException | None = None
        while True:
            with self._changed:
                try:
                    step = proceed(flow, result)
                except StopIteration as end:
                    return end.value  # type: ignore[no-any-return]  # is T
                finally:
                    self._changed.notify_all()
            try:
                result = make(step)
            except BaseException as error:  # noqa: BLE001 - the flow raises it
                result = error

    # --- the end ------------------------------------------------------------------

    def stop(self) -> None:
        """Accept no more records, and fail those that the client still holds."""
        self._report_fact(self.machine.closing, _now())
        if self.pending():
            self.shell.stop()

    def settle_all(self, deadline: float) -> None:
        """Settle all records without an outcome, and run their callbacks.

        Args:
            deadline: How long to wait for callbacks, in monotonic seconds.
        """
        why = "the producer was closed before it was confirmed"
        self._report_fact(self.machine.settle_all, why, _now())
        self.watch.stop()
        self.app_calls.wait(deadline)
        self._retiring.wait(deadline)

    def pending(self) -> int:
        """Count the records that have no outcome yet."""
        with self._changed:
            return self.machine.pending()

    def has_unseen(self) -> bool:
        """Return whether there are errors that the application has not seen."""
        with self._changed:
            return self.machine.has_unseen()

    def report(self, pending: int | None = None) -> DeliveryReport:
        """Return the counts since the last report.

        Args:
            pending: How many records have no outcome. Default: the machine's count.
        """
        self._count_delivered()
        with self._changed:
            if pending is None:
                pending = self.machine.pending()
            return self.machine.report(pending)

    def gauges(self) -> dict[tuple[str, str], float]:
        """Return how it stands, for telemetry, whose counts are up to date then."""
        self._count_delivered()
        return super().gauges()

    def _count_delivered(self) -> None:
        """Count the records delivered so far in batches that are still open."""
        counts = self.shell.delivered()
        with self._changed:
            for batch, delivered in counts.items():
                self.machine.delivered_so_far(batch, delivered)

    def drop_waiting(self, why: str) -> None:
        """Settle the records that wait to be sent again.

        Args:
            why: The reason, for their errors.
        """
        self._report_fact(self.machine.drop_waiting, why, _now())

    def callback_raised(self, error: BaseException) -> None:
        """Keep the first exception of the application's callbacks."""
        self._callback_error = self._callback_error or error
        self.fault("a callback of the application raised", error)

    def take_callback_error(self) -> BaseException | None:
        """Return the first exception of a callback, and forget it."""
        error, self._callback_error = self._callback_error, None
        return error

    # --- time ---------------------------------------------------------------------

    def _next_due(self) -> float | None:
        with self._changed:
            return self.machine.next_due()

    def _tick(self) -> None:
        try:
            self._report_fact(self.machine.tick, _now())
        except Exception as error:  # noqa: BLE001 - else records would wait forever
            self.fault(f"a scheduled step failed {BUG}", error)
            time.sleep(_REST_S)

    def fault(self, what: str, error: BaseException) -> None:
        """Log an exception of the guard's or the application's code."""
        self.app_calls.failed(what, error)
        self.app_calls.start()


class _WeakDriver:
    """The driver as its client sees it: a ``FactSink`` that does not keep it alive.

    No fact raises, because a send must not fail for a bug of the guard.

    Args:
        driver: The driver.
    """

    def __init__(self, driver: ThreadDriver) -> None:
        self._driver = weakref.ref(driver)

    def began(self, batch: Batch) -> None:
        self._report(ThreadDriver.began, batch)

    def accepted(self, batch: Batch) -> None:
        self._report(ThreadDriver.accepted, batch)

    def failed(self, batch: Batch, refusals: Sequence[Refusal]) -> None:
        self._report(ThreadDriver.failed, batch, refusals)

    def died(self, cause: BaseException, place: Place | None) -> None:
        self._report(ThreadDriver.died, cause, place)

    def fault(self, what: str, error: BaseException) -> None:
        self._report(ThreadDriver.fault, what, error)

    def _report(self, fact: Callable[..., None], *what: Any) -> None:
        driver = self._driver()
        if driver is None:
            return
        try:
            fact(driver, *what)
        except Exception as error:  # noqa: BLE001 - see above
            driver.fault(f"the fact {fact.__name__!r} was not processed {BUG}", error)
