"""What a failed record's outcome is, from what is known of its batch. No I/O here."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from kafka.errors import KafkaError, KafkaTimeoutError

from kafkaguard._classification import classify
from kafkaguard._verdict import Action
from kafkaguard.errors import (
    AuthenticationError,
    BatchMateRefusedError,
    ClientClosedError,
    ClusterAuthorizationFailedError,
    InvalidRecordKeyError,
    KafkaGuardError,
)
from kafkaguard_adapters.kafka_python import _insides, errors

if TYPE_CHECKING:
    from kafkaguard_adapters.kafka_python._future import GuardedFuture
    from kafkaguard_adapters.kafka_python._insides import RawRecord
    from kafkaguard_adapters.kafka_python._tracking import TrackedBatch

#: librdkafka's code for "dropped while it was on its way"; Kafka has none.
PURGED_IN_FLIGHT = -151
INVALID_RECORD = 87
#: What brokers answer for a null key on a compacted topic: today's, and old ones.
REFUSED_RECORD = frozenset({INVALID_RECORD, 2})


@dataclass(frozen=True, slots=True)
class Failure:
    """Why a record failed.

    Attributes:
        error: Of both classes.
        repeatable: The record itself was not refused, so it may be sent again.
    """

    error: KafkaGuardError
    repeatable: bool


def judge(
    batch: TrackedBatch, future: GuardedFuture, *, transactional: bool
) -> Failure:
    """Decide what the failure of a batch means for one of its records.

    Args:
        batch: The failed batch, or a stand-in for a record that came into none.
        future: The record's future.
        transactional: Within a transaction nothing is sent again.
    """
    original = future.original(batch.result)
    place = {
        "api": "Produce",
        "topic": batch.topic_partition.topic,
        "partition": batch.topic_partition.partition,
    }
    given_up = batch.producer is not None and _insides.was_given_up(batch.result)
    if batch.producer is None or (given_up and transactional):
        context = {"transactional": transactional, "idempotent": False}
        return Failure(errors.translate(original, context=context, **place), False)
    if given_up:
        cause = _insides.unwrapped(original)
        # One whose InitProducerId was refused (a cause in a text) never sent anything.
        unsent = cause is not original or not _insides.was_sent(batch.source)
        if unsent and ends_all(cause):
            return Failure(errors.translate(cause, **place), False)
        return Failure(_given_up(batch, original, place), True)
    if _is_mate(batch, future, original):
        return Failure(_mate(original, place), not transactional)
    return Failure(_refused(batch, future, original, place), False)


def _given_up(
    batch: TrackedBatch, original: BaseException, place: dict[str, Any]
) -> KafkaGuardError:
    """Judge a record of a batch that the dying or closing producer left behind."""
    why = f"the producer gave up ({type(original).__name__})"
    if _insides.was_sent(batch.source):
        text = f"{why} while this record was on its way: it may have been written"
        return errors.make(PURGED_IN_FLIGHT, text, original=original, **place)
    text = f"{why} before this record was sent: it was not written"
    return errors.make(ClientClosedError, text, original=original, **place)


def _is_mate(
    batch: TrackedBatch, future: GuardedFuture, original: BaseException
) -> bool:
    """Tell whether another record of the batch was refused, and not this one."""
    if type(original) is KafkaError:
        # What kafka-python says of a record that the broker's record_errors leave out.
        return True
    if getattr(original, "errno", None) not in REFUSED_RECORD or future.key_is_null:
        return False
    # Of a record that it names, the client makes a new exception at each look.
    tell = batch.result.value[2]
    named = tell(future.index) is not tell(future.index)
    return not named and len(batch.futures) > 1


def _mate(original: BaseException, place: dict[str, Any]) -> KafkaGuardError:
    text = "another record of the same batch was refused; this one was not written"
    return errors.make(BatchMateRefusedError, text, original=original, **place)


def _refused(
    batch: TrackedBatch,
    future: GuardedFuture,
    original: BaseException,
    place: dict[str, Any],
) -> KafkaGuardError:
    context: dict[str, Any] = {"null_key": future.key_is_null, "idempotent": False}
    if getattr(original, "errno", None) == INVALID_RECORD and not future.key_is_null:
        context["phase"] = "single"
    if isinstance(original, KafkaTimeoutError) and not _insides.was_sent(batch.source):
        context["phase"] = "enqueue"
    return errors.translate(original, context=context, **place)


def is_null_key_refusal(error: KafkaGuardError) -> bool:
    """Tell whether the broker refused a missing key."""
    return isinstance(error, InvalidRecordKeyError)


def may_send_again(
    failure: Failure, record: RawRecord | None, *, resend_in_doubt: bool
) -> bool:
    """Tell whether a record may be sent again without writing it twice."""
    if record is None or not failure.repeatable:
        return False
    return failure.error.verdict.written == "no" or resend_in_doubt


def ends_all(cause: BaseException) -> bool:
    """Tell whether a new producer would not help: fenced, or not let in at all."""
    verdict = classify(cause, api="Produce")
    return verdict.action is Action.FENCED or issubclass(
        verdict.error_class, (AuthenticationError, ClusterAuthorizationFailedError)
    )
