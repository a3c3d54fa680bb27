"""Find the next record that a consumer sees in the bytes of a Fetch response.

A reader does not see transaction markers, records that compaction took out of their
batch, and, with ``read_committed``, records of aborted transactions.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from kafka.errors import UnsupportedCodecError
from kafka.record import MemoryRecords

from kafkaguard._cluster.numbers import known_time
from kafkaguard.errors import CorruptMessageError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from kafkaguard_adapters.asking.answers import AbortedTransaction, FetchedPartition


@dataclass(frozen=True, slots=True)
class Next:
    """The next record at an offset.

    Attributes:
        written: When it was written, in seconds since 1970; None: it does not say.
        exists: Whether there is one at all.
        is_of_batch: The time is that of its batch, which cannot be opened here.
    """

    written: float | None = None
    exists: bool = True
    is_of_batch: bool = False


@dataclass(frozen=True, slots=True)
class Onward:
    """There was no record yet; look from here on."""

    offset: int


def find_next(answer: FetchedPartition, offset: int, stop: int) -> Next | Onward | int:
    """Find the next record in one partition of a Fetch answer.

    Args:
        answer: The partition; with its aborted transactions, where the isolation level
            was ``read_committed``.
        offset: Where the reader is.
        stop: Where its log ends.

    Returns:
        The record, where to look for it, or 2 (CORRUPT_MESSAGE) where a reader would
        stumble.
    """
    aborted = _Aborted(answer.aborted_transactions or ())
    try:
        for batch in _batches(answer.records):
            if not batch.validate_crc():
                return CorruptMessageError.code
            is_seen = aborted.shows(batch)
            if _next_offset(batch) <= offset:
                continue
            record = _record(batch, offset) if is_seen else None
            if record is not None:
                return record
            offset = _next_offset(batch)
    except Exception:  # noqa: BLE001 - the codecs raise whatever they meet
        return CorruptMessageError.code
    return Next(exists=False) if offset >= stop else Onward(offset)


class _Aborted:
    """Which batches belong to aborted transactions, seen in the order of the log."""

    def __init__(self, transactions: Iterable[AbortedTransaction]) -> None:
        by_offset = sorted(transactions, key=lambda each: each.first_offset)
        self._coming = deque(by_offset)
        self._producers: set[int] = set()

    def shows(self, batch: Any) -> bool:
        """Return whether a reader sees the records of a batch."""
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
    """Say so of a batch; those of Kafka below 0.11 know of none."""
    has: bool = getattr(batch, "has_producer_id", bool)()
    return has


def _next_offset(batch: Any) -> int:
    """Return where the log goes on; an old batch is named by its last record."""
    following: int = getattr(batch, "next_offset", batch.base_offset + 1)
    return following


def _record(batch: Any, offset: int) -> Next | None:
    """Find the first record of a batch from an offset on; None: none is left."""
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
