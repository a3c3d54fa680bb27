"""Lag of consumer groups: committed offsets and end offsets (KIP-17).

Lag counts offsets, not records: transaction markers and records removed by compaction
have offsets too. It counts those that are still there: what retention took is ``lost``.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import TYPE_CHECKING, Any

from kafkaguard._cluster.numbers import position as read_position
from kafkaguard._cluster.reports import TopicPartition, as_partition, raise_gravest

if TYPE_CHECKING:
    from collections.abc import Mapping

    from kafkaguard.errors import KafkaGuardError


class LagReason(StrEnum):
    """Why a partition, or a whole group, has no lag, or why the total leaves it out."""

    NO_GROUP = "no group"
    """The cluster has no such group, or none that we may see."""
    NO_COMMIT = "no commit"
    """The group never committed here, the commit has expired, or it is a marker."""
    NO_LEADER = "no leader"
    """The partition is offline, so its end is not known."""
    GONE = "gone"
    """There is no such topic or partition any more, or none that we may see."""
    COMMITTED_BEYOND_END = "committed beyond end"
    """The log was made anew, or lost records: the group waits, or will skip records."""
    LEFT = "left"
    """The group's members read other topics and not this one: the total leaves it out,
    whatever the lag."""
    ERROR = "error"
    """A broker answered with an error; it stands beside."""


class TimeReason(StrEnum):
    """Why there is no time lag although it was asked for, or why it is an estimate."""

    FUTURE = "in the future"
    """The next record is dated ahead of this machine's clock."""
    NO_TIMESTAMP = "no timestamp"
    """The next record carries none (CreateTime -1)."""
    UNREADABLE = "unreadable"
    """The batch there is corrupt; ``read_error`` says how."""
    NOT_ALLOWED = "not allowed"
    """This user may not Read the topic."""
    NO_ANSWER = "no answer"
    """The leader did not answer in time, or has no answer for us."""
    BATCH = "of its batch"
    """An estimate: that of its batch, which is compressed in a way unknown here."""


class LagState(StrEnum):
    """How a group is doing, from two looks at it."""

    LEFT = "LEFT"
    """The group reads other topics now, and not this one."""
    OK = "OK"
    """At the end, or on its way there."""
    LAGGING = "LAGGING"
    """It commits, and falls behind all the same."""
    STALLED = "STALLED"
    """There are records to read, and it does not commit."""
    STOPPED = "STOPPED"
    """There are records to read, and the group has no members."""
    ERROR = "ERROR"
    """There is no telling; the partition's reason says why."""


_GRAVITY = tuple(LagState)
#: What stands for the state of a group that the cluster does not have.
NO_SUCH_GROUP = "unknown"
_WITHOUT_MEMBERS = frozenset({"Empty", "Dead", NO_SUCH_GROUP})
_NO_TELLING = frozenset(LagReason) - {LagReason.NO_COMMIT, LagReason.LEFT}
#: Clocks of two machines differ: a record dated this many seconds ahead is from now.
_CLOCKS_DIFFER_S = 1.0


@dataclass(frozen=True, slots=True)
class Member:
    """A member of a group, to which a partition is assigned.

    Attributes:
        id: The member's id.
        client_id: What its client calls itself.
        host: From where it is connected.
        instance_id: Its name where membership is static (KIP-345).
    """

    id: str
    client_id: str
    host: str
    instance_id: str | None = None


@dataclass(frozen=True, slots=True)
class PartitionLag:
    """Where a group is in a partition. What was not asked for is None.

    Attributes:
        topic: The topic.
        partition: The partition.
        committed: The offset of the next record to read, as the group committed it.
        end: What ``lag`` is measured against: the high watermark, or with
            ``read_committed`` the last stable offset.
        lag: How many offsets that are still there the group is behind; None where
            ``reason`` says why.
        reason: Why there is no lag, or why it is assumed or left out of the total.
        error: The broker's error, with ``reason`` ERROR (and with GONE, if any).
        high_watermark: The end for readers of everything.
        last_stable: The end for readers of committed transactions.
        log_start: The first offset that is still there.
        marker: The negative number that was committed in place of an offset, as
            librdkafka's -1001.
        has_record: Whether there is a record to read; None: it was not looked at (see
            the column ``time``). Offsets may be left where no record is.
        next_timestamp: When the next record to read was written, in seconds since 1970.
        time_lag: How many seconds ago that was; 0 where no record is left; None where
            ``time_reason`` says why.
        time_reason: Why there is no time lag, or why it is an estimate.
        read_error: Why a reader cannot go on at the committed offset, as remote storage
            that is not ready (with the column ``time``, or found by a watch).
        member: Who is to read the partition.
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
        """How many offsets the consumer is behind by its position, if it has one."""
        if self.position is None or self.end is None:
            return None
        return max(0, self.end - self.position)

    @property
    def lost(self) -> int | None:
        """How many offsets are gone (retention, deletion) before the group read them.

        None: the start of the log is not known. It is asked for where there is a lag.
        """
        if self.committed is None or self.log_start is None:
            return None
        return max(0, self.log_start - self.committed)

    @property
    def blocked(self) -> int | None:
        """How many offsets wait for open transactions to end (``read_committed``)."""
        if self.high_watermark is None or self.last_stable is None:
            return None
        return max(0, self.high_watermark - self.last_stable)

    @property
    def notes(self) -> tuple[str, ...]:
        """What a reader of the number should know."""
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
        """Whether there is nothing left to read.

        A transaction ends with a marker that takes an offset, so a reader that has
        everything can show a lag of 1 for ever: allow for it with ``tolerance``, ask
        for the column ``time``, or use :meth:`GroupLag.with_positions`.
        """
        if self.lag is None:
            return False
        return self.lag <= tolerance or self.has_record is False


@dataclass(frozen=True, slots=True)
class GroupLag:
    """Where a group is, partition by partition.

    Attributes:
        group: The group's name.
        state: As the coordinator says (``Stable``, ``Empty`` ...), ``unknown`` for a
            group that it does not have; None where it was not asked.
        error: Why there are no partitions.
        partitions: By topic and partition.
    """

    group: str
    state: str | None = None
    error: KafkaGuardError | None = None
    partitions: Mapping[TopicPartition, PartitionLag] = field(default_factory=dict)

    @property
    def total(self) -> int | None:
        """The sum of the lags that are known, of topics that the group reads.

        None: none is. See :attr:`unknown` beside it, and :attr:`reason` where there are
        no partitions.
        """
        known = [each.lag for each in self._read if each.lag is not None]
        return sum(known) if known else None

    @property
    def _read(self) -> list[PartitionLag]:
        """The partitions of topics that the group has not left."""
        return [
            each
            for each in self.partitions.values()
            if each.reason is not LagReason.LEFT
        ]

    @property
    def reason(self) -> LagReason | None:
        """Why there are no partitions; None: there are, or :attr:`error` says why."""
        if self.error is not None or self.partitions:
            return None
        if self.state == NO_SUCH_GROUP:
            return LagReason.NO_GROUP
        return LagReason.NO_COMMIT

    @property
    def unknown(self) -> int:
        """How many partitions that it reads have no lag: the total lacks them."""
        return sum(each.lag is None for each in self._read)

    @property
    def errors(self) -> list[KafkaGuardError]:
        """What a broker refused, for the group and for its partitions."""
        own = [self.error, *(each.error for each in self.partitions.values())]
        return [error for error in own if error is not None]

    def is_caught_up(self, tolerance: int = 0) -> bool:
        """Whether each partition is (see :meth:`PartitionLag.is_caught_up`).

        A group of which no partition is known is not. Topics that it has left do not
        count.
        """
        read = self._read
        return bool(read) and all(each.is_caught_up(tolerance) for each in read)

    def with_positions(self, positions: Mapping[Any, int]) -> GroupLag:
        """Measure from a live consumer's positions in place of committed offsets.

        A position is beyond transaction markers, so that a reader that has everything
        has a lag of 0.

        Args:
            positions: Offsets by partition (any client's ``TopicPartition``). None and
                negative ones are not known yet: there the committed offset stays.

        Raises:
            TypeError: A position is no whole number.
        """
        known = {as_partition(p): read_position(at) for p, at in positions.items()}
        moved = {
            place: _from_position(each, known.get(place))
            for place, each in self.partitions.items()
        }
        return replace(self, partitions=moved)


def _from_position(lag: PartitionLag, position: int | None) -> PartitionLag:
    if lag.end is None or position is None:
        return lag
    left = _left_to_read(position, lag.end, lag.log_start)
    has_record = None if left else False
    return replace(
        lag,
        lag=left,
        reason=None,
        has_record=has_record,
        next_timestamp=None,  # those of the committed offset
        time_lag=None,
        time_reason=None,
    )


@dataclass(frozen=True, slots=True)
class LagReport:
    """Where groups are: a value, or a reason, for each of their partitions.

    Attributes:
        groups: By name.
        taken_at: When, in seconds since 1970.
        broker_errors: Brokers that could not list their groups.
        sees_all_groups: Whether a report on all groups has all: without Describe on the
            cluster, brokers leave out without a word what this user may not Describe.
            None: groups were named, or the cluster does not tell.
    """

    groups: Mapping[str, GroupLag]
    taken_at: float
    broker_errors: Mapping[int, KafkaGuardError] = field(default_factory=dict)
    sees_all_groups: bool | None = None

    @property
    def errors(self) -> list[KafkaGuardError]:
        """What a broker refused."""
        own = [error for group in self.groups.values() for error in group.errors]
        return [*self.broker_errors.values(), *own]

    @property
    def complete(self) -> bool:
        """Whether no broker refused anything."""
        return not self.errors

    def raise_for_errors(self) -> None:
        """Raise the gravest error, if there is any; the others are its notes.

        Raises:
            KafkaGuardError: Something is missing.
        """
        raise_gravest(self.errors)

    def states(self, earlier: LagReport) -> dict[str, LagState]:
        """Say how each group is doing, from this look and an earlier one.

        The gravest of a group's partitions counts; the look should be at least a commit
        interval (5 s by default) apart.

        Args:
            earlier: A report on the same groups.
        """
        return {
            name: group_state(earlier.groups.get(name), group)
            for name, group in self.groups.items()
        }


def group_state(earlier: GroupLag | None, now: GroupLag) -> LagState:
    """Say how a group is doing: the gravest of its partitions' states."""
    if now.error is not None or now.reason in _NO_TELLING:
        return LagState.ERROR
    states = partition_states(earlier, now).values()
    return max(states, key=_GRAVITY.index, default=LagState.OK)


def partition_states(
    earlier: GroupLag | None, now: GroupLag
) -> dict[TopicPartition, LagState]:
    """Say how a group is doing in each of its partitions."""
    before = earlier.partitions if earlier is not None else {}
    is_empty = now.state in _WITHOUT_MEMBERS
    return {
        place: partition_state(before.get(place), each, is_empty=is_empty)
        for place, each in now.partitions.items()
    }


def partition_state(
    earlier: PartitionLag | None, now: PartitionLag, *, is_empty: bool
) -> LagState:
    """Say how a group is doing in a partition.

    Args:
        earlier: The look before; None: there was none, so nothing has moved.
        now: The look now.
        is_empty: Whether the group has no members.
    """
    if now.reason in _NO_TELLING:
        return LagState.ERROR
    if now.reason is LagReason.LEFT:
        return LagState.LEFT
    is_bare = now.end is not None and now.end in {0, now.log_start}
    if now.is_caught_up() or is_bare:
        return LagState.OK
    moved = earlier is not None and earlier.committed != now.committed
    if not moved:
        return LagState.STOPPED if is_empty else LagState.STALLED
    grew = earlier is not None and (now.lag or 0) > (earlier.lag or 0)
    return LagState.LAGGING if grew else LagState.OK


def measure(
    place: TopicPartition,
    committed: int | None,
    end: int,
    *,
    assume: str | None = None,
    is_left: bool = False,
    **known: Any,
) -> PartitionLag:
    """Measure a lag.

    Args:
        place: The partition.
        committed: The committed offset; None: there is none.
        end: The end that was read after the committed offset.
        assume: ``"earliest"`` or ``"latest"``: where a reader without a commit begins.
        is_left: The group's members read other topics, and not this one.
        known: Other attributes; ``high_watermark`` tells a commit beyond the end from
            one that is beyond the last stable offset only, and ``log_start`` offsets
            that are left from those that are gone.
    """
    beyond = known.get("high_watermark") or end
    log_start = known.get("log_start")
    lag: int | None
    reason: LagReason | None
    if committed is None:
        lag, reason = _assumed(end, assume, log_start)
    elif committed > beyond:
        lag, reason = None, LagReason.COMMITTED_BEYOND_END
    else:
        lag, reason = _left_to_read(committed, end, log_start), None
    if is_left:
        reason = LagReason.LEFT
    return PartitionLag(
        place.topic, place.partition, committed, end, lag, reason, **known
    )


def _left_to_read(offset: int, end: int, log_start: int | None) -> int:
    """Count the offsets that are still there, from an offset to the end."""
    return max(0, end - max(offset, log_start or 0))


def _assumed(
    end: int, assume: str | None, log_start: int | None
) -> tuple[int | None, LagReason]:
    lag = None
    if assume == "latest":
        lag = 0
    elif assume == "earliest" and log_start is not None:
        lag = _left_to_read(0, end, log_start)
    return lag, LagReason.NO_COMMIT


def time_facts(
    written: float | None, now: float, *, is_of_batch: bool
) -> dict[str, Any]:
    """Say how old the next record is, or why that is not known.

    Args:
        written: When it was written, in seconds since 1970; None: it does not say.
        now: The time now.
        is_of_batch: The time is that of the record's batch.

    Returns:
        Attributes of a :class:`PartitionLag`.
    """
    told: dict[str, Any] = {"has_record": True, "next_timestamp": written}
    if written is None:
        return {**told, "time_reason": TimeReason.NO_TIMESTAMP}
    if written > now + _CLOCKS_DIFFER_S:
        return {**told, "time_reason": TimeReason.FUTURE}
    reason = TimeReason.BATCH if is_of_batch else None
    return {**told, "time_lag": max(0.0, now - written), "time_reason": reason}
