"""The circuit breaker: closed, open, half-open.

::

    CLOSED --(failures in a row)--> OPEN --(open_for has passed)--> HALF_OPEN
      ^                               ^                                 |
      |                               +-----------(a failure)-----------+
      +-------------------------------------(probes succeeded)----------+

The time is an argument. If a probe never reports its result, another call may probe
after ``open_for``.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from threading import Lock
from weakref import WeakValueDictionary

from kafkaguard._common.public import public
from kafkaguard._errors import ClientNotConnectedError


class BreakerState(StrEnum):
    """The state of a circuit breaker."""

    CLOSED = "closed"
    """Calls are made."""
    OPEN = "open"
    """No call is made until ``open_for`` seconds have passed."""
    HALF_OPEN = "half-open"
    """``probes`` calls are made: if all succeed the breaker closes, if one fails it
    opens."""


@public("kafkaguard.errors")
class BreakerOpenError(ClientNotConnectedError):
    """The cluster kept failing, so no calls are made for a while; nothing was sent."""

    name = "BREAKER_OPEN"

    def __str__(self) -> str:
        """Describe since when the breaker is open, and when a probe is allowed."""
        place = f" [{self.place}]" if self.place else ""
        why = self.summary or self.broker_message
        return f"{self.name}{place}: {why}; nothing was sent"


@dataclass(frozen=True, slots=True)
class Change:
    """A change from one state to another."""

    old: BreakerState
    new: BreakerState


class CircuitBreaker:
    """Decides whether a call may be made; one breaker for each cluster and API.

    Args:
        failures: How many failures in a row open the breaker.
        open_for: How many seconds it stays open.
        probes: How many calls may be made while it is half-open; if all succeed, it
            closes.
    """

    def __init__(self, failures: int, open_for: float, probes: int) -> None:
        self.failures = failures
        self.open_for = open_for
        self.probes = probes
        self.state = BreakerState.CLOSED
        #: False while nothing has failed; then a success need not be reported.
        self.disturbed = False
        self._strikes = 0
        self._since = 0.0
        self._started: list[float] = []
        self._succeeded = 0
        self._lock = Lock()

    def ask(self, now: float) -> tuple[float, Change | None]:
        """Ask whether a call may be made.

        Returns:
            0 if the call may be made, or the seconds to wait before asking again; and
            the change of state, if there was one.
        """
        with self._lock:
            if self.state is BreakerState.CLOSED:
                return 0.0, None
            change = None
            if self.state is BreakerState.OPEN:
                if now < self._since + self.open_for:
                    return self._since + self.open_for - now, None
                change = self._move(BreakerState.HALF_OPEN, now)
            return self._probe(now), change

    def describe(self, wait: float, now: float) -> str:
        """Describe why a call waits for ``wait`` seconds.

        Args:
            wait: The result of ``ask``.
            now: The time.
        """
        return (
            f"the circuit breaker is {self.state} since {now - self._since:.3g} s, "
            f"because calls kept failing; it lets a probe through in {wait:.3g} s"
        )

    def _probe(self, now: float) -> float:
        self._started = [t for t in self._started if now < t + self.open_for]
        if len(self._started) + self._succeeded < self.probes:
            self._started.append(now)
            return 0.0
        return min(self._started) + self.open_for - now

    def succeeded(self, now: float) -> Change | None:
        """Report that a call succeeded."""
        with self._lock:
            if self.state is BreakerState.CLOSED:
                self._strikes, self.disturbed = 0, False
            elif self.state is BreakerState.HALF_OPEN:
                self._release()
                self._succeeded += 1
                if self._succeeded >= self.probes:
                    return self._move(BreakerState.CLOSED, now)
            return None

    def failed(self, now: float) -> Change | None:
        """Report that the cluster failed."""
        with self._lock:
            self.disturbed = True
            if self.state is BreakerState.OPEN:
                return None
            self._strikes += 1
            if self.state is BreakerState.CLOSED and self._strikes < self.failures:
                return None
            return self._move(BreakerState.OPEN, now)

    def abandoned(self) -> None:
        """Report that a call ended without a result that is about the cluster."""
        with self._lock:
            self._release()

    def _release(self) -> None:
        if self._started:
            self._started.pop(0)

    def _move(self, state: BreakerState, now: float) -> Change:
        change = Change(self.state, state)
        self.state = state
        self.disturbed = state is not BreakerState.CLOSED
        self._since = now
        self._strikes = self._succeeded = 0
        self._started = []
        return change


_shared: WeakValueDictionary[tuple[object, ...], CircuitBreaker] = WeakValueDictionary()
_shared_lock = Lock()


def shared_breaker(
    cluster: str, api: str | None, failures: int, open_for: float, probes: int
) -> CircuitBreaker:
    """Return the breaker of a cluster and API; the same one for the same settings."""
    key = (cluster, api, failures, open_for, probes)
    with _shared_lock:
        breaker = _shared.get(key)
        if breaker is None:
            breaker = _shared[key] = CircuitBreaker(failures, open_for, probes)
        return breaker
