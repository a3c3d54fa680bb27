"""The base of shells whose client shows the answer to each read."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from kafkaguard._cluster.reports import TopicPartition
    from kafkaguard._consuming.standing import Reader
    from kafkaguard_adapters.consuming.driver import Driver


class AnswersShell:
    """The base of shells that see each answer; they leave held partitions out of reads.

    Args:
        reads_followers: Whether reads may go to a follower, which may be behind its
            leader. The client then handles "out of range" itself: it asks the leader.
    """

    driver: Driver

    def __init__(self, *, reads_followers: bool) -> None:
        #: Never changed in place: another thread of the client reads it.
        self._held: frozenset[Any] = frozenset()
        self._resettable: set[Any] = set()
        self._reads_followers = reads_followers

    def hold(self, place: TopicPartition) -> None:
        """Leave a partition out of the reads."""
        self._held |= {place}

    def free(self, place: TopicPartition) -> None:
        """Read a partition again."""
        self._held -= {place}

    def let_reset(self, place: TopicPartition) -> None:
        """Leave the next answer "out of range" to the client."""
        self._resettable.add(place)

    def lets_client_reset(self, place: TopicPartition) -> bool:
        """Return whether this answer "out of range" is left to the client."""
        if place in self._resettable:
            self._resettable.discard(place)
            return True
        return self._reads_followers

    def restart(self, places: Collection[TopicPartition]) -> None:
        """Do nothing: such a client repeats its look-ups until they succeed."""

    def readers(self) -> Mapping[TopicPartition, Reader]:
        """Return nothing: each answer is reported."""
        return {}
