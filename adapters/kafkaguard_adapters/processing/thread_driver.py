"""The driver of clients whose calls block: one pump, and workers in threads.

The thread that calls ``run`` is the *pump*: it alone calls the client. Workers take
their work from the machine, and report to it, under one lock. The lock is never held
while the client, a handler, a hook or the producer of dead letters is called.
"""

from __future__ import annotations

import threading
import time
from contextlib import suppress
from functools import partial
from queue import SimpleQueue
from typing import TYPE_CHECKING, Any, Final

from kafkaguard._errors import KafkaGuardError
from kafkaguard._processing.handling import CURRENT, handle, handle_batch
from kafkaguard_adapters.processing.driver_base import BaseDriver
from kafkaguard_adapters.processing.exactly_once import Transactions
from kafkaguard_adapters.producing.steps import run

if TYPE_CHECKING:
    from collections.abc import Callable

    from kafkaguard._processing.report import ProcessReport
    from kafkaguard._processing.work import Chunk
    from kafkaguard._retries.events import Event
    from kafkaguard_adapters.processing.arguments import Arguments
    from kafkaguard_adapters.processing.driver_base import Steps
    from kafkaguard_adapters.processing.shell import ThreadShell
    from kafkaguard_policies.retry_policy import RetryPolicy

#: The longest wait of an idle worker, in seconds.
_IDLE_S: Final = 0.5


class ThreadDriver(BaseDriver):
    """One run of ``process()`` in threads.

    Args:
        shell: The client's.
        arguments: What ``process()`` was told.
        policy: The policy.
        hook: ``on_event``, or None.
    """

    _shell: ThreadShell
    _transactions: Transactions | None = None
    _event = threading.Event

    def __init__(
        self,
        shell: ThreadShell,
        arguments: Arguments,
        policy: RetryPolicy,
        hook: Callable[[Event], object] | None,
    ) -> None:
        super().__init__(shell, arguments, policy, hook)
        if arguments.producer is not None:
            self._transactions = Transactions(
                arguments.producer, shell.send_name, self.machine
            )
        self._letters = SimpleQueue()
        self._threads: set[int] = set()

    def run(self) -> ProcessReport:
        """Handle records until the run ends.

        Raises:
            BaseException: What has ended the run.
        """
        try:
            run(self._check_topics())
            if self._transactions is not None:
                self._transactions.open()
            assigned = self._shell.listen(self)
            self._start_threads()
            if assigned:
                self.assigned(assigned)
            self._pump()
            for place, offset in self._seeks():
                with suppress(KafkaGuardError):  # it may be revoked by now
                    self._shell.seek(place, offset)
        finally:
            try:
                self._shell.unlisten()
            finally:
                self._over.set()  # close() goes on in another thread
            self._letters.put(None)
            with self._lock:
                self._wake_workers()
            if self._transactions is not None:
                self._transactions.close()
            self._tell()
        assert self._end is not None
        if self._end.error is not None:
            raise self._end.error
        return self.report()

    def finish(self) -> None:
        """End the run; wait for it, unless this is one of its own threads."""
        self.request_stop()
        if threading.get_ident() not in self._threads:
            self._over.wait()

    def _start_threads(self) -> None:
        self._threads.add(threading.get_ident())
        targets = [self._work] * self._arguments.workers + [self._run_letters]
        for number, target in enumerate(targets):
            name = f"kafkaguard-handler-{number}"
            thread = threading.Thread(
                target=self._watched, args=[target], name=name, daemon=True
            )
            thread.start()

    def _watched(self, target: Callable[[], None]) -> None:
        """Run a thread; if the guard fails in it, end the run instead of hanging."""
        try:
            target()
        except BaseException as error:  # noqa: BLE001 - process() raises it
            self._fail(error)

    # --- the pump ---------------------------------------------------------------------

    def _pump(self) -> None:
        while self._end is None:
            try:
                run(self._step())
            except KeyboardInterrupt as error:
                if self._stops:
                    raise  # the second one
                self._stops = True
                self._fail(error)

    def _wait(self, seconds: float) -> None:
        self._wakes.wait(seconds)

    def _begin(self, steps: Steps) -> None:
        run(steps)

    def _commit(self, number: int, offsets: Any) -> None:
        report = partial(self._report_fact, self.machine.committed, number)
        if self._shell.group is None:
            report({})
            return
        try:
            self._shell.commit(offsets, report)
        except KafkaGuardError as error:
            report(dict.fromkeys(offsets, error))

    # --- workers ----------------------------------------------------------------------

    def _wake_workers(self) -> None:
        self._lock.notify_all()

    def _work(self) -> None:
        self._threads.add(threading.get_ident())
        machine, clock = self.machine, time.monotonic
        work = handle if self._arguments.batch is None else handle_batch
        handler, decode = self._make_handler(), self._decode
        offset_of = self._shell.offset_of
        while (chunk := self._take()) is not None:
            CURRENT.set((chunk, self.seconds_of, offset_of))
            attempted, failures = work(chunk, handler, decode)
            with self._lock:
                now = clock()
                machine.finished(chunk, attempted, failures, now)
                self._after_fact()
                self._lock.notify()
            self._note_time(chunk, now)

    def _traced(self, handler: Callable[[Any], object]) -> Callable[[Any], object]:
        """Return a handler that makes a span for each call."""

        def handle_traced(record: Any) -> object:
            with self._span():
                return handler(record)

        return handle_traced

    def _take(self) -> Chunk | None:
        """Wait for work; None: the run has ended."""
        machine, lock = self.machine, self._lock
        with lock:
            while not self._over.is_set():
                now = time.monotonic()
                chunk = machine.take(now)
                if chunk is not None:
                    return chunk
                seconds = machine.work_due() - now
                lock.wait(min(_IDLE_S, seconds) if seconds > 0 else _IDLE_S)
        return None

    # --- dead letters -----------------------------------------------------------------

    def _run_letters(self) -> None:
        run(self._send_letters())
        self._shell.close_letters()
