"""The retry budget: a bucket of tokens that successes fill and retries empty.

A success takes no lock: it only steps a counter, which CPython does in one instruction.
The next retry looks how far the counter got and fills the bucket by as much.
"""

from __future__ import annotations

from itertools import count
from threading import Lock
from weakref import WeakValueDictionary


class RetryBudget:
    """A token bucket, shared by all that retry against the same cluster.

    Args:
        capacity: How many tokens there can be; it starts full.
        deposit: What a success puts in.
    """

    def __init__(self, capacity: float, deposit: float) -> None:
        self.capacity = capacity
        self.deposit = deposit
        counter = count()
        #: Called on each success; its return value means nothing.
        self.succeeded = counter.__next__
        self._seen = 0
        self._tokens = capacity
        self._lock = Lock()

    @property
    def tokens(self) -> float:
        """How many tokens there are now."""
        with self._lock:
            self._fill()
            return self._tokens

    def take(self, cost: float) -> bool:
        """Take ``cost`` tokens; False and nothing taken if there are too few."""
        with self._lock:
            self._fill()
            if cost > self._tokens:
                return False
            self._tokens -= cost
            return True

    def _fill(self) -> None:
        """Turn the successes since the last look into tokens."""
        steps = self.succeeded()  # reading the counter steps it: not a success
        successes = steps - self._seen
        self._seen = steps + 1
        self._tokens = min(self.capacity, self._tokens + successes * self.deposit)


_shared: WeakValueDictionary[tuple[str, float, float], RetryBudget] = (
    WeakValueDictionary()
)
_shared_lock = Lock()


def shared_budget(cluster: str, capacity: float, deposit: float) -> RetryBudget:
    """Return the budget of a cluster, the same for the same settings.

    Args:
        cluster: The cluster's id, or its bootstrap servers.
        capacity: How many tokens there can be.
        deposit: What a success puts in.
    """
    key = (cluster, capacity, deposit)
    with _shared_lock:
        budget = _shared.get(key)
        if budget is None:
            budget = _shared[key] = RetryBudget(capacity, deposit)
        return budget
