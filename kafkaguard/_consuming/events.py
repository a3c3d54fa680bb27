"""Events of guarded consumers: one frozen class for each."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Literal

from kafkaguard._retries.events import Event

if TYPE_CHECKING:
    from kafkaguard._cluster.reports import TopicPartition
    from kafkaguard._errors import KafkaGuardError
    from kafkaguard._errors.base import Action


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionEvent(Event):
    """The base class of events about one partition.

    Attributes:
        topic: The topic.
        partition: The partition; -1 for the whole topic.
        position: The offset of the next record to read; None if unknown.
    """

    topic: str
    partition: int
    position: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionWaitsEvent(PartitionEvent):
    """A partition cannot be read and waits; other partitions are read. Sent once.

    Attributes:
        error: The error of the read.
        action: The action of the policy's ruling.
        wait: Seconds until the next read.
    """

    name: ClassVar[str] = "kafkaguard.partition_waits"
    error: KafkaGuardError
    action: Action
    wait: float


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionResumesEvent(PartitionEvent):
    """A partition that waited can be read again.

    Attributes:
        waited: Seconds since the first refusal.
        tries: How many reads were refused.
    """

    name: ClassVar[str] = "kafkaguard.partition_resumes"
    waited: float
    tries: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadFailedEvent(PartitionEvent):
    """A read failed for good; poll raises the error or returns it in a message.

    Attributes:
        error: The error of the read.
        action: The action of the policy's ruling.
        raised: Whether poll raises the error. False: it is in the message that
            confluent-kafka returns (``message.error()``).
    """

    name: ClassVar[str] = "kafkaguard.read_failed"
    error: KafkaGuardError
    action: Action
    raised: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class OffsetResetEvent(PartitionEvent):
    """A broker answered OFFSET_OUT_OF_RANGE (1) for the position of a consumer.

    The guard compared the position with the log. A position beyond the end means that
    the topic was deleted and created again, or that its log was truncated (KIP-320).

    Attributes:
        earliest: The first existing offset.
        latest: The end of the log.
        lost: How many offsets were removed before they were read; None if the position
            is unknown.
        skipped: How many offsets exist and are not read, because the client goes on at
            the end; None if the position or the client's setting is unknown.
        outcome: ``"kept"``: the position is within the log, and is read again.
            ``"reset"``: the client resets it according to its own setting.
            ``"raised"``: polling raises, because of the client's own setting or of the
            policy's ``on_offset_reset: raise``.
    """

    name: ClassVar[str] = "kafkaguard.offset_reset"
    earliest: int
    latest: int
    lost: int | None
    skipped: int | None
    outcome: Literal["kept", "reset", "raised"]

    @property
    def is_beyond_end(self) -> bool:
        """Whether the position is beyond the end of the log."""
        return self.position is not None and self.position > self.latest

    @property
    def sentence(self) -> str:
        """What happened, for people."""
        text = (
            f"{self.topic}-{self.partition}: position {self.position} is out of range, "
            f"the log has {self.earliest} to {self.latest}"
        )
        if self.is_beyond_end:
            text += "; the topic was created again, or its log was truncated"
        if self.lost:
            text += f"; {self.lost} offsets were removed before they were read"
        if self.skipped:
            text += f"; {self.skipped} that exist are skipped"
        return text


@dataclass(frozen=True, slots=True, kw_only=True)
class CommitFailedEvent(Event):
    """A commit failed for some partitions.

    Attributes:
        errors: The errors by partition; empty if the client names no partition.
        error: The most severe error.
        action: What the verdict says to do.
        kind: ``"sync"``: the caller's ``commit`` raises the error. ``"async"``: the
            caller did not wait for the commit. ``"auto"``: the client's automatic
            commit.
    """

    name: ClassVar[str] = "kafkaguard.commit_failed"
    errors: dict[TopicPartition, KafkaGuardError]
    error: KafkaGuardError
    action: Action
    kind: Literal["sync", "async", "auto"]
