"""The chunks that workers have."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from kafkaguard._processing.events import HandlerSlowEvent

if TYPE_CHECKING:
    from collections.abc import Collection

    from kafkaguard._processing.run import Run
    from kafkaguard._processing.slots import Slot
    from kafkaguard._processing.work import Chunk

#: After so many seconds a chunk ends at its next record, so that what is done counts.
LONGEST_CHUNK_S: Final = 0.1


class Running:
    """The chunks that workers have; what others see of them.

    Args:
        run: The run.

    Attributes:
        chunks: The chunks.
    """

    def __init__(self, run: Run) -> None:
        self._run = run
        self.chunks: set[Chunk] = set()

    def add(self, chunk: Chunk) -> None:
        """Record that a worker has a chunk."""
        chunk.slot.running += 1
        self.chunks.add(chunk)

    def remove(self, chunk: Chunk) -> None:
        """Record that it came back."""
        self.chunks.discard(chunk)
        chunk.slot.running -= 1

    def stop(self, slots: Collection[Slot]) -> None:
        """Let the chunks of some partitions end before their next record."""
        for chunk in self.chunks:
            if chunk.slot in slots:
                chunk.stop()

    def last_begun(self, slots: Collection[Slot]) -> dict[Slot, int]:
        """Return the number of the last record of each that has begun; -1: none has."""
        begun = dict.fromkeys(slots, -1)
        for chunk in self.chunks:
            if chunk.slot in begun:
                last = chunk.seqs[-1 if self._run.batch else chunk.at]
                begun[chunk.slot] = max(begun[chunk.slot], last)
        return begun

    def count_early(self, chunk: Chunk) -> None:
        """Count the records of a chunk that the worker is done with."""
        run = self._run
        if run.batch is None and run.rounds is None and not chunk.slot.is_gone:
            count = chunk.at
            run.mark_done(chunk.slot, chunk.seqs[chunk.counted : count])
            chunk.counted = max(count, chunk.counted)

    def watch(self, now: float) -> None:
        """End chunks that take long; tell of handlers that run over their time."""
        for chunk in self.chunks:
            at = chunk.at
            if at != chunk.seen_at:
                chunk.seen_at, chunk.since = at, now
                chunk.is_told = False
            if now - chunk.started > LONGEST_CHUNK_S:
                if not chunk.stops:
                    chunk.stop()
                self.count_early(chunk)  # its handler may hang: what is done counts
                if self._run.rounds is None and not chunk.slot.is_gone:
                    chunk.slot.advance()
            self._tell_if_slow(chunk, now)

    def _tell_if_slow(self, chunk: Chunk, now: float) -> None:
        running, limit = now - chunk.since, self._run.settings.timeout
        if limit is not None and running > limit and not chunk.is_told:
            chunk.is_told = True
            slot, seq = chunk.slot, chunk.seqs[chunk.at]
            if not slot.is_gone:
                about = self._run.about(slot, seq, None)
                self._run.tell(HandlerSlowEvent(**about, running=running))
