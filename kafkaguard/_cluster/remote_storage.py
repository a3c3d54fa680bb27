"""Detect consumers that make no progress although there are records (KIP-1007).

Clients hide a Fetch error of a tiered partition and retry forever. So the error is
inferred from a position that does not move, and confirmed by a Fetch of the guard.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Final

if TYPE_CHECKING:
    from collections.abc import Mapping

    from kafkaguard._cluster.reports import TopicPartition
    from kafkaguard._errors import KafkaGuardError

#: Seconds without progress until a partition is checked.
PATIENCE_S: Final = 5.0


@dataclass(frozen=True, slots=True)
class RemoteStorageEvent:
    """A consumer of a tiered partition makes no progress, or continues.

    Attributes:
        topic: The topic.
        partition: The partition.
        position: The consumer's position.
        standing: Seconds without progress.
        error: The error of a Fetch at this position, or None if the consumer can
            continue.
    """

    name: ClassVar[str] = "kafkaguard.remote_storage"
    topic: str
    partition: int
    position: int
    standing: float
    error: KafkaGuardError | None

    @property
    def is_ready(self) -> bool:
        """Whether the consumer can continue."""
        return self.error is None


class Progress:
    """Tracks how long each position has not changed.

    Args:
        patience: Seconds without progress until a partition is reported.
    """

    def __init__(self, patience: float = PATIENCE_S) -> None:
        self._patience = patience
        self._since: dict[TopicPartition, tuple[int, float]] = {}

    def note(
        self, positions: Mapping[TopicPartition, int], now: float
    ) -> dict[TopicPartition, float]:
        """Record positions.

        Args:
            positions: All current positions; other partitions are forgotten.
            now: The time, in monotonic seconds.

        Returns:
            The seconds without progress of partitions that exceed the limit.
        """
        since: dict[TopicPartition, tuple[int, float]] = {}
        for place, position in positions.items():
            previous = self._since.get(place)
            is_same = previous is not None and previous[0] == position
            since[place] = previous if previous and is_same else (position, now)
        self._since = since
        seconds = {place: now - start for place, (_, start) in since.items()}
        return {p: each for p, each in seconds.items() if each >= self._patience}
