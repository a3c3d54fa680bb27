"""What happens to cluster, network and actors: seeded, three lanes at the same time."""

from __future__ import annotations

import threading
import time
from collections import Counter
from random import Random
from typing import NamedTuple

from tests.chaos.ground import TAKEN

COMPACT = {"cleanup.policy": "compact"}
DELETE = {"cleanup.policy": "delete"}
MOST_PARTITIONS = 12
#: Seconds in which a change of the cluster must succeed.
INSIST_S = 60.0


class Happening(NamedTuple):
    """Something that happened.

    Attributes:
        lane: Whom it happened to: the cluster, the network or an actor.
        kind: What it was.
        subject: Which broker, topic, user or actor.
        start: When it began (``time.monotonic()``).
        stop: When it was over.
    """

    lane: str
    kind: str
    subject: str
    start: float
    stop: float


class Faults:
    """Plays faults of three lanes, each kind at least once in a long enough run.

    Args:
        ground: The cluster and its proxy.
        actors: Those who suffer.
        seed: What is drawn at random.
        longer: Seconds that are longer than a delivery may take.

    Attributes:
        happened: What happened, in the order of its end.
        failures: What a lane could not do.
    """

    def __init__(self, ground, actors, seed, longer):
        self.happened = []
        self.failures = []
        self._ground = ground
        self._cluster = ground.cluster
        self._proxy = ground.proxy
        self._longer = longer
        self._pause = threading.Event()
        self._actors = actors
        self._growing = [each.growing for each in actors if each.growing]
        self._remade = [each.remade for each in actors if each.remade]
        self._compacted = [each.compacted for each in actors if each.compacted]
        self._lanes = {
            "cluster": [
                self.kill, self.pause, self.all_down, self.controller, self.rights,
                *([self.disk] if ground.disks else []),
                *([self.grow] if self._growing else []),
                *([self.remake] if self._remade else []),
                *([self.compact] if self._compacted else []),
            ],
            "network": [
                self.reset, self.delay, self.lose, self.throttle, self.half_open,
                self.away,
            ],
            "actors": [each.kill for each in actors if each.kill],
        }  # fmt: skip
        self._randoms = {lane: Random(f"{seed}-{lane}") for lane in self._lanes}

    def run(self, seconds):
        """Let things happen for so long, and leave everything whole."""
        end = time.monotonic() + seconds
        threads = [
            threading.Thread(target=self._run, args=(lane, kinds, end), name=lane)
            for lane, kinds in self._lanes.items()
            if kinds
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

    @property
    def done(self):
        """How often each kind happened, by its lane."""
        return Counter(f"{each.lane}: {each.kind}" for each in self.happened)

    def last(self, kind, subject):
        """Return when something was over for the last time; 0: it never happened."""
        stops = [
            e.stop for e in self.happened if (e.kind, e.subject) == (kind, subject)
        ]
        return max(stops, default=0.0)

    def _run(self, lane, kinds, end):
        random = self._randoms[lane]
        kinds = list(kinds)
        pauses = (6.0, 15.0) if lane == "actors" else (0.5, 2.0)
        while True:
            random.shuffle(kinds)
            for kind in kinds:
                if time.monotonic() >= end:
                    return
                start = time.monotonic()
                try:
                    subject = kind(random)
                except Exception as error:  # the run goes on, and has failed
                    self.failures.append(f"{kind.__name__}: {error!r}")
                    subject = "failed"
                name = kind.__name__.replace("_", " ")
                self.happened.append(
                    Happening(lane, name, subject, start, time.monotonic())
                )
                self._wait(random, *pauses)

    def _wait(self, random, least, most):
        self._pause.wait(random.uniform(least, most))

    def _insist(self, work, *arguments):
        """Change the cluster, again if the brokers are not ready for it."""
        end = time.monotonic() + INSIST_S
        while True:
            try:
                return work(*arguments)
            except Exception:
                if time.monotonic() > end:
                    raise
                self._pause.wait(0.5)

    # The cluster.

    def _crash(self, random, broker):
        broker.kill()
        self._wait(random, 0.2, 3.0)
        broker.start()
        return f"broker {broker.id}"

    def kill(self, random):
        """A broker crashes, and comes back."""
        return self._crash(random, self._cluster.broker(random.randrange(3)))

    def controller(self, random):
        """The controller crashes, and comes back."""
        return self._crash(random, self._insist(self._ground.controller))

    def pause(self, random):
        """A broker answers nothing for longer than a delivery may take."""
        broker = self._cluster.broker(random.randrange(3))
        broker.pause()
        self._wait(random, self._longer, self._longer + 2.0)
        broker.resume()
        return f"broker {broker.id}"

    def all_down(self, random):
        """All brokers crash; they come back together, since they are the quorum."""
        for broker in self._cluster.brokers:
            broker.kill()
        self._wait(random, 0.5, 2.0)
        for broker in self._cluster.brokers:
            broker.start(wait=False)
        for broker in self._cluster.brokers:
            broker.wait_until_ready({0, 1, 2}, 60)
        return "all brokers"

    def disk(self, random):
        """One of a broker's two disks is full; then it has room, and the broker starts."""
        node = random.choice(list(self._ground.disks))
        broker = self._cluster.broker(node)
        self._ground.fill(node)
        self._wait(random, 2.0, 5.0)
        self._ground.empty(node)
        if broker.is_running:
            broker.kill()
        broker.start()
        return f"broker {node}"

    def rights(self, random):
        """A right is taken from an actor, and given back."""
        user = random.choice(self._ground.users)
        right = random.choice(TAKEN)
        self._insist(self._ground.take, user, *right)
        self._wait(random, 1.0, 4.0)
        self._insist(self._ground.give, user, *right)
        return f"{user}: {' '.join(right).lower()}"

    def grow(self, random):
        """A topic gets a partition more."""
        topic = random.choice(self._growing)
        if self._insist(self._ground.partitions, topic) < MOST_PARTITIONS:
            self._insist(self._ground.grow, topic)
        return topic

    def remake(self, random):
        """A topic is deleted and made anew."""
        topic, create = random.choice(self._remade)
        self._insist(self._cluster.delete_topic, topic)
        self._wait(random, 0.1, 2.0)
        self._insist(create)
        return topic

    def compact(self, random):
        """A topic becomes compacted, whatever is on its way to it; and back."""
        topic = random.choice(self._compacted)
        self._insist(self._cluster.alter_topic, topic, COMPACT)
        self._wait(random, 1.0, 3.0)
        self._insist(self._cluster.alter_topic, topic, DELETE)
        return topic

    # The network.

    def _on(self, random, rate, **where):
        return self._proxy.on(rate=rate, seed=random.randrange(1000), **where)

    def _for_a_while(self, random, fault, subject):
        with fault:
            self._wait(random, 1.0, 4.0)
        return f"{subject}, {fault.fired} requests"

    def reset(self, random):
        """Connections are reset instead of an answer, before or after the work."""
        written = random.random() < 0.5
        fault = self._on(random, 0.02).reset(written=written)
        return self._for_a_while(random, fault, "2 %")

    def delay(self, random):
        """Answers come late."""
        seconds = random.uniform(0.1, 1.5)
        fault = self._on(random, 0.2).delay(seconds)
        return self._for_a_while(random, fault, f"20 % by {seconds:.1f} s")

    def lose(self, random):
        """Answers are lost: the broker did the work, and the client waits."""
        return self._for_a_while(random, self._on(random, 0.01).drop(), "1 %")

    def throttle(self, random):
        """Clients are over their quotas."""
        return self._for_a_while(random, self._on(random, 0.2).throttle(0.5), "20 %")

    def half_open(self, random):
        """Connections to a broker stay open, and nothing comes through."""
        node = random.randrange(3)
        fault = self._on(random, 1.0, broker=node).drop(written=False)
        return self._for_a_while(random, fault, f"broker {node}")

    def away(self, random):
        """A broker cannot be reached by clients; the other brokers see it."""
        node = random.randrange(3)
        with self._proxy.without(node):
            self._wait(random, 1.0, 5.0)
        return f"broker {node}"
