"""The retry state machine: what to do after each failure. No I/O, no clock, no sleep.

For each failure a driver reports the verdict, the ruling (what the policy says about
the failure) and the time. The result is a :class:`Step`: try again after a wait and
perhaps a repair, or stop for a reason. The driver executes the step.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Literal, NamedTuple, Protocol

from kafkaguard._common.arguments import flag, known_flag
from kafkaguard._errors.base import RETRIABLE_ACTIONS, Action, Verdict
from kafkaguard._retries.backoff import Backoff, draw_wait

if TYPE_CHECKING:
    from collections.abc import Callable, Collection

    from kafkaguard._verdicts.context import Phase, TopicFacts

OnReject = Literal["raise", "dead_letter", "drop"]
InDoubt = Literal["raise", "report", "resend"]


class StopReason(StrEnum):
    """Why a call was not tried again."""

    ATTEMPTS = "ATTEMPTS"
    """All attempts that the policy allows were made."""
    DEADLINE = "DEADLINE"
    """The next attempt would begin after the deadline."""
    WAITS = "WAITS"
    """The waits that the policy allows (max_waits) are used up."""
    BUDGET = "BUDGET"
    """The retry budget of the cluster is used up."""
    BREAKER_OPEN = "BREAKER_OPEN"
    """The circuit breaker is open, because the cluster kept failing."""
    REJECTED = "REJECTED"
    """The call can never succeed."""
    CONFIGURE = "CONFIGURE"
    """A human must correct configuration, credentials or ACLs."""
    IN_DOUBT = "IN_DOUBT"
    """The call may have succeeded, and the policy does not allow a duplicate."""
    FENCED = "FENCED"
    """Another instance uses the same id."""
    ABORT = "ABORT"
    """The transaction must be aborted, which only the caller can do."""
    REJOIN = "REJOIN"
    """The group has rebalanced, and only the caller can poll."""
    RECREATE = "RECREATE"
    """The client is dead, and only the caller can build a new one."""
    REPAIR_FAILED = "REPAIR_FAILED"
    """The repair before the next attempt failed."""
    NESTED = "NESTED"
    """A nested retry has used all attempts of its policy."""


@dataclass(frozen=True, slots=True)
class CallContext:
    """What is known about the guarded calls; None means "not known".

    Args:
        api: The Kafka request of the calls (``"Produce"``).
        topic: The topic of the calls.
        client: The client library (``"confluent-kafka"``).
        cluster: The cluster's id or bootstrap servers. Calls with the same value share
            a budget and a breaker.
        null_key: Whether the record has no key.
        facts: Facts about the topic.
        idempotent: Whether the producer is idempotent.
        transactional: Whether a transaction is open.
        phase: The phase of the call; see ``classify``.
        repeatable: Whether a second call can never cause a duplicate, whatever the
            verdict says, because the caller repeats a batch with its sequence number.
    """

    api: str | None = None
    topic: str | None = None
    client: str | None = None
    cluster: str | None = None
    null_key: bool | None = None
    facts: TopicFacts | None = None
    idempotent: bool | None = None
    transactional: bool = False
    phase: Phase | None = None
    repeatable: bool = False

    def __post_init__(self) -> None:
        """Check the types.

        Raises:
            TypeError: ``null_key``, ``idempotent``, ``transactional`` or ``repeatable``
                is not a bool (or None, for the first two).
        """
        known_flag("CallContext(): null_key", self.null_key)
        known_flag("CallContext(): idempotent", self.idempotent)
        flag("CallContext(): transactional", self.transactional)
        flag("CallContext(): repeatable", self.repeatable)


@dataclass(frozen=True, slots=True)
class Ruling:
    """What a policy says about a failure.

    Attributes:
        action: What to do: the verdict's action, or that of an override.
        max_attempts: The most attempts in all.
        max_waits: The most waits that cost no attempt.
        deadline: The longest time of the call in seconds, in all.
        backoff (kafkaguard.policies.Backoff): The waits.
        in_doubt: What to do if the call may have succeeded.
        on_reject: What to do with a rejected record.
        cost: Tokens that a retry takes from the budget.
        override: The index of the override that decided; None: no override did.
    """

    action: Action
    max_attempts: int
    max_waits: int
    deadline: float
    backoff: Backoff
    in_doubt: InDoubt
    on_reject: OnReject
    cost: float
    override: int | None = None


class Bucket(Protocol):
    """What the machine needs from a budget."""

    def take(self, cost: float, /) -> bool:
        """Take tokens, or take none and return False."""


class Step(NamedTuple):
    """What to do next.

    Attributes:
        kind: ``"again"``: wait, then make the next attempt; ``"stop"``; ``"done"``:
            the call has not failed.
        wait: Seconds to wait before the next attempt.
        repair: The repair before the next attempt or before the stop, or None.
        reason: Why the call stops.
    """

    kind: Literal["again", "stop", "done"]
    wait: float = 0.0
    repair: Action | None = None
    reason: StopReason | None = None


DONE = Step("done")
_ENDS = {
    Action.REJECT: StopReason.REJECTED,
    Action.CONFIGURE: StopReason.CONFIGURE,
    Action.FENCED: StopReason.FENCED,
}
_REPAIRS = {
    Action.ABORT: StopReason.ABORT,
    Action.REJOIN: StopReason.REJOIN,
    Action.RECREATE: StopReason.RECREATE,
}
#: With one of these actions, nothing of the failed attempt can become visible.
_UNDONE = frozenset({Action.ABORT, Action.IGNORE, Action.REJECT, Action.CONFIGURE})


class Machine:
    """The state of one call and its attempts.

    Args:
        started: The time of the first attempt.
        random: Returns random numbers from 0 to below 1.
        bucket: The retry budget. Default: no budget.
        repairs: Repairs that the driver can do. If ABORT, REJOIN or RECREATE is
            missing, that action stops the call; without REFRESH there is only the
            wait.
        until: The time by which the caller wants the call to end. Default: only the
            policy's deadline counts.
        repeatable: Whether another attempt can never cause a duplicate.
    """

    attempts = 0
    waits = 0
    possible_duplicate = False
    _failures = 0
    _previous = 0.0

    def __init__(
        self,
        started: float,
        random: Callable[[], float],
        *,
        bucket: Bucket | None = None,
        repairs: Collection[Action] = (),
        until: float = math.inf,
        repeatable: bool = False,
    ) -> None:
        self.started = started
        self._random = random
        self._bucket = bucket
        self._repairs = repairs
        self._until = until
        self._repeatable = repeatable

    def failed(
        self, verdict: Verdict, ruling: Ruling, now: float, throttle: float = 0.0
    ) -> Step:
        """Record a failure and return the next step.

        Args:
            verdict: What the failure means.
            ruling: What the policy says about it.
            now: The time.
            throttle: How many seconds the broker asks to wait.
        """
        waiting = ruling.action is Action.WAIT
        if not waiting:
            self.attempts += 1
        doubt = False
        if not _is_plain(verdict, ruling):
            doubt = not self._repeatable and _in_doubt(verdict, ruling.action)
            ending = self._ending(verdict, ruling, doubt=doubt)
            if ending is not None:
                return ending
        step = (self._wait if waiting else self._again)(ruling, now, throttle)
        if doubt and step.kind == "again":
            self.possible_duplicate = True
        return step

    def _ending(self, verdict: Verdict, ruling: Ruling, *, doubt: bool) -> Step | None:
        """Return the step that ends the call because of this failure, or None."""
        action = ruling.action
        if verdict.action is Action.FENCED:
            return Step("stop", reason=StopReason.FENCED)
        if action is Action.IGNORE:
            return DONE
        if doubt and ruling.in_doubt != "resend":
            return self._stop_in_doubt(ruling)
        if action in _ENDS:
            return Step("stop", reason=_ENDS[action])
        if action in _REPAIRS and action not in self._repairs:
            return Step("stop", reason=_REPAIRS[action])
        return None

    def paused(self, wait: float, ruling: Ruling, now: float) -> Step:
        """Record that the breaker is open for ``wait`` seconds, and wait for it."""
        wait = max(wait, ruling.backoff.floor)
        if now + wait >= self.deadline(ruling):
            return Step("stop", reason=StopReason.BREAKER_OPEN)
        return Step("again", wait)

    def deadline(self, ruling: Ruling) -> float:
        """Return the time by which a call with this ruling must end."""
        return min(self._until, self.started + ruling.deadline)

    def _stop_in_doubt(self, ruling: Ruling) -> Step:
        """Stop the call, but replace a dead client for later calls."""
        dead = ruling.action is Action.RECREATE and Action.RECREATE in self._repairs
        repair = Action.RECREATE if dead else None
        return Step("stop", repair=repair, reason=StopReason.IN_DOUBT)

    def _wait(self, ruling: Ruling, now: float, throttle: float) -> Step:
        self.waits += 1
        if self.waits > ruling.max_waits:
            return Step("stop", reason=StopReason.WAITS)
        wait = draw_wait(ruling.backoff, self.waits, 0.0, self._random, throttle)
        return self._spend(ruling, now, wait, None)

    def _again(self, ruling: Ruling, now: float, throttle: float) -> Step:
        if self.attempts >= ruling.max_attempts:
            return Step("stop", reason=StopReason.ATTEMPTS)
        self._failures += 1
        wait = draw_wait(
            ruling.backoff, self._failures, self._previous, self._random, throttle
        )
        repair = ruling.action if ruling.action in self._repairs else None
        step = self._spend(ruling, now, wait, repair)
        if step.kind == "again":
            self._previous = wait
        return step

    def _spend(
        self, ruling: Ruling, now: float, wait: float, repair: Action | None
    ) -> Step:
        """Allow the next attempt, if the deadline and the budget do."""
        if now + wait >= self.deadline(ruling):
            return Step("stop", reason=StopReason.DEADLINE)
        if ruling.cost and self._bucket and not self._bucket.take(ruling.cost):
            return Step("stop", reason=StopReason.BUDGET)
        return Step("again", wait, repair)


def _is_plain(verdict: Verdict, ruling: Ruling) -> bool:
    """Return whether the verdict itself says that another attempt is safe.

    An override that changes another action to RETRY does not say so.
    """
    return ruling.action is verdict.action and ruling.action in RETRIABLE_ACTIONS


def _in_doubt(verdict: Verdict, action: Action) -> bool:
    """Return whether another attempt may cause a duplicate."""
    if action in _UNDONE:
        return False
    return action is Action.IN_DOUBT or verdict.written == "maybe"
