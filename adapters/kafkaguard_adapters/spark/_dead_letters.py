"""The dead letter of a record: itself, with headers that say why."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kafkaguard._dead_letter import fit, reason_headers
from kafkaguard_adapters.spark._arrow import ANY_PARTITION, Record

if TYPE_CHECKING:
    from kafkaguard.errors import KafkaGuardError

#: What the reason's own headers take, at most.
_ROOM_BYTES = 2048


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
    room = (
        None if limit is None else max(0, limit - _ROOM_BYTES - len(record.key or b""))
    )
    value, cut = fit(record.value, room)
    partition = record.partition if record.partition >= 0 else None
    why = reason_headers(reason, topic=record.topic, partition=partition, error=error)
    headers = [*(record.headers or ()), *why, *cut]
    return Record(topic, record.key, value, headers, ANY_PARTITION)
