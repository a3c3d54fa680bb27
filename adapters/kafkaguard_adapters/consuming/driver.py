"""The driver of the consumer machine: executes commands, returns answers.

The driver runs on the thread (or in the event loop) that uses the client. Requests to
the cluster run elsewhere, and some facts come from a thread of the client. These
answers and facts wait in a queue until the user's thread takes them. So the machine
needs no lock, and only one thread calls the client.
"""

from __future__ import annotations

import time
from collections import Counter, deque
from functools import partial
from typing import TYPE_CHECKING, Any, Protocol

from kafkaguard._common.logs import Log
from kafkaguard._common.observing import observer_of
from kafkaguard._consuming import commands as c
from kafkaguard._consuming.events import OffsetResetEvent
from kafkaguard._consuming.machine import LIST_OFFSETS, ReadRefusal
from kafkaguard._errors import ClientStateError, ClientTimeoutError, KafkaGuardError
from kafkaguard._retries.events import emit
from kafkaguard_adapters.consuming import questions

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Coroutine, Iterable, Mapping

    from kafkaguard._cluster.reports import TopicPartition
    from kafkaguard._consuming.commands import Command
    from kafkaguard._consuming.machine import ConsumerMachine
    from kafkaguard._retries.events import Event
    from kafkaguard_adapters.asking.cluster_view import ClusterView
    from kafkaguard_adapters.consuming.shell import ConsumerShell

    #: Starts a coroutine.
    Launch = Callable[[Coroutine[Any, Any, Any]], "Running"]
    #: Gives an answer and the time to the machine; returns its commands.
    Turn = Callable[[Any, float], list[Command]]

_log = Log("consumer")


class Running(Protocol):
    """A running request: a future of asyncio, or of a thread."""

    def add_done_callback(self, call: Callable[[Any], object], /) -> object:
        """Call a function when the request has ended."""

    def cancel(self) -> bool:
        """Cancel the request."""

    def cancelled(self) -> bool:
        """Return whether the request was cancelled."""

    def exception(self) -> BaseException | None:
        """Return the exception of the request, or None."""

    def result(self) -> Any:
        """Return the answer."""


class Driver:
    """Drives the machine of one consumer.

    Args:
        machine: The state machine.
        shell: The client.
        view: The cluster view.
        launch: Starts a request without blocking the client.
        hook: The hook for events, or None.
        origin: Where the consumer begins without a position; only for a client that
            does not show the answers to its reads.
        clock: Returns monotonic seconds.
    """

    def __init__(
        self,
        machine: ConsumerMachine,
        shell: ConsumerShell,
        view: ClusterView,
        launch: Launch,
        hook: Callable[[Event], object] | None = None,
        origin: questions.Origin | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.machine = machine
        self._shell = shell
        self._view = view
        self._launch = launch
        self._hooks = () if hook is None else (hook,)
        if (observer := observer_of(hook)) is not None:
            observer.watch("consumer", self, {})
        self._origin = origin or questions.Origin()
        self._clock = clock
        self._answers: deque[tuple[Turn, Any]] = deque()
        self._events: deque[Event] = deque()
        self._assigned: frozenset[TopicPartition] = frozenset()
        self._running: set[Running] = set()
        self._probes_stopped = self._is_explaining = self._was_answered = False

    # --- facts from the shell ---------------------------------------------------------

    def refused(self, place: TopicPartition, refusal: ReadRefusal) -> None:
        """Report that a read was refused."""
        self._do(self.machine.refused(place, refusal, self._clock()))

    def answered(self, place: TopicPartition, position: int | None) -> None:
        """Report that a read of a partition that waits has succeeded."""
        self._do(self.machine.answered(place, position, self._clock()))

    def error_returned(
        self, place: TopicPartition | None, error: KafkaGuardError
    ) -> None:
        """Report that the client returned an error instead of a record."""
        self._do(self.machine.error_returned(place, error))

    def starts_unknown(self, error: KafkaGuardError) -> None:
        """Report that the client could not look up committed offsets, and gave up."""
        readers = self._shell.readers()
        self._do(self.machine.starts_unknown(readers, error, self._clock()))

    def unconnected(self) -> None:
        """Report that the client reaches no broker; a wrong setting becomes an error.

        Only as long as no broker has answered: later the settings were right once.
        """
        if self._probes_stopped or self._was_answered or self._is_explaining:
            return
        self._is_explaining = True
        self._begin(self._view.find_wrong_setting(), self._wrong_setting_turn)

    def fenced(self, error: KafkaGuardError) -> None:
        """Report that another member has taken this one's place in the group."""
        self._do(self.machine.fenced(error))

    def moved(self, place: TopicPartition, position: int) -> None:
        """Report that the user has set the position of a partition."""
        self._do(self.machine.moved(place, position, self._clock()))

    def denied(self, topics: Collection[str]) -> None:
        """Report that the user may not look up these topics."""
        self._do(self.machine.denied(topics))

    def tick(self) -> None:
        """Process answers and due steps, and call the hook; cheap if nothing waits."""
        machine = self.machine
        if self._answers:
            self._take_answers()
        if self._view.read_errors:
            self._follow_assignment()
            if self._clock() >= machine.next_due:
                self._do(machine.tick(self._clock()))
        if self._events:
            self.tell()

    def stop_probing(self) -> None:
        """Stop making probes, because the cluster cannot be reached."""
        self._probes_stopped = True

    def check_positions(self) -> None:
        """Read the positions, for a client that does not show its answers."""
        readers, now = self._shell.readers(), self._clock()
        ends = (each.end for each in readers.values())
        self._was_answered = self._was_answered or any(end is not None for end in ends)
        self._do(self.machine.begun(readers, now))
        if not self._probes_stopped:
            self._do(self.machine.check_progress(readers, now))

    def reassigned(self) -> None:
        """Report the assignment, after it may have changed; holds may end."""
        self._assigned = frozenset(self._shell.assignment())
        self._do(self.machine.assigned(self._assigned))

    def seconds_left(self) -> float:
        """Return the seconds until the next step is due."""
        if self._answers or self._events:
            return 0.0
        return max(0.0, self.machine.next_due - self._clock())

    def _follow_assignment(self) -> None:
        if frozenset(self._shell.assignment()) != self._assigned:
            self.reassigned()

    # --- commands ---------------------------------------------------------------------

    def _do(self, commands: Iterable[Command]) -> None:
        has_any = False
        for each in commands:
            has_any = True
            self._execute(each)
        if has_any:
            self._view.read_errors.clear()
            self._view.read_errors.update(self.machine.waiting())
            if not self._view.read_errors:
                self._assigned = frozenset()  # it is followed only while some wait

    def _execute(self, command: Command) -> None:
        match command:
            case c.Hold(place):
                self._shell.hold(place)
            case c.Free(place):
                self._shell.free(place)
            case c.LetReset(place):
                self._shell.let_reset(place)
            case c.Restart(places):
                self._shell.restart(places)
            case c.Raise(place, error):
                self._shell.fail(place, error)
            case c.End(error):
                self._shell.end(error)
            case c.Tell(event):
                self._events.append(event)
            case c.AskFacts() | c.AskRange() | c.Probe():
                self._ask(command)

    def _ask(self, question: c.AskFacts | c.AskRange | c.Probe) -> None:
        view, machine = self._view, self.machine
        turn: Turn
        match question:
            case c.AskFacts(topic):
                asking: Coroutine[Any, Any, object] = questions.ask_facts(view, topic)
                turn = partial(_facts_turn, machine, topic)
            case c.AskRange(place):
                asking = questions.ask_range(view, place)
                turn = partial(_range_turn, machine, place)
            case c.Probe(place, position):
                asking = questions.ask_probe(view, place, position, self._origin)
                turn = partial(self._probe_turn, place)
        self._begin(asking, turn)

    def _begin(self, asking: Coroutine[Any, Any, object], turn: Turn) -> None:
        running = self._launch(asking)
        self._running.add(running)
        running.add_done_callback(partial(self._arrived, turn))

    def _arrived(self, turn: Turn, running: Running) -> None:
        """Queue an answer; this runs on the thread on which the request ran."""
        if running not in self._running:
            return  # close() has cancelled it
        self._running.discard(running)
        if running.cancelled():
            error: BaseException | None = ClientTimeoutError(
                "the look-up was cancelled", api=LIST_OFFSETS
            )
        else:
            error = running.exception()
        self._answers.append((turn, running.result() if error is None else error))
        self._shell.wake()

    def _take_answers(self) -> None:
        while self._answers:
            turn, answer = self._answers.popleft()
            self._do(turn(answer, self._clock()))

    def _probe_turn(
        self, place: TopicPartition, answer: Any, now: float
    ) -> list[Command]:
        if place not in self._shell.assignment():
            return []
        if not isinstance(answer, BaseException):
            return self.machine.probed(place, answer, now)
        if not isinstance(answer, KafkaGuardError) or not answer.verdict.retriable:
            self.stop_probing()
            _log.warning(
                "probes_stopped",
                "the guard cannot check partitions without progress, so it does not "
                "detect those that cannot be read: %s",
                answer,
                topic=place.topic,
                partition=place.partition,
                error=answer,
            )
        return self.machine.probed(place, ReadRefusal(None), now)

    def _wrong_setting_turn(self, answer: Any, _: float) -> list[Command]:
        self._is_explaining = False
        if not isinstance(answer, KafkaGuardError) or answer.verdict.retriable:
            return []
        return self.machine.error_returned(None, answer)

    def later(self, turn: Turn) -> None:
        """Queue a fact from a thread of the client for the user's thread."""
        self._answers.append((turn, None))

    def gauges(self) -> Mapping[tuple[str, str], float]:
        """Return how it stands, for telemetry."""
        return Counter((place.topic, "waiting") for place in self.machine.waiting())

    # --- events -----------------------------------------------------------------------

    def note(self, event: Event | None) -> None:
        """Queue an event if there is one; this may run on a thread of the client."""
        if event is not None:
            self._events.append(event)

    def tell(self) -> None:
        """Call the hook with the queued events; its exceptions are logged.

        A position that is lost is also a WARNING: records may be missing or read twice.
        """
        while self._events:
            event = self._events.popleft()
            if isinstance(event, OffsetResetEvent) and event.outcome == "reset":
                _log.warning(
                    "offset_reset",
                    "%s",
                    event.sentence,
                    topic=event.topic,
                    partition=event.partition,
                    offset=event.position,
                    outcome=event.outcome,
                    lost=event.lost,
                    skipped=event.skipped,
                )
            emit(self._hooks, event)

    def close(self) -> None:
        """Cancel the running requests, and call the hook with the last events."""
        running, self._running = self._running, set()
        for each in running:
            each.cancel()
        self.tell()


def _facts_turn(
    machine: ConsumerMachine, topic: str, answer: Any, _: float
) -> list[Command]:
    facts = None if isinstance(answer, BaseException) else answer
    return machine.facts_found(topic, facts)


def _range_turn(
    machine: ConsumerMachine, place: TopicPartition, answer: Any, now: float
) -> list[Command]:
    if isinstance(answer, KafkaGuardError):
        return machine.range_unknown(place, answer, now)
    if isinstance(answer, BaseException):
        _log.error(
            "log_range_unknown",
            "the first and last offset of %s cannot be looked up",
            place,
            topic=place.topic,
            partition=place.partition,
            error=answer,
        )
        return machine.range_unknown(place, ClientStateError(str(answer)), now)
    earliest, latest = answer
    return machine.range_found(place, earliest, latest, now)
