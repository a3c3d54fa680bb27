"""Dead letters: the reasons, and the headers that contain them.

A dead letter can be sent to its topic again and refused again, any number of times. Its
headers are then replaced, not extended.
"""

from __future__ import annotations

from dataclasses import replace
from enum import StrEnum
from typing import TYPE_CHECKING

from kafkaguard._delivery.dialects import (
    NAMES,
    PREFIX,
    LetterFacts,
    origins_of,
    read_dialect,
    read_facts,
    without_letter_headers,
    write_headers,
)
from kafkaguard._delivery.facts import Raw
from kafkaguard._delivery.sizes import batch_size
from kafkaguard._errors import (
    InvalidRecordKeyError,
    InvalidTimestampError,
    KafkaGuardError,
    MessageTooLargeError,
)
from kafkaguard._errors.base import Action, RuleInfo, Verdict

if TYPE_CHECKING:
    from collections.abc import Iterable

    from kafkaguard._delivery.dialects import Dialect
    from kafkaguard._delivery.facts import Header
    from kafkaguard._delivery.shell import ClientErrors

#: The header with the file of a malformed line.
SOURCE = f"{PREFIX}source"
VALUE_BYTES = f"{PREFIX}value_bytes"
#: The value is null, as the key is; the letter's is empty.
NULL_VALUE = f"{PREFIX}null_value"
#: The record's timestamp in milliseconds: where the letter itself cannot have it, and
#: of a record that was read.
TIMESTAMP = NAMES["own"]["timestamp_ms"]
#: How often the record was dead-lettered, and its first topic, partition and offset:
#: from the second time on.
ATTEMPTS = f"{PREFIX}attempts"
_FIRST = {
    f"{PREFIX}first_{fact}": NAMES["own"][fact]
    for fact in ("topic", "partition", "offset")
}
#: A header without a name, with its position from 0.
NAMELESS = f"{PREFIX}header."

#: How many bytes of a value are kept if it is too large for the dead-letter topic.
CUT_BYTES = 1024
#: The most characters of an exception's text in a header.
_MOST_TEXT = 1000

#: The headers that each refusal replaces.
_REPLACED = frozenset({ATTEMPTS, *_FIRST, *NAMES["own"].values()} - {TIMESTAMP})


class Reason(StrEnum):
    """Why a record was refused; for refusals of a broker, Kafka's name of the error."""

    NULL_KEY = "NULL_KEY"
    """It has no key and its topic is compacted."""
    TOO_LARGE = "TOO_LARGE"
    """It is larger than its topic allows."""
    NULL_TOPIC = "NULL_TOPIC"
    """It names no topic."""
    DEAD_LETTER_TOPIC = "DEAD_LETTER_TOPIC"
    """It names the dead-letter topic."""
    UNKNOWN_TOPIC = "UNKNOWN_TOPIC"
    """It names a topic that does not exist."""
    UNKNOWN_PARTITION = "UNKNOWN_PARTITION"
    """It names a partition that its topic does not have."""
    NAMELESS_HEADER = "NAMELESS_HEADER"
    """One of its headers has no name."""
    NUL_IN_HEADER = "NUL_IN_HEADER"
    """The name of one of its headers has a NUL, where librdkafka would cut it."""
    INVALID_TIMESTAMP = "INVALID_TIMESTAMP"
    """Its topic, or the client that sends it, does not take its timestamp."""
    MALFORMED = "MALFORMED"
    """It is a line of its source that could not be read."""
    KEY_MADE_NULL = "KEY_MADE_NULL"
    """Its key is null because a cast could not read the value."""
    SUPERSEDED = "SUPERSEDED"
    """It failed with its batch, and a later record of the same key was accepted."""
    HANDLER_FAILED = "HANDLER_FAILED"
    """The handler of a consumer raised an exception for it."""
    UNDECODABLE = "UNDECODABLE"
    """Its key or value could not be deserialised."""


def reason_of(error: KafkaGuardError) -> str:
    """Return why a record was refused: a :class:`Reason`, or the error's name."""
    if isinstance(error, InvalidRecordKeyError):
        return Reason.NULL_KEY
    if isinstance(error, MessageTooLargeError):
        return Reason.TOO_LARGE
    return error.name


def refusal_facts(
    error: KafkaGuardError,
    *,
    partition: int | None = None,
    reason: str | None = None,
) -> LetterFacts:
    """Tell what the letter of a refused record says.

    Args:
        error: Why it was refused.
        partition: The record's partition. Default: the error's.
        reason: The reason. Default: the error's.
    """
    return LetterFacts(
        reason=reason or reason_of(error),
        topic=error.topic,
        partition=error.partition if partition is None else partition,
        error=error.name,
        code=error.code,
        exception=f"kafkaguard.errors.{error.verdict.error_class.__name__}",
        message=error.broker_message or error.summary,
    )


def read_headers(headers: Iterable[Header] | None) -> dict[str, str]:
    """Read the headers of a dead letter: ``{"reason": "NULL_KEY", "topic": ...}``.

    Other headers of the record are left out.
    """
    return {
        name.removeprefix(PREFIX): (value or b"").decode(errors="replace")
        for name, value in headers or ()
        if name.startswith(PREFIX)
    }


def without_reasons(
    headers: Iterable[Header], dialect: Dialect = "own"
) -> tuple[list[Header], list[Header]]:
    """Separate the headers of earlier refusals from the record's other headers.

    Args:
        headers: The record's headers, with those of a dead letter that is sent again.
        dialect: The kind of headers of the next refusal.

    Returns:
        The other headers, and the permanent facts of earlier refusals: their number,
        and the first topic, partition and offset.
    """
    ours = _REPLACED if dialect == "own" else _REPLACED | {*NAMES[dialect].values()}
    headers = list(headers)
    others = [header for header in headers if header[0] not in ours]
    before = dict(header for header in headers if header[0] in ours)
    if not before:
        return others, []
    attempts = (before.get(ATTEMPTS) or b"").decode(errors="replace")
    number = int(attempts) if attempts.isdecimal() else 1
    history: list[Header] = [(ATTEMPTS, str(number + 1).encode())]
    for name, latest in _FIRST.items():
        if (first := before.get(name, before.get(latest))) is not None:
            history.append((name, first))
    return others, history + [h for h in headers if h[0] in origins_of(dialect)]


#: The verdict for a dead letter that its topic would refuse.
NO_ROOM = Verdict(
    Action.CONFIGURE,
    retriable=False,
    written="no",
    error_class=MessageTooLargeError,
    rule=RuleInfo(
        "dead-letter-too-large",
        "raise max.message.bytes of the dead-letter topic; this record was not sent",
        "Kafka's topic setting max.message.bytes",
        "Key and headers of a refused record alone are larger than the dead-letter "
        "topic allows; only a value can be cut.",
    ),
)


def letter(
    record: Raw,
    facts: LetterFacts,
    *,
    topic: str,
    size_limit: int | None,
    errors: ClientErrors,
    dialect: Dialect = "own",
) -> Raw:
    """Make the dead letter of a record.

    Args:
        record: The refused record; its key and its other headers are kept.
        facts: Why it was refused, and where.
        topic: The dead-letter topic.
        size_limit: The largest batch of that topic in bytes, or None if unknown.
        errors: Makes the client's errors.
        dialect: The kind of headers.

    Raises:
        MessageTooLargeError: Key and headers alone do not fit; the text has the sizes.
    """
    others, history = without_reasons(record.headers, dialect)
    names = {name for name, _ in (*history, *others)}
    why = [
        *history,
        *(header for header in write_headers(facts, dialect) if header[0] not in names),
    ]
    value, headers = fitting(record.value, record.key, others, why, size_limit)
    needed = batch_size(record.key, value, headers)
    if size_limit is not None and needed > size_limit:
        raise errors.make(
            MessageTooLargeError,
            f"{letter_for(facts.topic)}: the dead-letter topic {topic} takes "
            f"{size_limit:,} bytes, and the record's key and headers need {needed:,} "
            "with the headers that say why, even without its value; raise its "
            "max.message.bytes (and the client's largest request, where that is set)",
            topic=topic,
            api="Produce",
            verdict=NO_ROOM,
        )
    return Raw(record.key, value, headers, record.timestamp_ms)


def letter_of_read(
    record: Raw,
    facts: LetterFacts,
    error: BaseException,
    *,
    dialect: Dialect = "own",
) -> Raw:
    """Make the dead letter of a record that a consumer has read.

    Args:
        record: The record as it was read: bytes, before deserialisers.
        facts: Where it was; the reason and the exception are added.
        error: The exception of its handler.
        dialect: The kind of headers.
    """
    others, history = without_reasons(record.headers, dialect)
    others = [header for header in others if header[0] != TIMESTAMP]
    cls = type(error)
    facts = replace(
        facts,
        reason=(
            reason_of(error)
            if isinstance(error, KafkaGuardError)
            else Reason.HANDLER_FAILED
        ),
        exception=f"{cls.__module__}.{cls.__qualname__}",
        message=_text_of(error)[:_MOST_TEXT],
    )
    value = record.value
    if record.key is None and value is None:  # some clients send no such record
        value, others = b"", [*others, (NULL_VALUE, b"true")]
    count = [header for header in history if header[0] == ATTEMPTS]
    headers = [*others, *count, *write_headers(facts, dialect)]
    return Raw(record.key, value, headers, record.timestamp_ms)


def as_first_read(record: Raw) -> tuple[LetterFacts | None, Raw]:
    """Return where the record of a dead letter was, and the record as it was then.

    Args:
        record: A record of a dead-letter topic. If it is no dead letter, it is returned
            as it is, without facts.
    """
    dialect = read_dialect(record.headers)
    if dialect is None:
        return None, record
    facts = read_facts(record.headers, dialect)
    is_null = any(name == NULL_VALUE for name, _ in record.headers)
    time = record.timestamp_ms if facts.timestamp_ms is None else facts.timestamp_ms
    headers = without_letter_headers(record.headers, dialect)
    return facts, Raw(record.key, None if is_null else record.value, headers, time)


def _text_of(error: BaseException) -> str:
    """Return the text of an application's exception, which may fail to make one."""
    try:
        return str(error)
    except Exception as why:  # noqa: BLE001 - the application's code
        return f"its text cannot be made: {type(why).__name__}"


def changed_letter(record: Raw, error: KafkaGuardError) -> Raw | None:
    """Return a refused dead letter as its topic may take it; None: it cannot be helped.

    Args:
        record: The dead letter.
        error: Why it was refused: its timestamp, or its size.
    """
    if isinstance(error, InvalidTimestampError) and record.timestamp_ms is not None:
        return without_time(record)
    if isinstance(error, MessageTooLargeError) and len(record.value or b"") > CUT_BYTES:
        value = record.value or b""
        size = (VALUE_BYTES, str(len(value)).encode())
        return record._replace(value=value[:CUT_BYTES], headers=[*record.headers, size])
    return None


def without_time(record: Raw) -> Raw:
    """Move a record's timestamp into a header, so that its client sets one."""
    if record.timestamp_ms is None:
        return record
    headers = [header for header in record.headers if header[0] != TIMESTAMP]
    headers.append((TIMESTAMP, str(record.timestamp_ms).encode()))
    return record._replace(headers=headers, timestamp_ms=None)


def letter_for(topic: str | None) -> str:
    """Name a dead letter by its record's topic, for messages."""
    record = "a record without a topic" if topic is None else f"a record for {topic}"
    return f"the dead letter of {record}"


def fitting(
    value: bytes | None,
    key: bytes | None,
    headers: Iterable[Header],
    why: list[Header],
    size_limit: int | None,
) -> tuple[bytes | None, list[Header]]:
    """Build a dead letter that its topic accepts.

    Args:
        value: The record's value.
        key: Its key, which is kept.
        headers: Its headers, which are kept too.
        why: The headers with the reason.
        size_limit: The largest batch of the dead-letter topic in bytes. None: unknown,
            so nothing is cut.

    Returns:
        The value, cut to its first :data:`CUT_BYTES` bytes or to what fits, and all
        headers, with one for the full size of a value that was cut. If key and headers
        alone do not fit, the result is the smallest possible letter, which is too
        large.
    """
    headers = list(headers)
    whole = [*headers, *why]
    size = batch_size(key, value, whole)
    if not value or size_limit is None or size <= size_limit:
        return value, whole
    is_cut_already = any(name == VALUE_BYTES for name, _ in headers)
    full_size = [] if is_cut_already else [(VALUE_BYTES, str(len(value)).encode())]
    shorter = [*whole, *full_size]
    cut = value[:CUT_BYTES]
    beyond = max(0, batch_size(key, cut, shorter) - size_limit)
    cut = cut[: max(0, len(cut) - beyond)]
    return (cut, shorter) if batch_size(key, cut, shorter) < size else (value, whole)
