"""Which partitions the member has: assignments, revocations, lost partitions."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kafkaguard._processing.lanes import MOST
from kafkaguard._processing.slots import Slot, SlotEvent
from kafkaguard._processing.work import GiveUp

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Sequence

    from kafkaguard._cluster.reports import TopicPartition
    from kafkaguard._processing.committing import Commits
    from kafkaguard._processing.lanes import Lanes
    from kafkaguard._processing.outages import Outages
    from kafkaguard._processing.run import Run
    from kafkaguard._processing.running import Running


class _Drain:
    """Revoked partitions whose running records may end until a time."""

    def __init__(self, slots: list[Slot], until: float) -> None:
        self.slots = slots
        self.until = until


class Partitions:
    """Takes partitions in, and gives them up with what is done committed.

    Args:
        run: The run.
        running: The chunks that workers have.
        lanes: The lanes.
        outages: A dependency that is down.
        commits: The commits.
    """

    def __init__(
        self,
        run: Run,
        running: Running,
        lanes: Lanes,
        outages: Outages,
        commits: Commits,
    ) -> None:
        self._run = run
        self._running = running
        self._lanes = lanes
        self._outages = outages
        self._commits = commits
        self._drains: list[_Drain] = []
        #: What was handled of partitions that are gone: a prefix, and more beyond it.
        self._handled: dict[TopicPartition, tuple[int, frozenset[int]]] = {}

    def add(self, places: Iterable[TopicPartition]) -> None:
        """Record new partitions; those that were assigned already are kept."""
        slots = self._run.slots
        for place in places:
            if place not in slots:
                slots[place] = Slot(place, self._run.batch or MOST)

    def _known(self, places: Iterable[TopicPartition]) -> list[Slot]:
        slots = self._run.slots
        return [slots[place] for place in places if place in slots]

    def revoke(
        self, places: Iterable[TopicPartition], within: float, now: float
    ) -> None:
        """Record that partitions are revoked: what runs may end within seconds."""
        slots = self._known(places)
        within = min(within, self._run.settings.drain_timeout)
        for slot in slots:
            slot.happens(SlotEvent.REVOKED)
        self._drains.append(_Drain(slots, now + max(0.0, within)))
        self.close(slots)
        self._fail_round(slots)

    def lose(self, places: Iterable[TopicPartition]) -> None:
        """Record that others may own partitions by now: nothing is committed."""
        slots = self._known(places)
        self._running.stop(slots)
        self._fail_round(slots)
        for slot in slots:
            self._drop(slot, SlotEvent.LOST)

    def _fail_round(self, slots: list[Slot]) -> None:
        rounds = self._run.rounds
        if rounds is not None and rounds.involves(slots):
            rounds.fail()

    def close(self, slots: Collection[Slot]) -> None:
        """Let nothing begin that what was begun does not need to be committed."""
        self._running.stop(slots)
        for slot, last in self._running.last_begun(slots).items():
            slot.close(last)
            for lane in slot.lanes.values():
                self._lanes.make_ready(slot, lane)

    def _drop(self, slot: Slot, event: SlotEvent) -> None:
        slot.happens(event)
        self._handled[slot.place] = slot.handled(self._run.offset_of)
        del self._run.slots[slot.place]
        self._outages.forget(slot)

    @property
    def is_draining(self) -> bool:
        """Whether revoked partitions are not given up yet."""
        return bool(self._drains)

    def due(self) -> list[float]:
        """Return when revoked partitions are given up at the latest."""
        return [drain.until for drain in self._drains]

    def end_drains(self, now: float) -> None:
        """Give up the revoked partitions that are done, or whose time is over."""
        rounds = self._run.rounds
        for drain in list(self._drains):
            slots = [slot for slot in drain.slots if not slot.is_gone]
            is_busy = any(
                slot.running or slot.letters or slot.has_holes for slot in slots
            )
            if rounds is not None:
                is_busy = rounds.involves(slots)
            if is_busy and now < drain.until:
                continue
            self._drains.remove(drain)
            for chunk in self._running.chunks:
                if chunk.slot in slots:
                    self._running.count_early(chunk)
            for slot in slots:
                slot.advance()
            if rounds is None:
                self._commits.commit(slots)
            else:
                rounds.leave(slots)
            for slot in slots:
                self._drop(slot, SlotEvent.GIVEN_UP)
            self._give_up(drain)

    def end(self) -> None:
        """Give up all revoked partitions: the run has ended."""
        for drain in self._drains:
            self._give_up(drain)
        self._drains.clear()

    def _give_up(self, drain: _Drain) -> None:
        self._run.commands.append(GiveUp([slot.place for slot in drain.slots]))

    def count_redelivered(self, slot: Slot, records: Sequence[Any]) -> None:
        """Count the records that this process has handled before."""
        before = self._handled.get(slot.place)
        if before is None:
            return
        end, beyond = before
        offset_of = self._run.offset_of
        last = offset_of(records[-1])
        if last >= end and not any(offset > last for offset in beyond):
            del self._handled[slot.place]
        count = sum(
            offset < end or offset in beyond for offset in map(offset_of, records)
        )
        if count:
            self._run.counts.add(slot.place.topic, "redelivered", count)
