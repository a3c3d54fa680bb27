"""The shell of a ``confluent_kafka.Consumer``, which uses its public methods only.

librdkafka does not show the answer to a fetch, and retries by itself. So the guard
checks the position of each partition, and holds a partition by pausing it.
"""

from __future__ import annotations

from collections import deque
from contextlib import suppress
from typing import TYPE_CHECKING, Final

from confluent_kafka import OFFSET_BEGINNING, OFFSET_STORED, KafkaException
from confluent_kafka import TopicPartition as ClientPartition

from kafkaguard._cluster.reports import TopicPartition, as_partition
from kafkaguard._consuming.standing import Reader

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping

    from confluent_kafka import Consumer

    from kafkaguard._errors import KafkaGuardError


#: Seconds to wait for a committed offset, which is rarely looked up.
_COMMITTED_S: Final = 5.0


class ConfluentConsumerShell:
    """Executes the driver's commands on a consumer.

    Args:
        consumer: The client's consumer.
        is_earliest: Whether a partition without a committed offset is read from the
            start of the log.

    Attributes:
        failures: Errors that the next polls raise, in this order.
        ended: The error that each poll raises after them; None: the consumer works.
    """

    def __init__(self, consumer: Consumer, *, is_earliest: bool = False) -> None:
        self._consumer = consumer
        self._is_earliest = is_earliest
        self.failures: deque[KafkaGuardError] = deque()
        self.ended: KafkaGuardError | None = None
        #: The position before a reset by librdkafka.
        self._reset: dict[TopicPartition, int] = {}
        self._resettable: set[TopicPartition] = set()
        self._starts: dict[TopicPartition, int] = {}

    def assignment(self) -> Collection[TopicPartition]:
        """Return the assigned partitions."""
        return frozenset(map(as_partition, self._consumer.assignment()))

    def hold(self, place: TopicPartition) -> None:
        """Pause a partition; records fetched but not polled are fetched again later."""
        with suppress(KafkaException):  # not assigned any more
            self._consumer.pause([ClientPartition(*place)])

    def free(self, place: TopicPartition) -> None:
        """Resume a partition, at the position before a reset if there was one."""
        before = self._reset.pop(place, None)
        with suppress(KafkaException):  # not assigned any more
            if before is not None:
                position = self._position(place)
                self._consumer.seek(ClientPartition(*place, position))
            self._consumer.resume([ClientPartition(*place)])

    def _position(self, place: TopicPartition) -> int | None:
        """Return the offset after the last record that the user has received.

        librdkafka's fetch position is ahead of it; a pause drops the records between.
        """
        (answer,) = self._consumer.position([ClientPartition(*place)])
        return self._starts.get(place) if answer.offset < 0 else answer.offset

    def _start(self, place: TopicPartition, requested: int) -> int | None:
        """Return where reading began in a partition that has returned no record yet.

        Returns:
            None: at the end of the log, wherever that was at the time.
        """
        try:
            (answer,) = self._consumer.committed(
                [ClientPartition(*place)], timeout=_COMMITTED_S
            )
        except KafkaException:
            return requested if self._is_earliest else None
        if answer.offset >= 0:
            return min(int(answer.offset), requested)
        return OFFSET_BEGINNING if self._is_earliest else None

    def find_ends_without_commit(
        self, partitions: list[ClientPartition]
    ) -> dict[TopicPartition, int]:
        """Return the ends of the logs of those partitions that have no commit.

        Raises:
            KafkaException: A broker did not answer in time, or refused.
        """
        client = self._consumer
        return {
            as_partition(each): client.get_watermark_offsets(each, _COMMITTED_S)[1]
            for each in client.committed(partitions, timeout=_COMMITTED_S)
            if each.offset < 0 and each.error is None
        }

    def was_reset(self, place: TopicPartition, requested: int) -> int | None:
        """Record that librdkafka resets its fetch position.

        Returns:
            The position before the reset, for the machine to judge; None: the reset is
            left to librdkafka, also if the guard does not know where reading began. A
            seek back would lose records that are fetched and not returned yet.
        """
        if place in self._resettable:
            self._resettable.discard(place)
            return None
        position = self._position(place)
        start = self._start(place, requested) if position is None else position
        if start is None:
            return None
        self._starts[place] = start
        before = requested if position is None or position < 0 else position
        self._reset[place] = before
        return before

    def go_back(self, place: TopicPartition) -> None:
        """Cancel the running reset of a held partition, by a seek to the old position.

        Otherwise the reset might happen after the user has set a position.
        """
        with suppress(KafkaException):  # not assigned any more
            self._consumer.seek(ClientPartition(*place, self._reset[place]))

    def begins(self, places: Iterable[ClientPartition]) -> None:
        """Record where reading of partitions begins: librdkafka has no position yet.

        A negative offset means that librdkafka does not know it yet.
        """
        for each in places:
            place = as_partition(each)
            self._reset.pop(place, None)
            self._resettable.discard(place)
            self._starts.pop(place, None)
            if each.offset >= 0:
                self._starts[place] = each.offset

    def let_reset(self, place: TopicPartition) -> None:
        """Leave the next reset to librdkafka, after a seek to the old position."""
        self._reset.pop(place, None)
        self._resettable.add(place)

    def fail(self, place: TopicPartition, error: KafkaGuardError) -> None:  # noqa: ARG002 - the error has it
        """Let the running poll, or the next one, raise an error."""
        self.failures.append(error)

    def end(self, error: KafkaGuardError) -> None:
        """Let each poll raise an error; librdkafka does not join again by itself."""
        self.ended = error

    def readers(self) -> Mapping[TopicPartition, Reader]:
        """Return the known positions, without a request to a broker."""
        readers = {}
        assigned = self._consumer.assignment()
        for each, at in zip(assigned, self._consumer.position(assigned), strict=True):
            place = as_partition(each)
            ends = self._consumer.get_watermark_offsets(each, cached=True)
            end = ends[1] if ends is not None and ends[1] >= 0 else None
            position = at.offset if at.offset >= 0 else None
            needs_commit = self._next(each, at) == OFFSET_STORED
            readers[place] = Reader(position, end, needs_commit=needs_commit)
        return readers

    def _next(self, assigned: ClientPartition, at: ClientPartition) -> int:
        """Return the offset at which an assigned partition is read on."""
        if at.offset >= 0:
            return int(at.offset)
        return self._starts.get(as_partition(assigned), int(assigned.offset))

    def restart(self, places: Collection[TopicPartition]) -> None:
        """Assign partitions again, so that librdkafka looks up their committed offsets.

        librdkafka looks them up once for each assignment. If it may not replace a whole
        assignment (cooperative rebalancing), only these partitions are assigned again.
        """
        assigned = self._consumer.assignment()
        for each, at in zip(assigned, self._consumer.position(assigned), strict=True):
            each.offset = self._next(each, at)
        again = [
            each
            for each in assigned
            if each.offset == OFFSET_STORED and as_partition(each) in places
        ]
        if not again:
            return
        try:
            self._consumer.assign(assigned)
        except KafkaException:
            with suppress(KafkaException):  # not assigned any more
                self._consumer.incremental_unassign(again)
                self._consumer.incremental_assign(again)

    def wake(self) -> None:
        """Do nothing: the next poll does what is due."""
