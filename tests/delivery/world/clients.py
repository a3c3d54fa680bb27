"""Model clients: one for each set of traits of a real client."""

from __future__ import annotations

from collections import defaultdict, deque
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from kafka.errors import (
    IllegalStateError,
    KafkaConnectionError,
    KafkaTimeoutError,
    for_code,
)

from kafkaguard._delivery.facts import Answer, Place, Refusal, Traits
from tests.delivery.world.batches import Item, ModelBatch, Window
from tests.delivery.world.broker import (
    FENCED,
    OUT_OF_ORDER,
    TOO_LARGE,
    WRITTEN_ANYWAY,
    Reply,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from kafkaguard._delivery.facts import Batch
    from tests.delivery.world.world import World

DELIVERY_S = 30.0
#: Seconds after the client's own time, which a shell adds.
GRACE_S = 1.0
REQUEST_S = 4.0
LINGER_S = 0.02
BATCH_RECORDS = 4
WINDOW_RECORDS = 6


@dataclass(frozen=True)
class Kind:
    """The kind of a model client.

    Attributes:
        name: Its name.
        idempotent: It retries batches without an answer, and writes no duplicates.
        in_flight: The most batches of a partition in flight.
        shows_batches: The machine sees its batches; if False, it sees windows.
        names_refused: An answer names the refused records.
        dies_of_refusal: A refused batch kills it.
        splits: It splits a batch that is too large.
        hears_late: When it dies, it gives up the batches in flight, but still receives
            their answers; other clients keep these batches until they are answered.
        takes_over: Its successor locks out the batches that it left in flight.
        takes_back: Batches that were not sent yet can be taken back from it.
    """

    name: str
    idempotent: bool = True
    in_flight: int = 1
    shows_batches: bool = True
    names_refused: bool = True
    dies_of_refusal: bool = False
    splits: bool = False
    hears_late: bool = False
    takes_over: bool = False
    takes_back: bool = False
    fails_batches: bool = True

    @property
    def traits(self) -> Traits:
        """The traits that its shell reports to the machine."""
        return Traits(
            self.name,
            DELIVERY_S,
            "delivery.timeout",
            hears_late=self.hears_late,
            takes_back=self.takes_back,
            fails_batches=self.fails_batches,
            margin=GRACE_S,
        )


KINDS = (
    Kind(
        "kafka-python",
        dies_of_refusal=True,
        splits=True,
        hears_late=True,
        takes_over=True,
        takes_back=True,
    ),
    Kind(
        "kafka-python, not idempotent",
        idempotent=False,
        in_flight=5,
        takes_back=True,
    ),
    Kind(
        "confluent-kafka",
        in_flight=5,
        shows_batches=False,
        names_refused=False,
        fails_batches=False,
    ),
    Kind("aiokafka", names_refused=False, dies_of_refusal=True, takes_back=True),
)

_PLAIN = {code: for_code(code) for code in (7, 10, 19, 20, 29, 45, 47, 87)}


class ModelClient:
    """One client; a successor is another object.

    Args:
        world: The simulated world.
        kind: Its kind.
        generation: The number of clients before it.
        identity: Its producer id.
        epoch: The epoch of its producer id.
    """

    def __init__(
        self, world: World, kind: Kind, generation: int, identity: int, epoch: int
    ) -> None:
        self.world = world
        self.kind = kind
        self.is_idempotent = kind.idempotent
        self.generation = generation
        self.identity = identity
        self.epoch = epoch
        self.cause: BaseException | None = None
        self.is_shut = self.is_stopped = self.is_stuck = False
        self.flying: dict[ModelBatch, None] = {}
        self.late: dict[ModelBatch, Answer] = {}
        self._numbers = 0
        self._open: dict[Place, ModelBatch] = {}
        self._queues: defaultdict[Place, deque[ModelBatch]] = defaultdict(deque)
        self._waiting_parts: dict[Place, int] = {}
        self._last_arrival: dict[Place, float] = {}
        self._windows: dict[str, Window] = {}
        self._all: dict[ModelBatch, None] = {}

    # --- taking records in ------------------------------------------------------------

    def take(self, topic: str, partition: int, item: Item) -> None:
        """Accept a record.

        Raises:
            IllegalStateError: The client is dead or shut.
        """
        if self.cause is not None or self.is_shut:
            raise IllegalStateError("it takes in nothing more")
        place = Place(topic, partition)
        batch = self._open.get(place)
        if batch is None:
            batch = self._open[place] = self._batch(place)
            self.world.clock.after(LINGER_S, self._roll, batch)
            batch.items.append(item)
            if self.kind.shows_batches:
                self.world.began(batch)
        else:
            batch.items.append(item)
        if not self.kind.shows_batches:
            self._into_window(topic, item)
        if len(batch.items) >= BATCH_RECORDS:
            self._roll(batch)

    def _batch(self, place: Place, parent: ModelBatch | None = None) -> ModelBatch:
        now = self.world.clock.now
        self._numbers += 1
        position: tuple[int, ...] = (self.generation, self._numbers)
        created = now
        if parent is not None:
            position = (*parent.position, len(parent.parts))
            created = parent.created
        due = created + DELIVERY_S + GRACE_S
        batch = ModelBatch(self, place, position, created, due, parent)
        self._all[batch] = None
        self.world.clock.at(created + DELIVERY_S, self._expire, batch)
        return batch

    def _into_window(self, topic: str, item: Item) -> None:
        window = self._windows.get(topic)
        if window is None:
            self._numbers += 1
            due = self.world.clock.now + DELIVERY_S + GRACE_S
            window = Window(topic, (self.generation, self._numbers), due)
            self._windows[topic] = window
            window.items.append(item)
            self.world.began(window)
        else:
            window.items.append(item)
        item.window = window
        window.due = window.next_check = self.world.clock.now + DELIVERY_S + GRACE_S
        window.missing += 1
        if len(window.items) >= WINDOW_RECORDS:
            del self._windows[topic]

    def _roll(self, batch: ModelBatch) -> None:
        if batch.state == "open":
            batch.state = "queued"
            if self._open.get(batch.at) is batch:
                del self._open[batch.at]
            self._queues[batch.at].append(batch)
            self._drain(batch.at)

    def roll_all(self) -> None:
        """Send the buffered records without lingering."""
        self._windows.clear()
        for batch in list(self._open.values()):
            self._roll(batch)

    # --- requests ---------------------------------------------------------------------

    def _drain(self, place: Place) -> None:
        queue = self._queues[place]
        is_away = place.partition in self.world.away
        while queue and not (is_away or self.cause or self.is_stopped or self.is_stuck):
            if sum(b.at == place for b in self.flying) >= self.kind.in_flight:
                return
            batch = queue.popleft()
            batch.state = "sent"
            self.flying[batch] = None
            self._send(batch)

    def drain_all(self) -> None:
        """Send the batches that waited for a leader."""
        for place in list(self._queues):
            self._drain(place)

    def take_back(self, behind: Batch) -> None:
        """Fail the batches that wait behind a batch and were never sent."""
        for batch in list(self._all):
            is_behind = batch.at == behind.place and batch.state in ("open", "queued")
            if is_behind and not batch.tries:
                self._fail(batch, IllegalStateError("taken back"), "client", "never")

    def has_earlier(self, batch: ModelBatch) -> bool:
        """Return whether an earlier batch of its partition is not written yet."""
        for other in self.flying:
            if other is batch:
                return False
            if other.at == batch.at and other.position < batch.position:
                return True
        return False

    def _send(self, batch: ModelBatch) -> None:
        world = self.world
        batch.tries += 1
        fault = world.fault()
        numbers = {item.number for item in batch.items}
        if fault in ("19", "29"):
            world.refused |= numbers
        elif fault:
            world.doubtful |= numbers
        now = world.clock.now
        # One connection: batches arrive in the order in which they were sent.
        arrives = max(now + world.latency(), self._last_arrival.get(batch.at, 0.0))
        if fault == "late":
            arrives += world.rng.uniform(1.0, 50.0)
        self._last_arrival[batch.at] = arrives
        if fault == "lost":
            world.clock.after(REQUEST_S, self._no_answer, batch, batch.tries)
            return
        if fault == "late":
            world.clock.after(REQUEST_S, self._no_answer, batch, batch.tries)
        world.clock.at(arrives, self._arrive, batch, batch.tries, fault)

    def _arrive(self, batch: ModelBatch, tries: int, fault: str) -> None:
        world = self.world
        if fault == "19" or (fault == "29" and batch.tries == 1):
            reply = Reply(int(fault))
        else:
            reply = world.broker.produce(batch)
            if not reply.code and fault in ("7", "20"):
                reply = Reply(int(fault))
        world.say("broker", batch, reply.code)
        if fault == "unanswered":
            world.clock.after(REQUEST_S, self._no_answer, batch, tries)
        else:
            world.clock.after(world.latency(), self._answered, batch, reply)

    def _no_answer(self, batch: ModelBatch, tries: int) -> None:
        if batch.tries != tries or batch not in self.flying or self._is_deaf:
            return
        if batch.state == "done":
            return
        batch.was_unanswered = True
        if self.is_idempotent:
            self._send(batch)
        else:
            self._fly_off(batch)
            self._fail(batch, KafkaConnectionError("gone"), "client", "maybe")
            self._drain(batch.at)

    @property
    def _is_deaf(self) -> bool:
        return self.is_stopped or self.is_stuck

    def _fly_off(self, batch: ModelBatch) -> None:
        self.flying.pop(batch, None)

    def _answered(self, batch: ModelBatch, reply: Reply) -> None:
        if self._is_deaf or batch not in self.flying:
            return
        if batch.state == "done":  # it was given up
            self._fly_off(batch)
            self._hear_late(batch, reply)
            return
        code = reply.code
        if code in WRITTEN_ANYWAY:
            batch.was_unanswered = True
        if self.is_idempotent and code in (19, OUT_OF_ORDER, *WRITTEN_ANYWAY):
            self.world.clock.after(0.2, self._repeat, batch, batch.tries)
            return
        self._fly_off(batch)
        if not code:
            batch.base_offset = reply.base_offset
            self._accept(batch)
        elif code == TOO_LARGE and self.kind.splits and len(batch.items) > 1:
            self._split(batch)
        else:
            self._refused(batch, reply)
        self._drain(batch.at)

    def _repeat(self, batch: ModelBatch, tries: int) -> None:
        if batch.tries == tries and batch in self.flying and not self._is_deaf:
            if batch.state == "sent":
                self._send(batch)
            else:
                self._fly_off(batch)

    def _hear_late(self, batch: ModelBatch, reply: Reply) -> None:
        if not self.kind.hears_late:
            return
        if not reply.code:
            self.late[batch] = Answer(base_offset=reply.base_offset)
        elif reply.code not in (19, OUT_OF_ORDER, FENCED, *WRITTEN_ANYWAY):
            self.late[batch] = Answer(refusals=self._refusals(batch, reply))

    def _split(self, batch: ModelBatch) -> None:
        batch.state = "done"
        del self._all[batch]
        half = (len(batch.items) + 1) // 2
        parts = []
        for items in (batch.items[:half], batch.items[half:]):
            part = self._batch(batch.at, batch)
            part.items += items
            part.state = "queued"
            parts.append(part)
            self.world.began(part)
        self._queues[batch.at].extendleft(reversed(parts))
        self.world.say("split", batch)

    def _refused(self, batch: ModelBatch, reply: Reply) -> None:
        refusals = self._refusals(batch, reply)
        if self.kind.dies_of_refusal:
            self._die(refusals[0].cause, batch.at)
        self._fail_with(batch, refusals)

    def _refusals(self, batch: ModelBatch, reply: Reply) -> list[Refusal]:
        cause = _PLAIN[reply.code]()
        found = []
        for index, item in enumerate(batch.items):
            if not self.kind.names_refused:
                blame: Any = "unknown"
            elif not reply.named:
                blame = "batch"
            else:
                blame = "record" if index in reply.named else "mate"
            null_key = item.raw.key is None
            found.append(
                Refusal(
                    item,
                    index,
                    cause,
                    blame,
                    "answered",
                    first_try=batch.tries == 1,
                    was_unanswered=batch.was_unanswered,
                    null_key=null_key,
                    partition=batch.at.partition,
                )
            )
        return found

    # --- ends of batches --------------------------------------------------------------

    def _accept(self, batch: ModelBatch) -> None:
        batch.state = "done"
        self._all.pop(batch, None)
        if self.kind.shows_batches:
            self.world.accepted(batch)
        else:
            self._report(batch.items, {})

    def _fail(
        self,
        batch: ModelBatch,
        cause: BaseException,
        blame: Any,
        sent: Any,
        *,
        expired: bool = False,
    ) -> None:
        self._fail_with(
            batch,
            [
                Refusal(
                    item,
                    index,
                    cause,
                    blame,
                    sent,
                    expired=expired,
                    null_key=item.raw.key is None,
                    partition=batch.at.partition,
                )
                for index, item in enumerate(batch.items)
            ],
        )

    def _fail_with(self, batch: ModelBatch, refusals: Sequence[Refusal]) -> None:
        if batch.state == "open":
            self._open.pop(batch.at, None)
        elif batch.state == "queued":
            self._queues[batch.at].remove(batch)
        batch.state = "done"
        self._all.pop(batch, None)
        self.world.say("failed", batch, refusals[0].blame, refusals[0].sent)
        if self.kind.shows_batches:
            self.world.failed(batch, refusals)
        else:
            self._report(batch.items, {r.token: r for r in refusals})

    def _report(self, items: Iterable[Item], refusals: dict[Any, Refusal]) -> None:
        """Add delivery reports to the windows that the machine sees."""
        for item in items:
            window = item.window
            assert window is not None
            if (refusal := refusals.get(item)) is not None:
                index = window.items.index(item)
                self._close(window)
                window.refusals.append(replace(refusal, index=index))
            window.missing -= 1
            if not window.missing:
                self._close(window)
                self.world.failed(window, window.refusals)

    def _close(self, window: Window) -> None:
        """Close a window for further records."""
        if self._windows.get(window.place.topic) is window:
            del self._windows[window.place.topic]

    def _expire(self, batch: ModelBatch) -> None:
        if batch.state == "done" or self._is_deaf or batch.ended is not None:
            return
        self._time_out(batch)

    def _doubt_flying(self) -> None:
        self.world.doubtful.update(
            item.number for batch in self.flying for item in batch.items
        )

    def _time_out(self, batch: ModelBatch) -> None:
        was_sent = batch.state == "sent"
        if was_sent:
            self._doubt_flying()
            self.world.is_calm = False  # nobody can know whether it is written
        if was_sent and self.kind.takes_over:
            self._die(KafkaTimeoutError("it has lost its sequence"), batch.at)
        sent = "maybe" if was_sent else "never"
        cause = KafkaTimeoutError("delivery timeout")
        self._fail(batch, cause, "client", sent, expired=True)
        if was_sent and not self.kind.hears_late:
            self._fly_off(batch)
        self._drain(batch.at)

    def fail_batch(self, batch: Batch) -> None:
        """Fail a batch whose time is over, as a shell does."""
        if isinstance(batch, Window):
            mine = set(batch.items)
            for each in list(self._all):
                if mine & set(each.items):
                    self._time_out(each)
        elif isinstance(batch, ModelBatch) and batch.state != "done":
            self._time_out(batch)

    # --- the end of the client --------------------------------------------------------

    def _die(self, cause: BaseException, place: Place | None) -> None:
        if self.cause is None and not self.is_stopped:
            self.cause = cause
            self._doubt_flying()
            self.world.say("died", cause)
            self.world.died(self, cause, place)
            if self.kind.hears_late:
                self.world.clock.after(0.001, self._give_all_up)

    def die(self, cause: BaseException) -> None:
        """Die of a cause that is not a batch."""
        self._die(cause, None)

    def _give_all_up(self) -> None:
        error = IllegalStateError("dead")
        for batch in list(self._all):
            if batch.state != "done":
                sent = "maybe" if batch.state == "sent" else "never"
                self._fail(batch, error, "client", sent)

    def stop(self) -> None:
        """Stop the client."""
        self.is_shut = self.is_stopped = True
        self._doubt_flying()
        self._give_all_up()
