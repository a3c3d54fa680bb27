"""Records whose handler has raised, and that wait for their next attempt."""

from __future__ import annotations

import math
from heapq import heappop, heappush
from typing import TYPE_CHECKING

from kafkaguard._processing.events import HandlerFailedEvent
from kafkaguard._processing.slots import Retry
from kafkaguard._retries.machine import Machine

if TYPE_CHECKING:
    from kafkaguard._processing.judging import Judgement
    from kafkaguard._processing.lanes import Lanes
    from kafkaguard._processing.run import Run
    from kafkaguard._processing.slots import Lane, Slot


class Retries:
    """Further attempts. In rounds, the plan of the next round looks for them.

    Args:
        run: The run.
        lanes: The lanes, which wait for them.
    """

    def __init__(self, run: Run, lanes: Lanes) -> None:
        self._run = run
        self._lanes = lanes
        self._heap: list[Retry] = []

    @property
    def due(self) -> float:
        """When the next record is handled again."""
        return self._heap[0].due if self._heap else math.inf

    def plan(
        self,
        slot: Slot,
        seq: int,
        lane: Lane,
        error: BaseException,
        judgement: Judgement,
        now: float,
    ) -> bool:
        """Plan the next attempt of a record; return whether there is one."""
        run = self._run
        retry = slot.retries.get(seq)
        if retry is None:
            machine = Machine(now, run.random, repeatable=True)
            retry = slot.retries[seq] = Retry(slot, seq, lane, machine)
        retry.error, retry.lane = error, lane
        step = retry.machine.failed(judgement.verdict, judgement.ruling, now)
        if step.kind != "again":
            return False
        retry.due = now + step.wait
        if run.rounds is None:
            retry.is_waiting = True
            if self._lanes.is_ordered:
                if not lane.waiting:
                    slot.parked += len(lane.queue)
                lane.waiting += 1
            heappush(self._heap, retry)
        run.counts.add(slot.place.topic, "retried")
        run.tell(HandlerFailedEvent(**run.about(slot, seq, error), wait=step.wait))
        return True

    def free(self, now: float) -> None:
        """Put records whose time has come back into their lanes."""
        while self._heap and self._heap[0].due <= now:
            retry = heappop(self._heap)
            slot, lane = retry.slot, retry.lane
            if not (slot.is_open and retry.is_waiting):
                continue
            retry.is_waiting = False
            if self._lanes.is_ordered:
                lane.waiting -= 1
                if not lane.waiting:
                    slot.parked -= len(lane.queue)
            self._lanes.put_back_failed(slot, lane, retry.seq)
            self._lanes.make_ready(slot, lane)
