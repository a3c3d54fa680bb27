"""What ``send`` does before and after the client's own: the hot path of the guard.

Apart from the stand-in itself: looking up an attribute on an object that hands unknown
names on costs ten times as much, and a send looks up several.
"""

from __future__ import annotations

import logging
import time
from typing import TYPE_CHECKING, Any

from kafka.errors import IllegalStateError, KafkaError, KafkaTimeoutError

from kafkaguard._verdicts.classification import classify
from kafkaguard.errors import InvalidRecordKeyError
from kafkaguard_adapters.kafka_python import _reporting, _transaction_errors
from kafkaguard_adapters.kafka_python._future import GuardedFuture
from kafkaguard_adapters.kafka_python._gate import Limit
from kafkaguard_adapters.kafka_python._private import moving, reading
from kafkaguard_adapters.kafka_python._private.reading import Handed
from kafkaguard_adapters.kafka_python.errors import errors

if TYPE_CHECKING:
    from kafkaguard._verdicts.verdict import Verdict
    from kafkaguard_adapters.kafka_python._null_keys import NullKeyCheck
    from kafkaguard_adapters.kafka_python._session import Session

_log = logging.getLogger("kafkaguard.producer")
_new = object.__new__
_LIMIT = 1 << 63


class Sending:
    """Hands records to the client that is in use.

    Args:
        checks_keys: Refuse a record without a key for a compacted topic.
    """

    __slots__ = ("checks_keys", "null_keys", "session")

    session: Session
    null_keys: NullKeyCheck

    def __init__(self, *, checks_keys: bool) -> None:
        self.checks_keys = checks_keys

    def use(self, session: Session, null_keys: NullKeyCheck) -> None:
        """Send by this session from now on."""
        self.session = session
        self.null_keys = null_keys

    def send(
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
            topic: As in kafka-python, like all up to ``timestamp_ms``.
            value: The value.
            key: The key.
            headers: The headers.
            partition: The partition.
            timestamp_ms: The time.
            timeout: Seconds that this call takes at most, 0 or more: for the topic to
                become known, or a dead producer replaced. Default: the client's
                ``max_block_ms``, which holds in any case.

        Returns:
            A future with the interface of kafka-python's. Where the policy sets a
            refused record aside (``on_reject``), it fails with the error.

        Raises:
            InvalidRecordKeyError: The topic is compacted and the record has no key,
                after serialisers. Nothing was sent. Also an ``InvalidRecordError`` of
                kafka-python.
            KafkaGuardError: What else the client raises, also of its own class.
            TypeError: ``timeout`` is not a number.
            ValueError: It is negative, or ``timestamp_ms`` is no 64-bit number.
        """
        if timestamp_ms is not None:
            _check_timestamp(timestamp_ms)
        if timeout is not None:
            timeout = self._await_topic(topic, partition, timeout)
        session = self.session
        if session.gate is not None:
            session.gate(timeout)
            session = self.session  # a forked child gets one of its own
        if (key is None or session.serializes) and topic not in session.harmless:
            try:
                self._check_key(topic, key, headers, timeout)
            except InvalidRecordKeyError as error:
                session.refused_at_once(error)
                handed = Handed(topic, value, key, headers, partition, timestamp_ms)
                return session.rejects.refused(error, handed)
        producer = session.producer
        try:
            inner = producer.send(topic, value, key, headers, partition, timestamp_ms)
        except Exception as error:  # noqa: BLE001 - raised again, unless it is mended
            handed = Handed(topic, value, key, headers, partition, timestamp_ms)
            return self._not_accepted(error, producer, handed, timeout)
        if inner.is_done and inner.failed():  # perhaps before it came into any batch
            handed = Handed(topic, value, key, headers, partition, timestamp_ms)
            session.rejects.settle(inner, handed)
        future = _new(GuardedFuture)  # in half the time that its __init__ would take
        future._inner = inner  # noqa: SLF001 - as its __init__, but faster
        future._tracker = session.tracker  # noqa: SLF001 - as above
        return future

    def _await_topic(self, topic: str, partition: int | None, timeout: float) -> float:
        """Wait for what would make ``send`` wait.

        Returns:
            The seconds that are left.
        """
        _reporting.check_timeout("send", timeout)
        end = time.monotonic() + timeout
        if self.session.gate is not None:
            self.session.gate(timeout)
        producer = self.session.producer
        if not isinstance(topic, str) or reading.is_closed(producer):
            return timeout  # the client says so, at once
        try:
            moving.wait_for_topic(producer, topic, end - time.monotonic())
        except KafkaTimeoutError as error:
            raise self.not_sent(error, topic, partition, timeout=timeout) from error
        except (KafkaError, RuntimeError):  # what send itself will say, or mend
            pass
        return max(0.0, end - time.monotonic())

    def _not_accepted(
        self, error: Exception, producer: Any, handed: Handed, timeout: float | None
    ) -> Any:
        """Deal with what the client's ``send`` has raised.

        Raises:
            KafkaGuardError: It did not take the record.
            Exception: Anything else that it has raised.
        """
        session = self.session
        is_dying = isinstance(error, (KafkaError, RuntimeError))  # it raises both
        if is_dying and session.is_replaced(producer):  # in this very moment
            return self.send(*handed, timeout=timeout)
        if isinstance(error, KafkaError):
            refusal = self.not_sent(error, handed.topic, handed.partition)
            return session.rejects.refused(refusal, handed)
        session.refused_at_once(_reporting.not_taken(error, handed))
        raise error

    def _check_key(
        self, topic: str, key: Any, headers: Any, patience: float | None
    ) -> None:
        if not self.checks_keys:
            return
        try:
            serializer = self.session.producer.config["key_serializer"]
            self.null_keys.check(topic, key, headers, serializer, patience)
        except InvalidRecordKeyError:
            raise
        except Exception:  # noqa: BLE001 - a fault of ours must not fail the send
            _log.exception("the check for a null key failed; the record is sent")

    def check_letter(self, topic: str, key: Any) -> None:
        """Refuse a dead letter without a key for a compacted topic.

        Raises:
            InvalidRecordKeyError: It is one.
        """
        if self.checks_keys:
            self.null_keys.check(topic, key, None, None)

    def not_sent(
        self,
        error: KafkaError,
        topic: str,
        partition: int | None = None,
        *,
        timeout: float | None = None,
    ) -> Any:
        """Make the error for a record that the client did not take."""
        context: dict[str, Any] = {"phase": "enqueue"}
        session = self.session
        if isinstance(error, IllegalStateError):
            if reading.is_closed(session.producer):
                return _reporting.closed(topic)
            if session.is_transactional and session.transactions.is_not_begun():
                state = reading.transaction_state(session.producer)
                return _transaction_errors.not_begun(error, topic, state)
        if session.is_transactional and session.transactions.has_failed():
            return session.transactions.judged(error, _transaction_errors.SEND)
        if session.is_transactional:
            context = {"transactional": True}
        why, verdict = self._why_blocked(error, topic, timeout)
        known = {} if verdict is None else {"verdict": verdict}
        refusal = errors.translate(
            error,
            message=why,
            context=context,
            api="Produce",
            topic=topic,
            partition=partition,
            **known,
        )
        session.refused_at_once(refusal)
        return refusal

    def _why_blocked(
        self, error: KafkaError, topic: str, timeout: float | None
    ) -> tuple[str | None, Verdict | None]:
        """Say which of the causes of a timeout in send() it was, and what to do."""
        if not isinstance(error, KafkaTimeoutError):
            return None, None
        producer = self.session.producer
        limit = Limit.of(producer, timeout)
        verdict = None
        if not reading.has_connection(producer):
            why = "no broker answers: check bootstrap_servers and the network"
        elif reading.is_denied(producer, topic):
            why, verdict = "this user may not see the topic", classify(29)
        else:
            why = f"the brokers do not know topic {topic}"
            verdict = classify(3, api="Produce", phase="enqueue")
        return f"nothing was sent within {limit}: {why}", verdict


def _check_timestamp(timestamp_ms: Any) -> None:
    """Refuse what cannot be encoded: the client would find it when it sends the batch.

    Raises:
        ValueError: It has more than 64 bits.
    """
    if isinstance(timestamp_ms, int) and not -_LIMIT <= timestamp_ms < _LIMIT:
        raise ValueError(
            "send(timestamp_ms): milliseconds since 1970, in 64 bits; not "
            f"{timestamp_ms}. Nothing was sent"
        )
