"""Batches in flight, by partition, in the order of their records.

A batch that has ended stays here while an earlier one of its partition is open, because
a record that failed is compared with the records that were accepted after it.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Collection, Hashable, Iterable, Iterator, Sequence

    from kafkaguard._delivery.facts import Batch, Place, Rank
    from kafkaguard._delivery.records import Record

#: Seconds until a batch that `FailBatches` named is checked again.
CHECK_AGAIN_S = 1.0
_PAST_ALL = 1 << 62


class InFlight:
    """All open batches, and the batches that began after them.

    Attributes:
        open: Batches without an outcome, in the order in which they began.
        resent: Records that were sent again and have no outcome, by their token.
    """

    def __init__(self) -> None:
        self.open: dict[Batch, None] = {}
        self.resent: dict[Hashable, Record] = {}
        self._by_place: defaultdict[Place, list[Batch]] = defaultdict(list)
        self._open_in: Counter[str] = Counter()

    def begin(self, batch: Batch) -> None:
        """Add a batch; a split batch ends when all of its parts have begun."""
        self.open[batch] = None
        self._by_place[batch.place].append(batch)
        self._open_in[batch.place.topic] += 1
        parent = batch.parent
        if parent is None:
            return
        batch.due = min(batch.due, parent.due)
        batch.next_check = min(batch.due, parent.next_check)
        batch.is_capped = parent.is_capped
        parent.parts.append(batch)
        if parent.ended is None and sum(p.count for p in parent.parts) >= parent.count:
            parent.ended = "split"
            self.end(parent)

    def end(self, batch: Batch) -> None:
        """Remove a batch from the open ones."""
        del self.open[batch]
        self._open_in[batch.place.topic] -= 1
        self.drop_ended(batch.place)

    def drop_ended(self, place: Place) -> None:
        """Remove the ended batches that no open one of their partition precedes."""
        batches = self._by_place[place]
        count = 0
        for batch in batches:
            if batch.ended is None or batch.unsettled:
                break
            count += 1
        if count == len(batches):
            del self._by_place[place]
        else:
            del batches[:count]

    def is_quiet(self, topic: str) -> bool:
        """Whether no batch of a topic is open."""
        return not self._open_in[topic]

    def take_overdue(self, now: float) -> list[Batch]:
        """Return the open batches whose time is over; each again after an interval."""
        overdue = [batch for batch in self.open if batch.next_check <= now]
        for batch in overdue:
            batch.next_check = now + CHECK_AGAIN_S
        return overdue

    def next_due(self) -> float | None:
        """Return when the first open batch is due, or None."""
        return min((batch.next_check for batch in self.open), default=None)

    def cap_deadlines(self, topic: str, *, fails_batches: bool) -> None:
        """Cap the time of batches at the first deadline of a resent record in them.

        Attempts of the policy are an exception: each has the client's full time.

        Args:
            topic: The topic.
            fails_batches: Whether the client fails such a batch then, so that others in
                it may have time left.
        """
        for batch in self.open:
            if batch.place.topic == topic:
                records = map(self.resent.get, batch.tokens())
                dues = [r.due for r in records if r is not None and r.retry is None]
                first = min(dues, default=batch.next_check)
                if first < batch.next_check:
                    batch.next_check, batch.is_capped = first, fails_batches

    def late_records(self, batch: Batch, now: float) -> list[Record]:
        """Return the resent records of a batch whose time is over."""
        records = map(self.resent.get, batch.tokens())
        return [r for r in records if r is not None and r.due <= now]

    def take_resent(
        self, batch: Batch, failed: Collection[int]
    ) -> Iterator[tuple[int, Record]]:
        """Remove and return the accepted records of a batch that were sent again."""
        for index, token in enumerate(batch.tokens()):
            if index not in failed and (record := self.resent.pop(token, None)):
                batch.ranks[index] = record.rank
                yield index, record

    def find_newest(
        self, place: Place, keys: Collection[bytes | None]
    ) -> tuple[dict[bytes | None, Rank], Rank | None]:
        """Find the newest record of each key that was or may have been written.

        Args:
            place: Topic and partition.
            keys: The keys; None is not among them.

        Returns:
            The rank of the newest record, by key; and the rank of the newest batch
            with unknown keys, which may have any of them.
        """
        newest: dict[bytes | None, Rank] = {}
        unknown: Rank | None = None
        for batch in self._by_place.get(place, ()):
            if batch.ended == "split":
                continue
            batch_keys = batch.keys() or self._resent_keys(batch)
            if batch_keys is None:
                if len(batch.unwritten) < batch.count:
                    last = (batch.position, _PAST_ALL)
                    unknown = last if unknown is None else max(unknown, last)
                continue
            for index, key in enumerate(batch_keys):
                if key in keys and batch.may_hold(index):
                    rank = self._rank_of(batch, index)
                    if key not in newest or newest[key] < rank:
                        newest[key] = rank
        return newest, unknown

    def _resent_keys(self, batch: Batch) -> Sequence[bytes | None] | None:
        """Return the keys of a batch that has only resent records, else None."""
        if not self.resent:
            return None
        records = [self.resent.get(token) for token in batch.tokens()]
        keys = [record.key for record in records if record is not None]
        return keys if len(keys) == len(records) else None

    def _rank_of(self, batch: Batch, index: int) -> Rank:
        if batch.ended is None and self.resent:
            record = self.resent.get(batch.tokens()[index])
            if record is not None:
                return record.rank
        return batch.ranks.get(index, (batch.position, index))

    # --- counts -----------------------------------------------------------------------

    def count_open(self, batches: Iterable[Batch]) -> tuple[int, int]:
        """Count the records of batches, and of their parts, that have no outcome.

        Returns:
            The number of records that never failed, and of those that did.
        """
        fresh = failed = 0
        for batch in batches:
            if batch.ended is None:
                fresh += self._count_fresh(batch)
            elif batch.ended == "split":
                of_parts = self.count_open(batch.parts)
                fresh, failed = fresh + of_parts[0], failed + of_parts[1]
            else:
                failed += batch.unsettled
        return fresh, failed

    def _count_fresh(self, batch: Batch) -> int:
        """Count the records that never failed; others are counted separately."""
        fresh = batch.count - batch.counted
        if not self.resent:
            return fresh
        return fresh - sum(token in self.resent for token in batch.tokens())
