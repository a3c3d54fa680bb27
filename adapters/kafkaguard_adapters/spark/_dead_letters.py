"""The dead letter of a record: itself, with headers that say why."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kafkaguard._dead_letter import fitting, reason_headers
from kafkaguard_adapters.spark._arrow import ANY_PARTITION, Record

if TYPE_CHECKING:
    from kafkaguard.errors import KafkaGuardError


def dead_letter(
    record: Record, topic: str, reason: str, error: KafkaGuardError, limit: int | None
) -> Record:
    """Make a record's dead letter.

    Args:
        record: What was refused; its key, value and headers are kept.
        topic: The dead-letter topic.
        reason: Why it was refused.
        error: The error that says so.
        limit: The most bytes that the dead-letter topic takes; a value beyond it is
            cut, and its full size goes into a header.
    """
    partition = record.partition if record.partition >= 0 else None
    why = reason_headers(reason, topic=record.topic, partition=partition, error=error)
    value, headers = fitting(record.value, record.key, record.headers or (), why, limit)
    return Record(topic, record.key, value, headers, ANY_PARTITION)
