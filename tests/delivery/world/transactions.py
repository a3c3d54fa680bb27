"""One schedule of transactions: an application, a client, a coordinator."""

from __future__ import annotations

import random
from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

from kafkaguard._delivery.facts import Batch, Place, Raw, Refusal, Traits
from kafkaguard._delivery.machine import DeliveryMachine
from kafkaguard._delivery.table import TransactionState
from kafkaguard._delivery.time_limit import TimeLimit
from kafkaguard._delivery.transaction_calls import (
    DONE,
    Answer,
    TransactionCalls,
    proceed,
)
from kafkaguard._delivery.transaction_errors import TransactionTraits
from kafkaguard._errors.base import Action
from kafkaguard.errors import ClientConnectionError, KafkaGuardError, for_code
from tests.delivery.world.words import PlainErrors, PlainPolicy

if TYPE_CHECKING:
    from collections.abc import Callable

    from kafkaguard._delivery.transaction_calls import Flow, Step

#: Seconds that a call may take, and after which the coordinator aborts by itself.
LIMIT, TIMEOUT = TimeLimit(4.0, "limit"), 30.0
#: Seconds without an answer after which a client sends a request again.
REQUEST_S = 1.5
#: The longest that any call of the application may take.
LONGEST_S = 120.0
MOST_STEPS = 200
ABORTABLE, FENCED, BAD_STATE, BAD_ID, DENIED, UNKNOWN = 120, 90, 48, 49, 53, -1
#: The client's part of a step whose name is also a call of the application.
_HANDS = {"begin": "_begin_client"}
FAULTS = (
    "unsent",
    "lost",
    "slow",
    ABORTABLE,
    DENIED,
    BAD_ID,
    BAD_STATE,
    FENCED,
    UNKNOWN,
)


class Kind(NamedTuple):
    """A client.

    Attributes:
        name: Its name.
        shows_epoch: A successor shows its predecessor's epoch to the coordinator.
        dies_of: Codes after which it can do nothing more.
        tells_attempts: It tells whether an earlier request had no answer.
        replaceable: A successor can be built.
    """

    name: str
    shows_epoch: bool
    dies_of: frozenset[int]
    tells_attempts: bool = True
    replaceable: bool = True


_ALL = frozenset({ABORTABLE, FENCED, BAD_STATE, BAD_ID, DENIED, UNKNOWN})
KINDS = (
    Kind("kafka-python", shows_epoch=True, dies_of=_ALL - {ABORTABLE}),
    Kind("aiokafka", shows_epoch=False, dies_of=_ALL),
    Kind("confluent", False, frozenset({FENCED, BAD_STATE}), tells_attempts=False),
    Kind("unbuilt", False, frozenset({FENCED}), False, replaceable=False),
)


@dataclass
class Story:
    """A transaction of the application, and what it was told.

    Attributes:
        records: How many records the broker has accepted.
        lacks: Whether a record of it was refused, or offsets were not sent.
        ended: Its true end: ``"committed"``, ``"aborted"``, or empty.
        told: What the application knows: it is committed, or certainly is not.
    """

    records: int = 0
    lacks: bool = False
    ended: str = ""
    told: str = ""


@dataclass
class Coordinator:
    """Carries out an end once, and compares epochs."""

    epoch: int = 0
    story: Story | None = None
    last: tuple[bool, Story] | None = None

    def take_over(self, shown: int | None) -> int | None:
        """Abort what is open, and return a new epoch; None: the shown one is old."""
        if shown is not None and shown != self.epoch:
            return None
        self.time_out()
        return self.epoch

    def time_out(self) -> None:
        """Abort what is open, with a new epoch."""
        if self.story is not None:
            self.story.ended, self.story = "aborted", None
        self.last = None
        self.epoch += 1

    def end(self, epoch: int, story: Story, *, commit: bool) -> int:
        """Commit or abort; return the code of the answer."""
        if epoch != self.epoch:
            return FENCED
        if self.story is story or (self.story is None and not story.records):
            self.story, self.last = None, (commit, story)
            story.ended = "committed" if commit else "aborted"
        return 0 if self.last == (commit, story) else BAD_STATE


@dataclass
class End:
    """A request to end a transaction, which the client repeats.

    Attributes:
        commit: Whether it commits.
        next_at: When it is sent again.
        was_lost: Whether an answer was lost.
        code: Its answer.
    """

    commit: bool
    next_at: float
    was_lost: bool = False
    code: int | None = None


@dataclass
class Client:
    """A client's state."""

    epoch: int
    cause: KafkaGuardError | None = None
    end: End | None = None


class Sent(Batch):
    """One record."""

    @property
    def count(self) -> int:
        """One."""
        return 1

    def raws(self) -> list[Raw]:
        """Nothing of interest."""
        return [Raw(b"k", b"v")]

    def tokens(self) -> list[int]:
        """Its token."""
        return [id(self)]

    def keys(self) -> list[bytes]:
        """A key."""
        return [b"k"]


@dataclass
class TransactionWorld:
    """Plays one schedule.

    Args:
        seed: The seed of all random choices.
        trace: Receives the lines of a trace; None: there is no trace.
    """

    seed: int
    trace: Callable[[str], object] | None = None
    now: float = 0.0
    problems: list[str] = field(default_factory=list)
    outcomes: Counter[str] = field(default_factory=Counter)

    def __post_init__(self) -> None:
        """Draw what does not change in the schedule."""
        self.rng = rng = random.Random(self.seed)
        self.kind = rng.choice(KINDS)
        self.faultiness = rng.choice((0.0, 0.1, 0.4))
        self.policy = PlainPolicy(attempts=rng.choice((1, 3)), deadline=30.0)
        self.coordinator = Coordinator()
        self.stories: list[Story] = []
        self.story = Story()
        self._began_at = 0.0
        self._build()

    def _build(self) -> None:
        """Build a guarded producer."""
        traits = Traits("model", 10.0, "delivery", transactional=True)
        self.machine = DeliveryMachine(
            traits, self.policy, PlainErrors(), size_alone=lambda _: 70
        )
        self.client = Client(-1)
        self.is_closed = False
        can_build = self.kind.replaceable
        self.calls = TransactionCalls(
            self.machine.transaction,
            PlainErrors(),
            TransactionTraits("x", TIMEOUT, "timeout", can_build=can_build),
            self.policy,
            clock=lambda: self.now,
            random=self.rng.random,
        )

    def say(self, *words: object) -> None:
        """Write a line of the trace."""
        if self.trace is not None:
            self.trace(f"{self.now:8.3f}  {' '.join(map(str, words))}")

    # --- the application --------------------------------------------------------------

    def play(self) -> list[str]:
        """Play the schedule; return what went wrong."""
        self.say("world", self.kind.name, self.faultiness)
        self._call("init")
        for _ in range(self.rng.randint(1, 8)):
            if self.rng.random() < 0.4:
                self._block()
            else:
                self._by_hand()
            if self.rng.random() < 0.05:
                self.say("another instance takes over")
                self.coordinator.time_out()
        self._call("close")
        self.faultiness = 0.0
        self._ends_well()
        return self.problems

    def _by_hand(self) -> None:
        """Begin, send, and end; after each error do what its verdict says."""
        if not self._begin("begin"):
            return
        self._body()
        call = self.rng.choice(("commit", "commit", "abort"))
        for _ in range(5):
            error = self._call(call)
            if error is None or self.rng.random() < 0.1:
                return
            action = error.verdict.action
            if action is Action.ABORT:
                call = "abort"
            elif action not in (Action.RETRY, Action.IN_DOUBT, Action.REFRESH):
                return
        self._call("abort")

    def _block(self) -> None:
        """Use a ``transaction()`` block."""
        if not self._begin("begin_block"):
            return
        raised = self._body()
        if self.rng.random() < 0.2:
            raised = self.rng.choice((KeyboardInterrupt(), ValueError()))
        if raised is not None:
            self._call("abort_block", raised)
        else:
            self._call("commit_block")

    def _begin(self, call: str) -> bool:
        """Begin; after RECREATE or a wrong order, go on as the application would."""
        for _ in range(4):
            error = self._call(call)
            if error is None:
                return True
            self._told(error)
            if error.verdict.action in (Action.FENCED, Action.RECREATE):
                if self.rng.random() < 0.5:
                    self._call("close")
                self._build()
                self._call("init")
            elif self._call("abort") is not None:
                self._call("commit")
        return False

    def _body(self) -> KafkaGuardError | None:
        """Send records and offsets; return what stops the body."""
        for _ in range(self.rng.randint(0, 3)):
            self.now += self.rng.choice((0.0, 0.1, 1.0, 40.0 * self.faultiness))
            self._tick()
            if self.rng.random() < 0.1:
                error = self._call("offsets")
                if error is not None and self.rng.random() < 0.5:
                    return error
            elif (error := self._send()) is not None:
                return error
        return None

    def _send(self) -> KafkaGuardError | None:
        error = ClientConnectionError("refused by the client")
        state = self.calls.state
        if self.client.cause is not None or state is not TransactionState.OPEN:
            answer = DONE if self.client.cause is None else self._failed()
            return self.calls.send_error(error, "t", answer)
        batch = Sent(Place("t", 0), (0, 0), self.now + 10.0)
        self.machine.began(batch)
        is_fenced = self.client.epoch != self.coordinator.epoch
        if is_fenced or self.rng.random() < self.faultiness / 3:
            self.story.lacks = True
            cause = for_code(FENCED if is_fenced else 29)("refused")
            if is_fenced:
                self.client.cause = cause
            refusal = Refusal(id(batch), 0, cause, "record", "answered")
            self.machine.failed(batch, [refusal], self.now)
            self.say("record refused", cause.code)
            return None
        self.coordinator.story = self.story
        self.story.records += 1
        self.machine.accepted(batch, self.now)
        return None

    def _call(self, name: str, *given: Any) -> KafkaGuardError | None:
        """Make a call of the application; return its error."""
        made = "abort" if name == "abort_block" else name
        method = "add_offsets" if name == "offsets" else name
        if name == "offsets":
            given = [Place("in", self.rng.randint(0, 1))], "g", LIMIT
        else:
            given = LIMIT, *given
        began, before = self.now, self.story
        error: KafkaGuardError | None = None
        left: Any = None
        try:
            left = self._run(getattr(self.calls, method)(*given))
        except KafkaGuardError as raised:
            error = raised
        except KeyboardInterrupt:
            self.say(name, "was interrupted")
            return ClientConnectionError("interrupted")
        self.say(name, "->", error or left or "done", "|", self.calls.state)
        if self.now - began > LONGEST_S:
            self.problems.append(f"{name} took {self.now - began:.0f} s")
        self._learn(made, before, error, left)
        return error

    def _learn(self, call: str, story: Story, error: Any, left: Any) -> None:
        if call in ("begin", "begin_block") and error is None:
            self.story = Story()
            self.stories.append(self.story)
        elif call == "offsets":
            self.story.lacks = error is not None
        elif call in ("commit", "commit_block", "abort"):
            if error is None and self.calls.state is TransactionState.NONE:
                self._claim(story, "aborted" if call == "abort" else "committed")
        elif call == "close" and left is not None and left.why is None:
            self._claim(story, "aborted")
        if error is None and left is not None:
            error = left.why
        if error is not None:
            self._told(error, story)
        self._check_report(story)

    def _told(self, error: KafkaGuardError, story: Story | None = None) -> None:
        """Compare what an error says with the truth."""
        verdict, story = error.verdict, story or self.story
        is_end = error.api == "EndTxn" and verdict.action is not Action.REJECT
        if is_end and verdict.written == "no" and story.ended == "committed":
            self.problems.append(f"committed, and the application was told: {error}")

    def _claim(self, story: Story, end: str) -> None:
        story.told = end
        if story.ended not in (end, "") or (end == "committed" and not story.ended):
            self.problems.append(f"told {end}, and it is {story.ended or 'open'}")

    def _check_report(self, story: Story) -> None:
        """Compare the counts of records with the end of their transaction."""
        report = self.machine.report(0)
        for count, end in (
            (report.delivered, "committed"),
            (report.aborted, "aborted"),
        ):
            if count and story.ended not in (end, "" if end == "aborted" else end):
                self.problems.append(f"{count} counted as {end}: {story}")
        self.outcomes["delivered"] += report.delivered
        self.outcomes["aborted"] += report.aborted
        self.outcomes["failed"] += report.failed
        self.outcomes["in_doubt"] += report.in_doubt

    def _ends_well(self) -> None:
        """Without faults, a new producer can commit; and no reader has seen a half."""
        self._build()
        for call in ("init", "begin"):
            if (error := self._call(call)) is not None:
                self.problems.append(f"{call} of a new producer: {error}")
                return
        self._send()
        if (error := self._call("commit")) is not None:
            self.problems.append(f"commit of a new producer: {error}")
        for story in self.stories:
            self.outcomes[story.ended or "nothing"] += 1
            if story.ended == "committed" and story.lacks:
                self.problems.append(f"half of it is seen: {story}")
            if story.told not in ("", story.ended) and story.records:
                self.problems.append(f"told {story.told}: {story}")

    # --- the client -------------------------------------------------------------------

    def _run(self, flow: Flow[Any]) -> Any:
        result: Answer | BaseException | None = None
        for _ in range(MOST_STEPS):
            try:
                step = proceed(flow, result)
            except StopIteration as end:
                return end.value
            is_interrupted = self.rng.random() < 0.02 and self.faultiness
            if not is_interrupted or self.rng.random() < 0.5:
                result = getattr(self, _HANDS.get(step.do, f"_{step.do}"))(step)
            if is_interrupted:
                result = KeyboardInterrupt()
            self.say("   ", step.do, result)
        self.problems.append("a call makes steps without an end")
        return None

    def _failed(self, cause: Any = None, *, may_be_done: bool = False) -> Answer:
        cause = cause or self.client.cause
        kind: Any = "failed" if self.client.cause is None else "dead"
        return Answer(kind, cause, may_be_done=may_be_done)

    def _tick(self, until: float | None = None) -> None:
        """Let the client repeat its request in the background, until a time."""
        until = self.now if until is None else until
        end, coordinator = self.client.end, self.coordinator
        while end is not None and end.code is None and end.next_at <= until:
            self.now = max(self.now, end.next_at)
            self._ask(end)
        self.now = max(self.now, until)
        story = self.story
        is_open = coordinator.story is story
        if is_open and self.now - self._began_at > TIMEOUT:
            self.say("timed out")
            coordinator.time_out()

    def _ask(self, end: End) -> None:
        """Send a request to end the transaction once."""
        fault: Any = None
        if self.rng.random() < self.faultiness:
            fault = self.rng.choice(FAULTS)
        end.next_at = self.now + REQUEST_S
        self.say("    EndTxn", fault or "")
        if fault == "unsent":
            return
        if fault == "slow" or (isinstance(fault, int) and fault != UNKNOWN):
            end.code = None if fault == "slow" else fault
            return
        if fault == UNKNOWN and self.rng.random() < 0.5:
            end.code = UNKNOWN
            return
        code = self.coordinator.end(self.client.epoch, self.story, commit=end.commit)
        if fault == "lost":
            end.was_lost = True
        else:
            end.code = code if fault is None else fault

    def _end(self, step: Step, *, commit: bool) -> End:
        if self.client.end is None or self.client.end.commit is not commit:
            self.client.end = End(commit, self.now + 0.01)
        end = self.client.end
        while end.code is None and self.now < step.until:
            self._tick(min(step.until, end.next_at))
        if end.code in self.kind.dies_of:
            self.client.cause = for_code(end.code)("said so")
        if end.code is not None:
            self.client.end = None
        return end

    def _init(self, step: Step) -> Answer:
        if self.rng.random() < self.faultiness / 20:
            return Answer("failed", for_code(FENCED)("another one starts, too"))
        return self._renewed(None)

    def _renew(self, step: Step) -> Answer:
        return self._renewed(self.client.epoch if self.kind.shows_epoch else None)

    def _renewed(self, shown: int | None) -> Answer:
        self.now += 0.1
        if self.rng.random() < self.faultiness / 2:
            return Answer("failed", ClientConnectionError("no connection"))
        epoch = self.coordinator.take_over(shown)
        if epoch is None:
            return Answer("failed", for_code(FENCED)("another one"))
        self.client = Client(epoch)
        return DONE

    def _begin_client(self, step: Step) -> Answer:
        if self.client.cause is not None:
            return self._failed()
        self._began_at = self.now
        return DONE

    def _offsets(self, step: Step) -> Answer:
        if self.client.epoch != self.coordinator.epoch:
            self.client.cause = self.client.cause or for_code(FENCED)("said so")
        if self.client.cause is not None:
            return self._failed()
        if self.rng.random() < self.faultiness:
            self._tick(step.until)
            return Answer("late")
        return DONE

    def _look(self, step: Step) -> Answer:
        return DONE if self.client.cause is None else self._failed()

    def _await_records(self, step: Step) -> Answer:
        return DONE if self.client.cause is None else self._failed()

    def _commit(self, step: Step) -> Answer:
        if self.client.cause is not None:
            return self._failed()
        end = self._end(step, commit=True)
        if not end.code:
            return Answer("late") if end.code is None else DONE
        may_be_done = end.was_lost or not self.kind.tells_attempts
        cause = for_code(end.code)("said so")
        return self._failed(cause, may_be_done=may_be_done or end.code == UNKNOWN)

    def _abort(self, step: Step) -> Answer:
        if self.client.cause is not None:
            kind: Any = "dead" if self.kind.tells_attempts else "failed"
            return Answer(kind, self.client.cause)
        end = self._end(step, commit=False)
        if not end.code:
            return Answer("late") if end.code is None else DONE
        return Answer("failed", for_code(end.code)("said so"))

    def _sleep(self, step: Step) -> Answer:
        self._tick(step.until)
        return DONE
