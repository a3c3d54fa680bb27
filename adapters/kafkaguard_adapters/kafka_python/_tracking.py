"""Which records are on their way, batch by batch.

One callback a batch, none a record: what happened to a record follows from its batch,
which the client itself keeps a list of. The sequence of events of a batch::

    [the client makes a batch] begin() -> [the client's thread] settle() -> on_failure()

It is followed from the moment in which the client makes it, before it can be sent.
"""

from __future__ import annotations

import itertools
import logging
import threading
import time
import weakref
from collections import defaultdict
from functools import partial
from typing import TYPE_CHECKING, Any

from kafkaguard_adapters.kafka_python._fate import Fate, fate_of
from kafkaguard_adapters.kafka_python._private import moving, reading

if TYPE_CHECKING:
    from collections.abc import Callable

    from kafkaguard._delivery.report import Ledger
    from kafkaguard_adapters.kafka_python._future import Hook

_log = logging.getLogger("kafkaguard.producer")


class TrackedBatch:
    """One batch of one producer; or a record that never came into a batch.

    Args:
        producer: The client's producer that holds it; None for a record alone.
        source: The client's batch; None for a record alone.
        result: The client's future of the whole batch.
        inners: The client's futures of its records; that list may still grow.
        position: Its place in the order in which records came into its partition: a
            number that grows with each producer that replaces another, one that grows
            with each batch, and for a part of a batch that was split its first index.
        due: When its records must have their outcome, in monotonic seconds.

    Attributes:
        settled: How many of its records are settled.
        accepted: The broker took it.
        held: Some of its records wait to be sent again.
        resolved: Nothing is left to do about it.
    """

    __slots__ = (
        "accepted",
        "due",
        "held",
        "inners",
        "position",
        "producer",
        "resolved",
        "result",
        "settled",
        "source",
    )

    def __init__(
        self,
        producer: Any,
        source: Any,
        result: Any,
        inners: list[Any],
        position: tuple[int, ...],
        due: float,
    ) -> None:
        self.producer = producer
        self.source = source
        self.result = result
        self.inners = inners
        self.position = position
        self.due = due
        self.settled = 0
        self.accepted = self.held = self.resolved = False

    @property
    def topic_partition(self) -> Any:
        """Where its records go."""
        return self.result.topic_partition

    @property
    def count(self) -> int:
        """How many records it has."""
        return len(self.inners)

    @property
    def unsettled(self) -> int:
        """How many of its records are not settled."""
        return len(self.inners) - self.settled

    def take_unsettled(self) -> list[Any]:
        """Hand over the client's futures that were not settled yet, each once."""
        fresh = self.inners[self.settled :]
        self.settled += len(fresh)
        return fresh

    def is_part_of(self, other: TrackedBatch) -> bool:
        """Tell whether it is another batch, or was made of its records."""
        return (
            self.topic_partition == other.topic_partition
            and self.position[: len(other.position)] == other.position
        )

    def keys(self) -> set[bytes | None] | None:
        """The keys in this batch; None if they cannot be told."""
        records = reading.records_of(self.source)
        return None if records is None else {record.key for record in records}


class Tracker:
    """All batches on their way, and what is done when one of them fails.

    Args:
        ledger: Counts the outcomes.
        on_failure: Decides about the records of a failed batch, under this tracker's
            lock; returns those whose callbacks are due.
        on_begun: Told of each batch that is followed.
        on_done: Told of each batch that is done, under this tracker's lock.
        on_settled: Called after a failure was decided about, without any lock.
        patience: Seconds from a batch's first record until it must have its outcome.
    """

    def __init__(
        self,
        ledger: Ledger,
        on_failure: Callable[[TrackedBatch, list[Fate]], list[Fate]],
        on_begun: Callable[[], None],
        on_done: Callable[[], None],
        on_settled: Callable[[], None],
        patience: float,
    ) -> None:
        self.ledger = ledger
        #: By the client's future of the batch. Written without the lock.
        self.open: dict[Any, TrackedBatch] = {}
        self._on_failure = on_failure
        self._on_begun = on_begun
        self._on_done = on_done
        self._on_settled = on_settled
        self._patience = patience
        #: How often the producer was replaced.
        self._generation = -1
        self._numbers = itertools.count()
        #: By the client's future: records sent again, and callbacks.
        self._rescued: dict[Any, Fate] = {}
        self._hooked: dict[Any, list[Hook]] = {}
        self._lines: dict[Any, list[TrackedBatch]] = defaultdict(list)
        self._ends: dict[Any, tuple[Any, int]] = {}
        self._lock = threading.RLock()

    def attach(self, producer: Any) -> None:
        """Follow every batch that a producer makes from now on.

        Of one that it holds already, the records that come into it from now on.
        """
        self._generation += 1
        generation = self._generation
        # The client's thread must keep neither alive, or none is ever closed by GC.
        me, its = weakref.ref(self), weakref.ref(producer)

        def begin(source: Any) -> None:
            tracker, client = me(), its()
            if tracker is not None and client is not None:
                tracker._begin(client, generation, source)  # noqa: SLF001 - it is this one

        moving.tell_of_batches(producer, begin)
        for source in reading.unfinished(producer):
            if source.produce_future not in self.open:
                there = len(reading.records_in(source))
                self._begin(producer, generation, source, settled=there)

    def _begin(
        self, producer: Any, generation: int, source: Any, settled: int = 0
    ) -> None:
        """Follow a batch. The client waits for this, and holds a lock of its own.

        So no lock may be taken here under which anybody hands over a record; and a
        fault of ours must not fail the send.
        """
        try:
            result = source.produce_future
            inners = reading.records_in(source)
            position = (
                self._position_of_part(source.topic_partition, inners[0])
                if reading.is_part(source)
                else (generation, next(self._numbers))
            )
            due = source.created + self._patience
            batch = TrackedBatch(producer, source, result, inners, position, due)
            batch.settled = settled
            self.open[result] = batch
            self._lines[source.topic_partition].append(batch)
            # A batch never fails as a whole: its value tells about each record.
            result.add_callback(partial(self._completed, batch))
            self._on_begun()
        except Exception:  # noqa: BLE001 - see above
            _log.exception("a batch could not be followed; it is sent all the same")

    def _position_of_part(self, topic_partition: Any, first: Any) -> tuple[int, ...]:
        """Return the position of a batch that is a part of one that was too large.

        Args:
            topic_partition: Where it goes.
            first: The client's future of its first record.
        """
        line = list(self._lines[topic_partition])
        found = (batch for batch in line if first in batch.inners)
        split = max(found, key=lambda batch: len(batch.position))
        return *split.position, split.inners.index(first)

    def confirm(self, fate: Fate, inner: Any) -> None:
        """Take note that a record was written, although its batch was given up.

        Args:
            fate: The record's.
            inner: A future of the client's that says where.
        """
        fate.follow(inner)
        self.ledger.delivered(1)
        fate.hand_over_hooks()

    def go_on(
        self, fate: Fate, send: Callable[[], Any], *, due: float = float("inf")
    ) -> None:
        """Send a record again and follow it.

        Args:
            fate: The record's.
            send: Sends it, without waiting, and returns the client's new future.
            due: When it must have its outcome, in monotonic seconds.
        """
        self.hand_over(fate, send, due=due)
        fate.hand_over_hooks()

    def hand_over(
        self, fate: Fate, send: Callable[[], Any], *, due: float = float("inf")
    ) -> Any:
        """Send a record whose fate is known before.

        Returns:
            The client's future.
        """
        with self._lock:  # lest the new batch is settled before the record is known
            inner = send()
            self._rescued.pop(fate.inner, None)
            fate.follow(inner)
            self._rescued[inner] = fate
            batch = self.open.get(reading.result_of(inner))
            if batch is not None:
                batch.due = min(batch.due, due)
        return inner

    def watch(self, hook: Hook, inner: Any) -> None:
        """Have a callback run, should its record fail for good."""
        with self._lock:
            fate = fate_of(inner)
            if fate is not None:
                fate.hooked.append(hook)
            elif reading.result_of(inner) in self.open:
                self._hooked.setdefault(inner, []).append(hook)

    def settle(self, batch: TrackedBatch) -> None:
        """Take note of a batch that is done."""
        with self._lock:
            self.open.pop(batch.result, None)
            self._on_done()
            due = self._take_note(batch)
            self._shorten(batch.topic_partition)
        self._tell(batch.accepted, due)

    def settle_failed(self, inner: Any) -> None:
        """Settle what a failed record belongs to, at once."""
        batch = self.open.get(reading.result_of(inner))
        if batch is not None and batch.result.is_done:
            self.settle(batch)
            return
        with self._lock:
            due = self._settle_alone(inner)
        self._tell(False, due)

    def _tell(self, accepted: bool, due: list[Fate]) -> None:
        if not accepted:
            self._on_settled()
        for fate in due:
            fate.fire()

    def resolve(self, batch: TrackedBatch) -> None:
        """Note that nothing is left to do about a batch."""
        with self._lock:
            batch.resolved = True
            self._shorten(batch.topic_partition)

    def batches(self, producer: Any = None) -> list[TrackedBatch]:
        """List the batches on their way, of one producer or of all."""
        with self._lock:
            for batch in list(self.open.values()):
                self._drop_if_split(batch)
            found = list(self.open.values())
        return [b for b in found if producer is None or b.producer is producer]

    def later(self, batch: TrackedBatch) -> list[TrackedBatch]:
        """List the batches of the same partition that come after this one."""
        with self._lock:
            for each in list(self._lines[batch.topic_partition]):
                self._drop_if_split(each)
            line = list(self._lines[batch.topic_partition])
        return [b for b in line if b.position > batch.position]

    def end_before(self, batch: TrackedBatch) -> int | None:
        """Return the offset after which an idempotent producer's batch was due.

        Returns:
            The last offset of its predecessor, -1 without one; None: not known.
        """
        number = reading.numbered(batch.source)
        if number is None:
            return None
        if number[-1] == 0:
            return -1
        follower, end = self._ends.get(batch.topic_partition, (None, -1))
        return end if follower == number else None

    def pending(self) -> int:
        """Count the records on their way."""
        return sum(b.unsettled for b in self.batches())

    def wait(self, batches: list[TrackedBatch], deadline: float) -> bool:
        """Wait for the outcome of batches, and of the parts of those that are split.

        Args:
            batches: Which.
            deadline: When to end, in monotonic seconds.

        Returns:
            Whether all have one.
        """
        while batches:
            for batch in batches:
                batch.result.wait(max(0.0, deadline - time.monotonic()))
            self.settle_done()
            left = [batch for batch in batches if not batch.result.is_done]
            if left and time.monotonic() >= deadline:
                return False
            batches = [b for b in self.batches() if any(map(b.is_part_of, left))]
        return True

    def settle_done(self) -> None:
        """Settle what is done, without waiting for the client's callbacks."""
        for batch in self.batches():
            if batch.result.is_done:
                self.settle(batch)

    def _completed(self, batch: TrackedBatch, _: Any) -> None:
        self.settle(batch)

    def _take_note(self, batch: TrackedBatch) -> list[Fate]:
        fresh = batch.take_unsettled()
        if batch.result.value[2] is not None:
            fates = [self._fate(inner) for inner in fresh]
            return self._on_failure(batch, fates) if fates else []
        batch.accepted = batch.resolved = True
        follower, size = reading.follower(batch.source)
        if follower is not None:
            end = batch.result.value[0] + size - 1
            self._ends[batch.topic_partition] = follower, end
        self.ledger.delivered(len(fresh) - self._forget(fresh))
        return []

    def _fate(self, inner: Any) -> Fate:
        """Begin to decide about a record that has failed."""
        fate = self._rescued.pop(inner, None) or Fate(inner, self.ledger)
        fate.hold()
        fate.hooked += self._hooked.pop(inner, ())
        moving.attach(inner, fate)
        return fate

    def _forget(self, delivered: list[Any]) -> int:
        """Drop what was only there in case that these records fail.

        Returns:
            How many of them are dead letters, which are in no report.
        """
        letters = 0
        if self._rescued:
            fates = [self._rescued.pop(inner, None) for inner in delivered]
            letters = sum(fate is not None and fate.is_letter for fate in fates)
        if self._hooked:
            for inner in delivered:
                self._hooked.pop(inner, None)
        return letters

    def _settle_alone(self, inner: Any) -> list[Fate]:
        """Settle a record that no batch holds: the client failed it at once."""
        if fate_of(inner) is not None or not inner.failed():
            return []
        result = reading.result_of(inner)
        batch = TrackedBatch(None, None, result, [inner], (), float("inf"))
        return self._on_failure(batch, [self._fate(i) for i in batch.take_unsettled()])

    def _shorten(self, topic_partition: Any) -> None:
        line = self._lines[topic_partition]
        while line and (line[0].resolved or self._drop_if_split(line[0])):
            del line[0]

    def _drop_if_split(self, batch: TrackedBatch) -> bool:
        """Drop a batch that was too large and split, once its parts are followed."""
        if not reading.is_split(batch.result):
            return False
        results = {reading.result_of(inner) for inner in batch.inners}
        parts = [part for result in results if (part := self.open.get(result))]
        if batch in parts or any(
            not result.is_done for result in results if result not in self.open
        ):
            return False
        for part in parts:
            part.due = min(part.due, batch.due)
        batch.resolved = True
        self.open.pop(batch.result, None)
        return True
