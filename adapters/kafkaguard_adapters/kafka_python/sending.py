"""The guard's part of ``send``, the hot path.

It is separate from the stand-in, because an attribute look-up on an object that
delegates unknown names takes ten times as long, and a send looks up several attributes.
"""

from __future__ import annotations

import time
from threading import get_ident
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

from kafka.errors import IllegalStateError, KafkaError, KafkaTimeoutError

from kafkaguard._delivery.facts import Place
from kafkaguard._delivery.time_limit import TimeLimit
from kafkaguard._verdicts.classification import classify
from kafkaguard_adapters.kafka_python._private import moving, reading
from kafkaguard_adapters.kafka_python._private.reading import SendArguments
from kafkaguard_adapters.kafka_python.errors import errors
from kafkaguard_adapters.kafka_python.future import GuardedFuture
from kafkaguard_adapters.producing import send_errors

if TYPE_CHECKING:
    from collections.abc import Callable

    from kafkaguard._delivery.facts import Raw
    from kafkaguard._delivery.machine import DeliveryMachine
    from kafkaguard._errors import KafkaGuardError
    from kafkaguard._errors.base import Verdict
    from kafkaguard_adapters.kafka_python.shell import KafkaPythonShell
    from kafkaguard_adapters.kafka_python.transactions import Transactions
    from kafkaguard_adapters.producing.driver import ThreadDriver
    from kafkaguard_adapters.producing.null_keys import NullKeyCheck

_new = object.__new__
_INT64 = 1 << 63
#: Stands for a machine that holds the sends of every topic.
_ALL_HELD: Any = SimpleNamespace(holds={None})


class Sending:
    """Gives records to the client that is in use.

    Args:
        null_keys_allowed: Topics whose records need no check for a null key.

    Attributes:
        wait: Called if the topic is held, with the topic and the limit of the wait.
    """

    __slots__ = (
        "driver",
        "machine",
        "null_keys",
        "null_keys_allowed",
        "serializes",
        "shell",
        "transactions",
        "under_way",
        "wait",
    )

    shell: KafkaPythonShell
    driver: ThreadDriver
    machine: DeliveryMachine
    null_keys: NullKeyCheck
    transactions: Transactions
    wait: Callable[[str, TimeLimit], object]

    def __init__(self, null_keys_allowed: set[str]) -> None:
        self.null_keys_allowed = null_keys_allowed

    def use(
        self,
        shell: KafkaPythonShell,
        driver: ThreadDriver,
        transactions: Transactions,
        null_keys: NullKeyCheck,
        under_way: dict[int, str | None],
    ) -> None:
        """Send with this shell and this driver from now on.

        Args:
            shell: The shell.
            driver: The driver.
            transactions: The producer's transactions.
            null_keys: Refuses records without a key.
            under_way: ``SendBarrier.under_way``, to show the driver each running send.
        """
        self.shell, self.driver, self.transactions = shell, driver, transactions
        self.null_keys = null_keys
        self.serializes = shell.producer.config["key_serializer"] is not None
        self.under_way = under_way
        self.machine, self.wait = driver.machine, driver.wait_while_held

    def send(  # noqa: C901 - the hot path: a check costs less than a call
        self,
        topic: str,
        value: Any = None,
        key: Any = None,
        headers: Any = None,
        partition: int | None = None,
        timestamp_ms: int | None = None,
        *,
        timeout: float | None = None,
    ) -> Any:
        """Send a record, as ``KafkaProducer.send`` does.

        Args:
            topic: The topic. This and the next arguments are those of kafka-python.
            value: The value.
            key: The key.
            headers: The headers.
            partition: The partition.
            timestamp_ms: The timestamp, in milliseconds since 1970.
            timeout: The longest time of this call in seconds, 0 or more. The call may
                wait for metadata of the topic, for records of the topic that are sent
                again, or for a dead producer to be replaced. Default: the client's
                ``max_block_ms``, which always applies.

        Returns:
            A future with the interface of kafka-python's future. If the policy
            dead-letters or drops a refused record (``on_reject``), the future fails
            with the error.

        Raises:
            InvalidRecordKeyError: The topic is compacted and the record has no key,
                after serialisers. Nothing was sent. The error is also an
                ``InvalidRecordError`` of kafka-python.
            KafkaGuardError: The client raised another error. The error also has the
                client's class.
            TypeError: ``timeout`` is not a number, or ``partition`` is not a whole one.
            ValueError: ``timeout`` is negative, or ``timestamp_ms`` does not fit into
                64 bits.
        """
        if timestamp_ms is not None:
            _check_timestamp(timestamp_ms)
        if partition is not None and type(partition) is not int:
            check_partition(partition)
        if timeout is not None:
            timeout = self._await_topic(topic, partition, timeout)
        me = get_ident()
        under_way = self.under_way
        outer = under_way.get(me)  # a serialiser or a log handler may send as well
        under_way[me] = topic  # before the check for holds, so that a hold waits for it
        try:
            if self.machine.holds:
                self._wait_while_held(me, topic, timeout)
            if (key is None or self.serializes) and topic not in self.null_keys_allowed:
                serializer = self.shell.producer.config["key_serializer"]
                record_error = self.null_keys.error_of(
                    self.driver.app_calls, topic, key, headers, serializer, timeout
                )
                if record_error is not None:
                    self.transactions.spoil(record_error)
                    record = SendArguments(
                        topic, value, key, headers, partition, timestamp_ms
                    )
                    return self._refuse(record_error, record)
            producer = self.shell.producer
            try:
                # What is None is left out: instrumentation adds headers, and the call
                # costs less.
                if headers is None and partition is None and timestamp_ms is None:
                    inner = producer.send(topic, value, key)
                elif headers is None:
                    inner = producer.send(
                        topic,
                        value,
                        key,
                        partition=partition,
                        timestamp_ms=timestamp_ms,
                    )
                else:
                    inner = producer.send(
                        topic, value, key, headers, partition, timestamp_ms
                    )
            except Exception as error:  # noqa: BLE001 - raised again, unless solved
                record = SendArguments(
                    topic, value, key, headers, partition, timestamp_ms
                )
                under_way[me] = outer
                return self._handle_exception(error, producer, record, timeout)
        finally:
            under_way[me] = outer
        if inner.is_done and inner.failed():  # maybe before it was in any batch
            record = SendArguments(topic, value, key, headers, partition, timestamp_ms)
            self._report_failed(inner, record)
        future = _new(GuardedFuture)  # takes half as long as with __init__
        future._inner = inner  # noqa: SLF001 - as its __init__ does
        future._driver = self.driver  # noqa: SLF001 - as its __init__ does
        return future

    def check_appends_of(self, producer: Any) -> None:
        """Do nothing: ``send`` checks the records of a new client here."""

    def hold_all(self, wait: Callable[[str, TimeLimit], object]) -> None:
        """Hold all sends, in a forked child that has no producer yet."""
        self.machine, self.wait = _ALL_HELD, wait

    # --- waiting ------------------------------------------------------------------

    def _wait_while_held(self, me: int, topic: str, timeout: float | None) -> None:
        """Block a send until its topic is no longer held."""
        while self._is_held(topic):
            self.under_way[me] = None
            self.wait(topic, self._time_limit(timeout))
            self.under_way[me] = topic
            if self.driver.is_own_thread():
                return

    def _is_held(self, topic: str) -> bool:
        holds = self.machine.holds  # in a forked child, the machine may be replaced
        return None in holds or topic in holds

    def _time_limit(self, timeout: float | None) -> TimeLimit:
        most = TimeLimit(
            self.shell.producer.config["max_block_ms"] / 1000, "max_block_ms"
        )
        return most if timeout is None else min(most, TimeLimit(timeout, "timeout"))

    def _await_topic(self, topic: str, partition: int | None, timeout: float) -> float:
        """Wait until the topic is not held and its metadata is known.

        Returns:
            The seconds of the timeout that are left.

        Raises:
            KafkaGuardError: The timeout has passed.
        """
        send_errors.check_timeout("send", timeout)
        end = time.monotonic() + timeout
        if self._is_held(topic):
            self.wait(topic, self._time_limit(timeout))
        producer = self.shell.producer
        if not isinstance(topic, str) or reading.is_closed(producer):
            return timeout  # the client raises its own error at once
        try:
            moving.wait_for_topic(producer, topic, end - time.monotonic())
        except KafkaTimeoutError as error:
            record_error = self.fail_send(error, topic, partition, timeout=timeout)
            raise record_error from error
        except (KafkaError, RuntimeError):  # send will raise the same, or solve it
            pass
        return max(0.0, end - time.monotonic())

    # --- what the guard or the client refuses -------------------------------------

    def _refuse(self, error: KafkaGuardError, record: SendArguments) -> GuardedFuture:
        """Handle a refused record, as the policy requires.

        Returns:
            The future of a record that is dead-lettered or dropped.

        Raises:
            KafkaGuardError: The policy raises the error.
        """
        place = Place(record.topic, record.partition)
        inner = self._apply_on_reject(error, place, lambda: self._bytes(error, record))
        return GuardedFuture(inner, self.driver)

    def _apply_on_reject(
        self, error: KafkaGuardError, place: Place, raw: Callable[[], Raw | None]
    ) -> Any:
        on_reject = self.machine.on_reject(error)
        if on_reject == "raise":
            self.driver.raised(error)
            raise error
        inner = moving.never_sent(*place)
        raw_bytes = raw() if on_reject == "dead_letter" else None
        self.driver.refused_at_once(inner, place, raw_bytes, error)
        return inner

    def _bytes(self, error: KafkaGuardError, record: SendArguments) -> Raw | None:
        """Return a record's bytes; if they cannot be read, the error says so."""
        try:
            return reading.serialized(self.shell.producer, record)
        except Exception as failure:  # noqa: BLE001 - it becomes the record's outcome
            send_errors.add_unreadable(error, failure)
            return None

    def _handle_exception(
        self,
        error: Exception,
        producer: Any,
        record: SendArguments,
        timeout: float | None,
    ) -> Any:
        """Handle an exception of the client's ``send``.

        Returns:
            The future of the record, if it is sent again, dead-lettered or dropped.

        Raises:
            KafkaGuardError: The client did not take the record.
            Exception: Any other exception of the client.
        """
        is_dying = isinstance(error, (KafkaError, RuntimeError))  # it raises both
        if is_dying and self._is_replaced(producer):  # by another thread, just now
            return self.send(*record, timeout=timeout)
        if isinstance(error, KafkaError):
            record_error = self.fail_send(error, record.topic, record.partition)
            return self._refuse(record_error, record)
        if isinstance(error, ValueError) and self._is_partition_missing(
            producer, record
        ):
            partition_error = self._refresh(producer, record, timeout)
            if partition_error is None:
                return self.send(*record, timeout=timeout)
            self.transactions.spoil(partition_error)
            return self._refuse(partition_error, record)
        self.transactions.spoil(send_errors.make_raised(errors, error, record.topic))
        raise error

    def _is_partition_missing(self, producer: Any, record: SendArguments) -> bool:
        """Return whether the client has refused a record for its partition."""
        partitions = reading.partitions_of(producer, record.topic)
        return record.partition is not None and record.partition not in partitions

    def _refresh(
        self, producer: Any, record: SendArguments, timeout: float | None
    ) -> KafkaGuardError | None:
        """Look for a partition in new metadata; return None if the topic has it now."""
        partition = record.partition
        is_callback = reading.is_sender_thread(producer)  # which receives the answer
        within = 0.0 if is_callback else self._time_limit(timeout).seconds
        partitions = moving.fresh_partitions(producer, record.topic, within)
        if partitions is not None and partition in partitions:
            return None
        return send_errors.make_not_there(
            errors,
            record.topic,
            partition,
            partitions,
            theirs=ValueError,
        )

    def _is_replaced(self, producer: Any) -> bool:
        """Return whether a successor of the producer is available or being built."""
        if producer is not self.shell.producer:
            return True
        self.shell.report_if_dead(producer)
        return None in self.machine.holds and not self.driver.is_own_thread()

    def _report_failed(self, inner: Any, record: SendArguments) -> None:
        """Settle a record that has already failed, maybe before it was in any batch."""
        raw = None
        error = errors.translate(inner.exception, api="Produce", topic=record.topic)
        if self.machine.on_reject(error) == "dead_letter":
            raw = self._bytes(error, record)
        self.shell.report_early(inner, raw)

    def fail_send(
        self,
        error: KafkaError,
        topic: str,
        partition: int | None = None,
        *,
        timeout: float | None = None,
    ) -> KafkaGuardError:
        """Fail the transaction for a record that the client did not take.

        Returns:
            The record's error.
        """
        record_error = self.error_of(error, topic, partition, timeout=timeout)
        self.transactions.spoil(record_error)
        return record_error

    # --- what an error means ------------------------------------------------------

    def check_letter(self, topic: str, key: bytes | None) -> None:
        """Refuse a dead letter without a key for a compacted topic.

        Raises:
            InvalidRecordKeyError: The topic is compacted and the key is missing.
        """
        self.null_keys.check(topic, key)

    def not_sent(self, error: Exception, topic: str) -> Exception:
        """Make the error for a dead letter that the client did not take."""
        return send_errors.make_letter_error(
            errors, error, topic, KafkaError, self.error_of
        )

    def error_of(
        self,
        error: KafkaError,
        topic: str,
        partition: int | None = None,
        *,
        timeout: float | None = None,
    ) -> KafkaGuardError:
        """Make the error for a record that the client did not take."""
        context: dict[str, Any] = {"phase": "enqueue"}
        producer = self.shell.producer
        is_transactional = self.shell.is_transactional
        if isinstance(error, IllegalStateError) and reading.is_closed(producer):
            return send_errors.make_closed(errors, topic)
        if is_transactional:
            record_error = self.transactions.error_of(error, topic)
            if record_error is not None:
                return record_error
            context = {"transactional": True}
        why, verdict = self._why_blocked(error, topic, timeout)
        details = {} if verdict is None else {"verdict": verdict}
        return errors.translate(
            error,
            message=why,
            context=context,
            api="Produce",
            topic=topic,
            partition=partition,
            **details,
        )

    def _why_blocked(
        self, error: KafkaError, topic: str, timeout: float | None
    ) -> tuple[str | None, Verdict | None]:
        """Return a text and a verdict for the cause of a timeout in send()."""
        if not isinstance(error, KafkaTimeoutError):
            return None, None
        producer = self.shell.producer
        limit = self._time_limit(timeout)
        start = time.monotonic() - limit.seconds
        verdict = None
        if not reading.has_connection(producer):
            why = "no broker answers: check bootstrap_servers and the network"
        elif reading.is_denied(producer, topic):
            why, verdict = "this user may not see the topic", classify(29)
        elif not reading.has_metadata_since(producer, start):
            why = f"no broker has said in this time whether topic {topic} exists"
        else:
            why = f"the brokers do not know topic {topic}"
            verdict = classify(3, api="Produce", phase="enqueue")
        return f"nothing was sent within {limit}, because {why}", verdict


def check_partition(partition: Any) -> None:
    """Check a partition; the client takes 1.0, and never sends the batch.

    Raises:
        TypeError: The partition cannot be used as an integer.
    """
    if not hasattr(partition, "__index__"):
        raise TypeError(
            "send(): partition must be an int, not "
            f"{type(partition).__name__}; nothing was sent"
        )


def _check_timestamp(timestamp_ms: Any) -> None:
    """Check a timestamp; the client would notice only when it sends the batch.

    Raises:
        ValueError: The timestamp does not fit into 64 bits.
    """
    if isinstance(timestamp_ms, int) and not -_INT64 <= timestamp_ms < _INT64:
        raise ValueError(
            "send(): timestamp_ms must be milliseconds since 1970 in 64 bits, not "
            f"{timestamp_ms}; nothing was sent"
        )
