"""Counts of outcomes between two reports."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kafkaguard._delivery.report import MAX_ERRORS, DeliveryReport

if TYPE_CHECKING:
    from kafkaguard._delivery.records import RecordOutcome
    from kafkaguard._delivery.shell import LetterLimit

#: The number of outcomes from which ``dead_letter.limit.ratio`` applies.
RATIO_FROM = 1000


class Books:
    """Counts outcomes, and checks the limit of dead letters.

    Attributes:
        letters_in_a_row: Records dead-lettered since the last delivered one.
    """

    def __init__(self) -> None:
        self.letters_in_a_row = 0
        self._letters = 0
        self._all = 0
        self._reset()

    def delivered(self, count: int) -> None:
        """Count records that the broker has confirmed."""
        self._delivered += count
        if count:
            self.letters_in_a_row = 0

    def settled(self, outcome: RecordOutcome) -> None:
        """Count a record that has failed at least once."""
        ending = outcome.ending
        if ending == "delivered":
            self.delivered(1)
            return
        self._counts[ending] += 1
        if ending in ("failed", "in_doubt") and len(self._outcomes) < MAX_ERRORS:
            self._outcomes.append(outcome)

    def superseded(self) -> None:
        """Count a record that was overtaken by a later one of its key."""
        self._superseded += 1

    def beyond(self, limit: LetterLimit | None) -> str | None:
        """Return why no further dead letter is allowed, or None if one is.

        Args:
            limit: The policy's limit.
        """
        if limit is not None:
            if limit.consecutive is not None and (
                self.letters_in_a_row >= limit.consecutive
            ):
                return (
                    f"{limit.consecutive} records in a row were dead-lettered "
                    "(dead_letter.limit.consecutive), so this one was not"
                )
            total = self._all + self._since
            letters = self._letters + 1
            if (
                limit.ratio is not None
                and total >= RATIO_FROM
                and (letters > limit.ratio * total)
            ):
                return (
                    f"{self._letters} of {total} records were dead-lettered, and "
                    f"dead_letter.limit.ratio is {limit.ratio:g}, so this one was not"
                )
        self._letters += 1
        self.letters_in_a_row += 1
        return None

    @property
    def _since(self) -> int:
        """The number of records that got their outcome since the last report."""
        return self._delivered + sum(self._counts.values())

    @property
    def has_unseen(self) -> bool:
        """Whether a report would have errors that the application has not checked."""
        return any(not outcome.seen for outcome in self._outcomes)

    def look(self) -> None:
        """Mark all failures as seen by the application; they stay counted."""
        for outcome in self._outcomes:
            outcome.seen = True

    def report(self, pending: int) -> DeliveryReport:
        """Return the counts since the last report, and start new ones."""
        unseen = [outcome for outcome in self._outcomes if not outcome.seen]
        self.look()
        report = DeliveryReport(
            delivered=self._delivered,
            pending=pending,
            errors=tuple(o.error for o in unseen if o.error is not None),
            superseded=self._superseded,
            **self._counts,
        )
        self._all += self._since
        self._reset()
        return report

    def _reset(self) -> None:
        self._delivered = self._superseded = 0
        self._counts = dict.fromkeys(
            ("failed", "in_doubt", "dead_lettered", "dropped"), 0
        )
        self._outcomes: list[RecordOutcome] = []
