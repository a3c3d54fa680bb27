"""A dependency of the handler that is down: one record at a time tries it."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Literal

from kafkaguard._processing.events import DependencyEvent
from kafkaguard._processing.run import name_of
from kafkaguard._retries.backoff import draw_wait

if TYPE_CHECKING:
    from kafkaguard._cluster.reports import TopicPartition
    from kafkaguard._processing.judging import Judgement
    from kafkaguard._processing.run import Run
    from kafkaguard._processing.running import Running
    from kafkaguard._processing.slots import Slot
    from kafkaguard._processing.work import Chunk


class Outage:
    """A dependency is down.

    Attributes:
        since: When it was first down.
        tries: How often a record failed because of it.
        due: When the next record tries it.
        wait: The last wait.
        place: Where the first record stands: partition, offset, exception.
        probe: The chunk with the record that tries it now; None: none does.
    """

    def __init__(self, since: float, place: tuple[TopicPartition, int, str]) -> None:
        self.since = since
        self.tries = 0
        self.due = since
        self.wait = 0.0
        self.place = place
        self.probe: Chunk | None = None


class Outages:
    """Stops all work while a dependency is down.

    Args:
        run: The run.
        running: The chunks that workers have.

    Attributes:
        current: The outage; None: there is none.
    """

    def __init__(self, run: Run, running: Running) -> None:
        self._run = run
        self._running = running
        self.current: Outage | None = None

    @property
    def is_down(self) -> bool:
        """Whether a dependency is down."""
        return self.current is not None

    def may_take(self, now: float) -> bool:
        """Return whether a worker may have a record."""
        outage = self.current
        return outage is None or (outage.probe is None and now >= outage.due)

    def due(self) -> float:
        """Return when a record may try the dependency."""
        outage = self.current
        return math.inf if outage is None or outage.probe else outage.due

    def failed(
        self,
        slot: Slot,
        seq: int,
        error: BaseException,
        judgement: Judgement,
        now: float,
    ) -> bool:
        """Record that a record has failed because of a dependency.

        Returns:
            Whether this record tries it next: it is the first one, or has tried it.
        """
        outage = self.current
        if outage is None:
            offset = self._run.offset_of(slot.record(seq))
            outage = self.current = Outage(now, (slot.place, offset, name_of(error)))
            self._tell(outage, "down", now)
            self._running.stop(self._run.slots.values())
        elif outage.tries and now < outage.due:
            return False  # it began before the first failure
        outage.tries += 1
        wait = judgement.after
        if wait is None:
            backoff = judgement.ruling.backoff
            wait = draw_wait(backoff, outage.tries, outage.wait, self._run.random)
        outage.wait = max(0.0, wait)
        outage.due = now + outage.wait
        return True

    def probed(self, now: float, *, is_up: bool) -> None:
        """Record that the record that tried the dependency has come back."""
        outage = self.current
        assert outage is not None
        outage.probe = None
        if is_up:
            self._tell(outage, "back", now)
            self.current = None

    def forget(self, slot: Slot) -> None:
        """Let another record try, if the one that does is of a partition that goes."""
        outage = self.current
        if outage is not None and outage.probe and outage.probe.slot is slot:
            outage.probe = None

    def _tell(self, outage: Outage, state: Literal["down", "back"], now: float) -> None:
        place, offset, error = outage.place
        about = self._run.event(place, offset, error, 0)
        waited = now - outage.since
        self._run.tell(DependencyEvent(**about, state=state, waited=waited))
