"""Counts of outcomes between two reports."""

from __future__ import annotations

from collections import Counter, defaultdict
from typing import TYPE_CHECKING, Literal

from kafkaguard._delivery.letter_count import LetterCount
from kafkaguard._delivery.report import MAX_ERRORS, DeliveryReport

if TYPE_CHECKING:
    from kafkaguard._delivery.facts import Batch
    from kafkaguard._delivery.records import RecordOutcome

#: What became of the records of a transaction that their broker had confirmed.
TransactionEnding = Literal["delivered", "aborted", "in_doubt"]


class Counters:
    """Counts outcomes.

    Args:
        transactional: Whether records count as delivered only when their transaction is
            committed.

    Attributes:
        letters: Counts dead letters when they are made, in all reports together.
        maybe_twice: How many delivered records may be in their topic twice.
        totals: Records by topic and outcome, of all reports together. Others read it
            without the driver's lock.
    """

    def __init__(self, *, transactional: bool = False) -> None:
        self.letters = LetterCount()
        self.totals: defaultdict[tuple[str, str], float] = defaultdict(float)
        self._transactional = transactional
        #: Confirmed records of the open transaction, by topic.
        self._uncommitted: Counter[str] = Counter()
        self._reset()

    def count_delivered(self, count: int, topic: str) -> None:
        """Count records that the broker has confirmed."""
        if self._transactional:
            self._uncommitted[topic] += count
        else:
            self._add(topic, "delivered", count)
        self.letters.count_delivered(count)

    def count_batch(self, batch: Batch, delivered: int, resent: int = 0) -> None:
        """Count what a batch has delivered so far, and what of it may be there twice.

        Args:
            batch: The batch.
            delivered: How many of its records were delivered in all.
            resent: How many of these were sent again, which are counted one by one.
        """
        self.count_delivered(delivered - resent - batch.counted, batch.place.topic)
        batch.counted = delivered - resent
        # Whatever is written twice in a transaction belongs to one that was aborted.
        if batch.doubtful_from is not None and not self._transactional:
            twice = max(0, delivered - batch.doubtful_from)
            self.maybe_twice += twice - batch.counted_twice
            batch.counted_twice = twice

    def end_transaction(self, ending: TransactionEnding) -> None:
        """Count the confirmed records of a transaction; its failures count as seen."""
        for topic, count in self._uncommitted.items():
            self._add(topic, ending, count)
        self._uncommitted.clear()
        self.mark_seen()

    def count_outcome(self, outcome: RecordOutcome, topic: str) -> None:
        """Count a record that has failed at least once."""
        ending = outcome.ending
        if ending == "delivered":
            self.count_delivered(1, topic)
            return
        self._add(topic, ending, 1)
        if ending != "dead_lettered":
            self.letters.count_other()
        if ending in ("failed", "in_doubt") and len(self._failures) < MAX_ERRORS:
            self._failures.append(outcome)

    def _add(self, topic: str, ending: str, count: int) -> None:
        self._counts[ending] += count
        self.totals[topic, ending] += count

    def count_superseded(self) -> None:
        """Count a record that was overtaken by a later one of its key."""
        self._superseded += 1

    @property
    def has_unseen(self) -> bool:
        """Whether a report would have errors that the application has not checked."""
        return any(not outcome.seen for outcome in self._failures)

    def mark_seen(self) -> None:
        """Mark all failures as seen by the application; they stay counted."""
        for outcome in self._failures:
            outcome.seen = True

    def report(self, pending: int) -> DeliveryReport:
        """Return the counts since the last report, and start new ones."""
        unseen = [outcome for outcome in self._failures if not outcome.seen]
        self.mark_seen()
        report = DeliveryReport(
            pending=pending,
            errors=tuple(o.error for o in unseen if o.error is not None),
            superseded=self._superseded,
            maybe_twice=self.maybe_twice,
            **self._counts,
        )
        self._reset()
        return report

    def _reset(self) -> None:
        self._superseded = self.maybe_twice = 0
        names = "delivered", "failed", "in_doubt", "dead_lettered", "dropped", "aborted"
        self._counts = dict.fromkeys(names, 0)
        self._failures: list[RecordOutcome] = []
