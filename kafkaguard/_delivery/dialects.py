"""Header names of dead letters: kafkaguard, Spring, Connect, Streams, KIP-1191.

Spring's numbers are binary, those of Kafka's own tools are text. A fact that is not
known, or that a dialect has no name for, has no header. :func:`parse` reads what
:func:`origin_headers` writes, in any dialect.
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, Any, Final, Literal, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from kafkaguard._errors import KafkaGuardError

Dialect = Literal["own", "spring", "connect", "streams", "kip-1191"]
_Header = tuple[str, bytes | None]


class Origin(NamedTuple):
    """Where a record was, and why it was set aside.

    Attributes:
        topic: Its topic.
        partition: Its partition.
        offset: Its offset; None: it was never written.
        timestamp: Its timestamp in milliseconds since 1970.
        group: The consumer group that set it aside.
        exception: The class of the exception, with its module.
        message: Why it was set aside.
    """

    topic: str | None = None
    partition: int | None = None
    offset: int | None = None
    timestamp: int | None = None
    group: str | None = None
    exception: str | None = None
    message: str | None = None


#: The headers of Spring with a number, big-endian; other numbers are text.
_BINARY: Final = {
    "kafka_dlt-original-partition": ">i",
    "kafka_dlt-original-offset": ">q",
    "kafka_dlt-original-timestamp": ">q",
}
_NAMES: Final[Mapping[Dialect, Mapping[str, str]]] = {
    "own": {field: f"kafkaguard.{field}" for field in Origin._fields},
    # Spring for Apache Kafka: KafkaHeaders, written by DeadLetterPublishingRecoverer.
    "spring": {
        "topic": "kafka_dlt-original-topic",
        "partition": "kafka_dlt-original-partition",
        "offset": "kafka_dlt-original-offset",
        "timestamp": "kafka_dlt-original-timestamp",
        "group": "kafka_dlt-original-consumer-group",
        "exception": "kafka_dlt-exception-fqcn",
        "message": "kafka_dlt-exception-message",
    },
    # Kafka Connect: DeadLetterQueueReporter (KIP-298).
    "connect": {
        "topic": "__connect.errors.topic",
        "partition": "__connect.errors.partition",
        "offset": "__connect.errors.offset",
        "exception": "__connect.errors.exception.class.name",
        "message": "__connect.errors.exception.message",
    },
    # Kafka Streams: ExceptionHandlerUtils (KIP-1034).
    "streams": {
        "topic": "__streams.errors.topic",
        "partition": "__streams.errors.partition",
        "offset": "__streams.errors.offset",
        "exception": "__streams.errors.exception",
        "message": "__streams.errors.message",
    },
    # Share groups: ShareGroupDLQStateManager (KIP-1191).
    "kip-1191": {
        "topic": "__dlq.errors.topic",
        "partition": "__dlq.errors.partition",
        "offset": "__dlq.errors.offset",
        "group": "__dlq.errors.group",
        "message": "__dlq.errors.message",
    },
}
#: What stays the same however often a record is set aside.
_PLACE: Final = ("topic", "partition", "offset", "timestamp", "group")
_NUMBERS: Final = frozenset({"partition", "offset", "timestamp"})


def names_of(dialect: Dialect) -> frozenset[str]:
    """Return the header names of a dialect; for kafkaguard's own, none."""
    return frozenset() if dialect == "own" else frozenset(_NAMES[dialect].values())


def origins_of(dialect: Dialect) -> frozenset[str]:
    """Return the header names for the first place of a record; for our own, none."""
    if dialect == "own":
        return frozenset()
    names = _NAMES[dialect]
    return frozenset(names[field] for field in _PLACE if field in names)


def has_group(dialect: Dialect) -> bool:
    """Return whether a dialect has a header for the consumer group."""
    return "group" in _NAMES[dialect]


def origin_headers(dialect: Dialect, origin: Origin) -> list[_Header]:
    """Make the headers that say where a record was."""
    return [
        (name, _encode(name, value))
        for field, name in _NAMES[dialect].items()
        if (value := getattr(origin, field)) is not None
    ]


def parse(headers: Iterable[_Header] | None) -> Origin | None:
    """Read where a dead letter's record was, in whichever dialect.

    Returns:
        None: no header says it. A header that cannot be read counts as missing.
    """
    values = dict(headers or ())
    for names in _NAMES.values():
        if values.get(names["topic"]) is not None:
            return Origin(
                **{
                    field: _decode(name, value, is_number=field in _NUMBERS)
                    for field, name in names.items()
                    if (value := values.get(name)) is not None
                }
            )
    return None


def foreign_headers(
    dialect: Dialect,
    reason: str,
    *,
    topic: str | None,
    partition: int | None,
    error: KafkaGuardError | None,
) -> list[_Header]:
    """Make the headers of a dead letter in another tool's dialect.

    Args:
        dialect: Any but ``"own"``.
        reason: The reason.
        topic: The record's topic.
        partition: The record's partition, if it is known.
        error: The error of the broker or the client.
    """
    text = None if error is None else error.broker_message or error.summary
    message = f"{reason}: {text}" if text else reason
    cls = None if error is None else error.verdict.error_class.__name__
    exception = cls and f"kafkaguard.errors.{cls}"
    origin = Origin(topic, partition, exception=exception, message=message)
    return origin_headers(dialect, origin)


def _encode(name: str, value: str | int) -> bytes:
    if name in _BINARY:
        return struct.pack(_BINARY[name], value)
    return str(value).encode(errors="replace")


def _decode(name: str, value: bytes, *, is_number: bool) -> Any:
    if name in _BINARY:
        try:
            return struct.unpack(_BINARY[name], value)[0]
        except struct.error:
            return None
    text = value.decode(errors="replace")
    if not is_number:
        return text
    return int(text) if text.isascii() and text.isdecimal() else None
