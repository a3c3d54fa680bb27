"""What the drivers of threads and of tasks share."""

from __future__ import annotations

import random
import time
from collections import deque
from typing import TYPE_CHECKING, Any, Final, TypeVar

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
from kafkaguard._processing.work import End, GiveUp, SendLetter, Tell
from kafkaguard._retries.events import emit
from kafkaguard_adapters.processing.stopping import STOPPING
from kafkaguard_policies.model.policy import ways_of_rejecting

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Sequence
    from contextlib import AbstractContextManager

    from kafkaguard._cluster.reports import TopicPartition
    from kafkaguard._delivery.facts import Raw
    from kafkaguard._processing.report import ProcessReport, Progress
    from kafkaguard._processing.work import Chunk, Command
    from kafkaguard._retries.events import Event
    from kafkaguard_adapters.processing.arguments import Arguments
    from kafkaguard_adapters.processing.shell import Fetched, Shell
    from kafkaguard_policies.retry_policy import RetryPolicy

T = TypeVar("T")

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
#: What a listener leaves for the client itself, of the time that it has.
MARGIN_S: Final = 2.0
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
    """The state of one run.

    Args:
        shell: The client's.
        arguments: What ``process()`` was told.
        policy: The policy.
        hook: ``on_event``, or None.

    Raises:
        ClientConfigurationError: The clients cannot handle records exactly once.
    """

    def __init__(
        self,
        shell: Shell,
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
        self._base_shell = shell
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
        #: Commands for the thread or task that polls.
        self._for_pump: deque[Command] = deque()
        self._events: deque[Event] = deque()
        self._revocations: list[Revocation] = []
        self._known_ends: set[TopicPartition] = set()
        self._end: End | None = None
        self._stops = False
        self._next_rest = self._read_at = 0.0

    # --- what the application sees ----------------------------------------------------

    def report(self) -> ProcessReport:
        """Return the counts so far."""
        return self.machine.report()

    def progress(self) -> Progress:
        """Return how the run stands."""
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

    def _sort(self, commands: Iterable[Command]) -> list[SendLetter]:
        """Queue commands where they are executed; return the letters."""
        letters: list[SendLetter] = []
        for each in commands:
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
                    letters.append(each)
                case _:
                    self._for_pump.append(each)
        return letters

    def _tell(self) -> None:
        """Call the hook, without a lock."""
        while self._events:
            emit(self._hooks, self._events.popleft())

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
        headers = [self._base_shell.raw(each).headers for each in records]
        return self._observer.processing(chunk.slot.place, self._group, headers)

    def _within(self) -> float:
        """Return how long the records of revoked partitions may run on."""
        limit = self._base_shell.revocation_limit() - MARGIN_S
        return max(0.0, min(limit, self._policy.handler.drain_timeout))

    def _make_letter(self, letter: SendLetter) -> tuple[str, Raw]:
        """Return a dead letter, and its topic."""
        shell = self._base_shell
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

    def _fetched(self, fetched: Iterable[Fetched], now: float) -> bool:
        """Report what a poll has returned; return whether it had records."""
        has_records = False
        for place, records in fetched:
            has_records = True
            is_of_letters = self._arguments.letters is not None
            ours = list(filter(self._is_ours, records)) if is_of_letters else records
            self.machine.fetched(place, ours, now)
        return has_records

    def _is_ours(self, record: Any) -> bool:
        """Return whether this group has set a dead letter aside."""
        shell = self._base_shell
        origin = letter_facts(shell.raw(record).headers)
        return origin is not None and f"{origin.group}{LETTERS_GROUP}" == shell.group

    def _as_first_read(self, record: Any) -> Any:
        """Return a dead letter as the record that its group has read, decoded.

        If its value was cut, the header that says so is kept.
        """
        shell = self._base_shell
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
        if "dead_letter" not in ways_of_rejecting(self._policy):
            return set()
        return {
            self._policy.dead_letter.topic_for(topic)
            for topic in self._base_shell.topics()
        }

    def _refuse_missing(self, missing: Collection[str]) -> None:
        """Refuse to begin without a topic for dead letters.

        Raises:
            ClientConfigurationError: Some topics do not exist.
        """
        if missing:
            names = ", ".join(sorted(missing))
            raise self._base_shell.errors.make(
                ClientConfigurationError,
                f"process(): on_reject is dead_letter, and the topic {names} does not "
                "exist: create it, or name another one in dead_letter.topic",
            )

    def _topics_with_ends(self) -> Collection[str]:
        """Return the topics to whose ends this run reads."""
        return self._base_shell.topics() if self._arguments.until_end else ()

    def _refuse_absent(self, missing: Collection[str]) -> None:
        """Refuse to read to the end of a topic that has none.

        Raises:
            ClientConfigurationError: Some topics do not exist.
        """
        if missing:
            names = ", ".join(sorted(missing))
            raise self._base_shell.errors.make(
                ClientConfigurationError,
                f"process(until_end=True): the topic {names} does not exist, so it has "
                "no end: create it, or correct the name",
            )

    def _poll_failed(self, error: KafkaGuardError, now: float) -> bool:
        """Record that a poll has failed; return whether the next one may succeed."""
        if error.verdict.action in _PASSES:
            return True
        self.machine.fail(error, now)
        return False

    def _resting(self, now: float) -> list[TopicPartition]:
        """Return the partitions whose positions count now, after an empty poll."""
        machine = self.machine
        if now < self._next_rest:
            return []
        self._next_rest = now + REST_S
        return list(machine.slots)

    def _seeks(self) -> list[tuple[TopicPartition, int]]:
        """Return where the client reads on after the run: what is not done."""
        shell = self._base_shell
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
