"""Rounds: what is handled exactly once is handled in transactions, one after the other.

A round takes the first records of each partition that are not done, commits their
offsets and what their handlers have sent in one transaction, and lets nothing else
begin meanwhile. If a record must wait for another attempt, the round is aborted, its
records are handled again, and that record has a round of its own when its time comes.
"""

from __future__ import annotations

import math
from enum import StrEnum
from typing import TYPE_CHECKING, Any, Final

from kafkaguard._delivery.table import Table
from kafkaguard._processing.work import AbortRound, CommitRound

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable

    from kafkaguard._processing.slots import Retry, Slot

#: The records of the first round; later ones have more or fewer, by their time.
FIRST: Final = 100
MOST: Final = 10_000
#: About how many seconds a round takes.
AIM_S: Final = 0.5


class RoundState(StrEnum):
    """Where the transaction of a round stands."""

    NONE = "NONE"
    BEGINNING = "BEGINNING"
    OPEN = "OPEN"
    COMMITTING = "COMMITTING"
    ABORTING = "ABORTING"


class RoundEvent(StrEnum):
    """What happens to a round."""

    BEGIN = "BEGIN"
    BEGAN = "BEGAN"
    COMMIT = "COMMIT"
    ABORT = "ABORT"
    ENDED = "ENDED"


_State, _Event = RoundState, RoundEvent
ROUNDS: Final[Table[RoundState, RoundEvent]] = Table(
    "round",
    {
        (_State.NONE, _Event.BEGIN): _State.BEGINNING,
        (_State.BEGINNING, _Event.BEGAN): _State.OPEN,
        (_State.BEGINNING, _Event.ENDED): _State.NONE,
        (_State.OPEN, _Event.COMMIT): _State.COMMITTING,
        (_State.OPEN, _Event.ABORT): _State.ABORTING,
        (_State.COMMITTING, _Event.ENDED): _State.NONE,
        (_State.ABORTING, _Event.ENDED): _State.NONE,
    },
)


class Rounds:
    """The rounds of one run.

    Args:
        longest: Seconds that a round lasts at most: half of the time after which the
            coordinator aborts a transaction.
    """

    def __init__(self, longest: float) -> None:
        self._longest = longest
        self._size = FIRST
        self._started = math.inf
        self._taken: dict[Slot, int] = {}
        self._offsets: dict[Slot, int] = {}
        self._is_failed = self._is_closed = False
        self.state = RoundState.NONE

    @property
    def slots(self) -> Collection[Slot]:
        """The partitions with records in the round, without those that are gone."""
        return [slot for slot in self._taken if not slot.is_gone]

    @property
    def has_records(self) -> bool:
        """Whether a round is open that has records, and not only positions."""
        return self.state is not RoundState.NONE and any(self._taken.values())

    @property
    def is_taking(self) -> bool:
        """Whether workers may begin records of the round."""
        return self.state is RoundState.OPEN and not self._is_closed

    @property
    def due(self) -> float:
        """When the round must end."""
        return self._started + self._longest

    def involves(self, slots: Iterable[Slot]) -> bool:
        """Return whether the round has records of some partitions."""
        return self.state is not RoundState.NONE and any(
            slot in self._taken for slot in slots
        )

    def leave(self, slots: Iterable[Slot]) -> None:
        """Forget partitions that are given up."""
        for slot in slots:
            self._taken.pop(slot, None)

    def plan(
        self, slots: Iterable[Slot], now: float, *, is_probe: bool
    ) -> list[tuple[Slot, int]]:
        """Choose the records of the next round.

        Args:
            slots: All partitions.
            now: The time.
            is_probe: Whether one record only tries a dependency that was down.

        Returns:
            The partitions, and how many of their first records it takes.
        """
        slots = [slot for slot in slots if slot.records]
        alone = [(slot, 1) for slot in slots if _first_due(slot, now) and slot.retries]
        plan = alone[:1]
        if not plan:
            share = 1 if is_probe else max(1, self._size // max(1, len(slots)))
            plan = [
                (slot, count)
                for slot in slots
                if (count := min(share, _before_retry(slot)))
            ]
            plan = plan[:1] if is_probe else plan
        if plan:
            self._begin(plan)
        return plan

    def plan_rest(self, slots: Iterable[Slot]) -> list[tuple[Slot, int]]:
        """Choose partitions without records whose position is not committed."""
        plan = [(s, 0) for s in slots if not s.records and s.next != s.committed]
        if plan:
            self._begin(plan)
        return plan

    def _begin(self, plan: list[tuple[Slot, int]]) -> None:
        self._taken = dict(plan)
        self._is_failed = self._is_closed = False
        self.state = ROUNDS.after(self.state, RoundEvent.BEGIN)

    def begun(self, now: float) -> None:
        """Record that the transaction has begun."""
        self.state = ROUNDS.after(self.state, RoundEvent.BEGAN)
        self._started = now

    def cancel(self) -> None:
        """Record that the transaction cannot begin."""
        self.state = ROUNDS.after(self.state, RoundEvent.ENDED)

    def fail(self) -> None:
        """Let the round be aborted; no other record of it begins."""
        self._is_failed = self._is_closed = True

    def close(self) -> None:
        """Let the round end without the records that no worker has begun."""
        self._is_closed = True

    def is_over(self, now: float) -> bool:
        """Return whether the round must end now."""
        return self._is_failed or now >= self.due

    def end_command(
        self, offset_of: Callable[[Any], int]
    ) -> CommitRound | AbortRound | None:
        """Return how the transaction ends; None: records are not done yet.

        No record of the round is with a worker.
        """
        taken = {slot: self._taken[slot] for slot in self.slots}
        if not self._is_failed:
            done = {slot: slot.done.find(0) for slot in taken}
            done = {s: taken[s] if n < 0 else n for s, n in done.items()}
            if any(done[slot] < count for slot, count in taken.items()):
                if not self._is_closed:
                    return None
                self._is_failed = not all(slot.is_contiguous() for slot in taken)
            self._is_failed |= any(taken.values()) and not any(done.values())
        if self._is_failed:
            self.state = ROUNDS.after(self.state, RoundEvent.ABORT)
            return AbortRound()
        self._offsets = {
            slot: offset_of(slot.records[n])
            if n < len(slot.records)
            else slot.next or 0
            for slot, n in done.items()
            if n or not slot.records
        }
        self.state = ROUNDS.after(self.state, RoundEvent.COMMIT)
        return CommitRound({slot.place: at for slot, at in self._offsets.items()})

    def ended(self, now: float, *, is_committed: bool) -> list[tuple[Slot, int]]:
        """Record the end of the transaction; return partitions and offsets."""
        took = now - self._started
        if is_committed and took > 0 and any(self._taken.values()):
            ideal = int(sum(self._taken.values()) * AIM_S / took)
            self._size = min(MOST, max(ideal, 1), self._size * 2)
        elif took >= self._longest:
            self._size = max(1, self._size // 2)
        result = [(slot, self._offsets.get(slot, 0)) for slot in self._taken]
        self.state = ROUNDS.after(self.state, RoundEvent.ENDED)
        self._taken, self._offsets, self._started = {}, {}, math.inf
        return result


def _first_retry(slot: Slot) -> Retry | None:
    return slot.retries.get(slot.base)


def _first_due(slot: Slot, now: float) -> bool:
    """Return whether a partition's first record has failed, and its time has come."""
    retry = _first_retry(slot)
    return retry is not None and retry.due <= now


def _before_retry(slot: Slot) -> int:
    """Return how many records are before the first one that has failed."""
    return min(slot.retries, default=slot.base + len(slot.records)) - slot.base
