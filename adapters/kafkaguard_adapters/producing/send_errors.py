"""Errors of send(), flush() and close(), for all clients."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kafkaguard._delivery.judging import ABORTED, HELD, add_words
from kafkaguard._delivery.report import CallbackError, DeliveryFailed, worst
from kafkaguard._errors import (
    ClientClosedError,
    ClientMetadataError,
    ClientStateError,
    ClientTimeoutError,
    PartitionNotThereError,
    UnknownTopicOrPartitionError,
)
from kafkaguard._errors.base import Action, RuleInfo, Verdict
from kafkaguard._verdicts.classification import classify

if TYPE_CHECKING:
    from collections.abc import Callable, Collection

    from kafkaguard._delivery.report import DeliveryReport
    from kafkaguard._delivery.shell import ClientErrors
    from kafkaguard._delivery.time_limit import TimeLimit
    from kafkaguard._errors import KafkaGuardError

#: The verdict for a transaction that its closed producer could not abort.
_LEFT_OPEN = Verdict(
    Action.RECREATE,
    retriable=False,
    written="no",
    error_class=ClientStateError,
    rule=RuleInfo(
        "transaction-left-open",
        "build a new producer with the same transactional.id, whose start aborts the "
        "open transaction",
        "guarded producers",
        "The coordinator refused the abort, or did not answer it in time.",
    ),
)


def check_timeout(method: str, timeout: Any) -> None:
    """Check a timeout before anything else is done.

    Raises:
        TypeError: The timeout is not a number of seconds.
        ValueError: The timeout is negative or NaN.
    """
    if timeout is None:
        return
    allowed = (
        f"{method}(): timeout must be a number of seconds of 0 or more, or None for "
        "the default, not"
    )
    if isinstance(timeout, bool) or not isinstance(timeout, (int, float)):
        raise TypeError(f"{allowed} {type(timeout).__name__}")
    if not timeout >= 0:
        raise ValueError(f"{allowed} {timeout:g}")


def make_delivery_failed(
    errors: ClientErrors, report: DeliveryReport
) -> DeliveryFailed:
    """Make the error that flush() and close() raise for a report."""
    gravest = worst(report.errors)
    error = errors.make(
        DeliveryFailed,
        DeliveryFailed.describe(report),
        api="Produce",
        verdict=_verdict_of(report, gravest),
        theirs=errors.conditions.get(ClientTimeoutError) if report.pending else None,
    )
    assert isinstance(error, DeliveryFailed)
    error.report = report
    error.__cause__ = gravest
    return error


def _verdict_of(report: DeliveryReport, gravest: Any) -> Verdict:
    """Return the most severe verdict of a report; pending records are in doubt."""
    verdicts: list[Verdict] = [gravest.verdict] if gravest else []
    if report.pending:
        verdicts.append(classify(ClientTimeoutError(), api="Produce"))
    return max(verdicts, key=lambda verdict: verdict.action.severity)


def make_callback_failed(
    errors: ClientErrors, raised: BaseException, report: DeliveryReport
) -> CallbackError:
    """Make the error for an exception that a callback of the application raised."""
    error = errors.make(
        CallbackError,
        f"a callback of the application raised {type(raised).__name__} (records "
        f"delivered {report.delivered}, failed {report.failed}, in doubt "
        f"{report.in_doubt})",
    )
    assert isinstance(error, CallbackError)
    error.report = report
    return error


def make_guarded_already(producer: object) -> TypeError:
    """Make the error for a client that is already guarded."""
    return TypeError(
        f"{producer!s} is guarded already, and only one guard can account for its "
        "records: use that one"
    )


def make_closed(errors: ClientErrors, topic: str) -> KafkaGuardError:
    """Make the error for a record that is sent to a closed producer."""
    return errors.make(
        ClientClosedError,
        "this producer was closed, and nothing was sent: build a new one and send the "
        "same record with it",
        api="Produce",
        topic=topic,
    )


def make_no_topic(errors: ClientErrors, topic: str) -> KafkaGuardError:
    """Make the error of a record for a topic that no broker knows."""
    return errors.make(
        UnknownTopicOrPartitionError,
        "the topic does not exist; nothing was sent",
        api="Produce",
        topic=topic,
    )


def make_not_there(
    errors: ClientErrors,
    topic: str,
    partition: Any,
    partitions: Collection[int] | None,
    *,
    theirs: type[BaseException] | BaseException,
) -> KafkaGuardError:
    """Make the error for a partition that the topic does not have.

    Args:
        errors: Makes the client's errors.
        topic: The topic.
        partition: The partition that does not exist.
        partitions: The partitions that the topic has; None: no broker has told.
        theirs: The client's own exception, or its class if it has raised none.
    """
    error_class: type[KafkaGuardError] = PartitionNotThereError
    if partitions is None:
        error_class = ClientMetadataError
        there = "the client does not know it, and no broker said whether it exists now"
    elif len(partitions) == 1:
        there = "the topic has partition 0 only"
    else:
        there = f"the topic has {len(partitions)} partitions, 0 to {max(partitions)}"
    text = f"the record is for partition {partition!r}, and {there}; nothing was sent"
    number = partition if isinstance(partition, int) else None
    place: dict[str, Any] = {"api": "Produce", "topic": topic, "partition": number}
    if isinstance(theirs, type):
        return errors.make(error_class, text, theirs=theirs, **place)
    verdict = classify(error_class(), api="Produce")
    return errors.translate(theirs, message=text, verdict=verdict, **place)


def make_raised(errors: ClientErrors, error: Exception, topic: Any) -> KafkaGuardError:
    """Make the error for a record whose ``send`` raised an exception of another kind.

    The error does not contain the exception's text, which may quote the record.
    """
    return errors.translate(
        error,
        message=f"send() raised {type(error).__name__}, and nothing was sent",
        api="Produce",
        topic=topic if isinstance(topic, str) else None,
    )


def make_letter_error(
    errors: ClientErrors,
    error: Exception,
    topic: str,
    theirs: type[Exception],
    error_of: Callable[[Any, str], KafkaGuardError],
) -> Exception:
    """Make the error for a dead letter that the client did not take.

    Args:
        errors: Makes the client's errors.
        error: Why it did not take it.
        topic: The dead-letter topic.
        theirs: The base class of the client's exceptions.
        error_of: Makes the error of ``send`` from such an exception.
    """
    if isinstance(error, PartitionNotThereError):
        return error
    if isinstance(error, theirs):
        return error_of(error, topic)
    return make_raised(errors, error, topic)


def add_unreadable(error: KafkaGuardError, failure: Exception) -> None:
    """Add to an error that there is no dead letter, and which exception is why.

    The text of the exception is left out, because it may contain the record.
    """
    add_words(
        error,
        "no dead letter was sent: the record's bytes could not be read "
        f"({type(failure).__name__})",
    )


def make_still_held(
    errors: ClientErrors, topic: str | None, limit: TimeLimit, why: BaseException | None
) -> KafkaGuardError:
    """Make the error of a send that has waited too long for a hold to end.

    Args:
        errors: Makes the client's errors.
        topic: The topic whose records are being sent again; None: the client is being
            replaced.
        limit: How long the send has waited.
        why: The error of the last attempt to build a client, or None.
    """
    reason = "" if why is None else f" ({why})"
    what = f"the producer is being replaced{reason}"
    if topic is not None:
        what = f"records of topic {topic} are being sent again, before new ones,"
    return errors.make(
        ClientTimeoutError,
        f"{what} and {limit} were not enough; nothing was sent: wait, then send "
        "the same record again",
        verdict=HELD,
    )


def make_without_successor(errors: ClientErrors, why: BaseException) -> KafkaGuardError:
    """Make the error of a send to a dead producer that could not be replaced."""
    return errors.make(
        ClientClosedError,
        f"the producer is dead and could not be replaced: {why}; nothing was sent",
    )


def make_left_open(
    errors: ClientErrors, report: DeliveryReport, why: KafkaGuardError | None
) -> KafkaGuardError:
    """Make the error for a transaction that was open when its producer was closed.

    Args:
        errors: Makes the client's errors.
        report: The outcomes of its records.
        why: The error of its end; None if it was aborted.
    """
    counts = (
        f"(delivered {report.delivered}, failed {report.failed}, in doubt "
        f"{report.in_doubt}, aborted {report.aborted} since the last report)"
    )
    if why is None:
        verdict = ABORTED
        text = (
            f"while a transaction was open. The transaction was aborted, so its "
            f"records are lost {counts}. Call commit_transaction() or "
            "abort_transaction() before you close the producer"
        )
    elif why.verdict.action is Action.IN_DOUBT:
        verdict = why.verdict
        text = (
            f"before the commit of its transaction was answered {counts}. It is "
            "unknown whether the transaction was committed: look in the topic before "
            f"you send its records again (the commit: {why})"
        )
    elif why.verdict.action is Action.FENCED:
        verdict = why.verdict
        text = (
            "while a transaction was open, which the coordinator has aborted already "
            f"{counts} (the abort: {why})"
        )
    else:
        verdict = _LEFT_OPEN
        text = (
            "while a transaction was open. The transaction could not be aborted and "
            f"is still open {counts}: consumers of committed records see no later "
            "record until transaction.timeout.ms is over, or a new producer with the "
            f"same transactional.id takes over (the abort: {why})"
        )
    text = f"the producer was closed {text}"
    error = errors.make(ClientStateError, text, verdict=verdict)
    error.__cause__ = why
    return error


def make_waits_for_itself(errors: ClientErrors, method: str) -> KafkaGuardError:
    """Make the error for a call in a callback that would wait for its own thread."""
    return errors.make(
        ClientStateError,
        f"{method}() in a callback would wait for the thread that runs the callback: "
        "call it in another thread",
    )
