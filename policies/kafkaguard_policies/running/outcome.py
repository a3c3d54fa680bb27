"""The outcome of a retried call, attached to its exception."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

from kafkaguard._retries.machine import StopReason
from kafkaguard._verdicts.signals import MAX_DEPTH

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kafkaguard._errors.base import Action

_ATTRIBUTE = "kafkaguard_outcome"
SENTENCES = {
    StopReason.ATTEMPTS: "all attempts of the policy were made",
    StopReason.DEADLINE: "the next attempt would have begun after the deadline",
    StopReason.WAITS: "it was not accepted as often as the policy waits",
    StopReason.BUDGET: "the retry budget of the cluster is used up",
    StopReason.BREAKER_OPEN: "the cluster kept failing, so calls pause for a while",
    StopReason.REJECTED: "it can never succeed, so it was not tried again",
    StopReason.CONFIGURE: "configuration, credentials or ACLs must be mended first",
    StopReason.IN_DOUBT: (
        "it may have been done already; in_doubt: resend would try again and may do "
        "it twice"
    ),
    StopReason.FENCED: "another instance owns the id",
    StopReason.ABORT: "the transaction must be aborted by the caller",
    StopReason.REJOIN: "the caller must read again, then go on with what it still owns",
    StopReason.RECREATE: "the client is dead and the caller must build another one",
    StopReason.REPAIR_FAILED: "what had to be done before the next attempt failed",
    StopReason.NESTED: "a guard inside has tried already; give the policy to that one",
}


class Attempt(NamedTuple):
    """One failed attempt; it has no exception, so it can be pickled.

    Attributes:
        number: The attempt's number, from 1. A wait has the number of the attempt that
            it delays.
        error: Kafka's name of the error, ``UNRELATED`` for one that is not Kafka's.
        code: The broker's code, if there was one.
        action: The action of the verdict.
        rule: The id of the rule that decided.
        elapsed: Seconds from the beginning of the call to this failure.
        wait: Seconds waited after it.
    """

    number: int
    error: str
    code: int | None
    action: Action
    rule: str
    elapsed: float
    wait: float


@dataclass(frozen=True, slots=True)
class Outcome:
    """Why a retried call ended, and its attempts.

    Attributes:
        reason: Why there was no other attempt.
        attempts: The failed attempts, in order.
        elapsed: Seconds in all.
        policy: The policy's name.
        policy_id: The hash of its content.
        possible_duplicate: Whether something that may have been written was sent
            again, because the policy allows it.
        repair_error: Type and text of the error of a repair.
        ended: The clock's time at the end.
    """

    reason: StopReason
    attempts: tuple[Attempt, ...]
    elapsed: float
    policy: str
    policy_id: str
    possible_duplicate: bool = False
    repair_error: str | None = None
    ended: float = field(default=0.0, compare=False, repr=False)

    def __str__(self) -> str:
        """Return the outcome in one line."""
        count = max((attempt.number for attempt in self.attempts), default=0)
        plural = "" if count == 1 else "s"
        repair = f" ({self.repair_error})" if self.repair_error else ""
        twice = "; it may have been written twice" if self.possible_duplicate else ""
        return (
            f"kafkaguard: {self.reason} after {count} attempt{plural} in "
            f"{self.elapsed:.3g} s: {SENTENCES[self.reason]}{repair}{twice} "
            f"(policy {self.policy}, {self.policy_id})"
        )


def outcome_of(error: BaseException) -> Outcome | None:
    """Return the outcome of the retried call that raised an exception or its cause.

    Returns:
        The outcome, or None if no retried call raised it.
    """
    outcomes = (getattr(each, _ATTRIBUTE, None) for each in _chain(error, MAX_DEPTH))
    return next((each for each in outcomes if isinstance(each, Outcome)), None)


def is_of_record(error: BaseException) -> bool:
    """Return whether an exception or its cause is the outcome of a guarded record."""
    return any(getattr(each, "is_outcome", False) for each in _chain(error, MAX_DEPTH))


def _chain(error: BaseException | None, depth: int) -> Iterator[BaseException]:
    """Return an exception, the members of a group, and the causes."""
    while error is not None and depth:
        yield error
        if isinstance(error, BaseExceptionGroup):
            for member in error.exceptions:
                yield from _chain(member, depth - 1)
        error, depth = getattr(error, "__cause__", None), depth - 1


def attach(error: BaseException, outcome: Outcome) -> None:
    """Attach an outcome and a note to an exception."""
    with suppress(AttributeError):  # a class with slots has only the note
        setattr(error, _ATTRIBUTE, outcome)
    error.add_note(str(outcome))
