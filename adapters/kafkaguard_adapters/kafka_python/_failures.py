"""What a failed record's outcome is, from what is known of its batch. No I/O here."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from kafka.errors import KafkaError, KafkaTimeoutError

from kafkaguard._verdicts.classification import classify
from kafkaguard._verdicts.verdict import Action
from kafkaguard.errors import (
    AuthenticationError,
    BatchMateRefusedError,
    ClientClosedError,
    ClientStateError,
    ClientTimeoutError,
    ClusterAuthorizationFailedError,
    InvalidRecordKeyError,
    KafkaGuardError,
)
from kafkaguard_adapters.kafka_python._private import reading
from kafkaguard_adapters.kafka_python.errors import errors

if TYPE_CHECKING:
    from collections.abc import Callable

    from kafkaguard_adapters.kafka_python._fate import Fate
    from kafkaguard_adapters.kafka_python._private.reading import RawRecord
    from kafkaguard_adapters.kafka_python._tracking import TrackedBatch

#: librdkafka's code for "dropped while it was on its way"; Kafka has none.
PURGED_IN_FLIGHT = -151
INVALID_RECORD = 87
#: What brokers answer for a null key on a compacted topic: today's, and old ones.
REFUSED_RECORD = frozenset({INVALID_RECORD, 2})
#: What they answer for a batch that is too large as a whole, which the client splits
#: while there is time: MESSAGE_TOO_LARGE, RECORD_LIST_TOO_LARGE.
REFUSED_BATCH = frozenset({10, 18})
#: OUT_OF_ORDER_SEQUENCE_NUMBER, UNKNOWN_PRODUCER_ID.
SEQUENCE_ERRORS = frozenset({45, 59})
#: What holds for each record of a transaction that has failed (KIP-1050).
ABORT = classify(120, api="EndTxn")
#: The client did not get to it; the record may be sent by another one.
NOT_SENT = classify(KafkaTimeoutError(), api="Produce", phase="enqueue")
#: The calls came in a wrong order; no client is dead.
OUT_OF_ORDER = classify(ClientStateError("in a wrong order"))
_STOPS = frozenset({Action.FENCED, Action.CONFIGURE})


@dataclass(frozen=True, slots=True)
class Failure:
    """Why a record failed.

    Attributes:
        error: Of both classes.
        repeatable: The record itself was not refused, so it may be sent again.
        unsent: It certainly was never sent.
        in_flight: Its producer gave it up while it was on its way.
        as_a_whole: Its batch was refused, and no record was looked at.
    """

    error: KafkaGuardError
    repeatable: bool = False
    unsent: bool = False
    in_flight: bool = False
    as_a_whole: bool = False


def judge(batch: TrackedBatch, fate: Fate, *, transactional: bool) -> Failure:
    """Decide what the failure of a batch means for one of its records.

    Args:
        batch: The failed batch, or a stand-in for a record that came into none.
        fate: The record's fate.
        transactional: Within a transaction nothing is sent again.
    """
    original = fate.original(batch.result)
    place = _place(batch)
    if batch.producer is None:
        context = {"transactional": transactional, "idempotent": False}
        return Failure(errors.translate(original, context=context, **place))
    if isinstance(original, KafkaTimeoutError):
        return Failure(_timed_out(batch, original, place, transactional=transactional))
    if reading.was_given_up(batch.result):
        if transactional:
            return Failure(_in_failed_transaction(original, place))
        return _given_up(batch, original, place)
    tell = batch.result.value[2]
    return _judge_refusal(batch, fate, original, tell, transactional=transactional)


def judge_late_refusal(
    batch: TrackedBatch, fate: Fate, tell: Callable[[int], BaseException]
) -> Failure:
    """Decide what a refusal means that came after the producer gave the batch up.

    Args:
        batch: The batch.
        fate: The record's fate.
        tell: Says why, by a record's index.
    """
    original = tell(fate.index)
    return _judge_refusal(batch, fate, original, tell, transactional=False)


def _judge_refusal(
    batch: TrackedBatch,
    fate: Fate,
    original: BaseException,
    tell: Callable[[int], BaseException],
    *,
    transactional: bool,
) -> Failure:
    place = _place(batch)
    if _is_mate(batch, fate, original, tell):
        as_a_whole = getattr(original, "errno", None) in REFUSED_BATCH
        error = _mate(
            original, place, as_a_whole=as_a_whole, transactional=transactional
        )
        return Failure(error, repeatable=not transactional, as_a_whole=as_a_whole)
    error = _refused(fate, original, place, transactional=transactional)
    # A hole in the sequence is the producer's fault: the record was not looked at.
    first_try = reading.is_first_try(batch.source)
    innocent = error.code in SEQUENCE_ERRORS and first_try and not transactional
    return Failure(error, repeatable=innocent, unsent=innocent)


def _place(batch: TrackedBatch) -> dict[str, Any]:
    where = batch.topic_partition
    return {"api": "Produce", "topic": where.topic, "partition": where.partition}


def _given_up(
    batch: TrackedBatch, original: BaseException, place: dict[str, Any]
) -> Failure:
    """Judge a record of a batch that the dying or closing producer left behind."""
    cause = reading.unwrapped(original)
    sent = reading.was_sent(batch.source)
    # One whose InitProducerId was refused (a cause in a text) never sent anything.
    if (cause is not original or not sent) and ends_all(cause):
        return Failure(errors.translate(cause, **place))
    why = f"the producer gave up ({type(original).__name__})"
    if sent:
        text = f"{why} while this record was on its way: it may have been written"
        error = errors.make(PURGED_IN_FLIGHT, text, original=original, **place)
        return Failure(error, repeatable=True, in_flight=True)
    text = f"{why} before this record was sent: it was not written"
    error = errors.make(
        ClientClosedError, text, original=original, verdict=NOT_SENT, **place
    )
    return Failure(error, repeatable=True, unsent=True)


def _timed_out(
    batch: TrackedBatch,
    original: BaseException,
    place: dict[str, Any],
    *,
    transactional: bool,
) -> KafkaGuardError:
    """Judge a record that had no outcome when its time was over."""
    seconds = batch.producer.config["delivery_timeout_ms"] / 1000
    sent = reading.was_sent(batch.source)
    happened = (
        "it was sent, and no answer came: it may have been written"
        if sent
        else "no broker could be reached for it: it was not written"
    )
    context: dict[str, Any] = {"transactional": transactional, "idempotent": False}
    if not sent:
        context["phase"] = "enqueue"
    text = f"no outcome within {seconds:g} s (delivery_timeout_ms); {happened}"
    return errors.translate(original, message=text, context=context, **place)


def in_the_end(batch: TrackedBatch, failure: Failure) -> KafkaGuardError:
    """Return the error of a record that is not sent again."""
    if failure.unsent and batch.due <= time.monotonic():
        return not_in_time(failure.error, batch.producer)
    return failure.error


def not_in_time(error: KafkaGuardError, producer: Any) -> KafkaGuardError:
    """Judge a record that could not be sent again before its time was over.

    Args:
        error: Why it was not delivered at first.
        producer: The producer that it was handed to.
    """
    if error.verdict.written != "no":
        return error
    seconds = producer.config["delivery_timeout_ms"] / 1000
    late = errors.make(
        ClientTimeoutError,
        f"no outcome within {seconds:g} s (delivery_timeout_ms), since its producer "
        "had to be replaced; it was not written",
        api="Produce",
        topic=error.topic,
        partition=error.partition,
        verdict=NOT_SENT,
    )
    late.__cause__ = error
    return late


def _in_failed_transaction(
    original: BaseException, place: dict[str, Any]
) -> KafkaGuardError:
    """Judge a record that the client dropped since its transaction has failed."""
    context = {"transactional": True, "idempotent": False}
    cause = reading.unwrapped(original)
    verdict = classify(cause, api="Produce", transactional=True)
    if verdict.action not in _STOPS:
        verdict = ABORT
    text = "its transaction has failed; nothing of that is shown to readers"
    return errors.translate(
        cause, message=text, context=context, verdict=verdict, **place
    )


def _is_mate(
    batch: TrackedBatch,
    fate: Fate,
    original: BaseException,
    tell: Callable[[int], BaseException],
) -> bool:
    """Tell whether the batch or another record was refused, and not this record."""
    if type(original) is KafkaError:
        # What kafka-python says of a record that the broker's record_errors leave out.
        return True
    code = getattr(original, "errno", None)
    if code in REFUSED_BATCH:
        return batch.count > 1
    if code not in REFUSED_RECORD or fate.key_is_null:
        return False
    # Of a record that it names, the client makes a new exception at each look.
    named = tell(fate.index) is not tell(fate.index)
    return not named and batch.count > 1


def _mate(
    original: BaseException,
    place: dict[str, Any],
    *,
    as_a_whole: bool,
    transactional: bool,
) -> KafkaGuardError:
    why = (
        "its batch was larger than the topic takes"
        if as_a_whole
        else "another record of the same batch was refused"
    )
    text = f"{why}; this one was not written"
    verdict = ABORT if transactional else None
    return errors.make(
        BatchMateRefusedError, text, original=original, verdict=verdict, **place
    )


def _refused(
    fate: Fate,
    original: BaseException,
    place: dict[str, Any],
    *,
    transactional: bool,
) -> KafkaGuardError:
    context: dict[str, Any] = {
        "null_key": fate.key_is_null,
        "idempotent": False,
        "transactional": transactional,
    }
    if getattr(original, "errno", None) == INVALID_RECORD and not fate.key_is_null:
        context["phase"] = "single"
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
