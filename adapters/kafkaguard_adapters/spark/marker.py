"""Errors as text, from an executor to the driver and back.

An executor raises a ``TaskFailedError`` whose last line encodes the error. On the
driver, in a streaming query or in Connect, :func:`error_from` finds that line in
Spark's text.
"""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any

from kafkaguard import _errors as e
from kafkaguard._common.arguments import wrong_type
from kafkaguard._errors.made import CLASS_NAMES
from kafkaguard._verdicts.classification import classify
from kafkaguard._verdicts.java_texts import FIND_REFUSED, java_text
from kafkaguard_adapters.confluent.errors import errors
from kafkaguard_adapters.spark.verdicts import BY_RULE, NO_PARTITION_OF_A_RECORD

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kafkaguard._errors.base import Verdict

_MARK = "kafkaguard-error: "
_LINE = re.compile(re.escape(_MARK) + r"(\{.*\})")
# Also under another root, as in Databricks: kafkashaded.org.apache.kafka...
_JAVA = re.compile(r"org\.apache\.kafka\.common\.(?:errors\.)?(\w+)Exception\b")
# Classes of Spark's own source; its sink has others.
_SOURCE = re.compile(
    r"\bkafka010\.(?:\w+Strategy|KafkaOffsetReader|KafkaRelation|KafkaBatch|"
    r"KafkaMicroBatch|KafkaContinuous|consumer\.)"
)
# Java's classes whose names differ from the names of codes. Its client raises a
# TimeoutException if metadata or an answer does not arrive.
_JAVA_NAMES = {
    "ClusterAuthorization": e.ClusterAuthorizationFailedError,
    "CorruptRecord": e.CorruptMessageError,
    "RecordTooLarge": e.MessageTooLargeError,
    "SaslAuthentication": e.SaslAuthenticationFailedError,
    "Timeout": e.ClientTimeoutError,
    "TopicAuthorization": e.TopicAuthorizationFailedError,
}
_MESSAGES: dict[type[e.KafkaGuardError], str] = {
    e.BatchMateRefusedError: (
        "the broker refused another record of the same batch, and Spark's own sink "
        f"does not say which one: {FIND_REFUSED}"
    ),
    e.UnknownTopicOrPartitionError: (
        "the column partition has a number that the topic does not have; the record "
        "was not sent"
    ),
    e.ClientMetadataError: (
        "the topic was not found in time, and nothing was sent: check that the topic "
        "exists, that this user may describe it, and that brokers answer"
    ),
    e.ClientQueueFullError: "Java's producer had no memory left for the record, and "
    "did not send it: the brokers accept records more slowly than Spark sends them",
    e.ClientConnectionError: "the connection closed before the answer arrived",
    e.ClientConfigurationError: "Java's client refuses {setting}",
    e.OffsetOutOfRangeError: (
        "records that the source was about to read are no longer in the topic: "
        "retention deleted them, or the topic was deleted"
    ),
}
_VERDICTS: dict[type[e.KafkaGuardError], Verdict | None] = {
    e.UnknownTopicOrPartitionError: NO_PARTITION_OF_A_RECORD
}
_CARRIED = ("code", "api", "topic", "partition", "broker", "broker_message")
_MAX_DEPTH = 16


class TaskFailedError(RuntimeError):
    """The exception of an executor; the driver converts it to a KafkaGuardError."""


class TimeIsOverError(TaskFailedError):
    """The policy's deadline is over, so no task of the write is tried again."""


def as_text(error: e.KafkaGuardError) -> str:
    """Encode an error in two lines: one for people, one for the driver."""
    family = next(c for c in type(error).__mro__ if c.__name__ in CLASS_NAMES)
    line = {
        "class": family.__name__,
        "message": error.summary,
        "rule": error.verdict.rule.id,
        "notes": getattr(error, "__notes__", []),
        **{name: getattr(error, name) for name in _CARRIED},
    }
    return f"{error}\n{_MARK}{json.dumps(line)}"


def task_failed(error: e.KafkaGuardError) -> TaskFailedError:
    """Make the exception of an executor for an error."""
    return TaskFailedError(as_text(error))


def error_from(exception: BaseException | None) -> e.KafkaGuardError | None:
    """Return the Kafka error in an exception of Spark.

    Works for exceptions of a batch write, of a streaming query
    (``query.exception()``), in classic Spark and in Connect, and for those of Spark's
    own Kafka sink.

    Returns:
        The error with its code, topic and message, or None if Kafka is not the cause.

    Raises:
        TypeError: ``exception`` is not an exception.
    """
    if exception is not None and not isinstance(exception, BaseException):
        raise wrong_type("error_from(exception)", "an exception", exception)
    causes = list(iterate_causes(exception))
    for each in causes:
        if isinstance(each, e.KafkaGuardError):
            return each
    errors_in_texts = (
        read(str(each)) for read in (_decode, _translate_java) for each in causes
    )
    return next(filter(None, errors_in_texts), None)


def iterate_causes(exception: Any) -> Iterator[BaseException]:
    """Yield an exception and its causes, including Spark's private ones."""
    for _ in range(_MAX_DEPTH):
        if exception is None:
            return
        yield exception
        exception = exception.__cause__ or getattr(exception, "_cause", None)


def _decode(text: str) -> e.KafkaGuardError | None:
    match = _LINE.search(text)
    if not match:
        return None
    line = json.loads(match[1])
    cls, notes = getattr(e, line.pop("class")), line.pop("notes")
    verdict = BY_RULE.get(line.pop("rule"))
    error = errors.make(cls, line.pop("message"), verdict=verdict, **line)
    for note in notes:
        error.add_note(note)
    return error


def _translate_java(text: str) -> e.KafkaGuardError | None:
    """Translate an exception of Spark's own sink, by the end of its class name."""
    if named := java_text(text):
        setting = named.place.pop("setting", None) or "a setting"
        message = _MESSAGES[named.error].format(setting=setting)
        named.place["verdict"] = _VERDICTS.get(named.error)
        api = "Fetch" if named.error is e.OffsetOutOfRangeError else "Produce"
        if named.error is e.BatchMateRefusedError:
            named.place["code"] = e.InvalidRecordError.code
        return errors.make(named.error, message, api=api, **named.place)
    for name in _JAVA.findall(text):
        cls = _JAVA_NAMES.get(name) or getattr(e, f"{name}Error", None)
        if cls is not None:
            is_read = _SOURCE.search(text) is not None
            return _make_read_error(cls) if is_read else errors.make(cls, api="Produce")
    return None


def _make_read_error(cls: type[e.KafkaGuardError]) -> e.KafkaGuardError:
    """Make the error of a read; its topics were looked up just before."""
    is_absent = cls is e.UnknownTopicOrPartitionError
    verdict = classify(cls(), api="Fetch", phase="enqueue" if is_absent else None)
    return errors.make(
        cls, "Spark's source could not read", api="Fetch", verdict=verdict
    )
