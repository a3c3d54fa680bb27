"""The journal: all requests, their answers, and closed connections."""

from __future__ import annotations

import threading
import time
from collections import Counter, deque
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from kafkaguard._errors import for_code
from kafkaguard.testing.proxy.frames import struct_of

if TYPE_CHECKING:
    from collections.abc import Iterator

_ERROR_FIELDS: Final = ("error_code", "partition_error_code")
_TOPIC_FIELDS: Final = ("name", "topic", "topic_name", "topic_id")
_PARTITION_FIELDS: Final = ("index", "partition_index", "partition", "partition_id")
_SHOWN_PARTITIONS: Final = 4
_CARRIERS: dict[int, bool] = {}


def code_name(code: int) -> str:
    """Return Kafka's name of an error code, or its number if there is no name."""
    name: str | None = getattr(for_code(code), "name", None)
    return name if isinstance(name, str) else str(code)


@dataclass(frozen=True, slots=True)
class AnsweredError:
    """An error code in an answer.

    Attributes:
        code: The number on the wire, never 0.
        topic: The topic with the error, or None.
        partition: The partition with the error, or None.
    """

    code: int
    topic: str | None = None
    partition: int | None = None

    def __str__(self) -> str:
        """Return the name, the number, and topic and partition."""
        place = "" if self.topic is None else f" {_place(self.topic, self.partition)}"
        return f"{code_name(self.code)}({self.code}){place}"


@dataclass(slots=True, eq=False)
class Exchange:
    """A request and its outcome.

    Attributes:
        number: Its number, from 1, over all connections of a proxy.
        at: When the request came, in seconds since the proxy's start.
        connection: The number of the client's connection.
        broker: The id of the request's broker, or None if unknown.
        client_id: The client id in the request.
        api: Kafka's name of the API.
        version: The version of the request.
        partitions: The topics and partitions that it names; a partition of None means
            the whole topic.
        size: Bytes of the request.
        outcome: ``"waiting"``, ``"answered"``, ``"no answer wanted"``, or what the
            proxy did instead.
        errors: The error codes of the answer that the client got.
        faults: The faults that were applied, in words.
        took: Seconds until the answer was sent to the client.
        answer_size: Bytes of the answer.
    """

    number: int
    at: float
    connection: int
    broker: int | None
    client_id: str | None
    api: str
    version: int
    partitions: tuple[tuple[str, int | None], ...]
    size: int
    outcome: str = "waiting"
    errors: tuple[AnsweredError, ...] = ()
    faults: tuple[str, ...] = ()
    took: float | None = None
    answer_size: int = 0

    @property
    def codes(self) -> tuple[int, ...]:
        """The error codes of the answer."""
        return tuple(error.code for error in self.errors)

    def __str__(self) -> str:
        """Return the line of the journal."""
        broker = "?" if self.broker is None else self.broker
        head = (
            f"{self.at:9.3f}s #{self.connection} broker {broker} "
            f"{self.client_id or '-'}: {self.api} v{self.version}"
        )
        return f"{head}{self._places()} -> {self._answer()}{self._fault_words()}"

    def _places(self) -> str:
        places = [_place(*place) for place in self.partitions[:_SHOWN_PARTITIONS]]
        more = len(self.partitions) - len(places)
        words = places + ([f"and {more} more"] if more > 0 else [])
        return f" [{', '.join(words)}]" if words else ""

    def _answer(self) -> str:
        codes = ", ".join(map(str, self.errors[:_SHOWN_PARTITIONS]))
        took = "" if self.took is None else f" in {self.took * 1000:.1f} ms"
        return f"{codes or self.outcome}{took}"

    def _fault_words(self) -> str:
        return f" ({'; '.join(self.faults)})" if self.faults else ""


@dataclass(frozen=True, slots=True)
class Closure:
    """The end of a client's connection.

    Attributes:
        at: When, in seconds since the proxy's start.
        connection: The connection's number.
        broker: The id of the broker, or None if unknown.
        reason: Who ended the connection, and why.
    """

    at: float
    connection: int
    broker: int | None
    reason: str

    def __str__(self) -> str:
        """Return the line of the journal."""
        broker = "?" if self.broker is None else self.broker
        return f"{self.at:9.3f}s #{self.connection} broker {broker} ends: {self.reason}"


@dataclass(frozen=True, slots=True)
class Counts:
    """Counts since the start, or since the journal was cleared.

    Attributes:
        requests: The number of requests by API.
        errors: The number of answers with an error code, by API and code.
    """

    requests: Counter[str]
    errors: Counter[tuple[str, int]]


class Journal:
    """The newest exchanges and closures, and the counts of all.

    ``print(proxy.journal)`` shows them, a line for each.
    """

    def __init__(self, size: int) -> None:
        self._exchanges: deque[Exchange] = deque(maxlen=size)
        self._closures: deque[Closure] = deque(maxlen=size)
        self._counts = Counts(Counter(), Counter())
        self.changed = threading.Condition()

    def exchanges(self) -> list[Exchange]:
        """Return the kept exchanges, oldest first."""
        with self.changed:
            return list(self._exchanges)

    def closures(self) -> list[Closure]:
        """Return the kept closures, oldest first."""
        with self.changed:
            return list(self._closures)

    def counts(self) -> Counts:
        """Return a copy of the current counts."""
        with self.changed:
            return Counts(self._counts.requests.copy(), self._counts.errors.copy())

    def clear(self) -> None:
        """Remove all entries and counts; the clock continues."""
        with self.changed:
            self._exchanges.clear()
            self._closures.clear()
            self._counts = Counts(Counter(), Counter())

    def __str__(self) -> str:
        """Return the journal, with a line for each exchange and closure."""
        lines: list[Exchange | Closure] = [*self.exchanges(), *self.closures()]
        lines.sort(key=lambda line: line.at)
        return "\n".join(map(str, lines))


class Recorder(Journal):
    """The journal that the proxy writes.

    Args:
        size: How many exchanges and closures are kept.
    """

    def __init__(self, size: int) -> None:
        super().__init__(size)
        self._start = time.monotonic()
        self._number = 0

    def now(self) -> float:
        """Return the seconds since the start."""
        return time.monotonic() - self._start

    def request(self, **details: Any) -> Exchange:
        """Record a request."""
        with self.changed:
            self._number += 1
            exchange = Exchange(self._number, self.now(), **details)
            self._exchanges.append(exchange)
            self._counts.requests[exchange.api] += 1
            self.changed.notify_all()
        return exchange

    def answer(
        self,
        exchange: Exchange,
        outcome: str,
        *,
        errors: tuple[AnsweredError, ...] = (),
        size: int = 0,
    ) -> None:
        """Record the outcome of a request."""
        with self.changed:
            exchange.outcome = outcome
            exchange.errors = errors
            exchange.answer_size = size
            exchange.took = self.now() - exchange.at
            for code in {error.code for error in errors}:
                self._counts.errors[exchange.api, code] += 1
            self.changed.notify_all()

    def closure(self, connection: int, broker: int | None, reason: str) -> None:
        """Record the end of a connection."""
        with self.changed:
            self._closures.append(Closure(self.now(), connection, broker, reason))
            self.changed.notify_all()


def answered_errors(answer: Any, topic_name: Any) -> tuple[AnsweredError, ...]:
    """Collect the error codes of a decoded answer.

    Args:
        answer: The answer.
        topic_name: Returns a topic's name for its id.
    """
    return tuple(_errors(answer, topic_name, None, None))


def _errors(
    node: Any, topic_name: Any, topic: str | None, partition: int | None
) -> Iterator[AnsweredError]:
    fields = struct_of(node).fields
    topic = _first_value(node, fields, _TOPIC_FIELDS, topic_name) or topic
    index = _first_value(node, fields, _PARTITION_FIELDS)
    partition = partition if index is None or topic is None else index
    for name in _ERROR_FIELDS:
        if name in fields and (code := getattr(node, name)):
            yield AnsweredError(code, topic, partition)
    for name, schema in fields.items():
        if schema.is_struct_array() and _carries_errors(schema):
            for entry in getattr(node, name) or ():
                yield from _errors(entry, topic_name, topic, partition)


def _first_value(
    node: Any, fields: Any, names: tuple[str, ...], rename: Any = None
) -> Any:
    for name in names:
        if name in fields and fields[name].for_version_q(node.version):
            value = getattr(node, name)
            if value is not None:
                return rename(value) if rename and not isinstance(value, str) else value
    return None


def _carries_errors(schema: Any) -> bool:
    """Return whether an array has error codes in its entries or below them."""
    carries = _CARRIERS.get(id(schema))  # schemas live as long as the process
    if carries is None:
        carries = any(
            name in _ERROR_FIELDS
            or (inner.is_struct_array() and _carries_errors(inner))
            for name, inner in schema.fields.items()
        )
        _CARRIERS[id(schema)] = carries
    return carries


def _place(topic: str, partition: int | None) -> str:
    return topic if partition is None else f"{topic}-{partition}"
