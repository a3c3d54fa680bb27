"""Whether the driver reads, and which partitions are paused."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Final

from kafkaguard._processing.slots import SlotEvent, SlotState
from kafkaguard._processing.work import Pause, Resume

if TYPE_CHECKING:
    from kafkaguard._cluster.reports import TopicPartition
    from kafkaguard._processing.run import Run

#: How long reading stops before the partitions are paused: that drops fetched records.
PATIENCE_S: Final = 5.0


class Intake:
    """Bounds what is in memory.

    Args:
        run: The run.

    Attributes:
        is_open: Whether the driver reads at full speed.
    """

    def __init__(self, run: Run) -> None:
        self._run = run
        self.is_open = True
        self._closed_since = math.inf
        self._has_paused = False

    @property
    def may_open(self) -> bool:
        """Whether less in memory may change something."""
        return self._has_paused or not self.is_open

    def live(self) -> int:
        """Return how many records are in memory, not done and not parked."""
        return sum(slot.undone - slot.parked for slot in self._run.slots.values())

    def update(self, now: float, *, is_down: bool) -> None:
        """Stop or start reading; pause what has too much behind a waiting record.

        Args:
            now: The time.
            is_down: Whether a dependency is.
        """
        run, most = self._run, self._run.settings.max_in_flight
        live = excess = 0
        for slot in run.slots.values():
            beyond = slot.parked - slot.undone
            live -= beyond
            excess += len(slot.records) + beyond
        # Without a record there is nothing to try a dependency with.
        is_open = (
            run.is_running
            and not (is_down and (live or excess))
            and (live < most if self.is_open else live <= most // 2)
        )
        if is_open != self.is_open:
            self.is_open = is_open
            self._closed_since = math.inf if is_open else now
        pauses_all = not is_open and (
            now - self._closed_since >= PATIENCE_S or not run.is_running
        )
        if pauses_all or self._has_paused or excess >= most:
            self._update_pauses(most, excess, pauses_all=pauses_all)

    def _update_pauses(self, most: int, excess: int, *, pauses_all: bool) -> None:
        slots = [slot for slot in self._run.slots.values() if slot.is_open]
        share = max(1, most // max(1, len(slots)))
        paused: list[TopicPartition] = []
        resumed: list[TopicPartition] = []
        self._has_paused = False
        for slot in slots:
            is_paused = slot.state is SlotState.PAUSED
            if pauses_all:
                must = True
            elif is_paused:
                must = excess * 2 > most and slot.excess * 2 > share
            else:
                must = excess >= most and slot.excess >= share
            self._has_paused |= must
            if must != is_paused:
                slot.happens(SlotEvent.PAUSE if must else SlotEvent.RESUME)
                (paused if must else resumed).append(slot.place)
        if paused:
            self._run.commands.append(Pause(paused))
        if resumed:
            self._run.commands.append(Resume(resumed))
