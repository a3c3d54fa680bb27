"""Which records are on their way, batch by batch.

One callback a batch, none a record: what happened to a record follows from its batch,
which the client itself keeps a list of. The sequence of events of a batch::

    send() -> follow() -> [the client's thread] completed() -> settle() -> on_failure()

Whoever puts a record into a batch that is not followed yet begins to follow it. Where
that is done by then, the record is followed alone.
"""

from __future__ import annotations

import itertools
import threading
import time
from collections import defaultdict
from functools import partial
from typing import TYPE_CHECKING, Any

from kafkaguard_adapters.kafka_python import _insides, _levers
from kafkaguard_adapters.kafka_python._fate import Fate, fate_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from kafkaguard._delivery import Ledger
    from kafkaguard_adapters.kafka_python._future import GuardedFuture


class TrackedBatch:
    """One batch of one producer; or a record that is followed alone.

    Args:
        number: Grows with each batch that is followed.
        generation: Grows with each producer that replaces another.
        producer: The client's producer that holds it; None for a record that never
            came into a batch.
        inner: The client's future of a record in it.

    Attributes:
        result: The client's future of the whole batch.
        source: The client's batch; None if it was done before it could be found.
        key: What it is followed by: its result, or the future of a record alone.
        created: When its first record came, in monotonic seconds.
        due: When its records must have their outcome, in monotonic seconds.
        rank: Its place among the batches that its dead producer had not sent.
        settled: How many of its records are settled.
        is_late: It was done before it could be followed.
        accepted: The broker took it.
        held: Some of its records wait to be sent again.
        resolved: Nothing is left to do about it.
    """

    __slots__ = (
        "_inners",
        "accepted",
        "created",
        "due",
        "generation",
        "held",
        "is_late",
        "key",
        "number",
        "producer",
        "rank",
        "resolved",
        "result",
        "settled",
        "source",
    )

    def __init__(
        self, number: int, producer: Any, inner: Any, *, generation: int = 0
    ) -> None:
        self.number = number
        self.generation = generation
        self.producer = producer
        self.result = result = _insides.result_of(inner)
        self.source = _insides.batch_of(producer, result) if producer else None
        self.is_late = bool(result.is_done)
        whole = self.source is not None and not self.is_late
        self.key = result if whole else inner
        self._inners = _insides.records_in(self.source) if whole else [inner]
        self.created: float = (
            self.source.created if self.source is not None else time.monotonic()
        )
        self.due = float("inf")
        self.rank = 0
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

    @property
    def is_whole(self) -> bool:
        """Whether all records of the client's batch are followed with it."""
        return self.key is self.result

    @property
    def count(self) -> int:
        """How many records the client's batch has, as far as that is known."""
        source = self.source
        return len(self._inners if source is None else _insides.records_in(source))

    @property
    def unsettled(self) -> int:
        """How many of the records that are followed with it are not settled."""
        return len(self._inners) - self.settled

    def take_unsettled(self) -> list[Any]:
        """Hand over the client's futures that were not settled yet, each once."""
        fresh = self._inners[self.settled :]
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
        on_failure: Decides about the records of a failed batch, under this tracker's
            lock; returns those whose callbacks are due.
        on_begun: Told of each batch that is followed.
        on_settled: Called after a failure was decided about, without any lock.
        patience: Seconds from a batch's first record until it must have its outcome.
    """

    def __init__(
        self,
        ledger: Ledger,
        on_failure: Callable[[TrackedBatch, list[Fate]], list[Fate]],
        on_begun: Callable[[], None],
        on_settled: Callable[[], None],
        patience: float,
    ) -> None:
        self.ledger = ledger
        #: How often the producer was replaced.
        self.generation = 0
        #: By the batch's key. Read without the lock on the hot path.
        self.open: dict[Any, TrackedBatch] = {}
        self._on_failure = on_failure
        self._on_begun = on_begun
        self._on_settled = on_settled
        self._patience = patience
        #: By the client's future: records sent again, and futures with callbacks.
        self._rescued: dict[Any, Fate] = {}
        self._hooked: dict[Any, GuardedFuture] = {}
        self._lines: dict[Any, list[TrackedBatch]] = defaultdict(list)
        self._ends: dict[Any, tuple[Any, int]] = {}
        self._numbers = itertools.count()
        self._lock = threading.RLock()

    def follow(self, producer: Any, inner: Any, *, due: float = float("inf")) -> None:
        """Follow a record with its batch; what is done already is settled at once.

        Args:
            producer: The client's producer.
            inner: The client's future of the record.
            due: When the record must have its outcome, in monotonic seconds, if it
                was sent once before.
        """
        batch = self.begin(producer, inner, due=due)
        if batch is not None:
            self.settle(batch)

    def begin(
        self, producer: Any, inner: Any, *, due: float = float("inf")
    ) -> TrackedBatch | None:
        """Begin to follow the batch of a record, unless that is so already.

        Returns:
            What is done already, to be settled or resolved; else None.
        """
        result = _insides.result_of(inner)
        with self._lock:
            known = self.open.get(result)
            if known is not None:
                known.due = min(known.due, due)
                return None
            if _levers.is_settled(result):
                return None
            line = self._lines[result.topic_partition]
            split = bool(line) and _insides.is_split(line[0].result)
            batch = TrackedBatch(
                next(self._numbers), producer, inner, generation=self.generation
            )
            batch.due = min(due, batch.created + self._patience)
            if not batch.is_late:
                self.open[batch.key] = batch
            _insert(line, batch)
        if split:
            self._follow_splits()
        if batch.is_late:
            return batch
        self._on_begun()
        # A client's batch never fails as a whole: its value tells about each record.
        result.add_callback(partial(self._completed, batch))
        return None

    def go_on(
        self,
        producer: Any,
        fate: Fate,
        send: Callable[[], Any],
        *,
        due: float = float("inf"),
    ) -> None:
        """Send a record again and follow it.

        Args:
            producer: The client's producer.
            fate: The record's.
            send: Sends it, without waiting, and returns the client's new future.
            due: When it must have its outcome, in monotonic seconds.
        """
        inner = self.hand_over(fate, send)
        fate.hand_over_hooks()
        self.follow(producer, inner, due=due)

    def hand_over(self, fate: Fate, send: Callable[[], Any]) -> Any:
        """Send a record whose fate is known before; whoever calls this follows it.

        Returns:
            The client's future.
        """
        with self._lock:  # lest the new batch is settled before the record is known
            inner = send()
            self._rescued.pop(fate.inner, None)
            fate.follow(inner)
            self._rescued[inner] = fate
        return inner

    def watch(self, future: GuardedFuture, inner: Any) -> None:
        """Have the callbacks of a future run, should its record fail for good."""
        with self._lock:
            fate = fate_of(inner)
            if fate is None:
                self._hooked[inner] = future
            else:
                fate.hooked.append(future)

    def settle(self, batch: TrackedBatch) -> None:
        """Take note of a batch that is done."""
        with self._lock:
            self.open.pop(batch.key, None)
            due = self._take_note(batch)
            self._shorten(batch.topic_partition)
        self._tell(batch.accepted, due)

    def settle_failed(self, inner: Any) -> None:
        """Settle what a failed record belongs to, at once."""
        self._follow_splits()
        batch = self.open.get(_insides.result_of(inner)) or self.open.get(inner)
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
        return sum(b.unsettled for b in self.batches())

    def settle_done(self) -> None:
        """Settle what is done, without waiting for the client's callbacks."""
        for batch in self.batches():
            if batch.result.is_done:
                self.settle(batch)

    def _completed(self, batch: TrackedBatch, _: Any) -> None:
        self.settle(batch)

    def _take_note(self, batch: TrackedBatch) -> list[Fate]:
        if batch.is_whole:
            _levers.mark_settled(batch.result)
        fresh = batch.take_unsettled()
        if batch.result.value[2] is not None:
            fates = [self._fate(inner) for inner in fresh]
            return self._on_failure(batch, fates) if fates else []
        batch.accepted = batch.resolved = True
        follower, size = _insides.follower(batch.source)
        if follower is not None:
            end = batch.result.value[0] + size - 1
            self._ends[batch.topic_partition] = follower, end
        self.ledger.delivered(len(fresh) - self._forget(fresh))
        return []

    def _fate(self, inner: Any) -> Fate:
        """Begin to decide about a record that has failed."""
        fate = self._rescued.pop(inner, None) or Fate(inner, self.ledger)
        fate.hold()
        if inner in self._hooked:
            fate.hooked.append(self._hooked.pop(inner))
        _levers.attach(inner, fate)
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
        batch = TrackedBatch(next(self._numbers), None, inner)
        return self._on_failure(batch, [self._fate(i) for i in batch.take_unsettled()])

    def _shorten(self, topic_partition: Any) -> None:
        line = self._lines[topic_partition]
        while line and line[0].resolved:
            del line[0]

    def _follow_splits(self) -> None:
        """Follow the new batches of records whose batch was too large and split."""
        for key, batch in list(self.open.items()):
            if not _insides.is_split(batch.result):
                continue
            with self._lock:
                self.open.pop(key, None)
                moved = batch.take_unsettled()
                batch.resolved = True
            for inner in moved:
                self.follow(batch.producer, inner, due=batch.due)


def _insert(line: list[TrackedBatch], batch: TrackedBatch) -> None:
    """Put a batch where its first record came in; most come last.

    A thread may be late to report its batch, and the halves of one that was too large
    keep its time.
    """
    place = len(line)
    while place and line[place - 1].created > batch.created:
        place -= 1
    line.insert(place, batch)
