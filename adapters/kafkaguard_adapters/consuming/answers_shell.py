"""The base of shells whose client shows the answer to each read.

``KeptPauses`` keeps the pauses of the application over a rebalance (the policy's
``keep_pauses``). kafka-python and aiokafka forget a pause when its partition goes away,
so a rebalance would hand out records of partitions that the application had paused.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from kafkaguard._cluster.reports import TopicPartition
    from kafkaguard._consuming.standing import Reader
    from kafkaguard_adapters.consuming.driver import Driver
    from kafkaguard_adapters.consuming.group_starts import GroupStarts


class AnswersShell:
    """The base of shells that see each answer; they leave held partitions out of reads.

    Args:
        reads_followers: Whether reads may go to a follower, which may be behind its
            leader. The client then handles "out of range" itself: it asks the leader.
    """

    driver: Driver
    #: Learns where the group begins in a partition without a commit.
    group_starts: GroupStarts

    def __init__(self, *, reads_followers: bool) -> None:
        #: Never changed in place: another thread of the client reads it.
        self._held: frozenset[Any] = frozenset()
        self._resettable: set[Any] = set()
        self._reset: set[Any] = set()
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
        is_left = self._reads_followers or (
            place in self._resettable and self.driver.machine.is_waiting(place)
        )
        self._resettable.discard(place)
        if is_left:
            self._reset.add(place)
        return is_left

    def begins(self, place: TopicPartition) -> bool:
        """Return whether a look-up of the end is of a start without a commit.

        The other reason for one is a position that is out of range.
        """
        is_reset = place in self._reset and (
            self._reads_followers or self.driver.machine.is_waiting(place)
        )
        self._reset.discard(place)
        return not is_reset

    def read_again(self, place: TopicPartition, position: int | None) -> None:
        """Report that a partition that waits was read; its permit for a reset ends."""
        self._resettable.discard(place)
        self.driver.answered(place, position)

    def restart(self, places: Collection[TopicPartition]) -> None:
        """Do nothing: such a client repeats its look-ups until they succeed."""

    def readers(self) -> Mapping[TopicPartition, Reader]:
        """Return nothing: each answer is reported."""
        return {}


class KeptPauses:
    """Pauses partitions again when they are assigned again.

    It replaces methods of the client's subscription state, which both clients name
    alike. They are called in the thread, or the event loop, that uses the client.

    Args:
        subscription: The client's subscription state.
    """

    def __init__(self, subscription: Any) -> None:
        self._paused: set[Any] = set()
        self._pause = subscription.pause
        self._resume = subscription.resume
        self._assign = subscription.assign_from_subscribed
        self._unsubscribe = subscription.unsubscribe
        subscription.pause = self._note_pause
        subscription.resume = self._note_resume
        subscription.assign_from_subscribed = self._assign_paused
        subscription.unsubscribe = self._forget

    def _note_pause(self, place: Any) -> Any:
        result = self._pause(place)
        self._paused.add(place)
        return result

    def _note_resume(self, place: Any) -> Any:
        self._paused.discard(place)
        return self._resume(place)

    def _assign_paused(self, assigned: Any) -> Any:
        result = self._assign(assigned)
        for place in self._paused.intersection(assigned):
            self._pause(place)
        return result

    def _forget(self) -> Any:
        self._paused.clear()
        return self._unsubscribe()
