"""Dead letters: why a record was set aside, said in its headers.

Pure functions; who sends the dead letter decides to which topic.
"""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING, Any

from kafkaguard._delivery.dialects import foreign_headers
from kafkaguard._delivery.sizes import batch_size
from kafkaguard.errors import InvalidRecordKeyError, MessageTooLargeError

if TYPE_CHECKING:
    from collections.abc import Iterable

    from kafkaguard._delivery.dialects import Dialect
    from kafkaguard.errors import KafkaGuardError

PREFIX = "kafkaguard."
REASON = f"{PREFIX}reason"
TOPIC = f"{PREFIX}topic"
PARTITION = f"{PREFIX}partition"
CODE = f"{PREFIX}code"
ERROR = f"{PREFIX}error"
MESSAGE = f"{PREFIX}message"
#: The file of a line that could not be read.
SOURCE = f"{PREFIX}source"
VALUE_BYTES = f"{PREFIX}value_bytes"
#: With its place in the record, from 0: a header that had no name.
NAMELESS = f"{PREFIX}header."

#: How much of a value is kept that is too large for the dead-letter topic as well.
CUT_BYTES = 1024

Header = tuple[str, bytes | None]


class Reason(StrEnum):
    """Why a record was refused; beside these, the name of the broker's own error."""

    NULL_KEY = "NULL_KEY"
    """It has no key and its topic is compacted."""
    TOO_LARGE = "TOO_LARGE"
    """It is larger than its topic takes."""
    NULL_TOPIC = "NULL_TOPIC"
    """It names no topic."""
    DEAD_LETTER_TOPIC = "DEAD_LETTER_TOPIC"
    """It names the topic that takes the dead letters."""
    UNKNOWN_TOPIC = "UNKNOWN_TOPIC"
    """It names a topic that there is not."""
    UNKNOWN_PARTITION = "UNKNOWN_PARTITION"
    """It names a partition that its topic does not have."""
    NAMELESS_HEADER = "NAMELESS_HEADER"
    """One of its headers has no name."""
    NUL_IN_HEADER = "NUL_IN_HEADER"
    """The name of one of its headers has a NUL, where librdkafka would cut it."""
    MALFORMED = "MALFORMED"
    """It is a line of its source that could not be read."""
    KEY_MADE_NULL = "KEY_MADE_NULL"
    """Its key is null because a cast could not read the value."""
    SUPERSEDED = "SUPERSEDED"
    """It failed with its batch, and a later record of the same key was accepted."""


def reason_of(error: KafkaGuardError) -> str:
    """Return why a record was refused: a :class:`Reason`, or the error's name."""
    if isinstance(error, InvalidRecordKeyError):
        return Reason.NULL_KEY
    if isinstance(error, MessageTooLargeError):
        return Reason.TOO_LARGE
    return error.name


def reason_headers(
    reason: str,
    *,
    topic: str | None,
    partition: int | None = None,
    error: KafkaGuardError | None = None,
    dialect: Dialect = "own",
) -> list[Header]:
    """Make the headers that say why a record was refused, and where it was going.

    Args:
        reason: One of :class:`Reason`, or the name of the broker's error.
        topic: The topic that it was meant for; None if it named none.
        partition: The partition, where it was known.
        error: What the broker or the client said.
        dialect: Whose headers.

    Returns:
        Names and values; of kafkaguard's own all names begin with ``kafkaguard.``, and
        the values are UTF-8.
    """
    if dialect != "own":
        return foreign_headers(
            dialect, reason, topic=topic, partition=partition, error=error
        )
    known: dict[str, Any] = {REASON: reason, TOPIC: topic, PARTITION: partition}
    if error is not None:
        known |= {ERROR: error.name, CODE: error.code, MESSAGE: error.broker_message}
    return [
        (name, str(value).encode())
        for name, value in known.items()
        if value is not None
    ]


def read_headers(headers: Iterable[Header] | None) -> dict[str, str]:
    """Read the headers of a dead letter: ``{"reason": "NULL_KEY", "topic": ...}``.

    Headers that the record had before are left out.
    """
    return {
        name.removeprefix(PREFIX): (value or b"").decode(errors="replace")
        for name, value in headers or ()
        if name.startswith(PREFIX)
    }


def fitting(
    value: bytes | None,
    key: bytes | None,
    headers: Iterable[Header],
    why: list[Header],
    limit: int | None,
) -> tuple[bytes | None, list[Header]]:
    """Put a dead letter together so that its topic takes it.

    Args:
        value: The record's value.
        key: Its key, which is kept.
        headers: Its headers, which are kept, too.
        why: The headers that say why it was refused.
        limit: The largest batch, in bytes, that the dead-letter topic takes. Default:
            not known, so that nothing is cut.

    Returns:
        The value, cut to its first :data:`CUT_BYTES` bytes or to what fits, and all
        headers, with one for the full size of a value that was cut. Where key and
        headers alone do not fit, it is the smallest that can be made, and too large.
    """
    whole = [*headers, *why]
    size = batch_size(key, value, whole)
    if not value or limit is None or size <= limit:
        return value, whole
    shorter = [*whole, (VALUE_BYTES, str(len(value)).encode())]
    cut = value[:CUT_BYTES]
    beyond = max(0, batch_size(key, cut, shorter) - limit)
    cut = cut[: max(0, len(cut) - beyond)]
    return (cut, shorter) if batch_size(key, cut, shorter) < size else (value, whole)
