"""The guard's part of ``produce``, the hot path."""

from __future__ import annotations

import time
from threading import get_ident
from typing import TYPE_CHECKING, Any, NamedTuple

from confluent_kafka import KafkaError, KafkaException, Message

from kafkaguard._delivery.facts import Place, Raw
from kafkaguard._delivery.judging import MESSAGE_TOO_LARGE
from kafkaguard._delivery.sizes import batch_size
from kafkaguard._errors import (
    ClientClosedError,
    ClientQueueFullError,
    KafkaGuardError,
)
from kafkaguard_adapters.confluent.callbacks import ReportedError
from kafkaguard_adapters.confluent.errors import errors
from kafkaguard_adapters.confluent.shell import says_unknown_partition
from kafkaguard_adapters.confluent.windows import OwnTicket, Ticket, plain_headers
from kafkaguard_adapters.producing import send_errors

if TYPE_CHECKING:
    from collections.abc import Callable

    from kafkaguard._delivery.time_limit import TimeLimit
    from kafkaguard_adapters.confluent.shell import ConfluentShell
    from kafkaguard_adapters.confluent.transactions import Transactions
    from kafkaguard_adapters.confluent.windows import Window
    from kafkaguard_adapters.producing.driver import ThreadDriver
    from kafkaguard_adapters.producing.null_keys import NullKeyCheck

#: Seconds between two attempts while the client's queue is full.
_ROOM_S = 0.05


class Arguments(NamedTuple):
    """The arguments of ``produce``."""

    topic: str
    value: Any
    key: Any
    partition: int
    call: Any
    timestamp: int
    headers: Any


class Sending:
    """Hands records to the client that is in use.

    Args:
        shell: The shell of the client.
        driver: Tracks the client's records.
        transactions: Knows the client's transaction.
        null_keys: Refuses records without a key.
        null_keys_allowed: Topics for which records without a key need no check.
        time_limit: How long one call may wait.
        on_delivery: The callback of records that have none.

    Attributes:
        produce: The guarded ``produce`` of a ``Producer``.
    """

    def __init__(
        self,
        shell: ConfluentShell,
        driver: ThreadDriver,
        transactions: Transactions,
        null_keys: NullKeyCheck,
        null_keys_allowed: set[str],
        time_limit: TimeLimit,
        on_delivery: Any,
    ) -> None:
        self.shell = shell
        self._driver = driver
        self._transactions = transactions
        self._null_keys = null_keys
        self._time_limit = time_limit
        self.produce = self._function(null_keys_allowed, on_delivery)

    def _function(
        self, null_keys_allowed: set[str], default: Any
    ) -> Callable[..., None]:
        """Return ``produce``; it uses closure variables, which are the fastest.

        It runs for each record, so what most records do not need is in other methods.
        """
        shell, windows = self.shell, self.shell.windows
        checks = self._null_keys.is_on
        refuse_key, handle_exception = self.refuse_key, self._handle_exception
        take_slot = self._take_slot

        def produce(
            topic: str,
            value: Any = None,
            key: Any = None,
            partition: int = -1,
            callback: Any = None,
            on_delivery: Any = None,
            timestamp: int = 0,
            headers: Any = None,
        ) -> None:
            """Produce a record, as ``Producer.produce`` does.

            The call waits while the queue is full, and while records of the topic are
            sent again, at most for the policy's ``deadline``. The callback gets the
            outcome of a refused record if the policy's ``on_reject`` is not "raise",
            or if the client does not know the topic and the policy has attempts left.

            Raises:
                InvalidRecordKeyError: The topic is compacted and the record has no
                    key. Nothing was sent. Also a ``KafkaException``.
                ClientQueueFullError: The queue stayed full. Also a ``BufferError``.
                KafkaGuardError: The client raised another error. It also has the
                    client's class.
            """
            call = on_delivery or callback or default
            if key is None and checks and topic not in null_keys_allowed:
                record = Arguments(
                    topic, value, key, partition, call, timestamp, headers
                )
                if refuse_key(record):
                    return
            try:
                key_hash, value_hash = hash(key), hash(value)
                window = windows[topic]
                index = next(window.slots)
            except (KeyError, StopIteration, TypeError):
                record = Arguments(
                    topic, value, key, partition, call, timestamp, headers
                )
                taken = take_slot(record)
                if taken is None:
                    return
                window, index, key_hash, value_hash = taken
            window.key_hashes[index] = key_hash
            window.value_hashes[index] = value_hash
            try:
                if headers is not None or timestamp:
                    on_delivery = Ticket(window, index, call, headers, timestamp)
                elif call is None:
                    on_delivery = window.on_delivery
                else:
                    last_call, on_delivery = window.chained
                    if call is not last_call:
                        on_delivery = window.chain(call)
                shell.produce(
                    topic, value, key, partition, on_delivery, None, timestamp, headers
                )
            except Exception as error:  # noqa: BLE001 - raised again, unless handled
                window.void(index)
                record = Arguments(
                    topic, value, key, partition, call, timestamp, headers
                )
                handle_exception(error, record)

        produce.__qualname__ = produce.__name__  # which a TypeError shows
        return produce

    def produce_own(
        self,
        record: Arguments,
        hand_over: Callable[[Any], Any],
        *,
        has_key: bool,
    ) -> Any:
        """Produce a record with the user's own ``produce`` method.

        Args:
            record: The arguments of the call.
            hand_over: Calls that method with the callback that it is given.
            has_key: Whether a key was given; it may be None.
        """
        if has_key and record.key is None and self.refuse_key(record):
            return None
        end = time.monotonic() + self._time_limit.seconds
        is_callback = get_ident() in self.shell.callbacks.polling  # must not poll again
        while True:
            window, index = self.take_slot(record.topic)
            try:
                return hand_over(OwnTicket(window, index, record.call, hand_over))
            except BaseException as error:
                window.void(index)
                is_full = isinstance(error, BufferError)
                if not is_full or time.monotonic() >= end or is_callback:
                    raise
            self.shell.serve_for_room(_ROOM_S)

    # --- a slot in a window -----------------------------------------------------------

    def _take_slot(self, record: Arguments) -> tuple[Window, int, int, int] | None:
        """Take a slot for a record if the fast path of ``produce`` found none.

        Returns:
            None if the record is larger than its topic allows, and its callback gets
            the outcome.
        """
        topic, key, value = record.topic, record.key, record.value
        if not isinstance(topic, str):
            raise TypeError(f"produce(topic): str, not {type(topic).__name__}")
        for part in (key, value):
            if not isinstance(part, (str, bytes, type(None))):
                raise TypeError(
                    "produce(key, value): str, bytes or None, not "
                    f"{type(part).__name__}"
                )
        error = self._size_error(record) if topic in self.shell.limits else None
        if error is not None:
            self._refuse(error, record)
            return None
        return *self.take_slot(topic), hash(key), hash(value)

    def _size_error(self, record: Arguments) -> KafkaGuardError | None:
        """Return the error of a record that is larger than its topic is known to allow.

        A record that cannot be read is left to the client.
        """
        most = self.shell.limit_of(record.topic)
        if most is None:
            return None
        try:
            key, value = _encoded(record.key), _encoded(record.value)
            size = batch_size(key, value, plain_headers(record.headers))
        except (AttributeError, TypeError, ValueError):
            return None
        if size <= most:
            return None
        return errors.translate(
            KafkaException(KafkaError(MESSAGE_TOO_LARGE)),
            message=(
                f"the record makes a batch of {size} bytes, and max.message.bytes of "
                f"topic {record.topic} is {most}; nothing was sent. Send less, "
                "compress it, or raise that setting"
            ),
            context={"transactional": self.shell.traits.transactional},
            api="Produce",
            topic=record.topic,
        )

    @property
    def _context(self) -> dict[str, Any]:
        """What is known about a record that the client does not have yet."""
        if self.shell.traits.transactional:
            return {"transactional": True}
        return {"phase": "enqueue", "idempotent": False}

    def take_slot(self, topic: str) -> tuple[Window, int]:
        """Take a slot in the open window of a topic, once the topic is free.

        Raises:
            KafkaGuardError: The topic was held for longer than a call may wait.
        """
        is_held = self._driver.is_held
        while True:
            window = self.shell.window(topic, is_held)
            if window is None:
                self._driver.wait_while_held(topic, self._time_limit)
                continue
            index = next(window.slots, None)
            if index is not None:
                return window, index

    # --- records that the guard or the client refuses ---------------------------------

    def refuse_key(self, record: Arguments, serializer: Any = None) -> bool:
        """Refuse a record without a key for a compacted topic.

        Returns:
            True if the record is refused and its callback gets the outcome; False if
            it can be sent.

        Raises:
            InvalidRecordKeyError: The record is refused, and the policy's ``on_reject``
                is "raise".
        """
        topic, key, headers = record.topic, record.key, record.headers
        app_calls = self._driver.app_calls
        error = self._null_keys.error_of(app_calls, topic, key, headers, serializer)
        if error is not None:
            self._refuse(error, record)
        return error is not None

    def check_letter(self, topic: str, key: bytes | None) -> None:
        """Refuse a dead letter without a key for a compacted topic.

        Raises:
            InvalidRecordKeyError: The topic is compacted and the key is missing.
        """
        self._null_keys.check(topic, key)

    def _refuse(self, error: KafkaGuardError, record: Arguments) -> None:
        """Handle a refused record as the policy says.

        Raises:
            KafkaGuardError: The policy's ``on_reject`` is "raise", and the policy has
                no attempts left for the record.
        """
        self._transactions.spoil(error)
        machine = self._driver.machine
        on_reject, keeps = machine.on_reject(error), machine.keeps(error)
        if on_reject == "raise" and not keeps:
            self._driver.raised(error)
            raise error
        needs_bytes = keeps or on_reject == "dead_letter"
        raw = _bytes(error, record) if needs_bytes else None
        place, where = Place(record.topic), dict[str, Any]()
        if record.partition >= 0:
            place = Place(record.topic, record.partition)
            where = {"partition": record.partition}
        message = Message(
            topic=record.topic,
            key=None if raw is None else raw.key,
            value=None if raw is None else raw.value,
            error=ReportedError(error),
            **where,
        )
        token = self.shell.note_refused(record.call, message)
        self._driver.refused_at_once(token, place, raw, error)

    def _handle_exception(self, error: Exception, record: Arguments) -> None:
        """Handle what the client's ``produce`` has raised.

        Raises:
            KafkaGuardError: The client did not accept the record.
            Exception: The client raised anything else.
        """
        if isinstance(error, BufferError):
            self._wait_for_room(error, record)
        elif isinstance(error, KafkaException):
            self._handle_kafka_exception(error, record)
        elif isinstance(error, RuntimeError):  # what a closed client raises
            raise send_errors.make_closed(errors, record.topic) from error
        else:
            raise error

    def _handle_kafka_exception(self, error: KafkaException, record: Arguments) -> None:
        shell = self.shell
        if shell.report_if_dead(shell.client, error):
            if self._driver.is_held(record.topic) and not self._driver.is_own_thread():
                self._send_again(record)
                return
            raise self._make_dead_error(error, record.topic) from error
        place: dict[str, Any] = {"topic": record.topic}
        if record.partition >= 0:
            place["partition"] = record.partition
        record_error = self._transactions.error_of(error, record.topic)
        if record_error is None and says_unknown_partition(error):
            record_error = shell.missing_partition(
                error, record.topic, record.partition
            )
            if record_error is None:
                self._send_again(record)
                return
        if record_error is None:
            record_error = errors.translate(
                error, context=self._context, api="Produce", **place
            )
        if record_error.code == MESSAGE_TOO_LARGE and (
            raw := _bytes(record_error, record)
        ):
            record_error.summary = shell.describe_too_large(raw)
        self._refuse(record_error, record)

    def _make_dead_error(self, error: KafkaException, topic: str) -> KafkaGuardError:
        """Return the error of a record that a dead client did not accept."""
        return (
            self._transactions.death_of(error, topic)
            or self.shell.why_dead(topic)
            or errors.make(
                ClientClosedError,
                "the producer is dead, and nothing was sent: build a new one, or use "
                "guard(factory=..., config={...}), which does",
                original=error,
                theirs=KafkaException,
                api="Produce",
                topic=topic,
            )
        )

    def _wait_for_room(self, error: BufferError, record: Arguments) -> None:
        """Serve reports until the client accepts the record; callbacks are queued.

        Raises:
            ClientQueueFullError: The client's queue stayed full for too long.
        """
        end = time.monotonic() + self._time_limit.seconds
        is_callback = get_ident() in self.shell.callbacks.polling  # must not poll again
        while time.monotonic() < end and not is_callback:
            self.shell.serve_for_room(_ROOM_S)
            try:
                self._hand_over(record)
            except BufferError:
                continue
            except Exception as failure:  # noqa: BLE001 - raised again, unless handled
                self._handle_exception(failure, record)
            return
        raise errors.make(
            ClientQueueFullError,
            f"the producer's queue stayed full for {self._time_limit}: the brokers "
            "accept records more slowly than your program sends them, or no broker "
            "answers. This record was not sent: send it again later",
            api="Produce",
            topic=record.topic,
        ) from error

    def _send_again(self, record: Arguments) -> None:
        """Send a record with the successor, once it is in use."""
        topic, value, key, partition, call, timestamp, headers = record
        self.produce(topic, value, key, partition, call, None, timestamp, headers)

    def _hand_over(self, record: Arguments) -> None:
        """Give a record to the client once.

        Raises:
            Exception: The client raised it.
        """
        topic, value, key, partition, call, timestamp, headers = record
        window, index = self.take_slot(topic)
        window.mark(index, key, value)
        on_delivery = Ticket(window, index, call, headers, timestamp)
        try:
            self.shell.produce(
                topic, value, key, partition, on_delivery, None, timestamp, headers
            )
        except Exception:
            window.void(index)
            raise


def _bytes(error: KafkaGuardError, record: Arguments) -> Raw | None:
    """Return a record's bytes; where they are not available, the error says so."""
    try:
        return Raw(
            _encoded(record.key),
            _encoded(record.value),
            plain_headers(record.headers),
            record.timestamp or None,
        )
    except (TypeError, ValueError) as failure:
        send_errors.add_unreadable(error, failure)
        return None


def _encoded(part: Any) -> bytes | None:
    if part is None or isinstance(part, bytes):
        return part
    return str(part).encode()
