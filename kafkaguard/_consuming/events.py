"""Events of guarded consumers: one frozen class for each."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Literal

from kafkaguard._retries.events import Event

if TYPE_CHECKING:
    from kafkaguard._cluster.reports import TopicPartition
    from kafkaguard._verdicts.verdict import Action
    from kafkaguard.errors import KafkaGuardError


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionEvent(Event):
    """What all events about one partition have.

    Attributes:
        topic: The topic.
        partition: The partition; -1: the whole topic.
        position: The offset of the next record to read; None if unknown.
    """

    topic: str
    partition: int
    position: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionWaitsEvent(PartitionEvent):
    """A partition cannot be read and waits alone; told once until it goes on.

    Attributes:
        error: What a read of it is answered.
        action: What the verdict says to do.
        wait: Seconds until the next try.
    """

    name: ClassVar[str] = "kafkaguard.partition_waits"
    error: KafkaGuardError
    action: Action
    wait: float


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionResumesEvent(PartitionEvent):
    """A partition that waited is read again.

    Attributes:
        waited: Seconds since the first refusal.
        tries: How many reads were refused.
    """

    name: ClassVar[str] = "kafkaguard.partition_resumes"
    waited: float
    tries: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadFailedEvent(PartitionEvent):
    """A read failed for good; polling raises it, or hands it over in a message.

    Attributes:
        error: What the read was answered.
        action: What the verdict says to do.
        raised: Whether polling raises it. False: it is in the message that
            confluent-kafka returns (``message.error()``).
    """

    name: ClassVar[str] = "kafkaguard.read_failed"
    error: KafkaGuardError
    action: Action
    raised: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class OffsetResetEvent(PartitionEvent):
    """A broker says that a position is out of range; compared with the log.

    Attributes:
        earliest: The first offset that is there.
        latest: The end of the log.
        lost: How many offsets were removed before they were read; 0 where the position
            is beyond the end.
        outcome: ``"kept"``: the position is within the log after all, and is read
            again. ``"reset"``: the client resets it as its own setting says.
            ``"raised"``: the policy says ``on_offset_reset: raise``.
    """

    name: ClassVar[str] = "kafkaguard.offset_reset"
    earliest: int
    latest: int
    lost: int
    outcome: Literal["kept", "reset", "raised"]


@dataclass(frozen=True, slots=True, kw_only=True)
class CommitFailedEvent(Event):
    """A commit failed, for these partitions.

    Attributes:
        errors: By partition; empty where the client tells no partition.
        error: The gravest of them.
        action: What the verdict says to do.
        kind: ``"sync"``: the caller's ``commit`` raises it. ``"async"``: a commit that
            nobody waits for. ``"auto"``: the client's own.
    """

    name: ClassVar[str] = "kafkaguard.commit_failed"
    errors: dict[TopicPartition, KafkaGuardError]
    error: KafkaGuardError
    action: Action
    kind: Literal["sync", "async", "auto"]
