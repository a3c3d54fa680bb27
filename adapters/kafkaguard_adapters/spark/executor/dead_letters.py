"""The dead letter of a record: itself, with headers that say why."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kafkaguard._common.topic_names import shortened
from kafkaguard._delivery.dead_letters import fitting, read_headers, reason_headers
from kafkaguard._delivery.sizes import batch_size
from kafkaguard.errors import MessageTooLargeError
from kafkaguard_adapters.confluent.errors import errors
from kafkaguard_adapters.spark.executor.arrow import ANY_PARTITION, Record
from kafkaguard_adapters.spark.verdicts import DEAD_LETTER_TOO_LARGE

if TYPE_CHECKING:
    from kafkaguard.errors import KafkaGuardError


def dead_letter(
    record: Record, topic: str, reason: str, error: KafkaGuardError, limit: int
) -> Record:
    """Make a record's dead letter.

    Args:
        record: What was refused; its key, value and headers are kept.
        topic: The dead-letter topic.
        reason: Why it was refused.
        error: The error that says so.
        limit: The largest batch, in bytes, that the dead-letter topic takes. A value
            that does not fit is cut, and its full size goes into a header.

    Raises:
        MessageTooLargeError: Key and headers alone do not fit; the text has the sizes.
    """
    partition = record.partition if record.partition >= 0 else None
    meant = shortened(record.topic)
    why = reason_headers(reason, topic=meant, partition=partition, error=error)
    value, headers = fitting(record.value, record.key, record.headers or (), why, limit)
    if (needed := batch_size(record.key, value, headers)) > limit:
        raise _too_large(record, topic, needed, limit)
    return Record(topic, record.key, value, headers, ANY_PARTITION)


def said_of(letter: Record) -> str:
    """Say of what a record is the dead letter; empty if it is none."""
    why = read_headers(letter.headers)
    if "reason" not in why:
        return ""
    return f"the dead letter of {_record_for(why.get('topic'))} ({why['reason']})"


def _too_large(record: Record, topic: str, needed: int, limit: int) -> KafkaGuardError:
    return errors.make(
        MessageTooLargeError,
        f"the dead letter of {_record_for(record.topic)}: the dead-letter topic "
        f"{topic} takes {limit:,} bytes, and the record's key and headers need "
        f"{needed:,} with the headers that say why, even without its value; raise its "
        "max.message.bytes (and kafka.max.request.size, where that is set)",
        topic=topic,
        api="Produce",
        verdict=DEAD_LETTER_TOO_LARGE,
    )


def _record_for(topic: str | None) -> str:
    return (
        "a record without a topic"
        if topic is None
        else f"a record for {shortened(topic)}"
    )
