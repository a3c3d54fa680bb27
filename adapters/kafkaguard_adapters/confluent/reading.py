"""The shell of a ``confluent_kafka.Consumer``: its public interface is all there is.

librdkafka keeps to itself what a read is answered, and tries again by itself. So the
guard looks where the readers are, and a hold is a pause.
"""

from __future__ import annotations

from collections import deque
from contextlib import suppress
from typing import TYPE_CHECKING

from confluent_kafka import KafkaException
from confluent_kafka import TopicPartition as Place

from kafkaguard._cluster.reports import TopicPartition, as_partition
from kafkaguard._consuming.standing import Reader

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping

    from confluent_kafka import Consumer

    from kafkaguard.errors import KafkaGuardError


class Reading:
    """Does what the driver orders.

    Args:
        consumer: The client's consumer.
    """

    def __init__(self, consumer: Consumer) -> None:
        self._consumer = consumer
        self.failures: deque[KafkaGuardError] = deque()
        #: Where librdkafka was before it set a position elsewhere.
        self._reset: dict[TopicPartition, int] = {}
        self._resettable: set[TopicPartition] = set()
        self._starts: dict[TopicPartition, int] = {}

    def assignment(self) -> Collection[TopicPartition]:
        """Return what the consumer is assigned."""
        return frozenset(map(as_partition, self._consumer.assignment()))

    def hold(self, place: TopicPartition) -> None:
        """Pause a partition; what was fetched and not polled is fetched again later."""
        with suppress(KafkaException):  # not assigned any more
            self._consumer.pause([Place(*place)])

    def free(self, place: TopicPartition) -> None:
        """Resume a partition, at the position that a reset has moved."""
        before = self._reset.pop(place, None)
        with suppress(KafkaException):  # not assigned any more
            if before is not None:
                self._starts[place] = position = self._position(place, before)
                self._consumer.seek(Place(*place, position))
            self._consumer.resume([Place(*place)])

    def _position(self, place: TopicPartition, asked: int) -> int:
        """Return the offset after the last record that the user has got.

        What librdkafka asks for is ahead of it, and a pause drops what lies between.
        """
        (found,) = self._consumer.position([Place(*place)])
        return self._starts.get(place, asked) if found.offset < 0 else found.offset

    def was_reset(self, place: TopicPartition, asked: int) -> int | None:
        """Take in that librdkafka resets what it asks for.

        Returns:
            The position that is to be judged; None: it was left to librdkafka.
        """
        if place in self._resettable:
            self._resettable.discard(place)
            return None
        self._reset[place] = position = self._position(place, asked)
        return position

    def begins(self, places: Iterable[Place]) -> None:
        """Take in where partitions are to be read from: librdkafka has no position yet.

        An offset that is not known to librdkafka either is negative.
        """
        for each in places:
            place = as_partition(each)
            self._reset.pop(place, None)
            self._resettable.discard(place)
            self._starts.pop(place, None)
            if each.offset >= 0:
                self._starts[place] = each.offset

    def let_reset(self, place: TopicPartition) -> None:
        """Leave it to librdkafka, which the pause takes back to where it was."""
        self._reset.pop(place, None)
        (found,) = self._consumer.position([Place(*place)])
        if found.offset >= 0:  # else it is where it was reset to
            self._resettable.add(place)

    def fail(self, place: TopicPartition, error: KafkaGuardError) -> None:  # noqa: ARG002 - the error has it
        """Let the poll that is under way, or the next one, raise an error."""
        self.failures.append(error)

    def readers(self) -> Mapping[TopicPartition, Reader]:
        """Return where the consumer is, as far as librdkafka knows without asking."""
        found = {}
        for each in self._consumer.position(self._consumer.assignment()):
            ends = self._consumer.get_watermark_offsets(each, cached=True)
            end = ends[1] if ends is not None and ends[1] >= 0 else None
            position = each.offset if each.offset >= 0 else None
            found[as_partition(each)] = Reader(position, end)
        return found

    def wake(self) -> None:
        """Leave it to the next poll."""
