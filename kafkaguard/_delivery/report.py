"""What became of records: each one's outcome, and the report of all of them."""

from __future__ import annotations

import threading
from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

from kafkaguard._verdicts.verdict import Action, RuleInfo, Verdict
from kafkaguard.errors import ClientStateError, FatalError, KafkaGuardError

if TYPE_CHECKING:
    from collections.abc import Iterable

#: What became of a record that a policy sets aside, as a report counts it.
SetAside = Literal["dead_lettered", "dropped"]
#: How many errors a report carries; the counts are exact beyond it.
MAX_ERRORS = 1000


class SupersededError(FatalError):
    """A record was not sent again, since a later one of its key was accepted.

    It failed only with its batch and was not written. Sending it now would put the
    older value of its key last, and compaction would keep that one.
    """

    name = "SUPERSEDED"
    origin = "client"


class ForkedProducerError(ClientStateError):
    """A producer was used in a forked child, where its background thread is gone."""

    name = "FORKED_PRODUCER"


@dataclass(frozen=True, slots=True)
class DeliveryReport:
    """What became of the records since the last report.

    Attributes:
        delivered: Records that the broker confirmed.
        failed: Records that were not written.
        in_doubt: Records that may have been written.
        pending: Records whose outcome was still open when the time was up.
        errors: Failures that nobody has looked at yet, at most 1000.
        dead_lettered: Rejected records that are in their dead-letter topic.
        dropped: Rejected records that the policy drops.
        superseded: Of those that failed, the ones that a later record of their key has
            overtaken.
    """

    delivered: int = 0
    failed: int = 0
    in_doubt: int = 0
    pending: int = 0
    errors: tuple[KafkaGuardError, ...] = field(default=(), repr=False)
    dead_lettered: int = 0
    dropped: int = 0
    superseded: int = 0


class CallbackError(ClientStateError):
    """A callback of the application raised; ``__cause__`` is what it raised.

    It is kept until the next flush() or close(), so that it neither disturbs the
    delivery of other records nor gets lost.

    Attributes:
        report: What became of the records themselves.
    """

    name = "CALLBACK"
    report: DeliveryReport = DeliveryReport()

    @property
    def verdict(self) -> Verdict:
        """Tell a human: nothing that a program does next mends it."""
        return _MEND_IT[not (self.report.failed or self.report.in_doubt)]


_CALLBACK_RAISED = RuleInfo(
    "callback-raised",
    "mend the callback; the outcomes of the records are what the report says",
    "kafka-python: Future.success logs what a callback raises and goes on",
    "An exception in a callback would be lost, or disturb other records.",
)
_MEND_IT: dict[bool, Verdict] = {
    all_delivered: Verdict(
        Action.CONFIGURE,
        retriable=False,
        written="yes" if all_delivered else "maybe",
        error_class=CallbackError,
        rule=_CALLBACK_RAISED,
    )
    for all_delivered in (True, False)
}


class DeliveryFailed(KafkaGuardError):  # noqa: N818 - the outcome of a flush, in its words
    """Records were not delivered, and nobody has looked at their outcomes.

    Attributes:
        report: The counts, and the errors one by one.
    """

    name = "DELIVERY_FAILED"
    origin = "client"
    report: DeliveryReport = DeliveryReport()

    @staticmethod
    def describe(report: DeliveryReport) -> str:
        """Say in one line what was not delivered and why."""
        counts = Counter(_kind(error) for error in report.errors)
        parts = [f"{n} x {kind}" for kind, n in counts.most_common()]
        if len(report.errors) == MAX_ERRORS:
            parts[-1] += f", of the first {MAX_ERRORS} that nobody looked at"
        if report.pending:
            parts.append(f"{report.pending} still pending when the time was up")
        return (
            f"{'; '.join(parts)} (delivered {report.delivered}, failed "
            f"{report.failed}, in doubt {report.in_doubt}, pending {report.pending}"
            f"{_set_aside(report)}); see .report.errors"
        )


def _set_aside(report: DeliveryReport) -> str:
    counts = {"dead-lettered": report.dead_lettered, "dropped": report.dropped}
    return "".join(f", {name} {count}" for name, count in counts.items() if count)


def _kind(error: KafkaGuardError) -> str:
    code = "" if error.code is None else f" ({error.code})"
    return f"{error.name}{code} on topic {error.topic}: {error.verdict.action}"


class Outcome:
    """The outcome of a record that did not arrive at the first try.

    Attributes:
        error: Why it failed for good; None while that is open.
        seen: The application has looked at it.
        rescued: It was sent again, so its new future tells.
        decided: Set as soon as it is rescued or failed for good.
    """

    __slots__ = ("decided", "error", "rescued", "seen")

    def __init__(self) -> None:
        self.error: KafkaGuardError | None = None
        self.rescued = False
        self.seen = False
        self.decided = threading.Event()


class Ledger:
    """Counts the outcomes of records between two reports."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._callback_error: BaseException | None = None
        self._reset()

    def delivered(self, count: int) -> None:
        """Count records that the broker confirmed."""
        with self._lock:
            self._delivered += count

    def failed(self, outcome: Outcome) -> None:
        """Count a record that failed for good."""
        assert outcome.error is not None
        with self._lock:
            if outcome.error.verdict.written == "no":
                self._failed += 1
            else:
                self._in_doubt += 1
            if len(self._outcomes) < MAX_ERRORS:
                self._outcomes.append(outcome)

    def set_aside(self, how: SetAside) -> None:
        """Count a rejected record that was dealt with as the policy says."""
        with self._lock:
            self._set_aside[how] += 1

    def callback_raised(self, error: BaseException) -> None:
        """Keep the first exception of the application's callbacks."""
        with self._lock:
            self._callback_error = self._callback_error or error

    def take_callback_error(self) -> BaseException | None:
        """Hand over the first exception of a callback, once."""
        with self._lock:
            error, self._callback_error = self._callback_error, None
            return error

    def report(self, pending: int) -> DeliveryReport:
        """Close the books: what happened since the last report."""
        with self._lock:
            unseen = [o for o in self._outcomes if not o.seen]
            counts = self._delivered, self._failed, self._in_doubt, pending
            set_aside = self._set_aside
            self._reset()
        for outcome in unseen:
            outcome.seen = True
        errors = (outcome.error for outcome in unseen if outcome.error is not None)
        return DeliveryReport(*counts, tuple(errors), **set_aside)

    def _reset(self) -> None:
        self._delivered = self._failed = self._in_doubt = 0
        self._outcomes: list[Outcome] = []
        self._set_aside: Counter[str] = Counter()


_SEVERITY = {action: rank for rank, action in enumerate(Action)}


def worst(errors: Iterable[KafkaGuardError]) -> KafkaGuardError | None:
    """Return the error whose verdict is the gravest; None if there is none."""
    return max(errors, key=lambda e: _SEVERITY[e.verdict.action], default=None)
