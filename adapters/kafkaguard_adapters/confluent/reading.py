"""The shell of a ``confluent_kafka.Consumer``, by its public interface.

librdkafka keeps to itself what a read is answered, and tries again by itself. So the
guard looks where the readers are, and a hold is a pause.
"""

from __future__ import annotations

from collections import deque
from contextlib import suppress
from typing import TYPE_CHECKING, Final

from confluent_kafka import OFFSET_BEGINNING, KafkaException
from confluent_kafka import TopicPartition as Place

from kafkaguard._cluster.reports import TopicPartition, as_partition
from kafkaguard._consuming.standing import Reader

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping

    from confluent_kafka import Consumer

    from kafkaguard.errors import KafkaGuardError


#: Seconds to wait for a committed offset, which is seldom asked for.
_COMMITTED_S: Final = 5.0


class Reading:
    """Does what the driver orders.

    Args:
        consumer: The client's consumer.
        is_earliest: Where it begins without a commit: at the start of the log.
    """

    def __init__(self, consumer: Consumer, *, is_earliest: bool = False) -> None:
        self._consumer = consumer
        self._is_earliest = is_earliest
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
                position = self._position(place)
                if position is None:
                    position = self._start(place, before)
                self._starts[place] = position
                self._consumer.seek(Place(*place, position))
            self._consumer.resume([Place(*place)])

    def _position(self, place: TopicPartition) -> int | None:
        """Return the offset after the last record that the user has got.

        What librdkafka asks for is ahead of it, and a pause drops what lies between.
        """
        (found,) = self._consumer.position([Place(*place)])
        return self._starts.get(place) if found.offset < 0 else found.offset

    def _start(self, place: TopicPartition, asked: int) -> int:
        """Find where reading began that has given no record yet."""
        try:
            (found,) = self._consumer.committed([Place(*place)], timeout=_COMMITTED_S)
        except KafkaException:
            return asked
        start: int = OFFSET_BEGINNING if self._is_earliest else asked
        return start if found.offset < 0 else min(int(found.offset), asked)

    def was_reset(self, place: TopicPartition, asked: int) -> int | None:
        """Record that librdkafka resets what it asks for.

        Returns:
            The position that is to be judged; None: it was left to librdkafka.
        """
        if place in self._resettable:
            self._resettable.discard(place)
            return None
        position = self._position(place)
        if position is not None:
            self._starts[place] = position
        self._reset[place] = before = asked if position is None else position
        return before

    def go_back(self, place: TopicPartition) -> None:
        """End the reset that is running of a partition which is held already.

        Else it might come after the user has set a position.
        """
        with suppress(KafkaException):  # not assigned any more
            self._consumer.seek(Place(*place, self._reset[place]))

    def begins(self, places: Iterable[Place]) -> None:
        """Record where partitions are to be read from: librdkafka has no position yet.

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
        """Leave the next reset to librdkafka, which was taken back to where it was."""
        self._reset.pop(place, None)
        self._resettable.add(place)

    def fail(self, place: TopicPartition, error: KafkaGuardError) -> None:  # noqa: ARG002 - the error has it
        """Let the poll that is running, or the next one, raise an error."""
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
