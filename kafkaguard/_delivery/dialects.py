"""Header names of dead letters: kafkaguard, Spring, Connect, Streams, KIP-1191.

Spring's numbers are binary, those of Kafka's own tools are text. Facts that only a
written record has (offset, timestamp type) have no header.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from kafkaguard._errors import KafkaGuardError

Dialect = Literal["own", "spring", "connect", "streams", "kip-1191"]


@dataclass(frozen=True, slots=True)
class _Names:
    topic: str
    partition: str
    message: str
    exception: str | None = None
    is_binary: bool = False


_NAMES: dict[str, _Names] = {
    # Spring for Apache Kafka: KafkaHeaders, written by DeadLetterPublishingRecoverer.
    "spring": _Names(
        "kafka_dlt-original-topic",
        "kafka_dlt-original-partition",
        "kafka_dlt-exception-message",
        "kafka_dlt-exception-fqcn",
        is_binary=True,
    ),
    # Kafka Connect: DeadLetterQueueReporter (KIP-298).
    "connect": _Names(
        "__connect.errors.topic",
        "__connect.errors.partition",
        "__connect.errors.exception.message",
        "__connect.errors.exception.class.name",
    ),
    # Kafka Streams: ExceptionHandlerUtils (KIP-1034).
    "streams": _Names(
        "__streams.errors.topic",
        "__streams.errors.partition",
        "__streams.errors.message",
        "__streams.errors.exception",
    ),
    # Share groups: ShareGroupDLQStateManager (KIP-1191).
    "kip-1191": _Names(
        "__dlq.errors.topic", "__dlq.errors.partition", "__dlq.errors.message"
    ),
}


def names_of(dialect: Dialect) -> frozenset[str]:
    """Return the header names of a dialect; for kafkaguard's own, none."""
    if dialect == "own":
        return frozenset()
    names = _NAMES[dialect]
    all_of_them = (names.topic, names.partition, names.message, names.exception)
    return frozenset(name for name in all_of_them if name is not None)


def origins_of(dialect: Dialect) -> frozenset[str]:
    """Return the header names for the first topic and partition of a record."""
    if dialect == "own":
        return frozenset()
    return frozenset({_NAMES[dialect].topic, _NAMES[dialect].partition})


def foreign_headers(
    dialect: Dialect,
    reason: str,
    *,
    topic: str | None,
    partition: int | None,
    error: KafkaGuardError | None,
) -> list[tuple[str, bytes | None]]:
    """Make the headers of a dead letter in another tool's dialect.

    Args:
        dialect: Any but ``"own"``.
        reason: The reason.
        topic: The record's topic.
        partition: The record's partition, if it is known.
        error: The error of the broker or the client.
    """
    names = _NAMES[dialect]
    headers: list[tuple[str, bytes | None]] = []
    if topic is not None:
        headers.append((names.topic, topic.encode()))
    if partition is not None:
        headers.append((names.partition, _number(partition, binary=names.is_binary)))
    if error is not None and names.exception is not None:
        headers.append((names.exception, _class_name(error).encode()))
    return [*headers, (names.message, _message(reason, error).encode())]


def _number(value: int, *, binary: bool) -> bytes:
    return struct.pack(">i", value) if binary else str(value).encode()


def _class_name(error: KafkaGuardError) -> str:
    return f"kafkaguard.errors.{error.verdict.error_class.__name__}"


def _message(reason: str, error: KafkaGuardError | None) -> str:
    text = None if error is None else error.broker_message or error.summary
    return f"{reason}: {text}" if text else reason
