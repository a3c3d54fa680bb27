"""A partition during one assignment: its records, lanes, and what of them is done.

Records are numbered as they are read, so holes between offsets need no care. A byte for
each record says whether it is done, and the first one that is not ends the prefix that
may be committed.
"""

from __future__ import annotations

from collections import deque
from enum import StrEnum
from typing import TYPE_CHECKING, Any, Final

from kafkaguard._delivery.table import Table

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from kafkaguard._cluster.reports import TopicPartition
    from kafkaguard._retries.machine import Machine


class SlotState(StrEnum):
    """What becomes of a partition's records."""

    READ = "READ"
    """They are read and handled."""
    PAUSED = "PAUSED"
    """Those in memory are handled; no others are read."""
    DRAINING = "DRAINING"
    """The partition is revoked: what runs may end, nothing new begins."""
    GONE = "GONE"
    """The partition is given up: what ends now is late."""


class SlotEvent(StrEnum):
    """What happens to a partition."""

    PAUSE = "PAUSE"
    RESUME = "RESUME"
    REVOKED = "REVOKED"
    GIVEN_UP = "GIVEN_UP"
    LOST = "LOST"


_State, _Event = SlotState, SlotEvent
SLOTS: Final[Table[SlotState, SlotEvent]] = Table(
    "partition",
    {
        (_State.READ, _Event.PAUSE): _State.PAUSED,
        (_State.PAUSED, _Event.RESUME): _State.READ,
        (_State.READ, _Event.REVOKED): _State.DRAINING,
        (_State.PAUSED, _Event.REVOKED): _State.DRAINING,
        (_State.DRAINING, _Event.GIVEN_UP): _State.GONE,
        (_State.READ, _Event.LOST): _State.GONE,
        (_State.PAUSED, _Event.LOST): _State.GONE,
        (_State.DRAINING, _Event.LOST): _State.GONE,
    },
)


class Lane:
    """Records that must be handled one after the other.

    Attributes:
        key: The key in its slot.
        queue: The numbers of the records, in their order.
        is_busy: Whether a worker has some of its records.
        waiting: How many of its records wait for another attempt.
        is_ready: Whether it is in the queue for workers.
    """

    __slots__ = ("is_busy", "is_ready", "key", "queue", "waiting")

    def __init__(self, key: Any) -> None:
        self.key = key
        self.queue: list[int] = []
        self.is_busy = self.is_ready = False
        self.waiting = 0


class Retry:
    """The failures of a record until now.

    Attributes:
        slot: Its partition.
        seq: Its number.
        lane: Its lane.
        machine: Counts attempts; its ``started`` is the time of the first failure.
        error: The last exception.
        due: When it is handled again.
        is_waiting: Whether that time is not there yet.
    """

    __slots__ = ("due", "error", "is_waiting", "lane", "machine", "seq", "slot")

    def __init__(self, slot: Slot, seq: int, lane: Lane, machine: Machine) -> None:
        self.slot = slot
        self.seq = seq
        self.lane = lane
        self.machine = machine
        self.error: BaseException | None = None
        self.due = 0.0
        self.is_waiting = False

    def __lt__(self, other: Retry) -> bool:
        """Order by the time of the next attempt."""
        return self.due < other.due


class Slot:
    """One assignment of one partition.

    Args:
        place: The partition.
        position: The offset of the next record to read; None: not known.

    Attributes:
        state: What becomes of its records.
        base: The number of the first record in ``records``.
        records: The records from the first that is not done, in the order of offsets.
        done: A byte for each of them: 1 if it is done.
        filled: How many of them are in lanes, or were.
        lanes: The lanes by their keys.
        ready: The lanes that a worker may take from.
        undone: How many records are not done.
        parked: How many are in lanes that wait.
        running: The number of chunks that workers have.
        letters: The number of dead letters without an outcome.
        retries: The records that have failed, by their numbers.
        limit: The number of the last record that may begin; None: all may. While the
            partition is given up, only what is before a record that was begun may: else
            that one could not be committed.
        cap: The most records of a batch; smaller while a failed batch is split.
        split_end: The number of the last record of the last batch that was split.
        next: The offset after all records that were read; None: not known.
        committed: The committed offset; None: not known.
        passed: How many records have left ``records``.
        counted: How many of them are counted as committed.
        end: Where to stop reading; None: nowhere.
        reads: The number after the last record of each read, and its time.
    """

    __slots__ = (
        "base",
        "cap",
        "committed",
        "counted",
        "done",
        "end",
        "filled",
        "is_in_turn",
        "lanes",
        "letters",
        "limit",
        "next",
        "parked",
        "passed",
        "place",
        "reads",
        "ready",
        "records",
        "retries",
        "running",
        "split_end",
        "state",
        "undone",
    )

    def __init__(self, place: TopicPartition, cap: int) -> None:
        self.place = place
        self.state = SlotState.READ
        self.base = self.filled = self.undone = self.parked = 0
        self.running = self.letters = self.passed = self.counted = 0
        self.records: list[Any] = []
        self.done = bytearray()
        self.lanes: dict[Any, Lane] = {}
        self.ready: deque[Lane] = deque()
        self.retries: dict[int, Retry] = {}
        self.limit: int | None = None
        self.cap = cap
        self.split_end = -1
        self.next: int | None = None
        self.committed: int | None = None
        self.end: int | None = None
        self.reads: deque[tuple[int, float]] = deque()
        self.is_in_turn = False

    @property
    def is_gone(self) -> bool:
        """Whether the partition is given up."""
        return self.state is SlotState.GONE

    @property
    def is_open(self) -> bool:
        """Whether its records may be handed to workers."""
        return self.state is SlotState.READ or self.state is SlotState.PAUSED

    @property
    def excess(self) -> int:
        """The records beyond a waiting or running one: parked, or done already."""
        return len(self.records) - self.undone + self.parked

    def close(self, begun: int) -> None:
        """Let nothing begin but what is before a record that was begun.

        Args:
            begun: The number of the last record that a worker has; -1: none has any.
        """
        self.limit = max(begun, self.base + self.done.rfind(1))

    @property
    def has_holes(self) -> bool:
        """Whether a record may begin, although the partition is given up."""
        if self.limit is None:
            return False
        hole = self.base + self.done.find(0)
        return self.base <= hole <= self.limit and hole not in self.retries

    def happens(self, event: SlotEvent) -> None:
        """Change to the next state."""
        self.state = SLOTS.after(self.state, event)

    def record(self, seq: int) -> Any:
        """Return the record with a number."""
        return self.records[seq - self.base]

    def add(self, records: Sequence[Any], now: float) -> None:
        """Add records that were read."""
        self.records += records
        self.done += bytes(len(records))
        self.undone += len(records)
        self.reads.append((self.base + len(self.records), now))

    def attempts(self, seq: int) -> int:
        """Return how often a record whose handler has raised was handled."""
        retry = self.retries.get(seq)
        return 1 if retry is None else max(1, retry.machine.attempts)

    def take(self, seqs: Sequence[int]) -> list[Any]:
        """Return the records with these numbers."""
        base, records = self.base, self.records
        if seqs[-1] - seqs[0] == len(seqs) - 1:  # they are in a row, also by key
            first = seqs[0] - base
            return records[first : first + len(seqs)]
        return [records[seq - base] for seq in seqs]

    def mark(self, seqs: Sequence[int]) -> None:
        """Mark records as done."""
        if not seqs:
            return
        base, done = self.base, self.done
        if seqs[-1] - seqs[0] == len(seqs) - 1:
            first = seqs[0] - base
            done[first : first + len(seqs)] = b"\x01" * len(seqs)
        else:
            for seq in seqs:
                done[seq - base] = 1
        self.undone -= len(seqs)
        if self.retries:
            for seq in seqs:
                self.retries.pop(seq, None)

    def advance(self) -> None:
        """Forget the records of the prefix that is done."""
        count = self.done.find(0)
        if count < 0:
            count = len(self.done)
        if not count:
            return
        del self.done[:count], self.records[:count]
        self.base += count
        self.passed += count
        self.filled = max(0, self.filled - count)
        while self.reads and self.reads[0][0] <= self.base:
            self.reads.popleft()

    def position(self, offset_of: Callable[[Any], int]) -> int | None:
        """Return the offset that may be committed: what is before it is done."""
        return offset_of(self.records[0]) if self.records else self.next

    def is_contiguous(self) -> bool:
        """Whether no record beyond the first that is not done is done."""
        hole = self.done.find(0)
        return hole < 0 or self.done.find(1, hole) < 0

    def forget_lanes(self) -> None:
        """Forget lanes without records, which are kept for the next ones of a key."""
        self.lanes = {
            key: lane
            for key, lane in self.lanes.items()
            if lane.queue or lane.is_busy or lane.waiting
        }

    def rewind(self) -> None:
        """Let all records be handled again; none is with a worker."""
        self.done = bytearray(len(self.records))
        self.undone = len(self.records)
        self.filled = self.parked = 0
        self.lanes.clear()
        self.ready.clear()

    def handled(self, offset_of: Callable[[Any], int]) -> tuple[int, frozenset[int]]:
        """Return the end of the prefix that was handled, and what was beyond it."""
        beyond = (
            offset_of(record)
            for record, is_done in zip(self.records, self.done, strict=True)
            if is_done
        )
        return self.position(offset_of) or 0, frozenset(beyond)


def insert(queue: list[int], seqs: Iterable[int]) -> None:
    """Put numbers back into a queue at their places."""
    queue[:0] = seqs
    queue.sort()
