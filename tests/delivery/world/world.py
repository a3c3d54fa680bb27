"""One schedule: an application, a driver, a client and its successors, a broker."""

from __future__ import annotations

import random
from collections import Counter, defaultdict, deque
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from kafka.errors import KafkaConnectionError, UnknownError

from kafkaguard._delivery import commands as c
from kafkaguard._delivery.attempts import AttemptLimits
from kafkaguard._delivery.facts import HandOverStoppedError, Place, Raw
from kafkaguard._delivery.machine import DeliveryMachine
from kafkaguard._delivery.sizes import batch_size
from kafkaguard._retries.breaker import CircuitBreaker
from kafkaguard._retries.budget import RetryBudget
from kafkaguard._verdicts.context import TopicFacts
from kafkaguard.errors import SupersededError
from tests.delivery.world.batches import Item, ModelBatch
from tests.delivery.world.broker import Broker
from tests.delivery.world.clients import DELIVERY_S, KINDS, Kind, ModelClient
from tests.delivery.world.clock import Clock
from tests.delivery.world.words import Letters, Limit, PlainErrors, PlainPolicy

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from kafkaguard._delivery.commands import Command
    from kafkaguard._delivery.facts import Batch, Refusal
    from kafkaguard._delivery.records import Record

TOPICS = ("events", "latest")
KEYS = (b"a", b"b", b"c")
FAULTS = ("late", "lost", "unanswered", "19", "29")
#: Answers to a batch that was written all the same.
LATE_FAULTS = ("7", "20")
#: Seconds after a record's time within which its outcome must come.
MARGIN_S = 12.0
MAX_BLOCK_S = 60.0
MOST_STEPS = 20_000
#: Attempts and seconds of a policy that tries until each partition has a leader.
PATIENT, LONG_S = 50, 300.0
_LIMIT = 400


@dataclass
class Told:
    """The outcome of a record that the application got.

    Attributes:
        ending: The outcome in one word, as in ``RecordOutcome``.
        at: When the application got it.
        error: Why the record was not delivered.
        letters: Whether a dead letter was tried for it, so that it was decided earlier.
    """

    ending: str
    at: float
    error: BaseException | None = None
    letters: bool = False


class World:
    """Plays one schedule.

    Args:
        seed: The seed of all random choices.
        trace: Receives the lines of a trace; None: there is no trace.
        refuses_later: Whether a topic may turn compacted while its records are in
            flight, and a broker may answer 7 or 20 to a batch that it has written.
        make_machine: Makes the machine; a test may make a broken one.
    """

    def __init__(
        self,
        seed: int,
        *,
        trace: Callable[[str], object] | None = None,
        refuses_later: bool = True,
        make_machine: Callable[..., DeliveryMachine] = DeliveryMachine,
    ) -> None:
        self.rng = rng = random.Random(seed)
        self._trace = trace
        self.clock = Clock()
        self.kind: Kind = rng.choice(KINDS)
        self.faultiness = rng.choice((0.0, 0.05, 0.3))
        # Random choices of their own, so that a seed without them stays as it was.
        self._late = random.Random(-1 - seed) if refuses_later else None
        self.policy = PlainPolicy(
            rescue=rng.choice(("ordered", "ordered", "any_order", "never")),
            in_doubt=rng.choice(("raise", "raise", "report", "resend")),
            on_reject=rng.choice(("raise", "dead_letter", "drop")),
            dead_letter=Letters(rng.choice((None, None, Limit(consecutive=2)))),
            attempts=rng.choice((1, 4, PATIENT)),
            deadline=rng.choice((1.0, 50.0, LONG_S)),
        )
        self.shared = AttemptLimits(
            budget=rng.choice((None, None, RetryBudget(2.0, 0.1))),
            breaker=rng.choice((None, None, CircuitBreaker(2, 5.0, 1))),
            pauses=rng.random() < 0.7,
            random=rng.random,
        )
        self.is_calm = not self.faultiness
        #: Partitions without a leader.
        self.away: set[int] = set()
        self.knows_facts = rng.random() < 0.5
        self.broker = Broker(
            {"latest"}, {"events": _LIMIT, "events.dlq": _LIMIT}, refuses_later
        )
        self.client = ModelClient(self, self.kind, 0, 0, 0)
        self.machine = make_machine(
            self.kind.traits,
            self.policy,
            PlainErrors(),
            size_alone=lambda raw: batch_size(raw.key, raw.value, raw.headers),
            facts=self._facts,
            shared=self.shared,
        )
        self.told: dict[int, Told] = {}
        self.taken_at: dict[int, float] = {}
        self.keys: dict[int, bytes | None] = {}
        self.topics: dict[int, str] = {}
        #: Records of a batch that an injected fault refused; that nobody can be sure of.
        self.refused: set[int] = set()
        self.doubtful: set[int] = set()
        #: Whether a successor could not be built, or was not wanted.
        self.was_lost = False
        self.good: set[int] = set()
        #: How often each record was handed over again.
        self.handed: Counter[int] = Counter()
        self.outcomes: Counter[str] = Counter()
        self.reported: Counter[str] = Counter()
        self.problems: list[str] = []
        self.is_closed = False
        self._under_way: Counter[str] = Counter()
        self._awaiting_sends: defaultdict[str, list[Callable[[], None]]] = defaultdict(
            list
        )
        self._blocked: deque[tuple[float, Any, Any]] = deque()
        self._generation = 0
        self._identities = 0
        self._failed_builds = 0
        self._ticks_at = float("inf")
        self._numbers = 0
        self._plan()

    def _facts(self, topic: str) -> TopicFacts | None:
        if not self.knows_facts:
            return None
        return TopicFacts(compacted=topic in self.broker.compacted)

    def say(self, *words: object) -> None:
        """Write a line of the trace."""
        if self._trace is not None:
            self._trace(f"{self.clock.now:8.3f}  {' '.join(map(str, words))}")

    # --- chance -----------------------------------------------------------------------

    def fault(self) -> str:
        """Draw the fault of a request; empty: no fault."""
        rng, late = self.rng, self._late
        if late is not None and late.random() < self.faultiness / 3:
            return late.choice(LATE_FAULTS)
        if rng.random() >= self.faultiness:
            return ""
        return rng.choice(FAULTS)

    def latency(self) -> float:
        """Draw the latency of the network."""
        return self.rng.choice((0.001, 0.01, 0.1))

    # --- the application --------------------------------------------------------------

    def _plan(self) -> None:
        rng = self.rng
        say = [self.kind.name, self.policy.rescue, self.policy.in_doubt]
        self.say("world", *say, self.policy.on_reject, self.faultiness)
        for _ in range(rng.choice((1, 2))):
            sends = deque(self._record() for _ in range(rng.randint(2, 9)))
            self.clock.after(rng.random() * 0.1, self._next_send, sends)
        if rng.random() < 0.15:
            self.clock.after(rng.random() * rng.choice((0.3, 3.0)), self._kill)
        if rng.random() < 0.05:
            self.clock.after(rng.random() * 0.5, self._jam)
        if rng.random() < 0.3:
            numbers = rng.choice(({0}, {0, 1}))
            seconds = rng.choice((5.0, 35.0, 70.0))
            self.clock.after(rng.random() * 0.3, self._go_away, numbers, seconds)
        if rng.random() < 0.15:
            self.clock.after(rng.random() * rng.choice((0.5, 40.0)), self._close)
        late = self._late
        if late is not None and late.random() < 0.3:
            self.clock.after(late.random() * late.choice((0.3, 6.0)), self._compact)

    def _record(self) -> tuple[str, bytes | None, bytes]:
        rng = self.rng
        topic = rng.choice(TOPICS)
        dice = rng.random()
        key = None if dice < 0.15 else rng.choice(KEYS)
        flavour = b"bad" if 0.15 <= dice < 0.22 else b"good"
        size = 500 if 0.22 <= dice < 0.3 else rng.choice((1, 150))
        return topic, key, b":%s:%s" % (flavour, b"x" * size)

    def _next_send(self, sends: deque[Any]) -> None:
        if not sends or self.is_closed:
            return
        self._send(sends[0], sends, self.clock.now + MAX_BLOCK_S)

    def _send(self, record: Any, sends: deque[Any], until: float) -> None:
        topic = record[0]
        holds = self.machine.holds
        if holds and (None in holds or topic in holds):
            if self.machine.lost is not None:
                self._facts_told(self.machine.wanted(self.clock.now))
            self._blocked.append((until, record, sends))
            return
        self._under_way[topic] += 1
        self.clock.after(self.rng.choice((0.0, 0.0, 0.002)), self._take, record, sends)

    def _take(self, record: Any, sends: deque[Any]) -> None:
        topic, key, value = record
        number = self._numbers
        raw = Raw(key, b"%d%s" % (number, value))
        partition = self._partition(key)
        item = Item(raw, is_new=True)
        if not self.client.is_shut and self.client.cause is None:
            self._numbers += 1
            self.taken_at[number] = self.clock.now
            self.keys[number] = key
            self.topics[number] = topic
            if self._is_good(topic, item):
                self.good.add(number)
            self.say("send", topic, partition, item, key, value[:8])
        try:
            self.client.take(topic, partition, item)
        except Exception as error:
            self._ended_under_way(topic)
            if self.machine.holds:
                self._send(record, sends, self.clock.now + MAX_BLOCK_S)
                return
            self.say("raised", error)
        else:
            self._ended_under_way(topic)
        sends.popleft()
        pause = self.rng.choice((0.0, 0.001, 0.03, 0.3))
        self.clock.after(pause, self._next_send, sends)

    def _is_good(self, topic: str, item: Item) -> bool:
        """Return whether a broker accepts a record."""
        raw = item.raw
        size = batch_size(raw.key, raw.value, raw.headers)
        return not (
            item.is_bad
            or size > self.broker.limit(topic)
            or (raw.key is None and topic in self.broker.compacted)
        )

    def _partition(self, key: bytes | None) -> int:
        if key is None:
            return self.rng.randrange(2)
        return key[0] % 2

    def _ended_under_way(self, topic: str) -> None:
        self._under_way[topic] -= 1
        if not self._under_way[topic]:
            for reply in self._awaiting_sends.pop(topic, ()):
                reply()

    def _wake(self) -> None:
        blocked, self._blocked = self._blocked, deque()
        for until, record, sends in blocked:
            if self.clock.now < until and not self.is_closed:
                self._send(record, sends, until)

    # --- faults of the client ---------------------------------------------------------

    def _go_away(self, numbers: set[int], seconds: float) -> None:
        """Let partitions lose their leaders for some seconds."""
        self.say("away", numbers, seconds)
        if not self._is_patient:
            self.is_calm = False
        self.away |= numbers
        self.clock.after(seconds, self._come_back)

    def _come_back(self) -> None:
        self.say("back")
        self.away.clear()
        self.client.drain_all()

    def _compact(self) -> None:
        """Let the other topic refuse records without a key from now on."""
        self.say("compacted")
        self.broker.compacted.add("events")
        self.good -= {
            number
            for number in self.good - self.told.keys()
            if self.keys[number] is None
        }

    @property
    def _is_patient(self) -> bool:
        """Whether the policy tries for longer than any fault lasts."""
        shared, policy = self.shared, self.policy
        is_bounded = shared.budget or (shared.breaker and not shared.pauses)
        outlasts = policy.attempts == PATIENT and policy.deadline == LONG_S
        return outlasts and not is_bounded

    def _kill(self) -> None:
        self.is_calm = False
        self.client.die(UnknownError())

    def _jam(self) -> None:
        self.say("jam")
        self.is_calm = False
        self.client.is_stuck = True

    def _close(self) -> None:
        self.say("close")
        self.is_calm = False
        self.is_closed = True
        self._facts_told(self.machine.closing(self.clock.now))
        self.client.roll_all()
        self.clock.after(self.rng.choice((0.0, 0.05, 8.0)), self._give_up)

    def _give_up(self) -> None:
        self.client.stop()
        self._facts_told(self.machine.settle_all("closed", self.clock.now))

    # --- the shell --------------------------------------------------------------------

    def began(self, batch: Batch) -> None:
        """The client's listener: a batch has begun."""
        self.machine.began(batch)
        if batch.next_check < self._ticks_at:
            self._tick_at(batch.next_check)

    def accepted(self, batch: Batch) -> None:
        """The client's listener: all records of a batch were accepted."""
        self._told_by_client(batch, ())
        self._facts_told(self.machine.accepted(batch, self.clock.now))

    def failed(self, batch: Batch, refusals: Sequence[Refusal]) -> None:
        """The client's listener: records of a batch failed."""
        self._told_by_client(batch, refusals)
        out = self.machine.failed(batch, refusals, self.clock.now)
        self._facts_told(out)

    def died(
        self, client: ModelClient, cause: BaseException, place: Place | None
    ) -> None:
        """The client's listener: the client is dead."""
        if client is self.client:
            self._facts_told(self.machine.died(cause, place, self.clock.now))

    def _told_by_client(self, batch: Batch, refusals: Sequence[Refusal]) -> None:
        failed = {refusal.token for refusal in refusals}
        for item in batch.tokens():
            assert isinstance(item, Item)
            if item.is_new and item not in failed:
                self._tell(item.number, "delivered")

    def _tell(
        self,
        number: int,
        ending: str,
        error: BaseException | None = None,
        *,
        letters: bool = False,
    ) -> None:
        if number in self.told:
            self.problems.append(f"#{number} was told twice: {self.told[number]}")
        self.told[number] = Told(ending, self.clock.now, error, letters)
        self.say("told", f"#{number}", ending)

    # --- the driver -------------------------------------------------------------------

    def _facts_told(self, commands: Sequence[Command]) -> None:
        if commands:
            for command in commands:
                self._carry_out(command)
        due = self.machine.next_due()
        if due is not None and due < self._ticks_at:
            self._tick_at(due)

    def _tick_at(self, due: float) -> None:
        self._ticks_at = due
        self.clock.at(due, self._tick, due)

    def _tick(self, due: float) -> None:
        if due == self._ticks_at:
            self._ticks_at = float("inf")
            self._facts_told(self.machine.tick(self.clock.now))

    def _carry_out(self, command: Command) -> None:
        self.say(">", command)
        self._how[type(command)](self, command)

    def _slowly(self, do: Callable[..., object], *args: Any) -> None:
        self.clock.after(self.rng.choice((0.0, 0.001, 0.05)), do, *args)

    def _hold(self, command: c.HoldSends) -> None:
        topic = command.topic

        def reply() -> None:
            self._facts_told(self.machine.held(topic, self.clock.now))

        if self._under_way[topic]:
            self._awaiting_sends[topic].append(reply)
        else:
            self._slowly(reply)

    def _shut(self, _: c.Shut) -> None:
        self.client.is_shut = True

    def _free(self, _: c.FreeSends) -> None:
        self.clock.after(0.0, self._wake)

    def _send_now(self, _: c.SendNow) -> None:
        self.client.roll_all()

    def _hand_over(self, command: c.Send) -> None:
        self._slowly(self._hand_over_next, command, deque(command.records), [])

    def _hand_over_next(
        self, command: c.Send, left: deque[Record], handed: list[Any]
    ) -> None:
        while left:
            if self.machine.stops_hand_over(command.topic):
                handed += (HandOverStoppedError() for _ in left)
                break
            handed.append(self._hand_over_one(left.popleft()))
            if self.rng.random() < 0.2:
                self._slowly(self._hand_over_next, command, left, handed)
                return
        self._slowly(self._handed_over, command, handed)

    def _hand_over_one(self, record: Record) -> Any:
        topic, partition = record.place
        assert record.raw is not None
        if partition is None:
            partition = self._partition(record.raw.key)
        origin = None if record.origin is None else record.origin.first_token
        item = Item(record.raw, is_new=False, origin=origin)
        try:
            self.client.take(topic, partition, item)
        except Exception as error:
            return error
        if origin is None:
            self.handed[item.number] += 1
        return item

    def _handed_over(self, command: c.Send, handed: list[Any]) -> None:
        self.say("handed over", handed)
        self._facts_told(self.machine.sent(command.topic, handed, self.clock.now))

    def _take_back(self, command: c.TakeBack) -> None:
        self.client.take_back(command.behind)

    def _abandon(self, command: c.FailBatches) -> None:
        for batch in command.batches:
            client = batch.client if isinstance(batch, ModelBatch) else self.client
            client.fail_batch(batch)

    def _hear_out(self, command: c.HearOut) -> None:
        is_done = all(b.state == "done" for b in self.client.flying)
        waits = any(b.state == "done" for b in self.client.flying)
        is_done = is_done and not (self.kind.hears_late and waits)
        if is_done or self.clock.now >= command.until or self.client.is_stuck:
            self._facts_told(self.machine.heard_out(self.clock.now))
        else:
            self.clock.after(0.1, self._hear_out, command)

    def _stop(self, _: c.Stop) -> None:
        self._slowly(self._stopped)

    def _stopped(self) -> None:
        self.client.stop()
        if any(self._under_way.values()):
            self.clock.after(0.001, self._stopped)
            return
        self._facts_told(self.machine.stopped(self.clock.now))

    def _ask_answers(self, command: c.AskAnswers) -> None:
        late = self.client.late
        answers = {b: late[b] for b in command.batches if b in late}
        self._slowly(
            lambda: self._facts_told(self.machine.answered(answers, self.clock.now))
        )

    def _replace(self, command: c.Replace) -> None:
        self._slowly(self._build, command)

    def _build(self, command: c.Replace) -> None:
        now = self.clock.now
        if self.rng.random() < 0.2 and self._failed_builds < 4:
            self._failed_builds += 1
            self.is_calm = False
            self._facts_told(
                self.machine.not_replaced(
                    KafkaConnectionError("no broker"),
                    now,
                    may_build_later=self.rng.random() < 0.8,
                    awaited=bool(self._blocked),
                )
            )
            self.was_lost = self.was_lost or self.machine.lost is not None
            return
        self._generation += 1
        old = self.client
        identity, epoch = old.identity, old.epoch + 1
        if command.locking_out is None or not self.kind.takes_over:
            self._identities += 1
            identity, epoch = self._identities, 0
        self.client = ModelClient(self, self.kind, self._generation, identity, epoch)
        self.client.is_shut = self.is_closed
        self._facts_told(self.machine.replaced(now))

    def _ask_size_limit(self, command: c.AskSizeLimit) -> None:
        topic = command.topic
        most = self.broker.limit(topic) if self.rng.random() < 0.8 else None
        self._slowly(
            lambda: self._facts_told(
                self.machine.size_limit(topic, most, self.clock.now)
            )
        )

    def _settle(self, command: c.Settle) -> None:
        record = command.record
        item = record.first_token
        assert isinstance(item, Item)
        assert record.outcome is not None
        error = record.outcome.error
        ending = record.outcome.ending
        letters = "its dead letter" in str(error)
        self._tell(item.number, ending, error, letters=letters)
        if error is not None:
            self.say("   ", error)
            if isinstance(error, SupersededError):
                self.good.discard(item.number)  # a newer one has overtaken it

    def _ignore(self, _: Command) -> None:
        pass

    _how: dict[type, Callable[[World, Any], None]] = {  # noqa: RUF012 - a table
        c.Attach: _ignore,
        c.HoldSends: _hold,
        c.Shut: _shut,
        c.FreeSends: _free,
        c.SendNow: _send_now,
        c.Send: _hand_over,
        c.TakeBack: _take_back,
        c.FailBatches: _abandon,
        c.HearOut: _hear_out,
        c.Stop: _stop,
        c.AskAnswers: _ask_answers,
        c.Replace: _replace,
        c.AskSizeLimit: _ask_size_limit,
        c.Settle: _settle,
        c.ForgetFacts: _ignore,
        c.Tell: _ignore,
        c.Warn: _ignore,
    }

    # --- playing ----------------------------------------------------------------------

    def play(self) -> list[str]:
        """Play the schedule to its end; return the problems."""
        from tests.delivery.world.invariants import broken

        self.clock.run(MOST_STEPS)
        self.problems += broken(self)
        return self.problems


__all__ = ["DELIVERY_S", "World"]
