"""The state machine of one consumer: which partitions wait, and until when.

The machine has no I/O, clock or client. The driver reports facts with the time (a read
was refused, a partition makes no progress, a look-up was answered), and executes the
commands.

A partition that cannot be read has an episode: its read is refused, it is held for the
policy's backoff, freed to try again, refused again, until a read succeeds. There is one
event at the start of an episode and one at its end. Other partitions are not affected.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Literal, Protocol

from kafkaguard._cluster.reports import TopicPartition
from kafkaguard._consuming.commands import (
    AskFacts,
    AskRange,
    Command,
    End,
    Free,
    Hold,
    LetReset,
    Probe,
    Raise,
    Restart,
    Tell,
)
from kafkaguard._consuming.events import (
    OffsetResetEvent,
    PartitionResumesEvent,
    PartitionWaitsEvent,
    ReadFailedEvent,
)
from kafkaguard._consuming.standing import StandingReaders
from kafkaguard._errors import RemoteStorageNotReadyError
from kafkaguard._errors.base import RETRIABLE_ACTIONS, Action
from kafkaguard._retries.backoff import draw_wait
from kafkaguard._retries.machine import CallContext
from kafkaguard._verdicts.classification import classify

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Mapping

    from kafkaguard._cluster.reports import Make
    from kafkaguard._consuming.standing import Reader
    from kafkaguard._errors import KafkaGuardError
    from kafkaguard._errors.base import Verdict
    from kafkaguard._retries.machine import Ruling
    from kafkaguard._verdicts.context import TopicFacts

#: The shortest wait of a partition in seconds, whatever the policy's backoff.
FLOOR_S: Final = 0.1
Outcome = Literal["kept", "reset", "raised"]
#: Where a client goes on if its position is out of range; "none": it raises.
Reset = Literal["earliest", "latest", "none"]

FETCH: Final = "Fetch"
LIST_OFFSETS: Final = "ListOffsets"
OFFSET_FETCH: Final = "OffsetFetch"
METADATA: Final = "Metadata"
#: The partition in an event or a command about a whole topic.
NO_PARTITION: Final = -1
OUT_OF_RANGE: Final = 1
FENCED_INSTANCE: Final = 82
_DENIED: Final = 29
#: With one of these actions, poll also raises an error that a message contains.
_ENDS: Final = frozenset({Action.CONFIGURE, Action.RECREATE, Action.FENCED})
#: On a topic that is not tiered, waiting may not help against these codes. So the read
#: is tried as often as the policy says; then poll raises the error.
_TRIED_A_FEW_TIMES: Final = frozenset({-1, 2})
#: The meaning of these codes depends on whether the topic is tiered (KIP-1007).
_DEPENDS_ON_FACTS: Final = frozenset({-1, 9})


class Policy(Protocol):
    """What the machine needs from a policy."""

    @property
    def name(self) -> str:
        """The name, for logs and events."""

    @property
    def policy_id(self) -> str:
        """The hash of the policy's content."""

    @property
    def on_offset_reset(self) -> Literal["as_client", "raise"]:
        """What to do if a position is out of range."""

    def ruling(
        self, verdict: Verdict, context: CallContext, error: object = None
    ) -> Ruling:
        """Return what the policy says about a failure."""


@dataclass(frozen=True, slots=True)
class ReadRefusal:
    """The refusal of a read.

    Attributes:
        code: The error code.
        api: The request: ``"Fetch"`` or ``"ListOffsets"``.
        position: The requested offset; None if unknown.
        error: The error, if the client made one without a broker's code (its
            connection broke).
    """

    code: int | None
    api: str = FETCH
    position: int | None = None
    error: KafkaGuardError | None = None


@dataclass(slots=True)
class _Episode:
    """The state of a partition that cannot be read."""

    since: float
    refusal: ReadRefusal
    error: KafkaGuardError
    tries: int = 0
    wait: float = 0.0
    due: float = math.inf
    is_held: bool = False
    is_told: bool = False
    #: The client does not report the results of its reads, so only a probe ends this.
    is_probed: bool = False
    #: The client does not know where to begin, and does not look it up again by itself.
    lacks_start: bool = False

    @property
    def is_restarted(self) -> bool:
        """Whether the client looks up again where to begin."""
        return self.lacks_start and self.due == math.inf


class ConsumerMachine:
    """Decides about the partitions of one consumer.

    Args:
        policy: How long to wait, and what to do about resets.
        make: Makes errors of the client's classes too.
        random: Returns random numbers from 0 to below 1.
        client: The client library.
        shows_answers: Whether the client reports the result of each read. If not, only
            probes show it, and a hold is the client's ``pause``, which the user may
            also call.
        reset: The client's own setting for positions out of range; None: not known.
    """

    def __init__(
        self,
        policy: Policy,
        make: Make,
        random: Callable[[], float],
        *,
        client: str,
        shows_answers: bool = True,
        reset: Reset | None = None,
    ) -> None:
        self.policy = policy
        self._make = make
        self._random = random
        self._client = client
        self._shows_answers = shows_answers
        self._reset = reset
        self._episodes: dict[TopicPartition, _Episode] = {}
        self._facts: dict[str, TopicFacts | None] = {}
        self._asked: set[str] = set()
        self._user_paused: set[TopicPartition] = set()
        self._denied: frozenset[str] = frozenset()
        self._standing = StandingReaders()
        self._is_fenced = False
        #: When ``tick`` must be called next.
        self.next_due: float = math.inf

    # --- what it knows ----------------------------------------------------------------

    def waiting(self) -> dict[TopicPartition, KafkaGuardError]:
        """Return the partitions that cannot be read, and why."""
        return {place: each.error for place, each in self._episodes.items()}

    def is_waiting(self, place: TopicPartition) -> bool:
        """Return whether a partition waits because it cannot be read."""
        return place in self._episodes

    # --- reads ------------------------------------------------------------------------

    def refused(
        self, place: TopicPartition, refusal: ReadRefusal, now: float
    ) -> list[Command]:
        """Record that a read was refused."""
        if refusal.code == OUT_OF_RANGE and refusal.api == FETCH:
            return self._out_of_range(place, refusal, now)
        episode = self._open(place, refusal, now)
        return self._wait(place, episode, now)

    def answered(
        self, place: TopicPartition, position: int | None, now: float
    ) -> list[Command]:
        """Record that a read succeeded; cheap if the partition does not wait."""
        episode = self._episodes.get(place)
        if episode is None or episode.is_probed:
            return []
        return self._end(place, episode, position, now)

    def tick(self, now: float) -> list[Command]:
        """Do what is due."""
        commands: list[Command] = []
        startless = set()
        for place, episode in self._episodes.items():
            if episode.due > now:
                continue
            episode.due = math.inf
            if episode.lacks_start:
                startless.add(place)
                commands += self._free(place, episode) if episode.is_held else []
            elif episode.is_probed:
                commands.append(Probe(place, episode.refusal.position))
            elif episode.is_held:
                commands += self._free(place, episode)
        if startless:
            commands.append(Restart(frozenset(startless)))
        self._plan()
        return commands

    def _open(
        self, place: TopicPartition, refusal: ReadRefusal, now: float
    ) -> _Episode:
        """Begin an episode, or continue it."""
        error = self._judge(place, refusal)
        episode = self._episodes.get(place)
        if episode is None:
            episode = self._episodes[place] = _Episode(
                now, refusal, error, is_probed=not self._shows_answers
            )
        episode.refusal = refusal
        episode.error = error
        episode.lacks_start = False
        episode.tries += 1
        return episode

    def _judge(self, place: TopicPartition, refusal: ReadRefusal) -> KafkaGuardError:
        if refusal.code is None:
            assert refusal.error is not None
            return refusal.error
        facts = self._facts.get(place.topic)
        verdict = classify(refusal.code, api=refusal.api, facts=facts)
        return self._make(
            verdict.error_class,
            code=refusal.code,
            api=refusal.api,
            topic=place.topic,
            partition=place.partition,
            verdict=verdict,
        )

    def _wait(
        self, place: TopicPartition, episode: _Episode, now: float
    ) -> list[Command]:
        """Hold a partition for the policy's wait, and tell why."""
        ruling = self._ruling(episode.error)
        self._hold(episode, ruling, now)
        hold = Hold(place)
        code = episode.refusal.code
        if code in _DEPENDS_ON_FACTS and place.topic not in self._facts:
            if place.topic in self._asked:
                return [hold]
            self._asked.add(place.topic)
            return [hold, AskFacts(place.topic)]
        return [hold, *self._tell_waits(place, episode, ruling)]

    def _tell_waits(
        self, place: TopicPartition, episode: _Episode, ruling: Ruling
    ) -> list[Command]:
        """Tell once that a partition waits; raise errors that do not pass."""
        error = episode.error
        if ruling.action not in RETRIABLE_ACTIONS or (
            error.code in _TRIED_A_FEW_TIMES
            and not isinstance(error, RemoteStorageNotReadyError)
            and episode.tries >= ruling.max_attempts
        ):
            episode.is_told = True
            return [
                Tell(
                    ReadFailedEvent(
                        **self._about(place, episode.refusal.position),
                        error=error,
                        action=ruling.action,
                        raised=True,
                    )
                ),
                Raise(place, error),
            ]
        if episode.is_told:
            return []
        episode.is_told = True
        return [
            Tell(
                PartitionWaitsEvent(
                    **self._about(place, episode.refusal.position),
                    error=error,
                    action=ruling.action,
                    wait=episode.wait,
                )
            )
        ]

    def _ruling(self, error: KafkaGuardError) -> Ruling:
        return self.policy.ruling(error.verdict, self._context(error), error)

    def _draw(self, episode: _Episode, ruling: Ruling) -> float:
        drawn = draw_wait(ruling.backoff, episode.tries, episode.wait, self._random)
        return max(FLOOR_S, drawn)

    def _hold(self, episode: _Episode, ruling: Ruling, now: float) -> None:
        episode.wait = self._draw(episode, ruling)
        episode.is_held = True
        episode.due = now + episode.wait
        self.next_due = min(self.next_due, episode.due)

    def _free(self, place: TopicPartition, episode: _Episode) -> list[Command]:
        episode.is_held = False
        if not self._shows_answers and place in self._user_paused:
            return []
        return [Free(place)]

    def _end(
        self,
        place: TopicPartition,
        episode: _Episode,
        position: int | None,
        now: float,
    ) -> list[Command]:
        """End the episode of a partition that can be read again."""
        del self._episodes[place]
        self._forget_facts(place.topic)
        commands = self._free(place, episode) if episode.is_held else []
        if episode.is_told:
            event = PartitionResumesEvent(
                **self._about(place, position),
                waited=now - episode.since,
                tries=episode.tries,
            )
            commands.append(Tell(event))
        self._plan()
        return commands

    def _plan(self) -> None:
        self.next_due = min(
            (each.due for each in self._episodes.values()), default=math.inf
        )

    def denied(self, topics: Collection[str]) -> list[Command]:
        """Record which of the consumer's topics it may not Describe.

        The client never reads such a topic, so no read is refused. Instead each next
        poll raises the error. The event is sent once.
        """
        commands: list[Command] = []
        for topic in sorted(topics):
            error = self._make(_DENIED, api=METADATA, topic=topic)
            if topic not in self._denied:
                event = ReadFailedEvent(
                    **self._about(TopicPartition(topic, NO_PARTITION), None),
                    error=error,
                    action=self._ruling(error).action,
                    raised=True,
                )
                commands.append(Tell(event))
            commands.append(Raise(TopicPartition(topic, NO_PARTITION), error))
        self._denied = frozenset(topics)
        return commands

    def error_returned(
        self, place: TopicPartition | None, error: KafkaGuardError
    ) -> list[Command]:
        """Record an error that the client returned in a message.

        The error stays in the message. In addition the next poll raises it if the
        client cannot work until a human corrects something or a new client is built.
        """
        if error.code == FENCED_INSTANCE:
            return self.fenced(error)
        ruling = self._ruling(error)
        if ruling.action is Action.IGNORE:
            return []
        is_end = ruling.action in _ENDS
        where = place or TopicPartition(error.topic or "", NO_PARTITION)
        event = ReadFailedEvent(
            **self._about(where, None),
            error=error,
            action=ruling.action,
            raised=is_end,
        )
        return [Tell(event), *([Raise(where, error)] if is_end else [])]

    def fenced(self, error: KafkaGuardError) -> list[Command]:
        """Record that another member has taken this one's place in the group.

        It took the place by the same ``group.instance.id``. If this consumer joined
        again, it would take the place back, and so on, without an end.
        """
        if self._is_fenced:
            return []
        self._is_fenced = True
        event = ReadFailedEvent(
            **self._about(TopicPartition("", NO_PARTITION), None),
            error=error,
            action=self._ruling(error).action,
            raised=True,
        )
        return [Tell(event), End(error)]

    # --- committed offsets that cannot be looked up -----------------------------------

    def starts_unknown(
        self,
        readers: Mapping[TopicPartition, Reader],
        error: KafkaGuardError,
        now: float,
    ) -> list[Command]:
        """Record that the client could not look up committed offsets, and gave up.

        After the policy's wait, the client is told to look them up again.
        """
        ruling = self._ruling(error)
        is_waited_for = ruling.action in RETRIABLE_ACTIONS
        commands = [] if is_waited_for else self.error_returned(None, error)
        refusal = ReadRefusal(None, OFFSET_FETCH, error=error)
        wait = 0.0
        for place, reader in readers.items():
            if not reader.needs_commit:
                continue
            episode = self._open(place, refusal, now)
            wait = wait or self._draw(episode, ruling)  # one look-up for all of them
            episode.lacks_start = True
            episode.wait, episode.due = wait, now + wait
            if is_waited_for:
                commands += self._tell_waits(place, episode, ruling)
        self._plan()
        return commands

    def begun(
        self, readers: Mapping[TopicPartition, Reader], now: float
    ) -> list[Command]:
        """Record where the client reads; waits for a committed offset may be over."""
        return [
            command
            for place, episode in list(self._episodes.items())
            if episode.is_restarted and place in readers and readers[place].has_begun
            for command in self._end(place, episode, readers[place].position, now)
        ]

    # --- settings of topics -----------------------------------------------------------

    def facts_found(self, topic: str, facts: TopicFacts | None) -> list[Command]:
        """Record a topic's settings; None: they are not available.

        Refusals since the look-up began are judged again and reported.
        """
        self._asked.discard(topic)
        self._facts[topic] = facts
        commands: list[Command] = []
        for place, episode in self._episodes.items():
            if place.topic == topic and episode.refusal.code in _DEPENDS_ON_FACTS:
                episode.error = self._judge(place, episode.refusal)
                ruling = self._ruling(episode.error)
                commands += self._tell_waits(place, episode, ruling)
        self._forget_facts(topic)
        return commands

    def _forget_facts(self, topic: str) -> None:
        """Forget a topic's settings, which may change before the next episode."""
        if not any(place.topic == topic for place in self._episodes):
            self._facts.pop(topic, None)

    # --- offsets out of range ---------------------------------------------------------

    def _out_of_range(
        self, place: TopicPartition, refusal: ReadRefusal, now: float
    ) -> list[Command]:
        """Hold the partition until its position is compared with the log."""
        episode = self._open(place, refusal, now)
        episode.is_held = True
        episode.due = math.inf
        self._plan()
        return [Hold(place), AskRange(place)]

    def range_found(
        self, place: TopicPartition, earliest: int, latest: int, now: float
    ) -> list[Command]:
        """Record where a partition's log begins and ends."""
        episode = self._episodes.get(place)
        if episode is None or episode.refusal.code != OUT_OF_RANGE:
            return []
        asked = episode.refusal.position
        is_kept = asked is not None and earliest <= asked <= latest
        is_raised = self.policy.on_offset_reset == "raise" and not is_kept
        is_reset = not is_kept and not is_raised
        outcome: Outcome = "kept" if is_kept else "raised"
        if is_reset and self._reset != "none":
            outcome = "reset"
        event = OffsetResetEvent(
            **self._about(place, asked),
            earliest=earliest,
            latest=latest,
            lost=None if asked is None else max(0, earliest - asked),
            skipped=self._skipped(outcome, asked, earliest, latest),
            outcome=outcome,
        )
        if is_reset:
            return [Tell(event), *self._let_reset(place, episode, now)]
        is_new = not episode.is_told
        episode.is_told = True
        self._hold(episode, self._ruling(episode.error), now)
        commands: list[Command] = [Tell(event)] if is_new else []
        if is_raised:
            error = self._lost(place, episode, earliest, latest)
            commands.append(Raise(place, error))
        return commands

    def _skipped(
        self, outcome: Outcome, asked: int | None, earliest: int, latest: int
    ) -> int | None:
        """Return how many existing offsets a reset passes over; None: not known."""
        if outcome != "reset" or self._reset == "earliest":
            return 0
        if self._reset is None or asked is None:
            return None
        return latest - earliest  # the position is before or behind all of them

    def range_unknown(
        self, place: TopicPartition, error: KafkaGuardError, now: float
    ) -> list[Command]:
        """Record that the look-up of the log's first offset and end failed."""
        episode = self._episodes.get(place)
        if episode is None or episode.refusal.code != OUT_OF_RANGE:
            return []
        ruling = self._ruling(error)
        if ruling.action not in RETRIABLE_ACTIONS:
            return self._let_reset(place, episode, now)
        episode.error = error
        self._hold(episode, ruling, now)
        return self._tell_waits(place, episode, ruling)

    def _let_reset(
        self, place: TopicPartition, episode: _Episode, now: float
    ) -> list[Command]:
        """Let the client reset the position; the next successful read ends the episode.

        If the client does not report its reads, the episode ends at once.
        """
        if episode.is_probed:
            return [LetReset(place), *self._end(place, episode, None, now)]
        episode.due = math.inf
        self._plan()
        return [LetReset(place), *self._free(place, episode)]

    def moved(self, place: TopicPartition, position: int, now: float) -> list[Command]:
        """Record that the user has set a position in a client that reports no reads.

        An episode because the old position was out of range ends.
        """
        episode = self._episodes.get(place)
        if episode is None or episode.refusal.code != OUT_OF_RANGE:
            return []
        return self._end(place, episode, position, now)

    def _lost(
        self, place: TopicPartition, episode: _Episode, earliest: int, latest: int
    ) -> KafkaGuardError:
        error = episode.error
        return self._make(
            error.verdict.error_class,
            f"offset {episode.refusal.position} was requested, the log has {earliest} "
            f"to {latest}, and the policy says on_offset_reset: raise. Seek to the "
            "offset where you want to go on",
            code=error.code,
            api=error.api,
            topic=place.topic,
            partition=place.partition,
            verdict=error.verdict,
        )

    # --- readers that stand still -----------------------------------------------------

    def check_progress(
        self, readers: Mapping[TopicPartition, Reader], now: float
    ) -> list[Command]:
        """Record the positions of a client that hides the results of its reads.

        Returns:
            Probes for partitions without progress that are not at the end of the log.
        """
        free = {
            place: reader
            for place, reader in readers.items()
            if (place not in self._episodes or self._episodes[place].is_restarted)
            and place not in self._user_paused
        }
        standing = self._standing.note(free, now)
        return [Probe(place, free[place].position) for place in standing]

    def probed(
        self, place: TopicPartition, refusal: ReadRefusal | None, now: float
    ) -> list[Command]:
        """Record the result of a probe; None: the position can be read.

        Errors that do not pass are also reported and raised, because the client may
        report them only once or never. A result after a rebalance is ignored.
        """
        is_wanted = self._standing.looked(place, now)
        episode = self._episodes.get(place)
        if episode is None:
            # The client itself reports OFFSET_OUT_OF_RANGE, or resets the position.
            if refusal is None or refusal.code in (None, OUT_OF_RANGE) or not is_wanted:
                return []
        elif episode.lacks_start and (refusal is None or not episode.is_restarted):
            return []
        elif refusal is None:
            position = episode.refusal.position
            return self._end(place, episode, position, now) if episode.is_probed else []
        elif refusal.code is None:
            if episode.is_probed:
                self._hold(episode, self._ruling(episode.error), now)
            return []
        elif refusal.code == OUT_OF_RANGE:
            return self._out_of_range(place, refusal, now)
        episode = self._open(place, refusal, now)
        episode.is_probed = True
        return self._wait(place, episode, now)

    # --- assignment and the user's own pauses -----------------------------------------

    def assigned(self, places: Collection[TopicPartition]) -> list[Command]:
        """Record the whole assignment, and forget all other partitions.

        Not the user's pauses of them: if a hold is the client's pause, the client keeps
        pauses of a partition that goes away and comes back.

        Returns:
            Holds for the partitions that still wait, because a rebalance may have ended
            the client's pauses.
        """
        gone = [place for place in self._episodes if place not in places]
        commands: list[Command] = []
        for place in gone:
            commands += self._free(place, self._episodes.pop(place))
            self._forget_facts(place.topic)
        self._standing.keep(places)
        self._plan()
        return commands + [
            Hold(place) for place, each in self._episodes.items() if each.is_held
        ]

    def user_pauses(self, places: Iterable[TopicPartition]) -> None:
        """Record that the user pauses partitions."""
        self._user_paused.update(places)

    def is_paused_by_user(self, place: TopicPartition) -> bool:
        """Return whether the user has paused a partition."""
        return place in self._user_paused

    def user_resumes(self, places: Iterable[TopicPartition]) -> list[TopicPartition]:
        """Record that the user resumes partitions.

        Returns:
            The partitions that the client may resume; the others still wait.
        """
        resumed = list(places)
        self._user_paused.difference_update(resumed)
        return [
            place
            for place in resumed
            if place not in self._episodes or not self._episodes[place].is_held
        ]

    # --- events -----------------------------------------------------------------------

    def _context(self, error: KafkaGuardError) -> CallContext:
        return CallContext(api=error.api, topic=error.topic, client=self._client)

    def _about(self, place: TopicPartition, position: int | None) -> dict[str, Any]:
        return {
            "policy": self.policy.name,
            "policy_id": self.policy.policy_id,
            "context": CallContext(api=FETCH, topic=place.topic, client=self._client),
            "topic": place.topic,
            "partition": place.partition,
            "position": position,
        }
