"""Windows: groups of records that the delivery machine tracks together.

A confluent-kafka producer shows no batches, and tells of a record only when somebody
polls. So records are counted in windows. A record takes a place in the open window of
its topic before the client gets it; a window ends when it is closed and each of its
records has been reported. Of each record it keeps two numbers: the hash of its key, to
know what was accepted later than one that failed, and the hash of its value, to find
out which one a report is about. Headers, time and callback, which a report does not
have, are kept only where they were given.
"""

from __future__ import annotations

import time
from array import array
from collections import defaultdict
from itertools import product
from operator import length_hint
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from confluent_kafka import KafkaError, KafkaException

from kafkaguard._delivery.facts import Batch, Place, Raw, Refusal

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from kafkaguard_adapters.confluent.callbacks import Callbacks

_FOREVER = float("inf")
#: Stands for a record that the client did not take; no hash is -1.
_VOID = -1
_TIMED_OUT = KafkaError._MSG_TIMED_OUT  # noqa: SLF001 - a documented constant
_PURGED = KafkaError._PURGE_QUEUE  # noqa: SLF001 - a documented constant
_PURGED_IN_FLIGHT = KafkaError._PURGE_INFLIGHT  # noqa: SLF001 - a documented constant
_UNKNOWN = (KafkaError._UNKNOWN_TOPIC, KafkaError._UNKNOWN_PARTITION)  # noqa: SLF001 - documented constants


class Listener(Protocol):
    """Who is told what happens to the records of a window."""

    callbacks: Callbacks
    #: The application wants no callback of a delivered record.
    only_errors: bool

    def failed(self, window: Window) -> None:
        """Record that a record of a window has failed."""

    def reported(self, window: Window) -> None:
        """Record that each record of a closed window has been reported."""

    def arrived_again(self, token: int, message: Any) -> None:
        """Record that a record which was sent again has arrived."""

    def message_of(self, token: int) -> Any:
        """Return the client's message about a dead letter that has arrived."""


class Failure(NamedTuple):
    """That a record failed.

    Attributes:
        error: The client's error object.
        message: Its message about the record.
        call: The application's callback.
        ticket: What was kept of the record, if anything was.
        since: When it was handed over, in monotonic seconds.
    """

    error: Any
    message: Any
    call: Any
    ticket: Ticket | None
    since: float


class Known(NamedTuple):
    """What is known of the client when a window ends.

    Attributes:
        is_dying: The guard has purged its queue, not the application.
        kept_connections: No connection was lost since the oldest record was handed
            over; None: that is not known.
    """

    is_dying: bool
    kept_connections: bool | None


class Window(Batch):
    """Records of a topic, in the order in which they were handed to the client.

    Args:
        topic: Their topic.
        position: As for any batch.
        capacity: How many there may be.
        first_token: What the machine knows the first record by; the others follow.
        listener: Who is told.
        suspects: The keys of records that have failed, by their hashes.
        is_second: Its records are sent again, or are dead letters.

    Attributes:
        slots: Gives each record its index; a thread takes one by ``next``.
        key_hashes: By index.
        value_hashes: By index.
        report: The client's callback of a record that needs no other.
        chained: The application's callback that was given last, and the client's
            callback of a record with that one; in one, since threads share it.
        failures: What was reported as failed so far.
        first_token: See above.
    """

    __slots__ = (
        "_capacity",
        "_failed",
        "_goal",
        "_suspects",
        "_ticks",
        "_voids",
        "chained",
        "failures",
        "first_token",
        "is_second",
        "key_hashes",
        "listener",
        "report",
        "slots",
        "value_hashes",
    )

    def __init__(
        self,
        topic: str,
        position: tuple[int, ...],
        capacity: int,
        first_token: int,
        listener: Listener,
        suspects: Mapping[int, bytes],
        *,
        is_second: bool = False,
    ) -> None:
        super().__init__(Place(topic), position, _FOREVER)
        self.slots = iter(range(capacity))
        self.key_hashes = array("q", bytes(8 * capacity))
        self.value_hashes = array("q", bytes(8 * capacity))
        self.failures: list[Failure] = []
        self.first_token = first_token
        self.is_second = is_second
        self._capacity = capacity
        self.listener = listener
        self._suspects = suspects
        #: One for each record that has ended, and one for closing.
        self._ticks = iter(range(capacity + 1))
        #: The last tick, once the window is closed.
        self._goal: int | None = None
        self._voids: set[int] = set()
        self._failed: dict[int, Failure] = {}
        self.chained: tuple[Any, Any] = (None, None)
        self.report: Any = self._reporter()

    # --- reports, in whatever thread polls --------------------------------------------

    def _reporter(self) -> Any:
        ticks, listener = self._ticks, self.listener

        def report(error: Any, message: Any) -> None:
            if error is not None:
                self.fail(error, message)
            elif next(ticks) == self._goal:
                listener.reported(self)

        return report

    def chain(self, call: Any) -> Any:
        """Return the client's callback of records that have one of the application's.

        It is kept, since most records have the same one.

        Raises:
            TypeError: It cannot be called.
        """
        if not callable(call):
            raise TypeError(
                f"produce(on_delivery): a function, not {type(call).__name__}"
            )
        ticks, listener, callbacks = self._ticks, self.listener, self.listener.callbacks

        def report(error: Any, message: Any) -> None:
            if error is not None:
                self.fail(error, message, call)
                return
            if next(ticks) == self._goal:
                listener.reported(self)
            if listener.only_errors:
                return
            if callbacks.is_direct:
                try:
                    call(None, message)
                except KeyboardInterrupt:
                    raise
                except BaseException as raised:  # noqa: BLE001 - kept for flush()
                    callbacks.on_error(raised)
            else:
                callbacks.call(call, None, message)

        self.chained = call, report
        return report

    def fail(
        self, error: Any, message: Any, call: Any = None, ticket: Ticket | None = None
    ) -> None:
        """Record that a record has failed."""
        since = time.monotonic() - message.latency()
        self.failures.append(Failure(error, message, call, ticket, since))
        self.listener.failed(self)
        self.tick()

    def tick(self) -> None:
        """Record that a record has ended, or that the window is closed."""
        if next(self._ticks) == self._goal:
            self.listener.reported(self)

    def void(self, index: int) -> None:
        """Record that the client did not take a record."""
        self.key_hashes[index] = self.value_hashes[index] = _VOID
        self._voids.add(index)
        self.tick()

    def close(self) -> bool:
        """Give no index any more; tell whether it did until now. ``tick`` comes next.

        Called under the listener's lock.
        """
        if self._goal is not None:
            return False
        # In one step, so that no thread gets an index meanwhile.
        self._goal = self._capacity - len(list(self.slots))
        return True

    @property
    def is_full(self) -> bool:
        """Whether it has no index left."""
        return not length_hint(self.slots)

    def mark(self, index: int, key: bytes | None, value: bytes | None) -> None:
        """Note what a record is known by."""
        self.key_hashes[index] = hash(key)
        self.value_hashes[index] = hash(value)

    @property
    def since(self) -> float:
        """When the oldest record that has failed was handed over."""
        return min(failure.since for failure in self.failures)

    def let_go(self) -> None:
        """Forget what only reports need."""
        self.report, self.chained = None, (None, None)
        self.value_hashes = array("q")
        self.failures = []

    # --- what the machine asks --------------------------------------------------------

    @property
    def next_look(self) -> float:
        """Never: the client itself keeps the time of its records."""
        return _FOREVER

    @next_look.setter
    def next_look(self, _: float) -> None:
        pass

    @property
    def count(self) -> int:
        """How many records it has."""
        return self._taken - len(self._voids)

    @property
    def _taken(self) -> int:
        if self._goal is not None:
            return self._goal
        return self._capacity - length_hint(self.slots)

    @property
    def delivered(self) -> int:
        """How many records were reported as delivered so far."""
        ticked = self._capacity + 1 - length_hint(self._ticks)
        closed = self._goal is not None
        return ticked - closed - len(self._voids) - len(self.failures)

    def where(self, index: int) -> tuple[int | None, int | None]:
        """Return partition and offset of a dead letter."""
        message = self.listener.message_of(self.first_token + index)
        return message.partition(), message.offset()

    @property
    def unreported_count(self) -> int:
        """How many of its records have no report so far."""
        return self.count - self.delivered - len(self.failures)

    def tokens(self) -> Sequence[int]:
        """Return the records' numbers."""
        return range(self.first_token, self.first_token + self._taken)

    def keys(self) -> Sequence[bytes | None]:
        """Return each record's key, as far as any record of that key has failed."""
        return [*map(self._suspects.get, self.key_hashes[: self._taken])]

    def raws(self) -> Sequence[Any]:
        """Return the bytes of the records that have failed, at their places."""
        raws: list[Raw | None] = [None] * self._taken
        for index, failure in self._failed.items():
            raws[index] = _raw_of(failure)
        return raws

    def refusals(self, known: Known) -> list[Refusal]:
        """Say why records have failed."""
        self._failed = dict(self._placed())
        return [
            _refusal(self.first_token + index, index, failure, known)
            for index, failure in self._failed.items()
        ]

    def unreported(self) -> list[Refusal]:
        """Give up the records that have no report: which these are cannot be told.

        So none of them is sent again.
        """
        missing = self.unreported_count
        self._failed = {}
        error = KafkaException(KafkaError(_PURGED_IN_FLIGHT))
        places = [index for index in range(self._taken) if index not in self._voids]
        return [
            Refusal(self.first_token + index, index, error, "client", "maybe")
            for index in places[len(places) - missing :]
        ]

    def failure(self, token: Any) -> Failure:
        """Return how a record has failed."""
        return self._failed[token - self.first_token]

    def _placed(self) -> Iterator[tuple[int, Failure]]:
        """Find the place of each record that has failed.

        Of records that are alike in key and value the last counts as failed, which
        never loses the newest.
        """
        known = {f.ticket.index for f in self.failures if f.ticket is not None}
        places: defaultdict[tuple[int, int], list[int]] = defaultdict(list)
        for index in range(self._taken):
            if index not in known and index not in self._voids:
                marks = self.key_hashes[index], self.value_hashes[index]
                places[marks].append(index)
        for failure in self.failures:
            if failure.ticket is not None:
                yield failure.ticket.index, failure
                continue
            message = failure.message
            marks_of = product(hashes(message.key()), hashes(message.value()))
            alike = next((places[m] for m in marks_of if places.get(m)), None)
            yield (alike or next(filter(None, places.values()))).pop(), failure


class Ticket:
    """The client's callback of one record, with what its report does not have.

    Args:
        window: Where the record is.
        index: Its place there.
        call: The application's callback.
        headers: Its headers.
        timestamp: Its time, in milliseconds; 0: the client's.
    """

    __slots__ = ("call", "headers", "index", "timestamp", "window")

    def __init__(
        self, window: Window, index: int, call: Any, headers: Any, timestamp: int
    ) -> None:
        self.window = window
        self.index = index
        self.call = call
        self.headers = headers
        self.timestamp = timestamp

    def __call__(self, error: Any, message: Any) -> None:
        """Record the client's report."""
        window = self.window
        if error is not None:
            window.fail(error, message, self.call, self)
            return
        self.arrived(message)
        window.tick()

    def arrived(self, message: Any) -> None:
        """Record that the record was delivered."""
        listener = self.window.listener
        if self.call is not None and not listener.only_errors:
            listener.callbacks.call(self.call, None, message)


class SecondTicket(Ticket):
    """The client's callback of a record that is sent again, or of a dead letter."""

    __slots__ = ()

    def arrived(self, message: Any) -> None:
        """Record that the record was delivered; the machine settles it."""
        window = self.window
        window.listener.arrived_again(window.first_token + self.index, message)


class OwnTicket(Ticket):
    """The client's callback of a record that a class of the user's produces.

    Args:
        hand_over: Produces it, with the callback that it is given.
    """

    __slots__ = ("hand_over",)

    def __init__(
        self, window: Window, index: int, call: Any, hand_over: Callable[[Any], object]
    ) -> None:
        super().__init__(window, index, call, None, 0)
        self.hand_over = hand_over

    def __call__(self, error: Any, message: Any) -> None:
        """Record the client's report, the first to show the bytes."""
        self.window.mark(self.index, message.key(), message.value())
        super().__call__(error, message)


def hashes(part: bytes | None) -> Iterator[int]:
    """Return the hashes that a key or value may have had, as bytes or as text."""
    yield hash(part)
    if part is not None:
        yield hash(part.decode(errors="surrogateescape"))


def _raw_of(failure: Failure) -> Raw:
    message, ticket = failure.message, failure.ticket
    headers, timestamp = None, None
    if ticket is not None:
        headers, timestamp = ticket.headers, ticket.timestamp or None
    return Raw(message.key(), message.value(), plain_headers(headers), timestamp)


def plain_headers(headers: Any) -> list[tuple[str, bytes | None]]:
    """Return headers as the client sends them: pairs of a name and bytes."""
    pairs = headers.items() if isinstance(headers, dict) else headers or ()
    return [(n, v.encode() if isinstance(v, str) else v) for n, v in pairs]


def _refusal(token: int, index: int, failure: Failure, known: Known) -> Refusal:
    error, message = failure.error, failure.message
    code, partition = error.code(), message.partition()
    facts: dict[str, Any] = {"blame": "unknown", "sent": "answered"}
    if code == _TIMED_OUT:
        facts = {"blame": "client", "sent": "maybe", "expired": True}
    elif code == _PURGED_IN_FLIGHT:
        facts = {"blame": "client" if known.is_dying else "record", "sent": "maybe"}
    elif code == _PURGED and known.is_dying:
        # A batch without an answer goes back to the queue that was purged.
        never = known.kept_connections
        facts = {"blame": "client", "sent": "never" if never else "maybe"}
    elif code == _PURGED or code in _UNKNOWN or partition is None:
        facts = {"blame": "record", "sent": "never"}
    else:
        # It may have been written at an earlier try; a topic's settings are looked at
        # before the broker sees that it has the batch already.
        facts["was_unanswered"] = known.kept_connections is False
    return Refusal(
        token,
        index,
        KafkaException(error),
        null_key=message.key() is None,
        partition=partition,
        **facts,
    )
