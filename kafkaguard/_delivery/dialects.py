"""Header names of dead letters: kafkaguard, Spring, Connect, Streams, KIP-1191.

One table names the header of each fact, so what one program wrote another one can read.
Spring's numbers are binary, all others are text.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any, Literal

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from kafkaguard._delivery.facts import Header

Dialect = Literal["own", "spring", "connect", "streams", "kip-1191"]

#: What all headers of kafkaguard's own dialect begin with.
PREFIX = "kafkaguard."


@dataclass(frozen=True, slots=True)
class LetterFacts:
    """What the headers of a dead letter say. What is not known is None.

    Attributes:
        reason: Why the record was set aside: a ``Reason``, or the name of the broker's
            error.
        topic: The topic for which it was meant, or from which it was read.
        partition: The partition there.
        offset: Its offset there; only a record that was read has one.
        timestamp_ms: Its timestamp in milliseconds since 1970, where it was read.
        group: The consumer group that set it aside.
        error: Kafka's name of the error.
        code: The code of the error.
        exception: The class of the exception, with its module.
        message: What the broker or the exception said.
    """

    reason: str | None = None
    topic: str | None = None
    partition: int | None = None
    offset: int | None = None
    timestamp_ms: int | None = None
    group: str | None = None
    error: str | None = None
    code: int | None = None
    exception: str | None = None
    message: str | None = None


#: The header of each fact. A dialect without a header for the reason has it before the
#: message: "NULL_KEY: no key".
NAMES: Mapping[Dialect, Mapping[str, str]] = {
    "own": {
        **{field.name: PREFIX + field.name for field in fields(LetterFacts)},
        "timestamp_ms": f"{PREFIX}timestamp",
    },
    # Spring for Apache Kafka: KafkaHeaders, written by DeadLetterPublishingRecoverer.
    "spring": {
        "topic": "kafka_dlt-original-topic",
        "partition": "kafka_dlt-original-partition",
        "offset": "kafka_dlt-original-offset",
        "timestamp_ms": "kafka_dlt-original-timestamp",
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
#: What the headers of each dialect begin with; their tools write more than these facts.
_PREFIXES: Mapping[Dialect, str] = {
    "own": PREFIX,
    "spring": "kafka_dlt-",
    "connect": "__connect.errors.",
    "streams": "__streams.errors.",
    "kip-1191": "__dlq.errors.",
}
#: The facts that stay those of the first refusal, since their names say "original".
_ORIGINS = ("topic", "partition", "offset", "timestamp_ms")
_SPRING_NUMBERS = {"partition": ">i", "offset": ">q", "timestamp_ms": ">q"}
_NUMBERS = ("partition", "offset", "timestamp_ms", "code")


def origins_of(dialect: Dialect) -> frozenset[str]:
    """Return the header names of another tool's dialect that a later letter keeps."""
    if dialect == "own":
        return frozenset()
    names = NAMES[dialect]
    return frozenset(names[fact] for fact in _ORIGINS if fact in names)


def has_group(dialect: Dialect) -> bool:
    """Return whether a dialect has a header for the consumer group."""
    return "group" in NAMES[dialect]


def write_headers(facts: LetterFacts, dialect: Dialect) -> list[Header]:
    """Make the headers of a dead letter, of what is known."""
    headers: list[Header] = []
    names = NAMES[dialect]
    for fact, name in names.items():
        value = getattr(facts, fact)
        if fact == "message" and "reason" not in names:
            value = f"{facts.reason}: {value}" if value else facts.reason
        if fact == "exception" and dialect == "own" and facts.error is not None:
            continue  # the error has a name
        if value is not None:
            headers.append((name, _encode(fact, value, dialect)))
    return headers


def read_dialect(headers: Iterable[Header]) -> Dialect | None:
    """Tell the dialect of a dead letter; None for a record that is not one.

    kafkaguard replaces its own headers and those of its dialect, so its own come first;
    of other tools' headers the last ones were written last.
    """
    found: Dialect | None = None
    for name, _ in headers:
        if name == NAMES["own"]["reason"]:
            return "own"
        for dialect, names in NAMES.items():
            if dialect != "own" and name in (names["topic"], names["message"]):
                found = dialect
    return found


def read_facts(headers: Iterable[Header], dialect: Dialect) -> LetterFacts:
    """Read what the headers of a dead letter say.

    A value that cannot be read, since another program wrote it, is None.
    """
    names = {name: fact for fact, name in NAMES[dialect].items()}
    facts: dict[str, Any] = {
        names[name]: _decode(names[name], value, dialect)
        for name, value in headers
        if name in names and value is not None
    }
    if dialect != "own" and (message := facts.get("message")):
        head, _, rest = message.partition(": ")
        if head.isupper():  # written by kafkaguard
            facts |= {"reason": head, "message": rest or None}
    return LetterFacts(**facts)


def letter_facts(headers: Iterable[Header] | None) -> LetterFacts | None:
    """Read what the headers of a dead letter say, in whichever dialect.

    Returns:
        None: they are not those of a dead letter.
    """
    known = list(headers or ())
    dialect = read_dialect(known)
    return None if dialect is None else read_facts(known, dialect)


def without_letter_headers(headers: Iterable[Header], dialect: Dialect) -> list[Header]:
    """Return the headers that the record had before it became a dead letter."""
    prefixes = (PREFIX, _PREFIXES[dialect])
    return [header for header in headers if not header[0].startswith(prefixes)]


def _encode(fact: str, value: Any, dialect: Dialect) -> bytes:
    if dialect == "spring" and fact in _SPRING_NUMBERS:
        return struct.pack(_SPRING_NUMBERS[fact], value)
    return str(value).encode()


def _decode(fact: str, value: bytes, dialect: Dialect) -> Any:
    if fact not in _NUMBERS:
        return value.decode(errors="replace")
    try:
        if dialect == "spring":
            return struct.unpack(_SPRING_NUMBERS[fact], value)[0]
        return int(value)
    except (struct.error, ValueError):
        return None
