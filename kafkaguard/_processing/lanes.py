"""Which records may begin: lanes, and the chunks that workers take from them."""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Any, Final

from kafkaguard._processing.slots import Lane, insert
from kafkaguard._processing.work import Chunk

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kafkaguard._processing.policy import Order
    from kafkaguard._processing.run import Run
    from kafkaguard._processing.slots import Slot

#: About how many seconds a chunk takes, and the most records in it.
CHUNK_S: Final = 0.01
MOST: Final = 500
#: The weight of the last chunk in the average time of a record.
_WEIGHT: Final = 0.3


class Lanes:
    """The lanes of all partitions, in the order in which workers take from them.

    Args:
        run: The run.
        order: Which records are handled one after the other.
        workers: How many chunks run at a time.

    Attributes:
        is_ordered: Whether a lane waits for each of its records.
    """

    def __init__(self, run: Run, order: Order, workers: int) -> None:
        self._run = run
        self._by_key = order == "key"
        self.is_ordered = order != "none"
        self._workers = workers
        self._turns: deque[Slot] = deque()
        self._record_s = 0.0

    # --- records come in --------------------------------------------------------------

    def fill(self, slot: Slot, until: int) -> None:
        """Put records into lanes, up to an index in the slot."""
        begin, slot.filled = slot.filled, until
        first, last = slot.base + begin, slot.base + until
        if self._by_key:
            self._fill_by_key(slot, range(first, last), slot.records[begin:until])
            return
        lane = slot.lanes.get(None)
        if lane is None:
            lane = slot.lanes[None] = Lane(None)
        lane.queue += range(first, last)
        if lane.waiting:
            slot.parked += last - first
        self.make_ready(slot, lane)

    def _fill_by_key(self, slot: Slot, seqs: range, records: list[Any]) -> None:
        if len(slot.lanes) > self._run.settings.max_in_flight:
            slot.forget_lanes()
        lanes, ready, key_of = slot.lanes, slot.ready, self._run.key_of
        for seq, record in zip(seqs, records, strict=True):
            key: Any = key_of(record)
            lane = lanes.get(key)
            if lane is None:
                if key is None:  # it has no order
                    key = seq
                lane = lanes[key] = Lane(key)
            lane.queue.append(seq)
            if not lane.is_ready:
                if lane.waiting:
                    slot.parked += 1
                elif not lane.is_busy:
                    lane.is_ready = True
                    ready.append(lane)
        if ready:
            self._queue(slot)

    def make_ready(self, slot: Slot, lane: Lane) -> None:
        """Let workers take from a lane if it has something and waits for nothing."""
        if (
            lane.is_ready
            or not lane.queue
            or (self.is_ordered and (lane.is_busy or lane.waiting))
        ):
            return
        lane.is_ready = True
        slot.ready.append(lane)
        self._queue(slot)

    def _queue(self, slot: Slot) -> None:
        if not slot.is_in_turn:
            slot.is_in_turn = True
            self._turns.append(slot)

    # --- workers take -----------------------------------------------------------------

    def take(self, now: float, *, only_one: bool) -> Chunk | None:
        """Return the next chunk, or one record; None: no lane is ready."""
        turns = self._turns
        while turns:
            slot = turns.popleft()
            slot.is_in_turn = False
            if slot.is_gone or not slot.ready:
                continue
            chunk = self._take_from(slot, 1 if only_one else self._size(slot), now)
            if slot.ready:
                self._queue(slot)
            if chunk is not None:
                return chunk
        return None

    def learn(self, seconds: float) -> None:
        """Record how long a record took in the last chunk."""
        self._record_s += (seconds - self._record_s) * _WEIGHT

    def _size(self, slot: Slot) -> int:
        """Return how many records a chunk has: what takes about ``CHUNK_S``."""
        if self._run.batch is not None:
            return slot.cap
        size = MOST
        if self._record_s * MOST > CHUNK_S:
            size = max(1, int(CHUNK_S / self._record_s))
        if self._workers > 1:
            size = min(size, 1 + slot.undone // self._workers)
        return size

    def _take_from(self, slot: Slot, size: int, now: float) -> Chunk | None:
        if slot.limit is not None:
            self._drop_beyond(slot, slot.limit)
            if not slot.ready:
                return None
            size = 1
        ready = slot.ready
        lane = ready.popleft()
        lane.is_ready = False
        seqs = lane.queue[:size]
        del lane.queue[:size]
        lanes = [lane]
        if not self.is_ordered:
            self.make_ready(slot, lane)
        elif self._by_key:
            lane.is_busy = True
            while ready and len(seqs) < size:
                lane = ready.popleft()
                lane.is_ready = False
                lane.is_busy = True
                room = size - len(seqs)
                seqs += lane.queue[:room]
                del lane.queue[:room]
                lanes.append(lane)
            if len(lanes) > 1:
                seqs.sort()
        else:
            lane.is_busy = True
        return Chunk(slot, seqs, slot.take(seqs), lanes, now)

    def _drop_beyond(self, slot: Slot, limit: int) -> None:
        """Leave out the lanes whose next record may not begin."""
        for lane in slot.ready:
            lane.is_ready = lane.queue[0] <= limit
        slot.ready = deque(lane for lane in slot.ready if lane.is_ready)

    # --- workers are done -------------------------------------------------------------

    def lane_of(self, chunk: Chunk, seq: int) -> Lane:
        """Return the lane of a record of a chunk."""
        if len(chunk.lanes) == 1:
            return chunk.lanes[0]
        slot = chunk.slot
        key = self._run.key_of(slot.record(seq))
        return slot.lanes[seq if key is None else key]

    def put_back(self, chunk: Chunk, seqs: Sequence[int]) -> None:
        """Put records of a chunk back that were not handled."""
        if len(chunk.lanes) == 1:
            insert(chunk.lanes[0].queue, seqs)
            return
        for seq in seqs:
            insert(self.lane_of(chunk, seq).queue, [seq])

    def put_back_failed(self, slot: Slot, lane: Lane, seq: int) -> None:
        """Put a record back that is handled again."""
        insert(lane.queue, [seq])
        if lane.waiting:
            slot.parked += 1

    def release(self, chunk: Chunk, *, first: Lane | None) -> None:
        """Free the lanes that a worker had.

        Args:
            chunk: What it had.
            first: The lane from which the next worker takes, before all others.
        """
        slot = chunk.slot
        for lane in chunk.lanes:
            lane.is_busy = False
            if lane.queue:
                self.make_ready(slot, lane)
        if first is not None and first.is_ready:
            slot.ready.remove(first)
            slot.ready.appendleft(first)
            self._turns.remove(slot)
            self._turns.appendleft(slot)
