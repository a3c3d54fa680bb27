"""Records between the machine and its workers, and the machine's commands."""

from __future__ import annotations

from dataclasses import dataclass
from operator import length_hint
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping, Sequence

    from kafkaguard._cluster.reports import TopicPartition
    from kafkaguard._processing.slots import Lane, Retry, Slot
    from kafkaguard._retries.events import Event

#: The key of an exception that is about all records of a batch.
WHOLE: Final = -1


class Chunk:
    """Records that a worker handles one after the other, or as one batch.

    The worker takes the records from ``begin()``, and ends before its next record once
    ``stops`` holds something. Others see from the iterator where it is, so a record
    costs the worker nothing more. No lock is needed: a stale value only costs one more
    record.

    Attributes:
        slot: The partition, as it was assigned when the records were read.
        seqs: The numbers of the records in their slot.
        records: The client's records.
        lanes: The lanes that no other worker may have meanwhile.
        stops: Empty, until the worker is to end before its next record.
        started: When the worker took it.
        seen_at: The last value of ``at`` that the machine saw.
        since: When the machine first saw it.
        is_told: Whether it was told that the handler is slow.
        counted: How many records were counted as done before the chunk came back.
    """

    __slots__ = (
        "_iterator",
        "counted",
        "is_told",
        "lanes",
        "records",
        "seen_at",
        "seqs",
        "since",
        "slot",
        "started",
        "stops",
    )

    def __init__(
        self,
        slot: Slot,
        seqs: Sequence[int],
        records: list[Any],
        lanes: list[Lane],
        now: float,
    ) -> None:
        self.slot = slot
        self.seqs = seqs
        self.records = records
        self.lanes = lanes
        self._iterator: Any = None
        self.seen_at = self.counted = 0
        self.stops: list[bool] = []
        self.is_told = False
        self.started = self.since = now

    def begin(self) -> Iterator[Any]:
        """Return the records, whose iterator others look at."""
        self._iterator = iterator = iter(self.records)
        return iterator

    @property
    def at(self) -> int:
        """The index of the record that is being handled, or of the last one."""
        if self._iterator is None:
            return 0
        return max(0, len(self.records) - length_hint(self._iterator) - 1)

    def stop(self) -> None:
        """Let the worker end before its next record."""
        self.stops.append(True)

    def retry(self, index: int) -> Retry | None:
        """Return the earlier failures of a record; None: there are none."""
        return self.slot.retries.get(self.seqs[index])


@dataclass(frozen=True, slots=True)
class Pause:
    """Read nothing of these partitions; pauses of the application stay its own."""

    places: Collection[TopicPartition]


@dataclass(frozen=True, slots=True)
class Resume:
    """Read these partitions again."""

    places: Collection[TopicPartition]


@dataclass(frozen=True, slots=True)
class Commit:
    """Commit offsets without waiting; the reply is ``committed(number, errors)``."""

    number: int
    offsets: Mapping[TopicPartition, int]


@dataclass(frozen=True, slots=True, eq=False)
class SendLetter:
    """Send a dead letter; the reply is ``letter_sent(letter, error)``.

    Attributes:
        slot: The record's partition.
        seq: The record's number in it.
        record: The client's record.
        error: The handler's exception.
        attempts: How often the record was handled.
        topic: The dead-letter topic.
        due: When it is sent; later than now after a failure.
    """

    slot: Slot
    seq: int
    record: Any
    error: BaseException
    attempts: int
    topic: str
    due: float


@dataclass(frozen=True, slots=True)
class GiveUp:
    """The listener of a revocation may return: all that can be done is done."""

    places: Collection[TopicPartition]


@dataclass(frozen=True, slots=True)
class BeginRound:
    """Begin a transaction; the reply is ``round_began(error)``."""


@dataclass(frozen=True, slots=True)
class CommitRound:
    """Commit the transaction with these offsets; the reply is ``round_ended``."""

    offsets: Mapping[TopicPartition, int]


@dataclass(frozen=True, slots=True)
class AbortRound:
    """Abort the transaction; the reply is ``round_ended``."""


@dataclass(frozen=True, slots=True)
class Tell:
    """Call ``on_event`` with this event."""

    event: Event


@dataclass(frozen=True, slots=True)
class End:
    """The run has ended; raise this error if there is one."""

    error: BaseException | None


Command = (
    Pause
    | Resume
    | Commit
    | SendLetter
    | GiveUp
    | BeginRound
    | CommitRound
    | AbortRound
    | Tell
    | End
)
