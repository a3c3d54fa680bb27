"""The policy's attempts and waits for records that were certainly not written.

Each record has its own attempts and its own deadline, which counts from the call of
``send``. Records of a topic that fail between two hand-overs are sent again together,
as one more request to the cluster. So together they draw one wait and take tokens of
the budget once.
"""

from __future__ import annotations

import math
from random import random
from typing import TYPE_CHECKING, NamedTuple

from kafkaguard._retries.events import BreakerEvent, BudgetEvent, GiveUpEvent
from kafkaguard._retries.machine import Machine, Step, StopReason

if TYPE_CHECKING:
    from collections.abc import Callable

    from kafkaguard._delivery.facts import Traits
    from kafkaguard._delivery.records import Record
    from kafkaguard._errors import KafkaGuardError
    from kafkaguard._retries.breaker import Change, CircuitBreaker
    from kafkaguard._retries.budget import RetryBudget
    from kafkaguard._retries.machine import Ruling

#: The policy makes no attempts beyond those of the client.
NEVER = Step("stop")


class AttemptLimits(NamedTuple):
    """Limits that all producers of a cluster share when they send records again.

    Attributes:
        budget: Limits the load that retries add to the cluster; None: no limit.
        breaker: The circuit breaker of the cluster; None: there is none.
        pauses: Whether records wait while the breaker is open. If False, they fail.
        longest_s: The longest time that the policy tries one record, in all.
        random: Returns random numbers from 0 to below 1.
    """

    budget: RetryBudget | None = None
    breaker: CircuitBreaker | None = None
    pauses: bool = True
    longest_s: float = 0.0
    random: Callable[[], float] = random


class Attempts:
    """Decides whether a record is sent again, and after which wait.

    Args:
        traits: What the client can do and can report.
        shared: The limits shared with other producers. None: the policy makes no
            attempts.
        tell: Tells the hooks of an event about a topic.
    """

    def __init__(
        self, traits: Traits, shared: AttemptLimits | None, tell: Callable[..., None]
    ) -> None:
        self._traits = traits
        self._shared = shared or AttemptLimits()
        self._is_off = shared is None or traits.transactional
        self._tell = tell
        #: By topic: the random number for all failures since the last hand-over.
        self._draws: dict[str, float] = {}
        #: Topics whose next hand-over has taken its token of the budget.
        self._paid: set[str] = set()
        #: Topics whose records fail because the breaker is open.
        self._barred: set[str] = set()
        #: The topic of the failure that is being decided, for ``_draw`` and ``take``:
        #: the retry machine of a record calls them, and knows no topics.
        self._topic = ""

    @property
    def longest_s(self) -> float:
        """The longest time that the policy tries a record; 0: only the client tries."""
        return 0.0 if self._is_off else self._shared.longest_s

    def allows(self, ruling: Ruling) -> bool:
        """Return whether the policy has attempts after the client's time is over."""
        has_more = not self._is_off and ruling.max_attempts > 1
        return has_more and ruling.deadline > self._traits.delivery_timeout

    def extend(self, record: Record, ruling: Ruling) -> None:
        """Give a record that waits to be sent again the policy's time."""
        if record.retry is None and self.allows(ruling):
            until = self._since(record) + ruling.deadline + self._traits.margin
            record.due = max(record.due, self._bounded(until, record.due))

    def failed(
        self, record: Record, error: KafkaGuardError, ruling: Ruling, now: float
    ) -> Step:
        """Decide the next step for a record that was not written.

        Args:
            record: The record.
            error: Why it was not written.
            ruling: What the policy says about the error.
            now: The time.
        """
        if not self.allows(ruling):
            return NEVER
        self._topic = topic = record.place.topic
        if topic not in self._draws:
            self._begin(topic, now)
        if record.retry is None:
            since = self._since(record)
            record.retry = Machine(since, self._draw, bucket=self)
        machine = record.retry
        step = machine.failed(error.verdict, ruling, now)
        if step.kind == "again" and topic in self._barred:
            step = Step("stop", reason=StopReason.BREAKER_OPEN)
        if step.kind == "again":
            until = machine.deadline(ruling) + self._traits.margin
            record.due = self._bounded(until, now + step.wait)
        elif step.reason is StopReason.BUDGET:
            self._tell(BudgetEvent, topic, cost=ruling.cost)
        if step.reason is not None:
            self._tell(
                GiveUpEvent,
                topic,
                reason=step.reason,
                attempts=machine.attempts,
                elapsed=now - machine.started,
                error=error.name,
            )
        return step

    def _begin(self, topic: str, now: float) -> None:
        """Record the first failure of a topic since its last hand-over."""
        shared = self._shared
        self._draws[topic] = shared.random()
        if shared.breaker is not None:
            self._tell_change(shared.breaker.failed(now))
            if not shared.pauses and self._ask(now):
                self._barred.add(topic)

    def _since(self, record: Record) -> float:
        """Return when the application called ``send`` for a record."""
        traits = self._traits
        return record.first_due - traits.delivery_timeout - traits.margin

    def _bounded(self, until: float, start: float) -> float:
        """Limit an infinite deadline to two delivery timeouts after ``start``.

        One is for what is in flight, one for the next attempt.
        """
        if until < math.inf:
            return until
        return start + 2 * self._traits.delivery_timeout

    def _draw(self) -> float:
        return self._draws[self._topic]

    def take(self, cost: float) -> bool:
        """Take tokens for the topic's next hand-over, once for all of its records."""
        budget = self._shared.budget
        if budget is None or self._topic in self._paid:
            return True
        if not budget.take(cost):
            return False
        self._paid.add(self._topic)
        return True

    def handed_over(self, topic: str) -> None:
        """Record a hand-over; later failures of the topic draw a wait and pay again."""
        self._draws.pop(topic, None)
        self._paid.discard(topic)
        self._barred.discard(topic)

    # --- the breaker ------------------------------------------------------------------

    def wait(self, topic: str, now: float) -> float:
        """Return the seconds that a topic's next attempt waits for the breaker."""
        if topic not in self._draws or not self._shared.pauses:
            return 0.0
        return self._ask(now)

    def _ask(self, now: float) -> float:
        breaker = self._shared.breaker
        if breaker is None or not breaker.disturbed:
            return 0.0
        wait, change = breaker.ask(now)
        self._tell_change(change)
        return wait

    def succeeded(self, now: float) -> None:
        """Count a batch that the broker accepted."""
        budget, breaker = self._shared.budget, self._shared.breaker
        if budget is not None:
            budget.succeeded()
        if breaker is not None and breaker.disturbed:
            self._tell_change(breaker.succeeded(now))

    def _tell_change(self, change: Change | None) -> None:
        if change is not None:
            self._tell(BreakerEvent, None, old=change.old, new=change.new)


def describe(step: Step, machine: Machine, policy: str) -> str:
    """Describe why a record is not sent again.

    Args:
        step: The result of :meth:`Attempts.failed`.
        machine: The record's attempts.
        policy: The policy's name.
    """
    count = machine.attempts
    times = "1 attempt was" if count == 1 else f"{count} attempts were"
    end = "allows none after this" if step is NEVER else f"ends here ({step.reason})"
    return f"{times} made; policy {policy} {end}"
