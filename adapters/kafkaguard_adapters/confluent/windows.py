"""Windows: groups of records that the delivery machine tracks together.

A confluent-kafka producer does not show its batches, and reports a record only when
somebody polls. So the guard counts records in windows. A record takes a slot in the
open window of its topic before the client gets the record. A window ends when it is
closed and each of its records was reported. For each record, a window keeps two
numbers: the hash of the key, to know which keys were accepted after a failed record,
and the hash of the value, to find the record that a report is about. A report does not
include headers, timestamp and callback; the window keeps these only for records that
have them.
"""

from __future__ import annotations

import time
from collections import defaultdict
from itertools import product
from operator import length_hint
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from confluent_kafka import KafkaError, KafkaException

from kafkaguard._delivery.facts import Batch, Place, Raw, Refusal
from kafkaguard_adapters.confluent.unsent import id_is_refused, without_id

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from kafkaguard_adapters.confluent.attempt_log import AttemptLog
    from kafkaguard_adapters.confluent.callbacks import Callbacks

_FOREVER = float("inf")
#: Marks a record that the client did not accept; no hash in Python is -1.
_VOID = -1
_TIMED_OUT = KafkaError._MSG_TIMED_OUT  # noqa: SLF001 - a documented constant
_PURGED = KafkaError._PURGE_QUEUE  # noqa: SLF001 - a documented constant
_PURGED_IN_FLIGHT = KafkaError._PURGE_INFLIGHT  # noqa: SLF001 - a documented constant
_DROPPED = KafkaError._DESTROY  # noqa: SLF001 - a documented constant
_UNKNOWN = (KafkaError._UNKNOWN_TOPIC, KafkaError._UNKNOWN_PARTITION)  # noqa: SLF001 - documented constants
#: A record that the client counts as delivered, though no answer was about it: a later
#: batch was accepted. Brokers accept it also if they have nothing of this producer in
#: the partition yet, so the record may be missing.
_NO_ANSWER = KafkaError(
    _PURGED_IN_FLIGHT,
    "the client counts it as delivered without an offset, because a later batch was "
    "accepted; an earlier answer was lost or said that it was not written",
)


class Listener(Protocol):
    """Receives what happens to the records of a window."""

    callbacks: Callbacks
    #: Whether the application wants callbacks for errors only.
    only_errors: bool
    #: Whether each delivered record that was answered has an offset.
    has_offsets: bool

    def record_failed(self, window: Window) -> None:
        """Handle the failure of a record of a window."""

    def all_reported(self, window: Window) -> None:
        """Handle a closed window whose records have all been reported."""

    def keep_resend_report(self, token: int, message: Any) -> None:
        """Keep the delivery report of a record that was sent again."""

    def message_of(self, token: int) -> Any:
        """Return the client's message about a delivered dead letter."""


class FailedReport(NamedTuple):
    """The report of a failed record.

    Attributes:
        error: The client's error object.
        message: The client's message about the record.
        call: The application's callback.
        ticket: The record's ticket, if it has one.
        produced_at: When the client got the record, in monotonic seconds.
        latency_s: The seconds from then until the report.
    """

    error: Any
    message: Any
    call: Any
    ticket: Ticket | None
    produced_at: float
    latency_s: float


class ClientFacts(NamedTuple):
    """What is known about the client when a window ends.

    Attributes:
        is_dying: Whether the client is dead, or the guard stops it.
        retry_s: Seconds before which the client does not send a batch again.
        attempts: What the client logs about its attempts; None: it does not tell.
        refused_login: The client's error about a refused login since it got the oldest
            failed record, or None.
        purged_at: When the application has purged the client last, in monotonic
            seconds. Records that the client purges by itself have other causes.
        death: Why no client can send the records of a dead one, or None.
        broken: The client's error about a failed connection since then, or None.
        repeats: Whether the client sends a record again that got no answer.
    """

    is_dying: bool
    retry_s: float = 0.0
    attempts: AttemptLog | None = None
    refused_login: Any = None
    purged_at: float = -_FOREVER
    death: KafkaException | None = None
    broken: KafkaError | None = None
    repeats: bool = True

    def may_be_sent_before(self, report: FailedReport) -> bool:
        """Return whether a record may have been sent before its last attempt.

        The broker checks the topic's settings before it looks whether it has a batch
        already, so it may refuse what it has written. If the client does not tell, the
        time decides: it waits before it sends a batch again.
        """
        message, attempts = report.message, self.attempts
        if message.partition() is None:  # it waited for metadata of its topic
            return False
        if attempts is None or not attempts.is_heard:
            return report.latency_s >= self.retry_s
        return attempts.has_repeated(
            message.topic(), message.partition(), report.produced_at
        )

    @property
    def is_without_id(self) -> bool:
        """Whether the client has no producer id so far, so that it has sent nothing."""
        attempts = self.attempts
        return attempts is not None and attempts.is_heard and not attempts.has_id

    @property
    def refused_id(self) -> KafkaError | None:
        """Why the client has no producer id, if it has told that."""
        if self.attempts is None or not self.is_without_id:
            return None
        return self.attempts.refused_id if self.death is None else self.death.args[0]


class Window(Batch):
    """Records of a topic, in the order in which they were handed to the client.

    Args:
        topic: The records' topic.
        position: As for any batch.
        capacity: The most records in the window.
        first_token: The token of the first record; the others have the next numbers.
        listener: Receives what happens to the records.
        suspects: The keys of failed records, by hash.
        is_resend: Whether the records are sent again, or are dead letters.
        is_first: Whether no other window of the topic was open when this one began.

    Attributes:
        slots: The indexes that are free; a thread takes one with ``next``.
        key_hashes: The hash of each record's key, by index.
        value_hashes: The hash of each record's value, by index.
        on_delivery: The delivery callback for records without one of their own.
        chained: The application's last callback, and the delivery callback that calls
            it. They are one tuple, because threads share it.
        failed_reports: The reports of failed records so far.
        first_token: See above.
    """

    __slots__ = (
        "_capacity",
        "_ended_counter",
        "_is_first",
        "_last_count",
        "_report_at",
        "_suspects",
        "_voids",
        "chained",
        "failed_reports",
        "first_token",
        "is_resend",
        "key_hashes",
        "listener",
        "on_delivery",
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
        is_resend: bool = False,
        is_first: bool = False,
    ) -> None:
        super().__init__(Place(topic), position, _FOREVER)
        self.slots = iter(range(capacity))
        # A view of bytes: an array takes half as long again for each item.
        self.key_hashes = memoryview(bytearray(8 * capacity)).cast("q")
        self.value_hashes = memoryview(bytearray(8 * capacity)).cast("q")
        self.failed_reports: list[FailedReport] = []
        self.first_token = first_token
        self.is_resend = is_resend
        self._is_first = is_first
        self._capacity = capacity
        self.listener = listener
        self._suspects = suspects
        #: One number for each record that has its outcome, and one for closing.
        self._ended_counter = iter(range(capacity + 1))
        #: The last of these numbers, once the window is closed.
        self._last_count: int | None = None
        self._voids: set[int] = set()
        self._report_at: dict[int, FailedReport] = {}
        self.chained: tuple[Any, Any] = (None, None)
        self.on_delivery: Any = self._delivery_callback()

    # --- reports, in the thread that polls --------------------------------------------

    def _delivery_callback(self) -> Any:
        ended_counter, listener = self._ended_counter, self.listener
        has_offsets = listener.has_offsets

        def on_delivery(error: Any, message: Any) -> None:
            if error is not None:
                self.add_failed_report(error, message)
            elif has_offsets and message.offset() is None:
                self.add_failed_report(_NO_ANSWER, message)
            elif next(ended_counter) == self._last_count:
                listener.all_reported(self)

        return on_delivery

    def chain(self, call: Any) -> Any:
        """Return a delivery callback that also calls the application's callback.

        The last one is kept, because most records have the same callback.

        Raises:
            TypeError: The application's callback is not callable.
        """
        if not callable(call):
            raise TypeError(
                f"produce(on_delivery): a function, not {type(call).__name__}"
            )
        ended_counter, listener = self._ended_counter, self.listener
        callbacks, has_offsets = listener.callbacks, listener.has_offsets
        only_errors = listener.only_errors

        def on_delivery(error: Any, message: Any) -> None:
            if error is not None:
                self.add_failed_report(error, message, call)
                return
            if has_offsets and message.offset() is None:
                self.add_failed_report(_NO_ANSWER, message, call)
                return
            if next(ended_counter) == self._last_count:
                listener.all_reported(self)
            if only_errors:
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

        self.chained = call, on_delivery
        return on_delivery

    def add_failed_report(
        self, error: Any, message: Any, call: Any = None, ticket: Ticket | None = None
    ) -> None:
        """Keep the report of a failed record."""
        latency_s = message.latency()
        produced_at = time.monotonic() - latency_s
        self.failed_reports.append(
            FailedReport(error, message, call, ticket, produced_at, latency_s)
        )
        self.listener.record_failed(self)
        self.count_ended()

    def count_ended(self) -> None:
        """Count that a record has its outcome, or that the window is closed."""
        if next(self._ended_counter) == self._last_count:
            self.listener.all_reported(self)

    def void(self, index: int) -> None:
        """Mark the slot of a record that the client did not accept."""
        self.key_hashes[index] = self.value_hashes[index] = _VOID
        self._voids.add(index)
        self.count_ended()

    def close(self) -> bool:
        """Stop giving indexes; return whether the window was open.

        Called under the listener's lock. The caller calls ``count_ended`` next.
        """
        if self._last_count is not None:
            return False
        # One atomic step, so that no thread gets an index meanwhile.
        self._last_count = self._capacity - len(list(self.slots))
        return True

    @property
    def is_full(self) -> bool:
        """Whether no index is free."""
        return not length_hint(self.slots)

    def mark(self, index: int, key: bytes | None, value: bytes | None) -> None:
        """Store the hashes of a record's key and value."""
        self.key_hashes[index] = hash(key)
        self.value_hashes[index] = hash(value)

    @property
    def oldest_produced_at(self) -> float:
        """When the client got the oldest failed record, in monotonic seconds."""
        return min(report.produced_at for report in self.failed_reports)

    def free_reports(self) -> None:
        """Free what is needed for reports only."""
        self.on_delivery, self.chained = None, (None, None)
        self.value_hashes = memoryview(b"").cast("q")
        self.failed_reports = []

    # --- facts for the machine --------------------------------------------------------

    @property
    def count(self) -> int:
        """How many records the window has."""
        return self._taken - len(self._voids)

    @property
    def is_lone(self) -> bool:
        """Whether its only record shared no batch with records of another window."""
        return self._is_first and self.count == 1

    @property
    def _taken(self) -> int:
        if self._last_count is not None:
            return self._last_count
        return self._capacity - length_hint(self.slots)

    @property
    def delivered(self) -> int:
        """How many records were reported as delivered so far."""
        counted = self._capacity + 1 - length_hint(self._ended_counter)
        closed = self._last_count is not None
        return counted - closed - len(self._voids) - len(self.failed_reports)

    def doubt(self, delivered: int) -> None:
        """Note that records may be written twice, but not the first delivered ones."""
        if self.doubtful_from is None or delivered < self.doubtful_from:
            self.doubtful_from = delivered

    def where(self, index: int) -> tuple[int | None, int | None]:
        """Return partition and offset of a dead letter."""
        message = self.listener.message_of(self.first_token + index)
        return message.partition(), message.offset()

    @property
    def unreported_count(self) -> int:
        """How many records have no report so far."""
        return self.count - self.delivered - len(self.failed_reports)

    def tokens(self) -> Sequence[int]:
        """Return the records' tokens."""
        return range(self.first_token, self.first_token + self._taken)

    def keys(self) -> Sequence[bytes | None]:
        """Return each record's key if a record of that key has failed, else None."""
        return [*map(self._suspects.get, self.key_hashes[: self._taken])]

    def raws(self) -> Sequence[Any]:
        """Return the bytes of each failed record at its index, else None."""
        raws: list[Raw | None] = [None] * self._taken
        for index, report in self._report_at.items():
            raws[index] = _raw_of(report)
        return raws

    def refusals(self, client_facts: ClientFacts) -> list[Refusal]:
        """Return why each failed record has failed."""
        self._report_at = dict(self._with_index())
        return [
            _refusal(self.first_token + index, index, report, client_facts)
            for index, report in self._report_at.items()
        ]

    def unreported(self) -> list[Refusal]:
        """Return a refusal for each record without a report, as "maybe" sent.

        The guard cannot know which records these are, so none of them is sent again.
        Those of :meth:`refusals`, which comes first, are left out.
        """
        error = KafkaException(KafkaError(_PURGED_IN_FLIGHT))
        indexes = [
            index
            for index in range(self._taken)
            if index not in self._voids and index not in self._report_at
        ]
        return [
            Refusal(self.first_token + index, index, error, "client", "maybe")
            for index in indexes[len(indexes) - self.unreported_count :]
        ]

    def report_of(self, token: Any) -> FailedReport:
        """Return the report of a failed record."""
        return self._report_at[token - self.first_token]

    def _with_index(self) -> Iterator[tuple[int, FailedReport]]:
        """Find the index of each failed record.

        If records have the same key and value, the last of them counts as failed, so
        that the newest record is never lost.
        """
        with_ticket = {
            f.ticket.index for f in self.failed_reports if f.ticket is not None
        }
        indexes: defaultdict[tuple[int, int], list[int]] = defaultdict(list)
        for index in range(self._taken):
            if index not in with_ticket and index not in self._voids:
                marks = self.key_hashes[index], self.value_hashes[index]
                indexes[marks].append(index)
        for report in self.failed_reports:
            if report.ticket is not None:
                yield report.ticket.index, report
                continue
            message = report.message
            marks_of = product(hashes(message.key()), hashes(message.value()))
            alike = next((indexes[m] for m in marks_of if indexes.get(m)), None)
            yield (alike or next(filter(None, indexes.values()))).pop(), report


class Ticket:
    """The delivery callback of one record, with the parts that a report lacks.

    Args:
        window: The record's window.
        index: The record's index in the window.
        call: The application's callback.
        headers: The record's headers.
        timestamp: The record's timestamp in milliseconds; 0: the client sets it.
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
        """Handle the client's delivery report."""
        window = self.window
        if error is None and window.listener.has_offsets and message.offset() is None:
            error = _NO_ANSWER
        if error is not None:
            window.add_failed_report(error, message, self.call, self)
            return
        self.arrived(message)
        window.count_ended()

    def arrived(self, message: Any) -> None:
        """Call the application's callback for the delivered record."""
        listener = self.window.listener
        if self.call is not None and not listener.only_errors:
            listener.callbacks.call(self.call, None, message)


class ResendTicket(Ticket):
    """The delivery callback of a record that is sent again, or of a dead letter."""

    __slots__ = ()

    def arrived(self, message: Any) -> None:
        """Pass on that the record was delivered; the machine settles it."""
        window = self.window
        window.listener.keep_resend_report(window.first_token + self.index, message)


class OwnTicket(Ticket):
    """The delivery callback of a record that the user's own class produces.

    Args:
        hand_over: Produces the record, with the callback that it is given.
    """

    __slots__ = ("hand_over",)

    def __init__(
        self, window: Window, index: int, call: Any, hand_over: Callable[[Any], object]
    ) -> None:
        super().__init__(window, index, call, None, 0)
        self.hand_over = hand_over

    def __call__(self, error: Any, message: Any) -> None:
        """Handle the delivery report; only now the serialised bytes are known."""
        self.window.mark(self.index, message.key(), message.value())
        super().__call__(error, message)


def hashes(part: bytes | None) -> Iterator[int]:
    """Return the hashes that a key or value may have had, as bytes or as text."""
    yield hash(part)
    if part is not None:
        yield hash(part.decode(errors="surrogateescape"))


def _raw_of(report: FailedReport) -> Raw:
    message, ticket = report.message, report.ticket
    headers, timestamp = None, None
    if ticket is not None:
        headers, timestamp = ticket.headers, ticket.timestamp or None
    return Raw(message.key(), message.value(), plain_headers(headers), timestamp)


def plain_headers(headers: Any) -> list[tuple[str, bytes | None]]:
    """Return headers as the client sends them: pairs of a name and bytes."""
    pairs = headers.items() if isinstance(headers, dict) else headers or ()
    return [(n, v.encode() if isinstance(v, str) else v) for n, v in pairs]


def _refusal(
    token: int, index: int, report: FailedReport, client_facts: ClientFacts
) -> Refusal:
    code, message = report.error.code(), report.message
    partition = message.partition()
    if report.error is _NO_ANSWER:
        error, facts = report.error, _dropped("record", is_sent=True)
    elif code == _TIMED_OUT:
        error, facts = _timed_out(report, client_facts)
    elif code in (_PURGED, _PURGED_IN_FLIGHT):
        error, facts = _purged(report, client_facts)
    elif code == _DROPPED:
        error = _doubtful("the client dropped it with its partition, which is gone")
        facts = _dropped("client" if client_facts.is_dying else "record", is_sent=True)
    elif code in _UNKNOWN or partition is None:
        is_sent = client_facts.repeats and client_facts.may_be_sent_before(report)
        error = _doubtful("its partition is gone") if is_sent else report.error
        facts = _dropped("record", is_sent=is_sent)
    else:
        error, facts = report.error, {"blame": "unknown", "sent": "answered"}
        facts["was_unanswered"] = client_facts.may_be_sent_before(report)
    return Refusal(
        token,
        index,
        KafkaException(error) if isinstance(error, KafkaError) else error,
        null_key=message.key() is None,
        partition=partition,
        **facts,
    )


def _timed_out(
    report: FailedReport, client_facts: ClientFacts
) -> tuple[Any, dict[str, Any]]:
    """Return why the client let a record expire, and what is known about that."""
    message, refused_id = report.message, client_facts.refused_id
    partition = message.partition()
    # A record without a partition waited for metadata of its topic.
    is_sent = partition is not None and not client_facts.is_without_id
    facts = _dropped("client", is_sent=is_sent) | {"expired": True}
    if partition is None and client_facts.refused_login is not None:
        return client_facts.refused_login, facts
    if refused_id is None:
        if is_sent or client_facts.broken is None:
            return report.error, facts
        text = f"{report.error.str()}; the last connection: {client_facts.broken.str()}"
        return KafkaError(_TIMED_OUT, text), facts
    if not id_is_refused(refused_id):
        return refused_id, facts
    error = without_id(refused_id, message.topic(), partition)
    return error, _dropped("record", is_sent=False)


def _purged(
    report: FailedReport, client_facts: ClientFacts
) -> tuple[Any, dict[str, Any]]:
    """Return why the client dropped a record, and what is known about that."""
    error, message, death = report.error, report.message, client_facts.death
    blame = "record" if report.produced_at <= client_facts.purged_at else "client"
    is_sent = error.code() == _PURGED_IN_FLIGHT or client_facts.may_be_sent_before(
        report
    )
    facts = _dropped(blame, is_sent=is_sent)
    if is_sent:
        if error.code() == _PURGED:
            error = _doubtful("the client dropped it after it had sent it")
        return error, facts
    if blame == "record" or death is None:
        return error, facts
    if client_facts.refused_id is None:
        return death.args[0], facts
    error = without_id(client_facts.refused_id, message.topic(), message.partition())
    return error, _dropped("record", is_sent=False)


def _dropped(blame: str, *, is_sent: bool) -> dict[str, Any]:
    """Return what is known about a record to which no answer was given."""
    return {"blame": blame, "sent": "maybe" if is_sent else "never"}


def _doubtful(why: str) -> KafkaError:
    """Return the client's error for a record that it dropped and that may be written.

    Its own error may say that the record was not sent.
    """
    return KafkaError(_PURGED_IN_FLIGHT, why)
