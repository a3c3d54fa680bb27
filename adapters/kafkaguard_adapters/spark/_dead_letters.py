"""The dead letter of a record: itself, with headers that say why."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kafkaguard._dead_letter import cut, reason_headers
from kafkaguard_adapters.spark._arrow import ANY_PARTITION, Record
from kafkaguard_adapters.spark._wire_size import batch_size

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
    """
    partition = record.partition if record.partition >= 0 else None
    why = reason_headers(reason, topic=record.topic, partition=partition, error=error)
    headers = [*(record.headers or ()), *why]
    whole = Record(topic, record.key, record.value, headers, ANY_PARTITION)
    return whole if batch_size(whole) <= limit else _shorter(whole, limit)


def _shorter(letter: Record, limit: int) -> Record:
    value, full_size = cut(letter.value or b"")
    shorter = letter._replace(value=value, headers=[*(letter.headers or ()), full_size])
    beyond = max(0, batch_size(shorter) - limit)
    return shorter._replace(value=value[: max(0, len(value) - beyond)])
