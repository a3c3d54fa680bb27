"""Which records are on their way, batch by batch.

One callback a batch, none a record: what happened to a record follows from its batch.
The sequence of events of a batch::

    send() -> track() -> [the client's thread] completed() -> settle() -> on_failure()

``send()`` may add a future to a batch that is being settled; it looks afterwards and
settles it once more, so none is missed and none counts twice.
"""

from __future__ import annotations

import itertools
import threading
import time
from collections import defaultdict
from functools import partial
from typing import TYPE_CHECKING, Any

from kafkaguard_adapters.kafka_python import _insides

if TYPE_CHECKING:
    from collections.abc import Callable

    from kafkaguard._delivery import Ledger
    from kafkaguard_adapters.kafka_python._future import GuardedFuture


class TrackedBatch:
    """The futures of one batch of one producer.

    Args:
        number: Grows with each batch that is followed.
        generation: Grows with each producer that replaces another.
        producer: The client's producer that holds it; None for a record that never
            came into a batch.
        result: The client's future of the whole batch.

    Attributes:
        source: The client's batch; None if it was done before it could be found.
        created: When its first record came, in monotonic seconds.
        due: When its records must have their outcome, in monotonic seconds.
        rank: Its place among the batches that its dead producer had not sent.
        futures: The guarded futures of its records.
        settled: How many of them are settled.
        accepted: The broker took it.
        held: Some of its records wait to be sent again.
        resolved: Nothing is left to do about it.
    """

    __slots__ = (
        "accepted",
        "created",
        "due",
        "futures",
        "generation",
        "held",
        "number",
        "producer",
        "rank",
        "resolved",
        "result",
        "settled",
        "source",
    )

    def __init__(
        self, number: int, producer: Any, result: Any, *, generation: int = 0
    ) -> None:
        self.number = number
        self.generation = generation
        self.producer = producer
        self.result = result
        self.source = _insides.batch_of(producer, result) if producer else None
        self.created: float = (
            self.source.created if self.source is not None else time.monotonic()
        )
        self.due = float("inf")
        self.rank = 0
        self.futures: list[GuardedFuture] = []
        self.settled = 0
        self.accepted = False
        self.held = False
        self.resolved = False

    @property
    def topic_partition(self) -> Any:
        """Where its records go."""
        return self.result.topic_partition

    @property
    def position(self) -> tuple[int, float, int]:
        """Its place in the order in which records come into its partition."""
        source = self.source
        sent = self.created if source is None else source.drained
        return self.generation, float("inf") if sent is None else sent, self.rank

    def take_unsettled(self) -> list[GuardedFuture]:
        """Hand over the futures that were not settled yet, each once."""
        fresh = self.futures[self.settled :]
        self.settled += len(fresh)
        return fresh

    def keys(self) -> set[bytes | None] | None:
        """The keys in this batch; None if they cannot be told."""
        records = _insides.records_of(self.source)
        return None if records is None else {record.key for record in records}


class Tracker:
    """All batches on their way, and what is done when one of them fails.

    Args:
        ledger: Counts the outcomes.
        on_failure: Decides about the futures of a failed batch, under this tracker's
            lock; returns those whose callbacks are due.
        on_begun: Told of each batch that is followed.
        on_settled: Called after a failure was decided about, without any lock.
        patience: Seconds from a batch's first record until it must have its outcome.
    """

    def __init__(
        self,
        ledger: Ledger,
        on_failure: Callable[[TrackedBatch, list[GuardedFuture]], list[GuardedFuture]],
        on_begun: Callable[[], None],
        on_settled: Callable[[], None],
        patience: float,
    ) -> None:
        self.ledger = ledger
        #: How often the producer was replaced.
        self.generation = 0
        #: By the client's future of the batch. Read without the lock on the hot path.
        self.open: dict[Any, TrackedBatch] = {}
        self._on_failure = on_failure
        self._on_begun = on_begun
        self._on_settled = on_settled
        self._patience = patience
        self._lines: dict[Any, list[TrackedBatch]] = defaultdict(list)
        self._ends: dict[Any, tuple[Any, int]] = {}
        self._numbers = itertools.count()
        self._lock = threading.RLock()

    def track(
        self, producer: Any, result: Any, *, due: float = float("inf")
    ) -> TrackedBatch:
        """Begin to follow a batch, or return the one that is followed already.

        Args:
            producer: The client's producer.
            result: The client's future of the batch.
            due: When a record in it must have its outcome, in monotonic seconds, if
                it was sent once before.
        """
        with self._lock:
            line = self._lines[result.topic_partition]
            for known in line:
                if known.result is result:
                    known.due = min(known.due, due)
                    return known
            split = bool(line) and _insides.is_split(line[0].result)
            batch = TrackedBatch(
                next(self._numbers), producer, result, generation=self.generation
            )
            batch.due = min(due, batch.created + self._patience)
            self.open[result] = batch
            _insert(line, batch)
        self._on_begun()
        # A client's batch never fails as a whole: its value tells about each record.
        result.add_callback(partial(self._completed, batch))
        if split:
            self._follow_splits()
        return batch

    def add(
        self, producer: Any, future: GuardedFuture, *, due: float = float("inf")
    ) -> None:
        """Follow a record whose batch may be done already."""
        self.put(self.track(producer, future.result, due=due), future)

    def put(self, batch: TrackedBatch, future: GuardedFuture) -> None:
        """Follow a record in a batch that is followed."""
        batch.futures.append(future)
        if batch.result.is_done:
            self.settle(batch)

    def forget(self, batch: TrackedBatch) -> None:
        """Do not follow a batch after all."""
        with self._lock:
            self.open.pop(batch.result, None)
            batch.resolved = True
            self._shorten(batch.topic_partition)

    def settle(self, batch: TrackedBatch) -> None:
        """Take note of a batch that is done."""
        with self._lock:
            self.open.pop(batch.result, None)
            due = self._take_note(batch)
            self._shorten(batch.topic_partition)
        self._tell(batch.accepted, due)

    def settle_future(self, future: GuardedFuture) -> None:
        """Settle what a failed future belongs to, at once."""
        self._follow_splits()
        batch = self.open.get(future.result)
        if batch is not None and batch.result.is_done:
            self.settle(batch)
            return
        with self._lock:
            due = self._settle_alone(future)
        self._tell(False, due)

    def _tell(self, accepted: bool, due: list[GuardedFuture]) -> None:
        if not accepted:
            self._on_settled()
        for future in due:
            future.fire()

    def resolve(self, batch: TrackedBatch) -> None:
        """Note that nothing is left to do about a refused batch."""
        with self._lock:
            batch.resolved = True
            self._shorten(batch.topic_partition)

    def batches(self, producer: Any = None) -> list[TrackedBatch]:
        """List the batches on their way, of one producer or of all."""
        self._follow_splits()
        with self._lock:
            found = list(self.open.values())
        return [b for b in found if producer is None or b.producer is producer]

    def later(self, batch: TrackedBatch) -> list[TrackedBatch]:
        """List the batches of the same partition that come after this one."""
        with self._lock:
            line = list(self._lines[batch.topic_partition])
        return [b for b in line if b.position > batch.position]

    def end_before(self, batch: TrackedBatch) -> int | None:
        """Return the offset after which an idempotent producer's batch was due.

        Returns:
            The last offset of its predecessor, -1 without one; None: not known.
        """
        number = _insides.numbered(batch.source)
        if number is None:
            return None
        if number[-1] == 0:
            return -1
        follower, end = self._ends.get(batch.topic_partition, (None, -1))
        return end if follower == number else None

    def rank(self, results: list[Any]) -> None:
        """Take note of the order of the batches that a dead producer has not sent."""
        for place, result in enumerate(results):
            batch = self.open.get(result)
            if batch is not None:
                batch.rank = place

    def pending(self) -> int:
        """Count the records on their way."""
        return sum(len(b.futures) - b.settled for b in self.batches())

    def settle_done(self) -> None:
        """Settle what is done, without waiting for the client's callbacks."""
        for batch in self.batches():
            if batch.result.is_done:
                self.settle(batch)

    def _completed(self, batch: TrackedBatch, _: Any) -> None:
        self.settle(batch)

    def _take_note(self, batch: TrackedBatch) -> list[GuardedFuture]:
        if batch.result.value[2] is not None:
            fresh = batch.take_unsettled()
            return self._on_failure(batch, fresh) if fresh else []
        batch.accepted = batch.resolved = True
        follower, size = _insides.follower(batch.source)
        if follower is not None:
            end = batch.result.value[0] + size - 1
            self._ends[batch.topic_partition] = follower, end
        count = len(batch.futures)
        self.ledger.delivered(count - batch.settled)
        batch.settled = count
        return []

    def _settle_alone(self, future: GuardedFuture) -> list[GuardedFuture]:
        """Settle a future that no tracked batch holds: the client failed it at once."""
        if not future.needs_settling:
            return []
        batch = TrackedBatch(next(self._numbers), None, future.result)
        batch.futures.append(future)
        return self._on_failure(batch, batch.take_unsettled())

    def _shorten(self, topic_partition: Any) -> None:
        line = self._lines[topic_partition]
        while line and line[0].resolved:
            del line[0]

    def _follow_splits(self) -> None:
        """Follow the new batches of records whose batch was too large and split."""
        for result, batch in list(self.open.items()):
            if not _insides.is_split(result):
                continue
            with self._lock:
                self.open.pop(result, None)
                moved = batch.take_unsettled()
                batch.resolved = True
            for future in moved:
                self.add(batch.producer, future, due=batch.due)


def _insert(line: list[TrackedBatch], batch: TrackedBatch) -> None:
    """Put a batch where its first record came in; most come last.

    A thread may be late to report its batch, and the halves of one that was too large
    keep its time.
    """
    place = len(line)
    while place and line[place - 1].created > batch.created:
        place -= 1
    line.insert(place, batch)
