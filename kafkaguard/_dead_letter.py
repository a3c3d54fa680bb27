"""Dead letters: why a record was set aside, said in its headers.

Pure functions; who sends the dead letter decides to which topic.
"""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable

    from kafkaguard.errors import KafkaGuardError

PREFIX = "kafkaguard."
REASON = f"{PREFIX}reason"
TOPIC = f"{PREFIX}topic"
PARTITION = f"{PREFIX}partition"
CODE = f"{PREFIX}code"
ERROR = f"{PREFIX}error"
MESSAGE = f"{PREFIX}message"
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
    UNKNOWN_TOPIC = "UNKNOWN_TOPIC"
    """It names a topic that there is not."""
    UNKNOWN_PARTITION = "UNKNOWN_PARTITION"
    """It names a partition that its topic does not have."""
    NAMELESS_HEADER = "NAMELESS_HEADER"
    """One of its headers has no name."""
    SUPERSEDED = "SUPERSEDED"
    """It failed with its batch, and a later record of the same key was accepted."""


def reason_headers(
    reason: str,
    *,
    topic: str | None,
    partition: int | None = None,
    error: KafkaGuardError | None = None,
) -> list[Header]:
    """Make the headers that say why a record was refused, and where it was going.

    Args:
        reason: One of :class:`Reason`, or the name of the broker's error.
        topic: The topic that it was meant for; None if it named none.
        partition: The partition, where it was known.
        error: What the broker or the client said.

    Returns:
        Header names, all beginning with ``kafkaguard.``, and their values in UTF-8.
    """
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


def cut(value: bytes) -> tuple[bytes, Header]:
    """Cut a value that is too large for the dead-letter topic, too.

    Returns:
        Its first :data:`CUT_BYTES` bytes, and a header with its full size.
    """
    return value[:CUT_BYTES], (VALUE_BYTES, str(len(value)).encode())
