"""Outcomes of records, and the report of all of them."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from kafkaguard._common.public import public
from kafkaguard._errors import ClientStateError, FatalError, KafkaGuardError
from kafkaguard._errors.base import Action, RuleInfo, Verdict

if TYPE_CHECKING:
    from collections.abc import Iterable

#: The most errors in a report; its counts include the others.
MAX_ERRORS = 1000


@public("kafkaguard.errors")
class SupersededError(FatalError):
    """A record was not sent again, because a later one of its key was accepted.

    It failed only because its batch failed, and was not written. If it was sent now,
    the older value of its key would come last, and compaction would keep that value.
    """

    name = "SUPERSEDED"
    origin = "client"


@public("kafkaguard.errors")
class ForkedProducerError(ClientStateError):
    """A producer was used in a forked child, where its background thread is gone."""

    name = "FORKED_PRODUCER"


@dataclass(frozen=True, slots=True)
class DeliveryReport:
    """The outcomes of records since the last report.

    Attributes:
        delivered: Records that the broker confirmed. Those of a transaction count when
            it was committed.
        failed: Records that were not written.
        in_doubt: Records that may have been written.
        pending: Records without an outcome when the time was over.
        errors: Failures that the application has not checked, at most 1000.
        dead_lettered: Rejected records that are in their dead-letter topic.
        dropped: Rejected records that the policy drops.
        superseded: How many of the failed records a later record of their key has
            overtaken; those that became dead letters are not in it.
        aborted: Records that the broker confirmed, of transactions that were aborted.
        maybe_twice: How many of the delivered records may be in their topic twice, at
            most: an attempt whose outcome is unknown came before (``in_doubt:
            resend``), or the client has numbered its records anew while they were on
            their way (confluent-kafka). 0: none is, if the producer is idempotent.
    """

    delivered: int = 0
    failed: int = 0
    in_doubt: int = 0
    pending: int = 0
    errors: tuple[KafkaGuardError, ...] = field(default=(), repr=False)
    dead_lettered: int = 0
    dropped: int = 0
    superseded: int = 0
    aborted: int = 0
    maybe_twice: int = 0


@public("kafkaguard.errors")
class CallbackError(ClientStateError):
    """A callback of the application raised; ``__cause__`` is what it raised.

    The next flush() or close() raises it. So it does not disturb the delivery of other
    records, and is not lost.

    Attributes:
        report: The outcomes of the records themselves.
    """

    name = "CALLBACK"
    report: DeliveryReport = DeliveryReport()

    @property
    def given_verdict(self) -> Verdict:
        """CONFIGURE: a human must correct the callback."""
        return _MEND_IT[not (self.report.failed or self.report.in_doubt)]


_CALLBACK_RAISED = RuleInfo(
    "callback-raised",
    "correct the callback; the report has the outcomes of the records",
    "kafka-python: Future.success logs what a callback raises and continues",
    "An exception in a callback would be lost, or would affect other records.",
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


@public("kafkaguard.errors")
class DeliveryFailed(KafkaGuardError):  # noqa: N818 - the outcome of a flush, in its words
    """Records were not delivered, and the application has not checked their outcomes.

    Attributes:
        report: The counts and the errors.
    """

    name = "DELIVERY_FAILED"
    origin = "client"
    report: DeliveryReport = DeliveryReport()

    @staticmethod
    def describe(report: DeliveryReport) -> str:
        """Describe in one line what was not delivered and why."""
        counts = Counter(_kind(error) for error in report.errors)
        parts = [f"{n} x {kind}" for kind, n in counts.most_common()]
        if len(report.errors) == MAX_ERRORS:
            parts[-1] += f", of the first {MAX_ERRORS} that were not checked"
        if report.pending:
            parts.append(f"{report.pending} still pending at the end of the time limit")
        return (
            f"{'; '.join(parts)} (delivered {report.delivered}, failed "
            f"{report.failed}, in doubt {report.in_doubt}, pending {report.pending}"
            f"{_other_counts(report)}); see .report.errors"
        )


def _other_counts(report: DeliveryReport) -> str:
    counts = {
        "dead-lettered": report.dead_lettered,
        "dropped": report.dropped,
        "aborted": report.aborted,
        "maybe twice": report.maybe_twice,
    }
    return "".join(f", {name} {count}" for name, count in counts.items() if count)


def _kind(error: KafkaGuardError) -> str:
    code = "" if error.code is None else f" ({error.code})"
    return f"{error.name}{code} on topic {error.topic}: {error.verdict.action}"


def worst(errors: Iterable[KafkaGuardError]) -> KafkaGuardError | None:
    """Return the error whose verdict is the most severe; None if there is none."""
    return max(errors, key=lambda e: e.verdict.action.severity, default=None)
