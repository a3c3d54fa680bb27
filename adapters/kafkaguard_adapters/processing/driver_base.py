"""What the drivers of threads and of tasks share.

What waits is a generator, which one driver runs by blocking and the other by awaiting
(``producing/steps.py``).
"""

from __future__ import annotations

import random
import threading
import time
from collections import deque
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar, Final, TypeVar

from kafkaguard._common.logs import Log
from kafkaguard._common.observing import observer_of
from kafkaguard._delivery.dead_letters import (
    VALUE_BYTES,
    as_first_read,
    changed_letter,
    letter_of_read,
)
from kafkaguard._delivery.dialects import LetterFacts, letter_facts
from kafkaguard._errors import (
    ClientConfigurationError,
    ClientStateError,
    KafkaGuardError,
)
from kafkaguard._errors.base import Action
from kafkaguard._processing.class_names import warn_of_unknown
from kafkaguard._processing.handling import CURRENT
from kafkaguard._processing.machine import ProcessingMachine
from kafkaguard._processing.rounds import Rounds
from kafkaguard._processing.work import (
    AbortRound,
    BeginRound,
    Commit,
    CommitRound,
    End,
    GiveUp,
    Pause,
    Resume,
    SendLetter,
    Tell,
)
from kafkaguard._retries.events import emit
from kafkaguard_adapters.processing.stopping import STOPPING
from kafkaguard_policies.model.policy import ways_of_rejecting

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Generator, Iterable, Sequence
    from contextlib import AbstractContextManager

    from kafkaguard._cluster.reports import TopicPartition
    from kafkaguard._delivery.facts import Raw
    from kafkaguard._processing.report import ProcessReport, Progress
    from kafkaguard._processing.work import Chunk, Command
    from kafkaguard._retries.events import Event
    from kafkaguard_adapters.processing.arguments import Arguments
    from kafkaguard_adapters.processing.exactly_once import (
        AwaitedTransactions,
        Transactions,
    )
    from kafkaguard_adapters.processing.shell import AwaitedShell, Fetched, ThreadShell
    from kafkaguard_policies.retry_policy import RetryPolicy

    Steps = Generator[Any, Any, None]

T = TypeVar("T")
_log = Log("processing")

#: The most records of a poll, and its longest time in seconds: so soon a stop, Ctrl-C
#: or a command for the client takes effect.
MOST: Final = 500
SLICE_S: Final = 0.1
#: How often a client is polled for one record while reading has stopped.
KEEP_ALIVE_S: Final = 0.1
#: How often positions are read while the client returns nothing.
REST_S: Final = 0.5
#: How long to wait after a poll has failed with an error that may pass.
AFTER_ERROR_S: Final = 0.5
#: How often topics are looked up until there is an answer.
LOOK_UPS: Final = 5
#: How long dead letters may take to be sent.
LETTER_S: Final = 60.0
#: The group that handles the letters of a group: its name, and this.
LETTERS_GROUP: Final = ".letters"
#: How many dead letters are sent at a time.
LETTERS: Final = 100
#: What a listener leaves for the client itself, of the time that it has.
MARGIN_S: Final = 2.0
#: Why a run does not begin without some topics.
_NOT_THERE: Final = "the topic {} does not exist, or this user may not see it"
_NOTHING_TO_HANDLE: Final = f"letters: {_NOT_THERE}: correct the name"
_NO_LETTERS: Final = (
    f"on_reject is dead_letter, and {_NOT_THERE}: create it, or name another one in "
    "dead_letter.topic"
)
_NO_END: Final = (
    f"until_end is set, and {_NOT_THERE}, so it has no end: create it, or correct the "
    "name"
)
#: After these, the next poll may succeed.
_PASSES: Final = frozenset(
    {
        *(Action.RETRY, Action.REFRESH, Action.WAIT, Action.REJOIN, Action.IGNORE),
        Action.IN_DOUBT,  # of a read: nothing was written
    }
)


class Revocation:
    """A revocation that is under way.

    Args:
        places: The revoked partitions.
        over: An event, set once its records have ended or their time is over.
    """

    def __init__(self, places: Collection[TopicPartition], over: Any) -> None:
        self.places = frozenset(places)
        self.over = over


class BaseDriver:
    """The state of one run, and its pump.

    Args:
        shell: The client's.
        arguments: What ``process()`` was told.
        policy: The policy.
        hook: ``on_event``, or None.

    Raises:
        ClientConfigurationError: The clients cannot handle records exactly once.
    """

    _shell: ThreadShell | AwaitedShell
    _transactions: Transactions | AwaitedTransactions | None = None
    #: Makes events that threads or tasks wait for.
    _event: ClassVar[type[Any]]
    #: Dead letters to send; None: there will be no others.
    _letters: Any

    def __init__(
        self,
        shell: ThreadShell | AwaitedShell,
        arguments: Arguments,
        policy: RetryPolicy,
        hook: Callable[[Event], object] | None,
    ) -> None:
        producer = arguments.producer
        rounds = None if producer is None else Rounds(shell.check_once(producer))
        warn_of_unknown(policy.handler)
        self._arguments = arguments
        self._policy = policy
        self._hooks = () if hook is None else (hook,)
        self._shell = shell
        #: Held while the machine is called; any thread may ask for the progress.
        self._lock = threading.Condition(threading.Lock())
        self._offset = time.time() - time.monotonic()
        self.machine = ProcessingMachine(
            policy,
            order=arguments.order,
            workers=arguments.workers,
            batch=arguments.batch,
            offset_of=shell.offset_of,
            key_of=shell.key_of,
            random=random.random,
            client=shell.errors.client,
            rounds=rounds,
            idle_timeout=arguments.idle_timeout,
            until_end=arguments.until_end,
            now=time.monotonic(),
        )
        self._group = shell.group or ""
        self._observer = observer_of(hook)
        if self._observer is not None:
            self._observer.watch("process", self, self.machine.totals, self._group)
        #: The group's metadata after the last poll that returned records, or after a
        #: later one while the machine had none.
        self._metadata: Any = None
        #: Set when the pump has something to do.
        self._wakes = self._event()
        self._over = self._event()
        #: Commands for the thread or task that polls.
        self._for_pump: deque[Command] = deque()
        self._events: deque[Event] = deque()
        self._revocations: list[Revocation] = []
        #: Where to stop: the ends that the logs had when their partitions came first.
        self._ends: dict[TopicPartition, int] = {}
        self._end: End | None = None
        self._stops = False
        self._next_rest = self._read_at = 0.0

    # --- what the application sees ----------------------------------------------------

    def report(self) -> ProcessReport:
        """Return the counts so far."""
        with self._lock:
            return self.machine.report()

    def progress(self) -> Progress:
        """Return how the run stands; callable in any thread."""
        with self._lock:
            return self.machine.progress(time.monotonic())

    def gauges(self) -> dict[tuple[str, str], float]:
        """Return how the run stands, for telemetry."""
        now = self.progress()
        states = {each: getattr(now, each) for each in ("running", "waiting", "parked")}
        numbers = {**states, "oldest_age": now.oldest_age, "outages": now.is_waiting}
        return {("", name): number for name, number in numbers.items()}

    def seconds_of(self, moment: float) -> float:
        """Turn monotonic seconds into seconds since 1970."""
        return moment + self._offset

    def request_stop(self) -> None:
        """Let the run end; callable in any thread."""
        self._stops = True

    # --- parts of both drivers --------------------------------------------------------

    def _must_stop(self) -> bool:
        stop = self._arguments.stop
        return self._stops or STOPPING.is_set() or (stop is not None and stop.is_set())

    def _report_fact(
        self, fact: Callable[..., T], *args: Any, wakes: bool = False
    ) -> T:
        """Report a fact to the machine, with the time, and take its commands.

        Args:
            fact: The machine's method.
            args: Its arguments before the time.
            wakes: Whether workers may have more to do.
        """
        with self._lock:
            result = fact(*args, now=time.monotonic())
            self._after_fact()
            if wakes:
                self._wake_workers()
        return result

    def _wake_workers(self) -> None:
        """Let all idle workers look for work."""
        raise NotImplementedError

    def _after_fact(self) -> None:
        """Take the machine's commands to where they are executed; holds the lock."""
        for each in self.machine.take_commands():
            match each:
                case Tell(event):
                    self._events.append(event)
                case End():
                    self._end = each
                case GiveUp(places):
                    for revocation in self._revocations:
                        if revocation.places.issuperset(places):
                            revocation.over.set()
                case SendLetter():
                    self._letters.put_nowait(each)
                case _:
                    self._for_pump.append(each)
        if self._for_pump or self._events or self._end is not None:
            self._wakes.set()

    def _tell(self) -> None:
        """Call the hook, without a lock."""
        while self._events:
            emit(self._hooks, self._events.popleft())

    # --- the pump ---------------------------------------------------------------------

    def _step(self) -> Steps:
        """Poll once, and execute what the machine says."""
        machine = self.machine
        if self._must_stop():
            self._report_fact(machine.stop)
        self._report_fact(machine.tick)
        self._wakes.clear()  # before the commands are looked at, so that none is missed
        self._execute()
        self._tell()
        if self._end is not None:
            return
        if machine.is_open:
            yield from self._read(MOST, SLICE_S)
            return
        yield partial(self._wait, KEEP_ALIVE_S)
        if time.monotonic() - self._read_at >= KEEP_ALIVE_S:
            yield from self._read(1, 0.0)

    def _wait(self, seconds: float) -> Any:
        """Wait until the pump has something to do."""
        raise NotImplementedError

    def _read(self, most: int, seconds: float) -> Steps:
        shell, machine, self._read_at = self._shell, self.machine, time.monotonic()
        try:
            if self._arguments.until_end:
                yield from self._look_up_ends()
            fetched = yield partial(shell.poll, most, seconds)
        except KafkaGuardError as error:
            if error.verdict.action in _PASSES:
                yield partial(self._wait, AFTER_ERROR_S)
            else:
                self._report_fact(machine.fail, error)
            return
        if fetched:
            self._note_metadata()
        self._report_fact(self._fetched, fetched, wakes=True)
        if fetched:
            # Workers begin now. A thread would go on until it has had the interpreter
            # for 5 ms, and the more records are in memory, the more is collected.
            yield 0.0
            return
        if self._read_at >= self._next_rest:
            self._next_rest = self._read_at + REST_S
            if machine.has_nothing:
                # A member that has read nothing yet commits its positions too. A later
                # generation than that of the positions would let an old member do so.
                self._note_metadata()
            slots = dict(machine.slots)  # a listener may get them again meanwhile
            positions = yield partial(shell.positions, list(slots))
            self._report_fact(
                machine.at_rest, {slots[place]: at for place, at in positions.items()}
            )

    def _note_metadata(self) -> None:
        """Keep the group's metadata for the transaction of what was read."""
        if self._transactions is not None:
            self._metadata = self._shell.group_metadata()

    def _look_up_ends(self) -> Steps:
        """Look up where to stop, once for each partition, also if it comes again."""
        new = [each for each in list(self.machine.slots) if each not in self._ends]
        if new:
            self._ends.update((yield partial(self._shell.ends, new)))
        with self._lock:
            self.machine.ends(self._ends)

    def _execute(self, *, in_listener: bool = False) -> None:
        """Execute the commands for the client; in a listener, all but pauses."""
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
                case BeginRound() | CommitRound() | AbortRound():
                    self._begin(self._execute_round(command))
                case _ if in_listener:
                    kept.append(command)
                case Pause(places):
                    shell.pause(places)
                case Resume(places):
                    shell.resume(places)
        self._for_pump.extendleft(reversed(kept))

    def _commit(self, number: int, offsets: Any) -> None:
        """Commit; the answer comes later."""
        raise NotImplementedError

    def _begin(self, steps: Steps) -> object:
        """Run steps, in a task if there are tasks."""
        raise NotImplementedError

    def _execute_round(self, command: BeginRound | CommitRound | AbortRound) -> Steps:
        transactions, machine = self._transactions, self.machine
        assert transactions is not None
        if isinstance(command, BeginRound):
            error = yield transactions.begin
            self._report_fact(machine.round_began, error, wakes=True)
            return
        offsets = (
            self._shell.client_offsets(command.offsets)
            if isinstance(command, CommitRound)
            else None
        )
        error, is_committed = yield partial(transactions.end, offsets, self._metadata)
        ended = partial(machine.round_ended, is_committed=is_committed)
        self._report_fact(ended, error, wakes=True)

    def _fail(self, error: BaseException) -> None:
        """End the run with an error."""
        self._report_fact(self.machine.fail, error)

    # --- rebalances -------------------------------------------------------------------

    def assigned(
        self, places: Iterable[TopicPartition], *, keeps_round: bool = False
    ) -> None:
        """Record new partitions.

        Args:
            places: The partitions.
            keeps_round: Whether the broker still takes offsets of what was read before.
        """
        self._report_fact(self.machine.assigned, list(places))
        if not keeps_round:
            self._report_fact(self.machine.rebalanced)

    def lost(self, places: Iterable[TopicPartition]) -> None:
        """Record that partitions are lost."""
        self._report_fact(self.machine.lost, list(places))

    def begin_revocation(self, places: Iterable[TopicPartition]) -> Revocation:
        """Record that partitions are revoked; what runs may end within a bound."""
        revocation = Revocation(list(places), self._event())
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
        self._report_fact(self.machine.tick)
        self._execute(in_listener=True)
        is_over: bool = revocation.over.is_set()
        if is_over and revocation in self._revocations:
            self._revocations.remove(revocation)
        return is_over

    # --- workers ----------------------------------------------------------------------

    def _make_handler(self) -> Callable[[Any], Any]:
        """Return the handler, with its limit, in the open transaction, with spans."""
        handler = self._arguments.handler
        if self._arguments.letters is not None:
            handler = self._letter_handler(handler)
        handler = self._limited(handler)
        if self._transactions is not None:
            handler = self._transactions.wrap(handler)
        return self._traced(handler) if self._traces else handler

    def _limited(self, handler: Callable[[Any], Any]) -> Callable[[Any], Any]:
        """Return a handler that ends after ``handler.timeout``, if it can."""
        return handler

    def _traced(self, handler: Callable[[Any], Any]) -> Callable[[Any], Any]:
        """Return a handler that makes a span for each call."""
        raise NotImplementedError

    @property
    def _decode(self) -> Callable[[Any], Any] | None:
        """Calls deserialisers before the handler; that of letters does it itself."""
        return None if self._arguments.letters is not None else self._shell.decode

    def _note_time(self, chunk: Chunk, now: float) -> None:
        """Record how long the handler took for a chunk, for telemetry."""
        if self._observer is not None:
            topic = chunk.slot.place.topic
            self._observer.handled(topic, self._group, now - chunk.started)

    @property
    def _traces(self) -> bool:
        return self._observer is not None and self._observer.traces

    def _span(self) -> AbstractContextManager[object]:
        """Return a span around the handler's call in this thread or task."""
        current = CURRENT.get()
        assert current is not None
        assert self._observer is not None
        chunk = current[0]
        is_batch = self._arguments.batch is not None
        records = chunk.records if is_batch else [chunk.records[chunk.at]]
        headers = [self._shell.raw(each).headers for each in records]
        return self._observer.processing(chunk.slot.place, self._group, headers)

    def _within(self) -> float:
        """Return how long the records of revoked partitions may run on."""
        within = self._shell.revocation_limit() - MARGIN_S
        return max(0.0, min(within, self._policy.handler.drain_timeout))

    def _make_letter(self, letter: SendLetter) -> tuple[str, Raw]:
        """Return a dead letter, and its topic."""
        shell = self._shell
        raw = shell.raw(letter.record)
        dialect = self._policy.dead_letter.headers
        origin = letter_facts(raw.headers) if self._arguments.letters else None
        if origin is None:
            place, offset = letter.slot.place, shell.offset_of(letter.record)
            origin = LetterFacts(None, *place, offset, raw.timestamp_ms, shell.group)
        made = letter_of_read(raw, origin, letter.error, dialect=dialect)
        if self._observer is not None:
            self._observer.letter(letter.topic, made.headers)
        return letter.topic, made

    def _fetched(self, fetched: Iterable[Fetched], now: float) -> None:
        """Report what a poll has returned."""
        self.machine.polled(now)
        for place, records in fetched:
            ours = (
                records
                if self._arguments.letters is None
                else list(filter(self._is_ours, records))
            )
            self.machine.fetched(place, ours, now)

    def _is_ours(self, record: Any) -> bool:
        """Return whether this group has set a dead letter aside."""
        shell = self._shell
        origin = letter_facts(shell.raw(record).headers)
        return origin is not None and f"{origin.group}{LETTERS_GROUP}" == shell.group

    def _as_first_read(self, record: Any) -> Any:
        """Return a dead letter as the record that its group has read, decoded.

        If its value was cut, the header that says so is kept.
        """
        shell = self._shell
        letter = shell.raw(record)
        facts, raw = as_first_read(letter)
        assert facts is not None
        cut = [header for header in letter.headers if header[0] == VALUE_BYTES]
        raw = raw._replace(headers=[*raw.headers, *cut])
        restored = shell.restore(record, facts, raw)
        return restored if shell.decode is None else shell.decode(restored)

    def _letter_handler(self, handler: Callable[[Any], T]) -> Callable[[Any], T]:
        """Return a handler of dead letters, which gets the records as first read."""
        return lambda record: handler(self._as_first_read(record))

    def _letter_topics(self) -> set[str]:
        """Return the dead-letter topics that this run may need."""
        has_letters = "dead_letter" in ways_of_rejecting(self._policy)
        topic_for = self._policy.dead_letter.topic_for
        return set(map(topic_for, self._shell.topics())) if has_letters else set()

    def _check_topics(self) -> Generator[Any, Any, None]:
        """Refuse to begin without the topics that this run needs.

        Raises:
            ClientConfigurationError: Some topics do not exist.
        """
        needs_ends, letters = self._arguments.until_end, self._arguments.letters
        checks: Iterable[tuple[Collection[str], str]] = (
            (self._letter_topics(), _NO_LETTERS),
            (self._shell.topics() if needs_ends else (), _NO_END),
        )
        if letters is not None:  # the only topic: read to its end, and written again
            checks = [((letters,), _NOTHING_TO_HANDLE)]
        for topics, why in checks:
            if missing := (yield from self._missing(topics)):
                text = f"process(): {why}".format(", ".join(sorted(missing)))
                raise self._shell.errors.make(ClientConfigurationError, text)

    def _missing(self, topics: Collection[str]) -> Generator[Any, Any, Collection[str]]:
        """Return the topics that do not exist; asked again if there is no answer."""
        look_up = partial(self._shell.missing_topics, topics)
        for _ in range(LOOK_UPS - 1):
            try:
                return (yield look_up)  # type: ignore[no-any-return]  # of the client
            except Exception as error:  # noqa: BLE001 - the last one is raised
                _log.warning(
                    "topics_not_found_out",
                    "process(): %s could not be looked up: %s",
                    topics,
                    error,
                    group=self._group or None,
                    error=error,
                )
                yield AFTER_ERROR_S
        return (yield look_up)  # type: ignore[no-any-return]  # the same

    def _send_letters(self) -> Steps:
        """Send dead letters in their order, until there are no others."""
        queue, is_over = self._letters, False
        while not is_over:
            letters = [(yield queue.get)]
            while not queue.empty() and len(letters) < LETTERS:
                letters.append(queue.get_nowait())
            is_over = letters[-1] is None
            if is_over:
                letters.pop()
            results = yield from self._sending(list(map(self._make_letter, letters)))
            for letter, result in zip(letters, results, strict=True):
                self._report_fact(self.machine.letter_sent, letter, result, wakes=True)

    def _sending(
        self, letters: list[tuple[str, Raw]]
    ) -> Generator[Any, Any, list[KafkaGuardError | None]]:
        """Send dead letters, once more those that can be changed to be accepted."""
        shell, transactions = self._shell, self._transactions
        results: list[KafkaGuardError | None] = []
        if not letters:
            return results
        if transactions is not None:  # its commit confirms them
            for letter in letters:
                try:
                    yield partial(shell.send_raw, transactions.send_now, *letter)
                except KafkaGuardError as error:
                    results.append(error)
                else:
                    results.append(None)
            return results
        seconds = min(self._policy.deadline, LETTER_S)
        try:
            results += yield partial(shell.send_letters, letters, seconds)
        except Exception as error:  # noqa: BLE001 - each letter has its outcome
            return [as_letter_error(error)] * len(letters)
        changed = changed_letters(letters, results)
        if changed:
            again = yield from self._sending(list(changed.values()))
            for index, result in zip(changed, again, strict=True):
                results[index] = result
        return results

    def _seeks(self) -> list[tuple[TopicPartition, int]]:
        """Return where the client reads on after the run: what is not done."""
        shell = self._shell
        return [
            (place, position)
            for place, slot in self.machine.slots.items()
            if slot.records and (position := slot.position(shell.offset_of)) is not None
        ]


def as_letter_error(error: Exception) -> KafkaGuardError:
    """Return why letters were not sent, as an error with a verdict."""
    if isinstance(error, KafkaGuardError):
        return error
    return ClientStateError(f"the dead letter was not sent: {error!r}")


def changed_letters(
    letters: Sequence[tuple[str, Raw]], results: Sequence[KafkaGuardError | None]
) -> dict[int, tuple[str, Raw]]:
    """Return refused letters as their topics may take them, by their index."""
    changed = {}
    for index, ((topic, raw), error) in enumerate(zip(letters, results, strict=True)):
        other = None if error is None else changed_letter(raw, error)
        if other is not None:
            changed[index] = topic, other
    return changed
