"""Events of calls and producers, one frozen class for each, and hooks."""

from __future__ import annotations

import logging
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Literal, Protocol

from kafkaguard._common.logs import Log

if TYPE_CHECKING:
    from collections.abc import Iterable

    from kafkaguard._errors.base import Action
    from kafkaguard._retries.breaker import BreakerState
    from kafkaguard._retries.machine import CallContext, OnReject, StopReason

_log = Log("events")
_log.logger.addHandler(logging.NullHandler())


@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    """The base class of all events.

    Attributes:
        policy: The name of the policy.
        policy_id: The hash of its content.
        context: What is known about the call.
    """

    name: ClassVar[str] = "kafkaguard.event"
    policy: str
    policy_id: str
    context: CallContext


@dataclass(frozen=True, slots=True, kw_only=True)
class AttemptEvent(Event):
    """An attempt ended. Sent for all attempts of a call that failed at least once.

    Attributes:
        number: The number of the attempt, from 1.
        elapsed: Seconds since the first attempt began.
        error: Kafka's name of the error (``REQUEST_TIMED_OUT``); None: it succeeded.
        action: What the verdict says to do; None: it succeeded.
        rule: The id of the rule that decided; None: it succeeded.
        possible_duplicate: Whether the attempt may have caused a duplicate.
    """

    name: ClassVar[str] = "kafkaguard.attempt"
    number: int
    elapsed: float
    error: str | None = None
    action: Action | None = None
    rule: str | None = None
    possible_duplicate: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class RetryEvent(Event):
    """There will be another attempt.

    Attributes:
        number: The number of the next attempt.
        wait: Seconds until the next attempt.
        action: The action that led to it.
    """

    name: ClassVar[str] = "kafkaguard.retry"
    number: int
    wait: float
    action: Action


@dataclass(frozen=True, slots=True, kw_only=True)
class WaitEvent(Event):
    """The call waits, because the broker is not ready or the breaker is open.

    Attributes:
        wait: Seconds until the next try. This wait costs no attempt.
    """

    name: ClassVar[str] = "kafkaguard.wait"
    wait: float


@dataclass(frozen=True, slots=True, kw_only=True)
class RefreshEvent(Event):
    """Metadata or the coordinator are about to be refreshed."""

    name: ClassVar[str] = "kafkaguard.refresh"


@dataclass(frozen=True, slots=True, kw_only=True)
class GiveUpEvent(Event):
    """There will be no other attempt.

    Attributes:
        reason: Why the call or record is given up.
        attempts: The number of attempts.
        elapsed: Seconds since the first attempt began.
        error: Kafka's name of the last error.
    """

    name: ClassVar[str] = "kafkaguard.give_up"
    reason: StopReason
    attempts: int
    elapsed: float
    error: str


@dataclass(frozen=True, slots=True, kw_only=True)
class RejectEvent(Event):
    """A record or request can never succeed.

    Attributes:
        error: Kafka's name of the error.
        on_reject: What the policy does with the record.
    """

    name: ClassVar[str] = "kafkaguard.reject"
    error: str
    on_reject: OnReject


@dataclass(frozen=True, slots=True, kw_only=True)
class DeadLetterEvent(Event):
    """A rejected record was sent to its dead-letter topic.

    Attributes:
        error: Kafka's name of the error.
        dead_letter_topic: Where the record went.
    """

    name: ClassVar[str] = "kafkaguard.dead_letter"
    error: str
    dead_letter_topic: str


@dataclass(frozen=True, slots=True, kw_only=True)
class RecreateEvent(Event):
    """A dead client is about to be replaced by a new one."""

    name: ClassVar[str] = "kafkaguard.recreate"


@dataclass(frozen=True, slots=True, kw_only=True)
class BreakerEvent(Event):
    """A circuit breaker changed its state.

    Attributes:
        old: The state before.
        new: The state now.
    """

    name: ClassVar[str] = "kafkaguard.breaker"
    old: BreakerState
    new: BreakerState


@dataclass(frozen=True, slots=True, kw_only=True)
class BudgetEvent(Event):
    """The retry budget has too few tokens for a retry, so there is no other attempt.

    Attributes:
        cost: The tokens that the retry would have taken.
    """

    name: ClassVar[str] = "kafkaguard.budget_exhausted"
    cost: float


@dataclass(frozen=True, slots=True, kw_only=True)
class ReloadEvent(Event):
    """A policy file changed. ``policy_id`` is that of the policy now in force.

    Attributes:
        source: The file.
        old_policy_id: The ``policy_id`` before.
        problem: Why the new policy is not used; None if it is.
    """

    name: ClassVar[str] = "kafkaguard.reload"
    source: str
    old_policy_id: str
    problem: str | None = None

    @property
    def outcome(self) -> Literal["used", "refused"]:
        """Whether the new policy is used."""
        return "used" if self.problem is None else "refused"


class EventHook(Protocol):
    """A hook that receives events: any callable with one argument.

    An exception of a hook is logged and has no other effect. If the hook has a method
    ``on_success(context, elapsed, policy_id)``, the method is called for each call that
    succeeded at its first attempt. There is no event for such a call. ``elapsed`` is in
    seconds.
    """

    def __call__(self, event: Event, /) -> object:
        """Receive an event."""


def emit(hooks: Iterable[EventHook], event: Event) -> None:
    """Call hooks with an event; their exceptions are logged."""
    for hook in hooks:
        try:
            hook(event)
        except Exception:  # noqa: BLE001 - a broken hook never breaks a call
            _log.exception(
                "hook_raised",
                "hook %r raised an exception for %s; nothing else is affected: correct "
                "the hook",
                hook,
                event.name,
            )
