"""Lag of consumer groups: committed offsets and end offsets (KIP-17).

Lag counts offsets, not records: transaction markers and records removed by compaction
have offsets too. It counts existing offsets only: those that retention removed are
``lost``.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import TYPE_CHECKING, Any

from kafkaguard._cluster.reports import (
    TopicPartition,
    as_partition,
    raise_gravest,
    read_position,
)

if TYPE_CHECKING:
    from collections.abc import Mapping

    from kafkaguard._errors import KafkaGuardError


class LagReason(StrEnum):
    """Why a partition or a group has no lag, or is not in the total."""

    NO_GROUP = "no group"
    """The group does not exist, or this user may not describe it."""
    NO_COMMIT = "no commit"
    """The group never committed here, or its commit has expired or is a marker."""
    NO_LEADER = "no leader"
    """The partition is offline, so its end is not known."""
    GONE = "gone"
    """The topic or partition does not exist, or this user may not describe it."""
    COMMITTED_BEYOND_END = "committed beyond end"
    """The topic was created again or lost records; the group waits or skips some."""
    LEFT = "left"
    """The group's members do not read this topic any more; it is not in the total."""
    ERROR = "error"
    """A broker answered with an error, which is in ``error``."""


class TimeReason(StrEnum):
    """Why a requested time lag is missing or is an estimate."""

    FUTURE = "in the future"
    """The timestamp of the next record is ahead of this machine's clock."""
    NO_TIMESTAMP = "no timestamp"
    """The next record has no timestamp (CreateTime -1)."""
    UNREADABLE = "unreadable"
    """The batch is corrupt; see ``read_error``."""
    NOT_ALLOWED = "not allowed"
    """This user may not Read the topic."""
    NO_ANSWER = "no answer"
    """The leader did not answer in time, or answered with an error."""
    SECONDS = "in seconds, it seems"
    """The timestamp is of 1970: its producer gives seconds instead of milliseconds."""
    BATCH = "of its batch"
    """An estimate: the timestamp of its batch, whose compression is unsupported."""


class LagState(StrEnum):
    """The state of a group, from two measurements."""

    LEFT = "LEFT"
    """The group reads other topics now, not this one."""
    OK = "OK"
    """The group is at the end, or gets closer."""
    LAGGING = "LAGGING"
    """The group commits, but falls behind."""
    STALLED = "STALLED"
    """There are records to read, and the group does not commit."""
    STOPPED = "STOPPED"
    """There are records to read, and the group has no members."""
    ERROR = "ERROR"
    """The state cannot be determined; see the partition's reason."""


_GRAVITY = tuple(LagState)
#: The state of a group that does not exist.
NO_SUCH_GROUP = "unknown"
_WITHOUT_MEMBERS = frozenset({"Empty", "Dead", NO_SUCH_GROUP})
_UNDECIDABLE = frozenset(LagReason) - {LagReason.NO_COMMIT, LagReason.LEFT}
#: Timestamps of 1970 that are times since this one if they are seconds: 2000-01-01.
_FIRST_IN_SECONDS = 946_684_800
_MS = 1_000
#: A timestamp up to this many seconds ahead counts as now, because clocks differ.
_CLOCKS_DIFFER_S = 1.0


@dataclass(frozen=True, slots=True)
class Member:
    """The member of a group to which a partition is assigned.

    Attributes:
        id: The member's id.
        client_id: The client id.
        host: The host of its connection.
        instance_id: The ``group.instance.id`` of a static member (KIP-345).
    """

    id: str
    client_id: str
    host: str
    instance_id: str | None = None


@dataclass(frozen=True, slots=True)
class PartitionLag:
    """The lag of a group in a partition. Columns that were not requested are None.

    Attributes:
        topic: The topic.
        partition: The partition.
        committed: The committed offset: the next record to read.
        end: The end that ``lag`` is measured against: the high watermark, or with
            ``read_committed`` the last stable offset.
        lag: The number of existing offsets that the group has not read; None if there
            is a ``reason``.
        reason: Why there is no lag, or why it is assumed or not in the total.
        error: The broker's error, with ``reason`` ERROR (and with GONE, if any).
        high_watermark: The end for consumers of all records.
        last_stable: The end for consumers of committed records.
        log_start: The first existing offset.
        marker: A negative number that was committed instead of an offset, such as
            librdkafka's -1001.
        has_record: Whether there is a record to read; None without the column ``time``.
            Offsets can be left without a record.
        next_timestamp: When the next record to read was written, in seconds since 1970.
        time_lag: Its age in seconds; 0 if no record is left; None if there is a
            ``time_reason``.
        time_reason: Why there is no time lag, or why it is an estimate.
        read_error: Why the committed offset cannot be read, such as remote storage that
            is not ready (with the column ``time``, or found by a watch).
        member: The member that the partition is assigned to.
        compacted: ``cleanup.policy`` contains ``compact``: offsets have gaps.
        tiered: ``remote.storage.enable`` is true.
        position: The offset of the next record to read, in a guarded consumer's own
            ``lag()``.
    """

    topic: str
    partition: int
    committed: int | None = None
    end: int | None = None
    lag: int | None = None
    reason: LagReason | None = None
    error: KafkaGuardError | None = None
    high_watermark: int | None = None
    last_stable: int | None = None
    log_start: int | None = None
    marker: int | None = None
    has_record: bool | None = None
    next_timestamp: float | None = None
    time_lag: float | None = None
    time_reason: TimeReason | None = None
    read_error: KafkaGuardError | None = None
    member: Member | None = None
    compacted: bool | None = None
    tiered: bool | None = None
    position: int | None = None

    @property
    def position_lag(self) -> int | None:
        """The lag by the consumer's position, if it has one."""
        if self.position is None or self.end is None:
            return None
        return max(0, self.end - self.position)

    @property
    def lost(self) -> int | None:
        """The number of offsets that were removed before the group read them.

        None if the start of the log is unknown. It is looked up if there is a lag.
        """
        if self.committed is None or self.log_start is None:
            return None
        return max(0, self.log_start - self.committed)

    @property
    def blocked(self) -> int | None:
        """The number of offsets behind open transactions (``read_committed``)."""
        if self.high_watermark is None or self.last_stable is None:
            return None
        return max(0, self.high_watermark - self.last_stable)

    @property
    def notes(self) -> tuple[str, ...]:
        """Remarks about the numbers."""
        notes = []
        if self.marker is not None:
            notes.append(f"{self.marker} was committed: a marker, not an offset")
        if self.lost:
            notes.append(f"{self.lost} offsets are gone unread (retention, deletion)")
        if self.lag and self.has_record is False:
            notes.append(
                "no record is left: these offsets are transaction markers, or aborted"
            )
        elif self.lag == 1 and self.has_record is None:
            notes.append("may be a transaction marker (control record)")
        if self.lag and self.compacted:
            notes.append("compacted topic: fewer records than offsets")
        if self.time_reason is not None:
            notes.append(f"time of the next record: {self.time_reason}")
        return tuple(notes)

    def is_caught_up(self, tolerance: int = 0) -> bool:
        """Whether no record is left to read.

        A transaction ends with a marker that takes an offset, so a consumer that has
        read everything can show a lag of 1 forever. Give ``tolerance``, request the
        column ``time``, or use :meth:`GroupLag.with_positions`.
        """
        if self.lag is None:
            return False
        return self.lag <= tolerance or self.has_record is False


@dataclass(frozen=True, slots=True)
class GroupLag:
    """The lag of a group, partition by partition.

    Attributes:
        group: The group's name.
        state: The coordinator's state (``Stable``, ``Empty`` ...), ``unknown`` for a
            group that does not exist; None if it was not requested.
        error: Why there are no partitions.
        partitions: By topic and partition.
    """

    group: str
    state: str | None = None
    error: KafkaGuardError | None = None
    partitions: Mapping[TopicPartition, PartitionLag] = field(default_factory=dict)

    @property
    def total(self) -> int | None:
        """The sum of the known lags, of topics that the group reads.

        None if no lag is known. See also :attr:`unknown`, and :attr:`reason` if there
        are no partitions.
        """
        lags = [each.lag for each in self._counted if each.lag is not None]
        return sum(lags) if lags else None

    @property
    def _counted(self) -> list[PartitionLag]:
        """The partitions of topics that the group has not left."""
        return [
            each
            for each in self.partitions.values()
            if each.reason is not LagReason.LEFT
        ]

    @property
    def reason(self) -> LagReason | None:
        """Why there are no partitions; None if there are, or with an :attr:`error`."""
        if self.error is not None or self.partitions:
            return None
        if self.state == NO_SUCH_GROUP:
            return LagReason.NO_GROUP
        return LagReason.NO_COMMIT

    @property
    def unknown(self) -> int:
        """The number of partitions without a lag, which are not in the total."""
        return sum(each.lag is None for each in self._counted)

    @property
    def errors(self) -> list[KafkaGuardError]:
        """The errors of brokers, for the group and for its partitions."""
        errors = [self.error, *(each.error for each in self.partitions.values())]
        return [error for error in errors if error is not None]

    def is_caught_up(self, tolerance: int = 0) -> bool:
        """Whether each partition is caught up (see :meth:`PartitionLag.is_caught_up`).

        False if no partition is known. Topics that the group has left do not count.
        """
        partitions = self._counted
        return bool(partitions) and all(
            each.is_caught_up(tolerance) for each in partitions
        )

    def with_positions(self, positions: Mapping[Any, int]) -> GroupLag:
        """Measure the lag by a live consumer's positions instead of committed offsets.

        A position is beyond transaction markers, so a consumer that has read everything
        has a lag of 0.

        Args:
            positions: Offsets by partition (any client's ``TopicPartition``). None and
                negative ones are not known yet; for them the committed offset is used.

        Raises:
            TypeError: A position is not a whole number.
        """
        offsets = {as_partition(p): read_position(at) for p, at in positions.items()}
        partitions = {
            place: _measure_from_position(each, offsets.get(place))
            for place, each in self.partitions.items()
        }
        return replace(self, partitions=partitions)


def _measure_from_position(lag: PartitionLag, position: int | None) -> PartitionLag:
    if lag.end is None or position is None:
        return lag
    unread = _count_unread(position, lag.end, lag.log_start)
    has_record = None if unread else False
    return replace(
        lag,
        lag=unread,
        reason=None,
        has_record=has_record,
        next_timestamp=None,  # the known time facts are about the committed offset
        time_lag=None,
        time_reason=None,
    )


@dataclass(frozen=True, slots=True)
class LagReport:
    """The lag of groups: a value or a reason for each partition.

    Attributes:
        groups: By name.
        taken_at: When, in seconds since 1970.
        broker_errors: Errors of brokers that could not list their groups.
        sees_all_groups: Whether a report on all groups has all: without Describe on the
            cluster, brokers silently omit groups that this user may not Describe. None
            if groups were named, or if this is unknown.
        committed_topics: The topics of all offsets that the groups have committed,
            including topics that are not in the report.
        sees_all_topics: Whether no topic of a group can be missing: brokers silently
            omit the offsets of topics that this user may not Describe. None if topics
            were named, or if this is unknown.
    """

    groups: Mapping[str, GroupLag]
    taken_at: float
    broker_errors: Mapping[int, KafkaGuardError] = field(default_factory=dict)
    sees_all_groups: bool | None = None
    committed_topics: frozenset[str] = frozenset()
    sees_all_topics: bool | None = None

    @property
    def errors(self) -> list[KafkaGuardError]:
        """The errors of all groups and of their partitions."""
        group_errors = [
            error for group in self.groups.values() for error in group.errors
        ]
        return [*self.broker_errors.values(), *group_errors]

    @property
    def complete(self) -> bool:
        """Whether nothing has an error, and no topic of a group can be missing."""
        return not self.errors and self.sees_all_topics is not False

    def raise_for_errors(self) -> None:
        """Raise the most severe error, if there is one, with the others as notes.

        Raises:
            KafkaGuardError: A broker, a group or a partition has an error.
        """
        raise_gravest(self.errors)

    def states(self, earlier: LagReport) -> dict[str, LagState]:
        """Return the state of each group, from this report and an earlier one.

        The most severe state of a group's partitions counts. The reports should be at
        least a commit interval (5 s by default) apart.

        Args:
            earlier: A report on the same groups.
        """
        return {
            name: group_state(earlier.groups.get(name), group)
            for name, group in self.groups.items()
        }


def group_state(earlier: GroupLag | None, now: GroupLag) -> LagState:
    """Return the state of a group: the most severe one of its partitions."""
    if now.error is not None or now.reason in _UNDECIDABLE:
        return LagState.ERROR
    states = partition_states(earlier, now).values()
    return max(states, key=_GRAVITY.index, default=LagState.OK)


def partition_states(
    earlier: GroupLag | None, now: GroupLag
) -> dict[TopicPartition, LagState]:
    """Return the state of a group in each of its partitions."""
    before = earlier.partitions if earlier is not None else {}
    is_empty = now.state in _WITHOUT_MEMBERS
    return {
        place: partition_state(before.get(place), each, is_empty=is_empty)
        for place, each in now.partitions.items()
    }


def partition_state(
    earlier: PartitionLag | None, now: PartitionLag, *, is_empty: bool
) -> LagState:
    """Return the state of a group in a partition.

    Args:
        earlier: The earlier measurement, or None.
        now: The current measurement.
        is_empty: Whether the group has no members.
    """
    if now.reason in _UNDECIDABLE:
        return LagState.ERROR
    if now.reason is LagReason.LEFT:
        return LagState.LEFT
    is_bare = now.end is not None and now.end in {0, now.log_start}
    if now.is_caught_up() or is_bare:
        return LagState.OK
    has_moved = earlier is not None and earlier.committed != now.committed
    if not has_moved:
        return LagState.STOPPED if is_empty else LagState.STALLED
    has_grown = earlier is not None and (now.lag or 0) > (earlier.lag or 0)
    return LagState.LAGGING if has_grown else LagState.OK


def measure(
    place: TopicPartition,
    committed: int | None,
    end: int,
    *,
    assume: str | None = None,
    is_left: bool = False,
    **columns: Any,
) -> PartitionLag:
    """Measure a lag.

    Args:
        place: The partition.
        committed: The committed offset, or None.
        end: The end that was read after the committed offset.
        assume: ``"earliest"`` or ``"latest"``: where a consumer without a commit
            starts.
        is_left: The group's members read other topics, and not this one.
        columns: Other attributes. With ``high_watermark``, a commit beyond the end is
            distinguished from one beyond the last stable offset; with ``log_start``,
            existing offsets from removed ones.
    """
    beyond = columns.get("high_watermark") or end
    log_start = columns.get("log_start")
    lag: int | None
    reason: LagReason | None
    if committed is None:
        lag, reason = _assume_lag(end, assume, log_start)
    elif committed > beyond:
        lag, reason = None, LagReason.COMMITTED_BEYOND_END
    else:
        lag, reason = _count_unread(committed, end, log_start), None
    if is_left:
        reason = LagReason.LEFT
    return PartitionLag(
        place.topic, place.partition, committed, end, lag, reason, **columns
    )


def _count_unread(offset: int, end: int, log_start: int | None) -> int:
    """Count the existing offsets from an offset to the end."""
    return max(0, end - max(offset, log_start or 0))


def _assume_lag(
    end: int, assume: str | None, log_start: int | None
) -> tuple[int | None, LagReason]:
    lag = None
    if assume == "latest":
        lag = 0
    elif assume == "earliest" and log_start is not None:
        lag = _count_unread(0, end, log_start)
    return lag, LagReason.NO_COMMIT


def time_facts(
    timestamp: float | None, now: float, *, is_of_batch: bool
) -> dict[str, Any]:
    """Return the age of the next record, or why it is unknown.

    Args:
        timestamp: Its timestamp, in seconds since 1970, or None without one.
        now: The time now.
        is_of_batch: The time is that of the record's batch.

    Returns:
        Attributes of a :class:`PartitionLag`.
    """
    facts: dict[str, Any] = {"has_record": True, "next_timestamp": timestamp}
    if timestamp is None:
        return {**facts, "time_reason": TimeReason.NO_TIMESTAMP}
    if timestamp > now + _CLOCKS_DIFFER_S:
        return {**facts, "time_reason": TimeReason.FUTURE}
    if _FIRST_IN_SECONDS <= timestamp * _MS <= now + _CLOCKS_DIFFER_S:
        return {**facts, "time_reason": TimeReason.SECONDS}
    reason = TimeReason.BATCH if is_of_batch else None
    return {**facts, "time_lag": max(0.0, now - timestamp), "time_reason": reason}
