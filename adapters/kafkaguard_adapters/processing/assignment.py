"""What the shells of kafka-python and aiokafka share: pauses, seeks and topics."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kafkaguard._cluster.reports import TopicPartition, as_partition

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable


class AssignmentShell:
    """The part of a shell about the partitions that its client reads.

    Args:
        client: The client's consumer.
        partition: The client's class of partitions.
    """

    def __init__(self, client: Any, partition: Callable[[str, int], Any]) -> None:
        self._client = client
        self._partition = partition
        #: What this run has paused, and not the application.
        self._paused: set[TopicPartition] = set()

    def _assignment(self) -> set[TopicPartition]:
        return set(map(as_partition, self._client.assignment()))

    def _partitions(self, places: Iterable[TopicPartition]) -> list[Any]:
        return [self._partition(*place) for place in places]

    def pause(self, places: Iterable[TopicPartition]) -> None:
        """Pause partitions that the application has not paused."""
        theirs = set(map(as_partition, self._client.paused())) - self._paused
        mine = (self._assignment() & set(places)) - theirs
        self._paused |= mine
        self._client.pause(*self._partitions(mine))

    def resume(self, places: Iterable[TopicPartition]) -> None:
        """Resume the partitions that ``pause`` has paused."""
        mine = self._paused & set(places)
        self._paused -= mine
        self._client.resume(*self._partitions(mine & self._assignment()))

    def seek(self, place: TopicPartition, offset: int) -> None:
        """Set the position of a partition, if it is still assigned."""
        if place in self._assignment():
            self._client.seek(self._partition(*place), offset)

    def topics(self) -> Collection[str]:
        """Return the topics that are read, as far as they are known."""
        subscribed = self._client.subscription() or ()
        return {*subscribed, *(place.topic for place in self._assignment())}
