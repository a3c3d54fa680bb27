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
        """Return whether this answer "out of range" is left to the client.

        A permit counts once, and only while the partition waits: a partition that went
        away has no permit when it comes back.
        """
        if place in self._resettable:
            self._resettable.discard(place)
            return self.driver.machine.is_waiting(place) or self._reads_followers
        return self._reads_followers

    def read_again(self, place: TopicPartition, position: int | None) -> None:
        """Report that a partition that waits was read; its permit for a reset ends."""
        self._resettable.discard(place)
        self.driver.answered(place, position)

    def restart(self, places: Collection[TopicPartition]) -> None:
        """Do nothing: such a client repeats its look-ups until they succeed."""

    def readers(self) -> Mapping[TopicPartition, Reader]:
        """Return nothing: each answer is reported."""
        return {}
