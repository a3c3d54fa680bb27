"""Reports of offsets: a value or an error for each partition."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from kafkaguard._cluster.reports import raise_gravest

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from kafkaguard._cluster.reports import TopicPartition
    from kafkaguard._errors import KafkaGuardError

LATEST = -1
EARLIEST = -2
MAX_TIMESTAMP = -3
#: Special times, and the lowest version of ListOffsets that knows each. A lower version
#: takes it for an ordinary time (KIP-734, KIP-405, KIP-1005, KIP-1023).
SPECIAL_TIMES = {LATEST: 1, EARLIEST: 1, MAX_TIMESTAMP: 7, -4: 8, -5: 9, -6: 11}
#: From this version of ListOffsets on there is an isolation level.
FIRST_WITH_ISOLATION = 2
READ_UNCOMMITTED = 0
READ_COMMITTED = 1
ISOLATION_LEVELS = {
    "read_uncommitted": READ_UNCOMMITTED,
    "read_committed": READ_COMMITTED,
}


def lowest_version(times: Iterable[int], isolation: int) -> int:
    """Return the lowest version of ListOffsets that understands a request.

    Args:
        times: The requested times: milliseconds, or :data:`SPECIAL_TIMES`.
        isolation: 0 or 1.
    """
    lowest = FIRST_WITH_ISOLATION if isolation == READ_COMMITTED else 1
    return max([lowest, *(SPECIAL_TIMES.get(time, 1) for time in times)])


@dataclass(frozen=True, slots=True)
class PartitionOffset:
    """An offset in a partition, or an error.

    Attributes:
        offset: The offset; None with an error, or if no record is as late as the
            requested time.
        timestamp: The timestamp of that record, in seconds since 1970, if a time was
            requested.
        error: Why there is no offset.
        is_local_only: The broker omitted remote segments, so another record may be the
            right one (KAFKA-17552); None if unknown.
        leader_epoch: The leader epoch of that record, or None if the broker does not
            report it.
    """

    offset: int | None = None
    timestamp: float | None = None
    error: KafkaGuardError | None = None
    is_local_only: bool | None = False
    leader_epoch: int | None = None


@dataclass(frozen=True, slots=True)
class OffsetsReport:
    """Offsets of partitions, each with a value or an error.

    Attributes:
        partitions: By topic and partition.
    """

    partitions: Mapping[TopicPartition, PartitionOffset]

    @property
    def offsets(self) -> dict[TopicPartition, int]:
        """The offsets that are known."""
        return {
            place: each.offset
            for place, each in self.partitions.items()
            if each.offset is not None
        }

    @property
    def errors(self) -> list[KafkaGuardError]:
        """The error of each partition that has one."""
        return [each.error for each in self.partitions.values() if each.error]

    @property
    def complete(self) -> bool:
        """Whether no partition has an error."""
        return not self.errors

    def raise_for_errors(self) -> None:
        """Raise the most severe error, if there is one, with the others as notes.

        Raises:
            KafkaGuardError: The report is not complete.
        """
        raise_gravest(self.errors)
