"""What happens to the cluster: seeded, each kind at least once in a long enough run."""

from __future__ import annotations

import threading
import time
from collections import Counter

COMPACT = {"cleanup.policy": "compact"}
DELETE = {"cleanup.policy": "delete"}


class Faults:
    """Kills, pauses, takes everything down, and changes a topic.

    Args:
        cluster: Three brokers.
        topic: The topic that becomes compacted and back; None: there is none.
        random: Where the seed is.
        longer: Seconds that are longer than a delivery may take.
    """

    def __init__(self, cluster, topic, random, longer):
        self.done = Counter()
        self.times = []
        self._cluster = cluster
        self._topic = topic
        self._random = random
        self._longer = longer
        self._pause = threading.Event()

    def run(self, seconds):
        """Let things happen for so long, and leave the cluster whole."""
        end = time.monotonic() + seconds
        kinds = [self.kill, self.pause, self.all_down]
        if self._topic is not None:
            kinds.append(self.compact)
        while True:
            self._random.shuffle(kinds)
            for kind in kinds:
                if time.monotonic() >= end:
                    return
                start = time.monotonic()
                kind()
                self.done[kind.__name__] += 1
                self.times.append((kind.__name__, start, time.monotonic()))
                self._wait(0.5, 2.0)

    def _wait(self, least, most):
        self._pause.wait(self._random.uniform(least, most))

    def _any(self):
        return self._cluster.broker(self._random.randrange(3))

    def kill(self):
        """A broker crashes, and comes back."""
        broker = self._any()
        broker.kill()
        self._wait(0.2, 3.0)
        broker.start()

    def pause(self):
        """A broker answers nothing for longer than a delivery may take."""
        broker = self._any()
        broker.pause()
        self._wait(self._longer, self._longer + 2.0)
        broker.resume()

    def all_down(self):
        """All brokers crash; they come back together, since they are the quorum."""
        for broker in self._cluster.brokers:
            broker.kill()
        self._wait(0.5, 2.0)
        for broker in self._cluster.brokers:
            broker.start(wait=False)
        for broker in self._cluster.brokers:
            broker.wait_until_ready({0, 1, 2}, 60)

    def compact(self):
        """A topic becomes compacted, whatever is on its way to it; and back."""
        self._cluster.alter_topic(self._topic, COMPACT)
        self._wait(1.0, 3.0)
        self._cluster.alter_topic(self._topic, DELETE)
