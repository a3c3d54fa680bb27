"""A model of all that is around the machine: client, broker, workers, handlers, clock.

A schedule is drawn from its seed. The world checks each promise as soon as it can be
broken, and at the end.
"""

from __future__ import annotations

import math
from collections import Counter
from heapq import heappop, heappush
from operator import itemgetter
from random import Random
from types import SimpleNamespace
from typing import Any

from kafkaguard._cluster.reports import TopicPartition
from kafkaguard._errors import for_code
from kafkaguard._errors.base import Action
from kafkaguard._processing.committing import LAST_COMMIT_S
from kafkaguard._processing.exceptions import BatchError, Unavailable
from kafkaguard._processing.machine import ProcessingMachine
from kafkaguard._processing.rounds import Rounds
from kafkaguard._processing.run import RunState
from kafkaguard._processing.work import (
    WHOLE,
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
from kafkaguard._retries.machine import Ruling

TOPIC = "t"
POLL = 8
_TIMEOUT = for_code(7)("no answer")
_DENIED = for_code(29)("not allowed")
_MOVED = for_code(27)("rebalance")


class FlakyError(Exception):
    """It may work the next time."""


class BadRecordError(TypeError):
    """It never works."""


class DownError(Exception):
    """The dependency is down."""


#: What handlers raise for records that are not good, and how often.
_ERRORS = {
    "flaky": FlakyError,
    "never": FlakyError,
    "bad": BadRecordError,
    "kafka": lambda: _TIMEOUT,
    "after": lambda: Unavailable(after=0.2),
    "interrupt": KeyboardInterrupt,
    "denied": lambda: _DENIED,
}
_RAISES = {"flaky": 0.5, "kafka": 0.7, "after": 0.5, "slow": 0.0}


class Policy:
    """A policy without pydantic, which would cost most of the time."""

    name = "simulated"
    policy_id = "0" * 12
    on_offset_reset = "as_client"

    def __init__(self, random: Random) -> None:
        self.handler = SimpleNamespace(
            max_attempts=random.randint(1, 4),
            max_age=random.choice((None, None, 1.0)),
            retry_on=(),
            reject_on=(),
            wait_on=("DownError",),
            timeout=random.choice((None, 0.5)),
            commit_interval=random.choice((0.2, 5.0)),
            max_in_flight=random.choice((3, 12, 1000)),
            drain_timeout=random.choice((0.1, 2.0, 5.0)),
        )
        self.on_reject = random.choice(("drop", "dead_letter", "dead_letter", "raise"))
        self.dead_letter = SimpleNamespace(
            limit=None, topic_for="{}.dlq".format, headers="own"
        )
        backoff = SimpleNamespace(
            kind="exponential", base=0.05, factor=2.0, floor=0.0, cap=1.0,
            jitter=random.choice(("none", "full")), honour_throttle=True,
        )  # fmt: skip
        self._rulings = {
            action: Ruling(action, 4, 1000, 120.0, backoff, "raise", self.on_reject, 0)
            for action in Action
        }
        self.first_ruling = self._rulings[Action.RETRY]

    def ruling(self, verdict, _context, _error=None):
        """Return what the policy says about a failure."""
        return self._rulings[verdict.action]


class Log:
    """A partition: its records, and what became of each of them."""

    def __init__(self, number: int, random: Random, most: int) -> None:
        self.place = TopicPartition(TOPIC, number)
        offset, self.records = 0, []
        for _ in range(random.randint(0, most)):
            offset += random.random() < 0.1 and random.randint(1, 3)
            key = random.choice((None, b"a", b"b", b"c", b"d"))
            self.records.append((offset, key, number))
            offset += 1
        self.end = offset + random.choice((0, 0, 2))
        self.committed = 0
        #: The offsets that somebody is done with.
        self.done: set[int] = set()

    def prefix(self) -> int:
        """Return the offset before which all records are done."""
        for record in self.records:
            if record[0] not in self.done:
                return record[0]
        return self.end


class Assignment:
    """A partition that the member has: the client's position, and order in it."""

    def __init__(self, log: Log) -> None:
        self.log = log
        self.position = log.committed
        self.first = log.committed
        self.is_revoked = False
        #: The offsets of records that are begun, and that are over, by their lane.
        self.over: set[int] = set()
        self.started: set[int] = set()


class World:
    """One schedule.

    Args:
        seed: What it is drawn from.
        trace: Called with a line for each thing that happens.
    """

    def __init__(self, seed: int, trace: Any = None) -> None:
        random = self.random = Random(seed)
        self.trace = trace
        self.outcomes: Counter[str] = Counter()
        self.problems: list[str] = []
        self.now = 0.0
        self._events: list[tuple[float, int, Any, tuple]] = []
        self._ticket = self._pumps = 0
        self._was_open = True
        self._wake_at = 0.0
        self.order = random.choice(("partition", "key", "key", "none"))
        self.workers = random.choice((1, 2, 4))
        self.batch = random.choice((None, None, None, 2, 5))
        self.exactly_once = random.random() < 0.25
        self.policy = Policy(random)
        self.is_rough = random.random() < 0.6
        self.logs = [Log(n, random, 30) for n in range(random.randint(1, 3))]
        self.by_place = {log.place: log for log in self.logs}
        self.ending = random.choice(("until_end", "idle", "stop", "stop"))
        self.machine = ProcessingMachine(
            self.policy, order=self.order, workers=self.workers, batch=self.batch,
            offset_of=itemgetter(0), key_of=itemgetter(1), random=random.random,
            client="model", rounds=Rounds(2.0) if self.exactly_once else None,
            idle_timeout=3.0 if self.ending == "idle" else None,
            until_end=self.ending == "until_end",
        )  # fmt: skip
        self.assigned: dict[TopicPartition, Assignment] = {}
        self.paused: set[TopicPartition] = set()
        self.free = self.workers
        self.running: dict[Any, Assignment] = {}
        self.iterators: dict[Any, Any] = {}
        self.pending_revocation: tuple[float, list] | None = None
        self.is_over = False
        self.error: BaseException | None = None
        self.stopped_at: float | None = None
        self.returned: Counter[tuple[int, int]] = Counter()
        self.attempts: Counter[tuple[int, int]] = Counter()
        #: Offsets that may be handled twice, and why order may not be checked.
        self.excused: set[tuple[int, int]] = set()
        self.letters: Counter[tuple[int, int]] = Counter()
        self.outage = (math.inf, math.inf)
        if random.random() < 0.2:
            begin = random.uniform(0, 1.0)
            self.outage = begin, begin + random.choice((0.3, 3.0, 30.0))
        self.behaviour: dict[tuple[int, int], str] = {}
        poison = random.choice((0.0, 0.05, 0.3)) if self.is_rough else 0.0
        self._kinds = ("flaky", "bad", "never", "slow", "kafka", "after")
        for log in self.logs:
            for record in log.records:
                if random.random() < poison:
                    self.behaviour[log.place.partition, record[0]] = random.choice(
                        self._kinds
                    )
        self.interrupts = (
            random.random() < 0.03 and self.logs[0].records and self.is_rough
        )
        if self.interrupts:
            record = random.choice(self.logs[0].records)
            self.behaviour[0, record[0]] = random.choice(("interrupt", "denied"))
        #: The transaction: what was sent in it, and how it ended.
        self.outputs: Counter[tuple[int, int]] = Counter()
        self.transaction: list[tuple[int, int]] | None = None
        self.was_outage_told = 0
        self.was_refused = self.is_late = False
        #: The partitions that the member had when the run began to end.
        self.last: dict[TopicPartition, Assignment] | None = None

    # --- the clock --------------------------------------------------------------------

    def later(self, wait: float, call: Any, *args: Any) -> None:
        """Plan a call."""
        self._ticket += 1
        heappush(self._events, (self.now + wait, self._ticket, call, args))

    def say(self, *what: Any) -> None:
        """Trace what happens."""
        if self.trace is not None:
            self.trace(f"{self.now:9.3f}  {' '.join(map(str, what))}")

    def wrong(self, what: str) -> None:
        """Note a promise that is broken."""
        self.say("WRONG", what)
        self.problems.append(what)

    def play(self) -> list[str]:
        """Play the schedule; return what went wrong."""
        random = self.random
        self.say(self.order, f"workers {self.workers} batch {self.batch}",
                 f"once {self.exactly_once} ends by {self.ending}",
                 self.policy.handler, self.policy.on_reject)  # fmt: skip
        self._assign(self.logs)
        self._wake_pump()
        if self.is_rough:
            for _ in range(random.choice((0, 1, 3))):
                self.later(random.expovariate(1.0), self._rebalance)
        if self.ending == "stop":
            self.later(random.choice((0.5, 4.0, 40.0)), self._stop)
        steps = 0
        while not self.is_over and not self.problems:
            steps += 1
            if steps > 20_000 or not self._events:
                self.wrong("it does not end")
                break
            self.now, _, call, args = heappop(self._events)
            call(*args)
            self._go_on()
        if not self.problems:
            self._check_end()
        return self.problems

    def _go_on(self) -> None:
        """Execute commands, and give work to workers that are free."""
        machine = self.machine
        if machine.is_open and not self._was_open:
            self._wake_pump()
        self._was_open = machine.is_open
        if self.last is None and machine.state is not RunState.RUNNING:
            self.last = dict(self.assigned)
        while True:
            commands = machine.take_commands()
            for each in commands:
                self._execute(each)
            if self.free and not self.is_over:
                chunk = machine.take(self.now)
                if chunk is not None:
                    self._begin(chunk)
                    continue
            if not commands:
                break
        due = machine.work_due()
        if self.now < due < self._wake_at or self._wake_at <= self.now < due < math.inf:
            self._wake_at = due
            self.later(due - self.now, self._nothing)

    def _nothing(self) -> None:
        """Let an idle worker look for work."""

    # --- the client -------------------------------------------------------------------

    def _wake_pump(self, wait: float = 0.0) -> None:
        self._pumps += 1
        self.later(wait, self._pump, self._pumps)

    def _pump(self, number: int) -> None:
        if self.is_over or number != self._pumps:
            return
        machine, random = self.machine, self.random
        wait = 0.1
        if self.pending_revocation is None:  # else the client waits for the listener
            machine.polled(self.now)
            most = random.randint(1, POLL) if machine.is_open else 1
            records = self._fetch(most)
            if records:
                place, taken = records
                machine.fetched(place, taken, self.now)
                self._check_memory()
                machine.tick(self.now)
                wait = random.choice((0.001, 0.02)) if machine.is_open else 0.1
            else:
                slots = machine.slots
                resting = {
                    slots[p]: a.position for p, a in self.assigned.items() if p in slots
                }
                machine.at_rest(resting, self.now)
                wait = max(0.02, min(5.0, machine.next_due() - self.now))
        self._wake_pump(wait)

    def _fetch(self, most: int) -> tuple[TopicPartition, list] | None:
        places = [p for p in self.assigned if p not in self.paused]
        self.random.shuffle(places)
        for place in places:
            assignment = self.assigned[place]
            log = assignment.log
            records = [r for r in log.records if r[0] >= assignment.position][:most]
            if records:
                assignment.position = records[-1][0] + 1
                self.say("fetched", place, [r[0] for r in records])
                return place, records
            assignment.position = log.end
        return None

    def _check_memory(self) -> None:
        most = self.policy.handler.max_in_flight
        slots = self.machine.slots.values()
        live = sum(slot.undone - slot.parked for slot in slots)
        excess = sum(slot.excess for slot in slots)
        # While closed, one record comes each 0.1 s for 5 s, until the pause.
        if sum(len(slot.records) for slot in slots) > 2 * most + POLL + 70 + 2 * len(
            self.logs
        ):
            self.wrong(f"memory: {live} live, {excess} beyond, {most} allowed")

    def _assign(self, logs: list[Log]) -> None:
        for log in logs:
            self.assigned[log.place] = Assignment(log)
        self._wake_pump()
        self.say("assigned", [log.place.partition for log in logs])
        self.machine.assigned([log.place for log in logs], self.now)
        self.machine.ends({log.place: log.end for log in logs})

    def _rebalance(self) -> None:
        if self.is_over or self.pending_revocation is not None or not self.assigned:
            return
        places = [p for p in self.assigned if self.random.random() < 0.6]
        if not places:
            return
        if self.random.random() < 0.3:
            self.say("lost", places)
            for place in places:
                self._leave(place, is_lost=True)
            self.machine.lost(places, self.now)
            self.later(self.random.uniform(0, 2), self._come_back, places)
            return
        within = self.random.choice((0.05, 1.0, 8.0))
        self.say("revoked", places, within)
        for place in places:
            self.assigned[place].is_revoked = True
        within_all = min(within, self.policy.handler.drain_timeout)
        self.pending_revocation = self.now + within_all, places
        self.machine.revoked(places, within, self.now)
        self.later(within_all + 0.001, self.machine_tick)

    def machine_tick(self) -> None:
        """Look at the clock, as the driver does in a listener."""
        self.machine.tick(self.now)

    def _leave(self, place: TopicPartition, *, is_lost: bool = False) -> None:
        """Give a partition to another member, which may handle some records."""
        assignment = self.assigned.pop(place)
        assignment.is_revoked = True
        self.paused.discard(place)
        log = assignment.log
        number = place.partition
        # What was begun and is not committed may be handled again, if there was no
        # time to end it, or a commit was refused.
        is_cut = is_lost or self.was_refused or self.is_late or self.exactly_once
        waits = self.outage[0] < math.inf or any(
            self.behaviour.get((number, offset)) for offset in assignment.started
        )
        for offset in assignment.started:
            if offset >= log.committed and (is_cut or waits):
                self.excused.add((number, offset))

    def _come_back(self, places: list[TopicPartition]) -> None:
        if self.is_over or self.pending_revocation is not None:
            return
        back = []
        for place in places:
            if place in self.assigned:
                continue
            log = self.by_place[place]
            if self.random.random() < 0.3:  # the other member has handled some
                for record in log.records:
                    if log.committed <= record[0] < log.committed + 3:
                        log.done.add(record[0])
                        self.outputs[place.partition, record[0]] += self.exactly_once
                log.committed = max(log.committed, min(log.committed + 3, log.end))
            back.append(log)
        if back:
            self._assign(back)

    # --- commands ---------------------------------------------------------------------

    def _execute(self, command: Any) -> None:
        match command:
            case Pause(places):
                self.paused.update(places)
            case Resume(places):
                self.paused.difference_update(places)
                self._wake_pump()
            case Commit(number, offsets):
                self._commit(number, offsets)
            case SendLetter():
                self._send_letter(command)
            case GiveUp(places):
                self._give_up(places)
            case Tell(event):
                self._told(event)
            case BeginRound():
                self.transaction = []
                self.later(0.001, self._reply, self.machine.round_began, None)
            case CommitRound(offsets):
                self._commit_round(offsets)
            case AbortRound():
                self._abort_round()
            case End(error):
                self.say("end", repr(error))
                self.is_over = True
                self.error = error

    def _told(self, event: Any) -> None:
        self.say("told", event.name, getattr(event, "offset", ""))
        if event.name == "kafkaguard.record_set_aside":
            self._set_aside(event)
        state = getattr(event, "state", None)
        self.was_outage_told += {"down": 1, "back": -1}.get(state, 0)
        if self.was_outage_told not in (0, 1):
            self.wrong("an outage begins twice or ends twice")

    def _abort_round(self) -> None:
        self.say("abort round")
        self.excused.update(self.transaction or ())
        self.transaction = None
        self._rewind()
        self.later(self.random.choice((0.0, 0.05)), self._end_round, False)

    def _set_aside(self, event: Any) -> None:
        place = TopicPartition(event.topic, event.partition)
        if event.on_reject != "raise":
            self.assigned[place].over.add(event.offset)
        if event.on_reject == "drop":
            self.by_place[place].done.add(event.offset)

    def _reply(self, method: Any, *args: Any) -> None:
        method(*args, self.now)

    def _commit(self, number: int, offsets: dict) -> None:
        random = self.random
        errors = {}
        refused = random.choice((_TIMEOUT, _MOVED)) if random.random() < 0.08 else None
        for place, offset in offsets.items():
            log = self.by_place[place]
            if place not in self.assigned:
                self.wrong(f"{place} is committed though it is not assigned")
            if refused is not None and self.is_rough:
                errors[place] = refused
                self.was_refused = True
                continue
            self._check_commit(log, offset)
            log.committed = offset
        self.say("commit", number, {p.partition: o for p, o in offsets.items()}, errors)
        self.later(random.choice((0.001, 0.05, 1.0)), self._answer, number, errors)

    def _answer(self, number: int, errors: dict) -> None:
        self.machine.committed(number, errors, self.now)

    def _check_commit(self, log: Log, offset: int) -> None:
        if offset > log.prefix():
            self.wrong(f"{log.place}: {offset} is committed, {log.prefix()} not done")

    def _commit_round(self, offsets: dict) -> None:
        """Commit a transaction; the coordinator may abort it."""
        assert self.transaction is not None
        is_committed = not (self.is_rough and self.random.random() < 0.1)
        if is_committed:
            for place in offsets:
                if place not in self.assigned:
                    self.wrong(f"{place} is committed though it is not assigned")
            for number, offset in self.transaction:
                self.outputs[number, offset] += 1
            for place, offset in offsets.items():
                log = self.by_place[place]
                self._check_commit(log, offset)
                log.committed = offset
        else:
            self.excused.update(self.transaction)
        self.say("round", "committed" if is_committed else "aborted", offsets)
        self.transaction = None
        if not is_committed:
            self._rewind()
        else:
            self._rewind()
        self.later(self.random.choice((0.0, 0.05)), self._end_round, is_committed)

    def _rewind(self) -> None:
        """Forget what was begun and is not committed: it is handled again."""
        for place, assignment in self.assigned.items():
            committed = assignment.log.committed
            for offsets in (assignment.started, assignment.over):
                again = {offset for offset in offsets if offset >= committed}
                self.excused.update((place.partition, offset) for offset in again)
                offsets.difference_update(again)
            assignment.log.done -= {
                o for o in assignment.log.done if o >= committed
            }  # fmt: skip

    def _end_round(self, is_committed: bool) -> None:
        self.machine.round_ended(None, self.now, is_committed=is_committed)

    def _send_letter(self, letter: SendLetter) -> None:
        key = (letter.record[2], letter.record[0])
        behaviour = self.behaviour.get(key)
        if behaviour is None:
            self.wrong(f"a letter for {key}, which is good")
        draw = self.random.random() if self.is_rough else 1.0
        error = _TIMEOUT if draw < 0.1 else _DENIED if draw < 0.12 else None
        wait = self.random.choice((0.001, 0.1, 3.0))
        self.later(wait, self._end_letter, letter, error)

    def _end_letter(self, letter: SendLetter, error: Any) -> None:
        number, offset = letter.record[2], letter.record[0]
        self.say("letter", number, offset, error and error.name)
        if error is None:
            self.letters[number, offset] += 1
            if not letter.slot.is_gone:
                self.by_place[letter.slot.place].done.add(offset)
        self.machine.letter_sent(letter, error, self.now)

    def _give_up(self, places: list[TopicPartition]) -> None:
        assert self.pending_revocation is not None
        until, _ = self.pending_revocation
        if self.now > until + 0.01:
            self.wrong("a revocation outlasts its bound")
        self.pending_revocation = None
        self.is_late = self.now >= until - 1e-9
        self.say("given up", places)
        for place in places:
            if place in self.assigned:
                self._leave(place)
        self.later(self.random.uniform(0, 2), self._come_back, places)

    def _stop(self) -> None:
        self.say("stop")
        self.stopped_at = self.now
        self.machine.stop(self.now)

    # --- workers and handlers ---------------------------------------------------------

    def _begin(self, chunk: Any) -> None:
        self.free -= 1
        assignment = self.assigned.get(chunk.slot.place)
        if assignment is None:
            self.wrong("work of a partition that is gone")
            return
        if assignment.is_revoked or self.stopped_at is not None:
            last = max(assignment.started, default=-1)
            if any(record[0] > last for record in chunk.records):
                self.wrong("work begins that nothing needs after a stop or revocation")
        self.running[chunk] = assignment
        if self.batch is not None:
            self._handle_batch(chunk, assignment)
        else:
            self._handle(chunk, assignment, 0)

    def _check_order(self, assignment: Assignment, record: Any) -> None:
        """Check that what is before a record in its lane is over."""
        offset, key, number = record
        if self.order == "none" or (self.order == "key" and key is None):
            return
        for other in assignment.log.records:
            if other[0] >= offset:
                break
            if other[0] < assignment.first or other[0] in assignment.over:
                continue
            if self.order == "partition" or other[1] == key:
                self.wrong(f"{number}/{offset} begins before {other[0]} is over")

    def _time(self, record: Any) -> float:
        slow = self.behaviour.get((record[2], record[0])) == "slow"
        if slow:
            return self.random.choice((0.3, 4.0, 20.0))
        return self.random.choice((0.0, 0.001, 0.02, 0.1))

    def _start(self, assignment: Assignment, record: Any) -> None:
        self._check_order(assignment, record)
        offset = record[0]
        self.attempts[record[2], offset] += 1
        assignment.started.add(offset)

    def _handle(self, chunk: Any, assignment: Assignment, index: int) -> None:
        """Begin to handle a record of a chunk."""
        if index == 0:
            self.iterators[chunk] = chunk.begin()
        record = next(self.iterators[chunk])
        self._start(assignment, record)
        self.later(self._time(record), self._end_handle, chunk, assignment, index)

    def _end_handle(self, chunk: Any, assignment: Assignment, index: int) -> None:
        record = chunk.records[index]
        error = self._raises(record)
        if error is None:
            self._done(chunk, assignment, record)
            index += 1
            if index < len(chunk.records) and not chunk.stops:
                self._handle(chunk, assignment, index)
                return
            self._finish(chunk, index, {})
        else:
            self._fails(assignment, record, error)
            self._finish(chunk, index + 1, {index: error})

    def _fails(self, assignment: Assignment, record: Any, error: BaseException) -> None:
        self.say("raised", record[2], record[0], type(error).__name__)
        self.outcomes["raised"] += 1

    def _done(self, chunk: Any, assignment: Assignment, record: Any) -> None:
        number, offset = record[2], record[0]
        self.say("done", number, offset)
        self.outcomes["done"] += 1
        self.returned[number, offset] += 1
        assignment.over.add(offset)
        is_ours = assignment.log.place in self.assigned and (
            self.assigned[assignment.log.place] is assignment
        )
        if is_ours:
            assignment.log.done.add(offset)
            if self.exactly_once and self.machine.may_send(chunk):
                assert self.transaction is not None
                self.transaction.append((number, offset))
        if self.returned[number, offset] > 1 and (number, offset) not in self.excused:
            self.wrong(f"{number}/{offset} returned twice without a reason")

    def _finish(self, chunk: Any, attempted: int, failures: dict) -> None:
        self.free += 1
        del self.running[chunk]
        self.machine.finished(chunk, attempted, failures, self.now)

    def _raises(self, record: Any) -> BaseException | None:
        """Return what the handler raises for a record; None: it returns."""
        if self.outage[0] <= self.now < self.outage[1]:
            return self.random.choice((DownError(), Unavailable(after=0.5)))
        kind = self.behaviour.get((record[2], record[0]))
        if kind is None or self.random.random() >= _RAISES.get(kind, 1.0):
            return None
        return _ERRORS[kind]()

    def _handle_batch(self, chunk: Any, assignment: Assignment) -> None:
        if len(chunk.records) > self.batch:
            self.wrong("a batch is too large")
        for record in chunk.records:
            self.attempts[record[2], record[0]] += 1
            assignment.started.add(record[0])
        first: set[Any] = set()
        for record in chunk.records:
            if record[1] not in first:
                self._check_batch_order(assignment, record, chunk)
            first.add(record[1])
        wait = max(map(self._time, chunk.records))
        self.later(wait, self._end_batch, chunk, assignment)

    def _check_batch_order(
        self, assignment: Assignment, record: Any, chunk: Any
    ) -> None:
        before = set(assignment.over)
        assignment.over |= {r[0] for r in chunk.records}
        self._check_order(assignment, record)
        assignment.over = before

    def _end_batch(self, chunk: Any, assignment: Assignment) -> None:
        raised = {}
        for index, record in enumerate(chunk.records):
            error = self._raises(record)
            if error is not None:
                raised[index] = error
        count = len(chunk.records)
        if raised and (count == 1 or self.random.random() < 0.5):
            error = next(iter(raised.values()))
            self.say("batch raised", [r[:2] for r in chunk.records], repr(error))
            if count == 1:
                self._fails(assignment, chunk.records[0], error)
            else:
                self.excused.update((r[2], r[0]) for r in chunk.records)
            self._finish(chunk, count, {WHOLE: error})
            return
        for index, record in enumerate(chunk.records):
            if index in raised:
                self._fails(assignment, record, raised[index])
            else:
                self._done(chunk, assignment, record)
        failures = {WHOLE: BatchError(raised)} if raised else {}
        self._finish(chunk, count, failures)

    # --- the end ----------------------------------------------------------------------

    def _check_end(self) -> None:
        """Check what must hold when the run has ended."""
        settings = self.policy.handler
        report = self.machine.report()
        if self.stopped_at is not None and (
            self.now - self.stopped_at > settings.drain_timeout + LAST_COMMIT_S + 1.1
        ):
            self.wrong("the end takes too long")
        has_failed = self.error is not None
        if has_failed and not (
            self.policy.on_reject == "raise"
            or self.interrupts
            or self.error in (_DENIED, _TIMEOUT)
        ):
            self.wrong(f"it ended with {self.error!r}")
        for log in self.logs:
            if log.committed > log.prefix():
                self.wrong(f"{log.place}: committed {log.committed}, {log.prefix()}")
        if self.ending in ("until_end", "idle") and not has_failed:
            for place, assignment in (self.last or {}).items():
                log = assignment.log
                if log.committed != log.end and not self.is_rough:
                    self.wrong(f"{place}: committed {log.committed} of {log.end}")
                if log.prefix() != log.end:
                    self.wrong(f"{place}: not all is handled")
        if self.exactly_once:
            self._check_outputs()
        self._check_attempts()
        for name in ("processed", "retried", "dead_lettered", "dropped", "late"):
            self.outcomes[name] += getattr(report, name)

    def _check_outputs(self) -> None:
        """Check that each input's output is there once, or none is committed."""
        for log in self.logs:
            for offset, _, number in log.records:
                sent = self.outputs[number, offset]
                if offset >= log.committed:
                    if sent:
                        self.wrong(f"{number}/{offset} has an output, no commit")
                    continue
                aside = self.behaviour.get((number, offset)) is not None
                if sent != 1 and not (aside and sent == 0):
                    self.wrong(f"{number}/{offset} has {sent} outputs")

    def _check_attempts(self) -> None:
        """Check that a record that always fails is not tried too often."""
        most = self.policy.handler.max_attempts
        if self.outage[0] < math.inf or self.batch is not None:
            return
        for key, count in self.attempts.items():
            is_poison = self.behaviour.get(key) == "never" and key not in self.excused
            if is_poison and count > most:
                self.wrong(f"{key}: {count} attempts of {most}")
