"""The driver of clients whose calls block: one pump, and workers in threads.

The thread that calls ``run`` is the *pump*: it alone calls the client. Workers take
their work from the machine, and report to it, under one lock. The lock is never held
while the client, a handler, a hook or the producer of dead letters is called.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final

from kafkaguard._errors import KafkaGuardError
from kafkaguard._processing.handling import CURRENT, handle, handle_batch
from kafkaguard._processing.work import (
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
    MOST,
    SLICE_S,
    BaseDriver,
    Revocation,
)
from kafkaguard_adapters.processing.exactly_once import Transactions
from kafkaguard_adapters.producing.steps import run

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from kafkaguard._cluster.reports import TopicPartition
    from kafkaguard._processing.report import ProcessReport, Progress
    from kafkaguard._processing.work import Chunk, SendLetter
    from kafkaguard._retries.events import Event
    from kafkaguard_adapters.processing.arguments import Arguments
    from kafkaguard_adapters.processing.shell import ThreadShell
    from kafkaguard_policies.retry_policy import RetryPolicy

#: The longest wait of an idle worker, in seconds.
_IDLE_S: Final = 0.5
#: How many dead letters are sent at a time.
_LETTERS: Final = 100


class ThreadDriver(BaseDriver):
    """One run of ``process()`` in threads.

    Args:
        shell: The client's.
        arguments: What ``process()`` was told.
        policy: The policy.
        hook: ``on_event``, or None.
    """

    _transactions: Transactions | None = None

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
        #: The group's metadata after the last poll that returned records, or after a
        #: later one while the machine had none.
        self._metadata: Any = None
        self._shell = shell
        self._lock = threading.Condition(threading.Lock())
        #: Set when the pump has something to do.
        self._wakes = threading.Event()
        self._over = threading.Event()
        self._letters: deque[SendLetter] = deque()
        self._has_letters = threading.Condition(threading.Lock())
        self._threads: set[int] = set()

    def run(self) -> ProcessReport:
        """Handle records until the run ends.

        Raises:
            BaseException: What has ended the run.
        """
        run(self._check_topics())
        if self._transactions is not None:
            self._transactions.open()
        assigned = self._shell.listen(self)
        self._start_threads()
        try:
            if assigned:
                self.assigned(assigned)
            self._pump()
            for place, offset in self._seeks():
                with suppress(KafkaGuardError):  # it may be revoked by now
                    self._shell.seek(place, offset)
        finally:
            self._over.set()
            with self._lock:
                self._lock.notify_all()
            with self._has_letters:
                self._has_letters.notify_all()
            self._shell.unlisten()
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

    def progress(self) -> Progress:
        """Return how the run stands."""
        with self._lock:
            return super().progress()

    def report(self) -> ProcessReport:
        """Return the counts so far."""
        with self._lock:
            return super().report()

    def _start_threads(self) -> None:
        self._threads.add(threading.get_ident())
        targets = [self._work] * self._arguments.workers + [self._send_letters]
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
                self._step()
            except KeyboardInterrupt as error:
                if self._stops:
                    raise  # the second one
                self._stops = True
                self._fail(error)

    def _fail(self, error: BaseException) -> None:
        with self._lock:
            self.machine.fail(error, time.monotonic())
            self._after_fact()

    def _step(self) -> None:
        """Poll once, and execute what the machine says."""
        machine, now = self.machine, time.monotonic()
        with self._lock:
            if self._must_stop():
                machine.stop(now)
            machine.tick(now)
            self._after_fact()
            is_open = machine.is_open
            self._wakes.clear()
        self._execute()
        self._tell()
        if self._end is not None:
            return
        if is_open:
            self._read(MOST, SLICE_S)
            return
        self._wakes.wait(KEEP_ALIVE_S)
        if time.monotonic() - self._read_at >= KEEP_ALIVE_S:
            self._read(1, 0.0)

    def _read(self, most: int, seconds: float) -> None:
        self._read_at = time.monotonic()
        try:
            if self._arguments.until_end:
                self._look_up_ends()
            fetched = self._shell.poll(most, seconds)
        except KafkaGuardError as error:
            with self._lock:
                is_passing = self._poll_failed(error, time.monotonic())
            if is_passing:
                self._wakes.wait(AFTER_ERROR_S)
            return
        if self._transactions is not None and fetched:
            self._metadata = self._shell.group_metadata()
        now = time.monotonic()
        with self._lock:
            self.machine.polled(now)
            has_records = self._fetched(fetched, now)
            if has_records:
                self._after_fact()
                self._lock.notify_all()
        if has_records:
            # Workers begin now, not only once this thread has had the interpreter for
            # its 5 ms: the fewer records are in memory, the less is to be collected.
            time.sleep(0)
        else:
            self._report_rest(now)

    def _report_rest(self, now: float) -> None:
        places = self._resting(now)
        if not places:
            return
        if self._transactions is not None and self.machine.has_nothing:
            # A member that has read nothing yet commits its positions too.
            self._metadata = self._shell.group_metadata()
        positions = self._shell.positions(places)
        with self._lock:
            self.machine.at_rest(positions, now)
            self._after_fact()

    def _look_up_ends(self) -> None:
        """Look up where to stop, once for each partition."""
        new = [place for place in self.machine.slots if place not in self._known_ends]
        if new:
            ends = self._shell.ends(new)
            self._known_ends.update(new)
            with self._lock:
                self.machine.ends(ends)

    def _after_fact(self) -> None:
        """Take the machine's commands to where they are executed; holds the lock."""
        letters = self._sort(self.machine.take_commands())
        if letters:
            with self._has_letters:
                self._letters += letters
                self._has_letters.notify()
        if self._for_pump or self._events or self._end is not None:
            self._wakes.set()

    def _execute(self, *, in_listener: bool = False) -> None:
        """Execute the commands for the client; in a listener, only commits."""
        shell = self._shell
        kept = []
        while self._for_pump:
            try:
                command = self._for_pump.popleft()
            except IndexError:
                break  # the pump and a listener have both looked
            match command:
                case Commit(number, offsets):
                    self._commit(number, offsets)
                case Pause() | Resume() if in_listener:
                    kept.append(command)
                case BeginRound() | CommitRound() | AbortRound():
                    self._execute_round(command)
                case Pause(places):
                    shell.pause(places)
                case Resume(places):
                    shell.resume(places)
        self._for_pump.extendleft(reversed(kept))

    def _execute_round(self, command: BeginRound | CommitRound | AbortRound) -> None:
        assert self._transactions is not None
        if isinstance(command, BeginRound):
            error = self._transactions.begin()
            with self._lock:
                self.machine.round_began(error, time.monotonic())
                self._after_fact()
                self._lock.notify_all()
            return
        offsets = None
        if isinstance(command, CommitRound):
            offsets = self._shell.client_offsets(command.offsets)
        error, is_committed = self._transactions.end(offsets, self._metadata)
        with self._lock:
            self.machine.round_ended(error, time.monotonic(), is_committed=is_committed)
            self._after_fact()

    def _commit(self, number: int, offsets: Any) -> None:
        def report(refused: Any) -> None:
            with self._lock:
                self.machine.committed(number, refused, time.monotonic())
                self._after_fact()

        if self._shell.group is None:
            report({})
            return
        try:
            self._shell.commit(offsets, report)
        except KafkaGuardError as error:
            report(dict.fromkeys(offsets, error))

    # --- rebalances -------------------------------------------------------------------

    def assigned(self, places: Iterable[TopicPartition]) -> None:
        """Record new partitions."""
        with self._lock:
            self.machine.assigned(list(places), time.monotonic())
            self.machine.rebalanced(time.monotonic())
            self._after_fact()

    def lost(self, places: Iterable[TopicPartition]) -> None:
        """Record that partitions are lost."""
        with self._lock:
            self.machine.lost(list(places), time.monotonic())
            self._after_fact()

    def begin_revocation(self, places: Iterable[TopicPartition]) -> Revocation:
        """Record that partitions are revoked; what runs may end within a bound."""
        revocation = Revocation(list(places), threading.Event())
        within = self._within()
        with self._lock:
            if self.machine.is_ended:
                revocation.over.set()
                return revocation
            self._revocations.append(revocation)
            self.machine.revoked(revocation.places, within, time.monotonic())
            self._after_fact()
        return revocation

    def is_given_up(self, revocation: Revocation) -> bool:
        """Do what is due in a listener; return whether it may return."""
        with self._lock:
            self.machine.tick(time.monotonic())
            self._after_fact()
        self._execute(in_listener=True)
        is_over: bool = revocation.over.is_set()
        if is_over and revocation in self._revocations:
            self._revocations.remove(revocation)
        return is_over

    # --- workers ----------------------------------------------------------------------

    def _work(self) -> None:
        self._threads.add(threading.get_ident())
        arguments, machine, clock = self._arguments, self.machine, time.monotonic
        work = handle if arguments.batch is None else handle_batch
        handler, decode = arguments.handler, self._shell.decode
        if arguments.letters is not None:
            handler, decode = self._letter_handler(handler), None
        if self._transactions is not None:
            handler = self._transactions.wrap(handler)
        if self._traces:
            handler = self._traced(handler)
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

    def _send_letters(self) -> None:
        """Send dead letters in a thread of their own."""
        while True:
            with self._has_letters:
                while not self._letters and not self._over.is_set():
                    self._has_letters.wait(_IDLE_S)
                if not self._letters:
                    break
                count = min(_LETTERS, len(self._letters))
                letters = [self._letters.popleft() for _ in range(count)]
            results = run(self._sending(list(map(self._make_letter, letters))))
            now = time.monotonic()
            with self._lock:
                for letter, result in zip(letters, results, strict=True):
                    self.machine.letter_sent(letter, result, now)
                self._after_fact()
                self._lock.notify()
        self._shell.close_letters()
