"""A simulated world for exactly once: shards, zombies, kills, time, expired markers."""

from __future__ import annotations

from collections import Counter
from functools import partial
from random import Random

from kafkaguard_adapters.spark.once import rules
from kafkaguard_adapters.spark.once.rules import (
    History,
    Marker,
    Plan,
    RefusedError,
    SupersededError,
    decode,
    encode,
)

RETENTION = 1000.0
_TIMEOUT = 30.0
DRIVER = None


class FencedError(Exception):
    """A later copy has taken over the transactional id."""


class NoAnswerError(Exception):
    """An answer was lost; what was asked for may have happened."""


class Brokers:
    """Transactions, offsets and a log: what was committed of which shard."""

    def __init__(self, draw):
        self.draw = draw
        self.now = 0.0
        self.epochs = Counter()
        self.open = {}
        self.offsets = {}
        #: How often each shard of a batch was committed, and with which rows.
        self.log = Counter()

    def init(self, who):
        """Take over an id: its open transaction ends, older copies are fenced."""
        self.epochs[who] += 1
        self.open.pop(who, None)
        return self.epochs[who]

    def begin(self, who, epoch, writes=()):
        """Begin a transaction."""
        self._check(who, epoch)
        self.open[who] = (self.now, list(writes))

    def commit(self, who, epoch, entry):
        """Commit rows and entry together; the answer may be lost."""
        self._check(who, epoch)
        if who not in self.open:
            raise FencedError
        answer = self.draw.random()
        if answer < 0.1:
            raise NoAnswerError  # and the transaction stays open
        _, writes = self.open.pop(who)
        self.log.update(writes)
        self.offsets[who] = (encode(entry), self.now)
        if answer < 0.25:
            raise NoAnswerError

    def look(self, who, kind):
        """Return an entry; brokers delete it some time after its retention."""
        text, made = self.offsets.get(who, (None, 0.0))
        age = self.now - made
        if text is None or (
            age > RETENTION and self.draw.random() < age / RETENTION - 1
        ):
            self.offsets.pop(who, None)
            return None
        return decode(kind, text)

    def passes(self, seconds):
        """Let time pass; transactions that are open for too long are aborted."""
        self.now += seconds
        for who, (began, _) in list(self.open.items()):
            if self.now - began > _TIMEOUT:
                self.init(who)

    def _check(self, who, epoch):
        if self.epochs[who] != epoch:
            raise FencedError


class Copy:
    """A process that runs a flow, step by step; it may be left behind at any of them."""

    def __init__(self, brokers, flow, rows=None, shards=0, note=None):
        self.brokers = brokers
        self.flow = flow
        self.rows = rows
        self.shards = shards
        self.note = note
        self.epochs = {}
        self.answer = None
        self.result = self.error = None
        self.is_done = False

    def step(self):
        """Make one step."""
        try:
            self.answer = self.make(self.flow.send(self.answer))
        except StopIteration as end:
            self.is_done, self.result = True, end.value
        except (FencedError, NoAnswerError, RefusedError, SupersededError) as error:
            self.is_done, self.error = True, error

    def make(self, step):
        """Do what a step says."""
        brokers, who = self.brokers, step.shard
        if step.do == "init":
            self.epochs[who] = brokers.init(who)
        elif step.do == "look":
            shards = range(self.shards) if who is None else [who]
            found = {each: brokers.look(each, Marker) for each in shards}
            markers = {shard: each for shard, each in found.items() if each}
            return brokers.look(DRIVER, Plan), markers
        elif step.do == "send":
            brokers.begin(who, self.epochs[who], [self.rows])
            return 1, "-".join(map(str, self.rows))
        elif step.do == "count":
            return 1, "-".join(map(str, self.rows))
        elif step.do == "commit":
            if not isinstance(step.entry, Marker) or self.rows is None:
                brokers.begin(who, self.epochs[who])
            brokers.commit(who, self.epochs[who], step.entry)
        elif step.do == "note":
            self.note()
        return None


class World:
    """Streams that are killed and begun again, over one name.

    Attributes:
        faults: Which of these may happen: ``long`` times, markers that are ``wiped``,
            an ``older`` checkpoint, ``other`` rows in a replay.
    """

    def __init__(self, draw, faults=(), *, is_stream=True):
        self.draw = draw
        self.faults = faults
        self.is_stream = is_stream
        self.brokers = Brokers(draw)
        self.skew = draw.uniform(-20, 20)
        self.entries, self.ends, self.tried = {}, {}, None
        self.copies = []
        self.shards = draw.randint(1, 4)
        self.runs = 0
        self.version = 0
        self.last, self.epoch = None, 0
        self.refusal = None
        #: The number of shards of each batch that was planned, and that was written.
        self.planned, self.finished = {}, {}

    @property
    def now(self):
        """The driver's clock."""
        return int(self.brokers.now + self.skew)

    def history(self, batch):
        """Return what the checkpoint says."""

        def look():
            was_tried = self.tried == batch
            previous = self.ends.get(batch - 1)
            return History(
                self.now - self.entries[batch],
                None if previous is None else self.now - previous,
                was_tried,
            )

        return look if self.is_stream else None

    def note(self, batch):
        """Note that a batch is tried."""
        self.tried = batch

    def wish(self, batch, shards):
        """Make the plan that a driver would like."""
        query = "q" if self.is_stream else rules.NO_QUERY
        now = self.now
        return Plan(f"r{self.runs}", query, batch, shards, 2, "c", now, now)

    def play(self, batches):
        """Write some batches, with faults; return why one was refused, or None."""
        batch, self.refusal = len(self.finished), None
        while batch < batches and self.refusal is None:
            if self.draw.random() < 0.6:  # a new process
                self.runs, self.last = self.runs + 1, None
                if "other" in self.faults:
                    self.version = self.runs
            self.entries.setdefault(batch, self.now)
            if self.try_batch(batch):
                self.ends[batch] = self.now
                self.finished[batch] = self.last.shards
                batch += 1
                if "older" in self.faults and self.draw.random() < 0.1:
                    batch = self.draw.randint(0, batch)
        while self.copies:
            self.step(self.draw.choice(self.copies))
        return self.refusal

    def try_batch(self, batch):
        """Run a driver until its job ends, or it is killed."""
        self.time_passes()
        last, self.last = self.last, None
        flow = rules.plan_batch(
            self.wish(batch, self.draw.randint(1, 4) if batch else self.shards),
            self.history(batch),
            RETENTION,
            last,
        )
        driver = Copy(self.brokers, flow, shards=4, note=partial(self.note, batch))
        driver.epochs[DRIVER] = self.epoch  # of its last batch
        while not driver.is_done:
            if self.draw.random() < 0.03:
                if "wiped" not in self.faults:
                    self.copies.append(driver)
                return False
            driver.step()
            self.others(may_wipe=False)
        if isinstance(driver.error, RefusedError):
            self.refusal = str(driver.error)
        if driver.error:
            return False
        plan = driver.result
        assert len(encode(plan)) <= 200
        self.planned[plan.batch] = plan.shards
        self.last, self.epoch = plan, driver.epochs[DRIVER]
        return self.run_tasks(plan)

    def run_tasks(self, plan):
        """Run the tasks of a batch: copies that fail, hang, and come twice."""
        open_shards = set(range(plan.shards))
        tries = Counter()
        running = []
        while open_shards:
            if self.draw.random() < 0.01:
                self.copies += [
                    copy for _, copy in running
                ]  # the driver is killed, its tasks live on
                self.last = None
                return False
            shard = self.draw.choice(sorted(open_shards))
            if self.draw.random() < 0.05 or not any(s == shard for s, _ in running):
                if tries[shard] > 6:
                    self.copies += [copy for _, copy in running]
                    return False
                tries[shard] += 1
                flow = rules.write_shard(
                    plan.run, plan.batch, shard, RETENTION, lambda: self.now
                )
                rows = (plan.batch, shard, self.version)
                running.append((shard, Copy(self.brokers, flow, rows)))
            which, copy = self.draw.choice(running)
            if copy.is_done:
                running.remove((which, copy))
                if isinstance(copy.error, RefusedError):
                    self.refusal = str(copy.error)
                    return False
                if copy.error is None:
                    open_shards.discard(which)
            elif self.draw.random() < 0.05:  # killed, or left behind
                running.remove((which, copy))
                if self.draw.random() < 0.5:
                    self.copies.append(copy)
            else:
                copy.step()
            self.others()
        self.copies += [copy for _, copy in running]
        return True

    def others(self, *, may_wipe=True):
        """Let a copy that was left behind make a step, or time pass."""
        if self.copies and self.draw.random() < 0.3:
            self.step(self.draw.choice(self.copies))
        self.brokers.passes(self.draw.expovariate(1.0))
        if may_wipe and "wiped" in self.faults and self.draw.random() < 0.01:
            self.brokers.offsets.clear()

    def step(self, copy):
        """Step a copy that was left behind."""
        copy.step()
        if copy.is_done:
            self.copies.remove(copy)

    def time_passes(self):
        """Let a stream stand still, sometimes for longer than markers live."""
        if "long" in self.faults and self.draw.random() < 0.2:
            self.brokers.passes(self.draw.uniform(0, 2.5 * RETENTION))

    def problems(self):
        """List what a reader of committed records would complain about."""
        found = []
        times = Counter()
        for (batch, shard, _), count in self.brokers.log.items():
            times[batch, shard] += count
        found += [f"{each} was written {n} times" for each, n in times.items() if n > 1]
        for batch, shards in self.finished.items():
            written = {shard for b, shard in times if b == batch}
            if written != set(range(shards)):
                found.append(f"batch {batch} has only {written} of {shards}")
        return found


def settle(world):
    """Settle the refused batch as somebody would who has read the topic."""
    batch = len(world.finished)
    written = {shard for b, shard, _ in world.brokers.log if b == batch}
    wish = world.wish(batch, world.planned.get(batch, world.shards))
    wish = wish._replace(run="cli", query=rules.ANY, content=rules.ANY)
    run_alone(world, rules.settle(wish, written))


def run_alone(world, flow):
    """Run a flow to its end, without faults; return its result."""
    draw, world.brokers.draw = world.brokers.draw, Random(0)
    world.brokers.draw.random = lambda: 1.0
    copy = Copy(world.brokers, flow, shards=4)
    while not copy.is_done:
        copy.step()
    world.brokers.draw = draw
    world.last = None
    if copy.error:
        raise copy.error
    return copy.result
