"""Detect consumers without progress, for clients that hide the errors of reads.

librdkafka retries a partition that cannot be read, and does not report it. So the
problem is inferred from a position that does not move, and confirmed by a probe.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from kafkaguard._cluster.reports import TopicPartition

#: Seconds without progress until a probe is made.
PATIENCE_S: Final = 1.0
#: The longest time in seconds between two probes of a reader without progress.
LONGEST_INTERVAL_S: Final = 30.0


@dataclass(frozen=True, slots=True)
class Reader:
    """The position of a partition's reader.

    Attributes:
        position: The offset of the next record; None: nothing was read yet.
        end: The end of the log that the client last received; None: none yet.
        needs_commit: Whether the reader begins at the committed offset, and has
            returned no record yet.
    """

    position: int | None
    end: int | None = None
    needs_commit: bool = False

    @property
    def has_begun(self) -> bool:
        """Whether the client knows where to begin, as far as this shows."""
        return not self.needs_commit or self.end is not None

    @property
    def is_at_end(self) -> bool:
        """Whether nothing is left to read, as far as the client knows."""
        if self.position is None or self.end is None:
            return False
        return self.position >= self.end


@dataclass(slots=True)
class _Watch:
    position: int | None
    due: float
    interval: float = PATIENCE_S
    is_asked: bool = False


class StandingReaders:
    """Decides which readers must be probed."""

    def __init__(self) -> None:
        self._watches: dict[TopicPartition, _Watch] = {}

    def note(
        self, readers: Mapping[TopicPartition, Reader], now: float
    ) -> list[TopicPartition]:
        """Record the positions of all readers, and forget other partitions.

        Returns:
            The partitions that must be probed, after too long without progress.
        """
        for place in self._watches.keys() - readers.keys():
            del self._watches[place]
        standing = []
        for place, reader in readers.items():
            watch = self._watches.get(place)
            if watch is None or watch.position != reader.position or reader.is_at_end:
                self._watches[place] = _Watch(reader.position, now + PATIENCE_S)
            elif now >= watch.due and not watch.is_asked:
                watch.is_asked = True
                standing.append(place)
        return standing

    def keep(self, places: Collection[TopicPartition]) -> None:
        """Forget all readers but these."""
        for place in self._watches.keys() - set(places):
            del self._watches[place]

    def looked(self, place: TopicPartition, now: float) -> bool:
        """Record the result of a probe; the time until the next one is doubled.

        Returns:
            Whether the probe was still wanted.
        """
        watch = self._watches.get(place)
        if watch is None:
            return False
        was_asked, watch.is_asked = watch.is_asked, False
        watch.interval = min(watch.interval * 2, LONGEST_INTERVAL_S)
        watch.due = now + watch.interval
        return was_asked
