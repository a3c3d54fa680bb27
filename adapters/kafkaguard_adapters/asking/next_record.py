"""Find the next record that a consumer sees in the bytes of a Fetch response.

A consumer does not see transaction markers or records that compaction has removed from
their batch. With ``read_committed``, it does not see records of aborted transactions.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from kafka.errors import UnsupportedCodecError
from kafka.record import MemoryRecords

from kafkaguard._cluster.numbers import known_time

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator


#: Kafka's code CORRUPT_MESSAGE.
_CORRUPT = 2


@dataclass(frozen=True, slots=True)
class Next:
    """The next record at an offset.

    Attributes:
        written: The record's timestamp, in seconds since 1970; None if it has none.
        exists: Whether there is a next record.
        is_of_batch: Whether ``written`` is the timestamp of the batch, because the
            batch cannot be decompressed here.
    """

    written: float | None = None
    exists: bool = True
    is_of_batch: bool = False


@dataclass(frozen=True, slots=True)
class Onward:
    """The bytes have no visible record; the search continues at ``offset``."""

    offset: int


def find_next(answer: Any, offset: int, stop: int) -> Next | Onward | int:
    """Find the next record in one partition of a Fetch response.

    Args:
        answer: The partition; with its aborted transactions, if the isolation level
            is ``read_committed``.
        offset: The position of the consumer.
        stop: The end offset of the log.

    Returns:
        The record, the offset at which to continue, or 2 (CORRUPT_MESSAGE) if a
        consumer could not read the bytes.
    """
    aborted = _Aborted(answer.aborted_transactions or ())
    try:
        for batch in _batches(answer.records):
            if not batch.validate_crc():
                return _CORRUPT
            is_seen = aborted.shows(batch)
            if _next_offset(batch) <= offset:
                continue
            record = _record(batch, offset) if is_seen else None
            if record is not None:
                return record
            offset = _next_offset(batch)
    except Exception:  # noqa: BLE001 - the codecs raise any kind of exception
        return _CORRUPT
    return Next(exists=False) if offset >= stop else Onward(offset)


class _Aborted:
    """Tracks which batches belong to aborted transactions, in the order of the log."""

    def __init__(self, transactions: Iterable[Any]) -> None:
        by_offset = sorted(transactions, key=lambda each: each.first_offset)
        self._coming = deque(by_offset)
        self._producers: set[int] = set()

    def shows(self, batch: Any) -> bool:
        """Return whether a consumer sees the records of a batch."""
        if not _has_producer(batch):
            return True
        while self._coming and self._coming[0].first_offset <= batch.last_offset:
            self._producers.add(self._coming.popleft().producer_id)
        if batch.is_control_batch:
            if batch.producer_id in self._producers and next(batch).abort:
                self._producers.discard(batch.producer_id)
            return False
        return not (batch.is_transactional and batch.producer_id in self._producers)


def _has_producer(batch: Any) -> bool:
    """Return whether a batch has a producer id; those of Kafka below 0.11 have none."""
    has: bool = getattr(batch, "has_producer_id", bool)()
    return has


def _next_offset(batch: Any) -> int:
    """Return the offset after a batch; an old batch has its last record's offset."""
    following: int = getattr(batch, "next_offset", batch.base_offset + 1)
    return following


def _record(batch: Any, offset: int) -> Next | None:
    """Return a batch's first record at or after an offset; None if there is none."""
    try:
        found = next((each for each in batch if each.offset >= offset), None)
    except UnsupportedCodecError:
        began = known_time(getattr(batch, "first_timestamp", None))
        return Next(began, is_of_batch=True)
    return None if found is None else Next(known_time(found.timestamp))


def _batches(records: bytes | None) -> Iterator[Any]:
    buffer = MemoryRecords(bytes(records or b""))
    while buffer.has_next():
        yield buffer.next_batch()
