"""The count of dead letters, and its limit."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from kafkaguard._delivery.facts import Batch
    from kafkaguard._delivery.records import Record
    from kafkaguard._delivery.shell import LetterLimit

#: ``dead_letter.limit.ratio`` always allows its share of so many records.
RATIO_OF = 1000


def exceeds(ratio: float, letters: int, total: int) -> bool:
    """Return whether there are more dead letters than a ratio allows.

    Args:
        ratio: The largest share of dead letters.
        letters: The number of dead letters. One is always allowed.
        total: The number of all records.
    """
    return letters > max(1, ratio * max(total, RATIO_OF))


class LetterCount:
    """Counts dead letters and other records, and checks the limit of dead letters."""

    def __init__(self) -> None:
        self._letters = 0
        self._others = 0
        self._in_a_row = 0
        self._last: tuple[Batch | None, int] = None, 0

    def count_delivered(self, count: int) -> None:
        """Count records that were delivered."""
        self._others += count
        if count:
            self._in_a_row = 0

    def count_other(self) -> None:
        """Count a record that was neither delivered nor dead-lettered."""
        self._others += 1

    def undo_delivered(self) -> None:
        """Take back a record that was counted as delivered too early."""
        self._others -= 1

    def undo_letter(self) -> None:
        """Take back a record whose dead letter was not delivered."""
        self._letters -= 1

    def count_letter(
        self, limit: LetterLimit | None, record: Record | None = None
    ) -> str | None:
        """Count a dead letter, unless it is beyond the limit.

        Args:
            limit: The policy's limit.
            record: The record, if it was in a batch. Dead letters are in a row only if
                their records are next to each other in the batch.

        Returns:
            Why no dead letter is allowed, or None if one is.
        """
        row = self._row_before(record)
        if limit is not None:
            if limit.consecutive is not None and row >= limit.consecutive:
                return (
                    f"{limit.consecutive} records in a row were dead-lettered "
                    "(dead_letter.limit.consecutive), so this one was not"
                )
            letters, total = self._letters + 1, self._letters + self._others + 1
            if limit.ratio is not None and exceeds(limit.ratio, letters, total):
                return (
                    f"with it, {letters:,} of {total:,} records would be dead letters, "
                    f"and dead_letter.limit.ratio is {limit.ratio:g}"
                )
        self._letters += 1
        self._in_a_row = row + 1
        return None

    def _row_before(self, record: Record | None) -> int:
        if record is None or record.batch is None:
            return self._in_a_row
        (batch, index), self._last = self._last, (record.batch, record.index)
        is_apart = batch is record.batch and record.index != index + 1
        return 0 if is_apart else self._in_a_row
