"""The retry budget: a token bucket that successes fill and retries empty.

A success takes no lock. It only increments a counter, which is atomic in CPython. The
next retry reads the counter, and fills the bucket by the number of successes.
"""

from __future__ import annotations

from itertools import count
from threading import Lock
from weakref import WeakValueDictionary


class RetryBudget:
    """A token bucket, shared by all calls that retry against the same cluster.

    Args:
        capacity: The most tokens in the bucket, which starts full.
        deposit: The tokens that a success adds.
    """

    def __init__(self, capacity: float, deposit: float) -> None:
        self.capacity = capacity
        self.deposit = deposit
        counter = count()
        #: Called for each success; its return value has no meaning.
        self.succeeded = counter.__next__
        self._seen = 0
        self._tokens = capacity
        self._lock = Lock()

    @property
    def tokens(self) -> float:
        """The number of tokens now."""
        with self._lock:
            self._fill()
            return self._tokens

    def take(self, cost: float) -> bool:
        """Take ``cost`` tokens, or take none and return False if there are too few."""
        with self._lock:
            self._fill()
            if cost > self._tokens:
                return False
            self._tokens -= cost
            return True

    def _fill(self) -> None:
        """Add the tokens for the successes since the last call."""
        steps = self.succeeded()  # reading the counter steps it: not a success
        successes = steps - self._seen
        self._seen = steps + 1
        self._tokens = min(self.capacity, self._tokens + successes * self.deposit)


_shared: WeakValueDictionary[tuple[str, float, float], RetryBudget] = (
    WeakValueDictionary()
)
_shared_lock = Lock()


def shared_budget(cluster: str, capacity: float, deposit: float) -> RetryBudget:
    """Return the budget of a cluster; the same one for the same settings.

    Args:
        cluster: The cluster's id, or its bootstrap servers.
        capacity: The most tokens in the bucket.
        deposit: The tokens that a success adds.
    """
    key = (cluster, capacity, deposit)
    with _shared_lock:
        budget = _shared.get(key)
        if budget is None:
            budget = _shared[key] = RetryBudget(capacity, deposit)
        return budget
