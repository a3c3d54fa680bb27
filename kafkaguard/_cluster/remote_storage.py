"""Detect consumers that make no progress although there are records (KIP-1007).

Clients keep a Fetch error of a tiered partition to themselves and ask again without
end. So it must be inferred: a position that does not move, confirmed by a question of
our own.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Mapping

    from kafkaguard._cluster.reports import TopicPartition
    from kafkaguard.errors import KafkaGuardError

#: Seconds without progress until a partition is looked at.
PATIENCE_S: Final = 5.0


@dataclass(frozen=True, slots=True)
class RemoteStorageEvent:
    """A reader of a tiered partition stands still, or moves again.

    Attributes:
        topic: The topic.
        partition: The partition.
        position: Where the reader is.
        standing: For how many seconds it has been there.
        error: What a Fetch there is answered; None: the reader can go on.
    """

    topic: str
    partition: int
    position: int
    standing: float
    error: KafkaGuardError | None

    @property
    def is_ready(self) -> bool:
        """Whether the reader can go on."""
        return self.error is None


class Progress:
    """Remembers since when each reader has been where it is.

    Args:
        patience: Seconds without progress until a partition counts as standing still.
    """

    def __init__(self, patience: float = PATIENCE_S) -> None:
        self._patience = patience
        self._since: dict[TopicPartition, tuple[int, float]] = {}

    def note(
        self, positions: Mapping[TopicPartition, int], now: float
    ) -> dict[TopicPartition, float]:
        """Take positions in.

        Args:
            positions: All that are read at the moment; others are forgotten.
            now: Seconds that only ever grow.

        Returns:
            For how long partitions stand still, where that is too long.
        """
        since: dict[TopicPartition, tuple[int, float]] = {}
        for place, position in positions.items():
            known = self._since.get(place)
            is_same = known is not None and known[0] == position
            since[place] = known if known and is_same else (position, now)
        self._since = since
        standing = {place: now - start for place, (_, start) in since.items()}
        return {p: each for p, each in standing.items() if each >= self._patience}
