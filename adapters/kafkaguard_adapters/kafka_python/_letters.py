"""Dead letters on their way, one thread for each dead-letter topic.

The sequence of events of a refused record::

    [any thread]    add(): the record is held, so its future stays pending
    [letters]       the dead letter is sent, through the gate, like any other record
    [letters]       its outcome is awaited; that of the record follows from it

A dead letter is tracked as any record is: its time is bounded, and it is sent again if
it failed only with its batch. It is in no report, since the record itself is.
"""

from __future__ import annotations

import threading
import time
from collections import defaultdict
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any, NoReturn

from kafka.errors import KafkaError, KafkaTimeoutError

from kafkaguard._delivery.dead_letters import Reason, fitting, reason_headers, reason_of
from kafkaguard.errors import KafkaGuardError
from kafkaguard_adapters.kafka_python._fate import LetterFate
from kafkaguard_adapters.kafka_python._future import GuardedFuture
from kafkaguard_adapters.kafka_python._private import moving, reading
from kafkaguard_adapters.kafka_python._private.reading import RawRecord
from kafkaguard_adapters.kafka_python.errors import add_words

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from kafkaguard._delivery.dialects import Dialect
    from kafkaguard_adapters.kafka_python._fate import Fate
    from kafkaguard_adapters.kafka_python._session import Session
    from kafkaguard_adapters.kafka_python._tracking import TrackedBatch

CLOSED = "the producer was closed before it was confirmed"
#: Seconds that a dead letter's outcome may be late before it is not waited for.
_MARGIN_S = 10.0
#: Seconds until it looks whether the producer that it waits for is still in use.
_SLICE_S = 0.5
#: By so much, at most, kafka-python takes a record for larger than it is.
_ESTIMATE_BYTES = 21


@dataclass(frozen=True, slots=True, eq=False)
class Letter:
    """A refused record on its way to its dead-letter topic.

    Attributes:
        refused: What the record's sender holds.
        error: Why it was refused.
        record: Its bytes.
        topic: The dead-letter topic.
        dialect: Whose headers say why.
        fate: The dead letter's own.
    """

    refused: Fate
    error: KafkaGuardError
    record: RawRecord
    topic: str
    dialect: Dialect
    fate: LetterFate = field(default_factory=LetterFate)

    def sealed(self, limit: int | None) -> RawRecord:
        """Return what is sent: the record with headers that say why."""
        record, error = self.record, self.error
        why = reason_headers(
            reason_of(error),
            topic=error.topic,
            partition=error.partition,
            error=error,
            dialect=self.dialect,
        )
        value, headers = fitting(record.value, record.key, record.headers, why, limit)
        said = [(name, content or b"") for name, content in headers]
        return RawRecord(record.timestamp, record.key, value, said)


class Post:
    """Hands a dead letter over to the client.

    Args:
        session: Whose client.
        check: Refuses a missing key for a compacted topic, which would cost the others
            of its batch.
        not_sent: Says why a record was not taken.
    """

    def __init__(
        self,
        session: Session,
        check: Callable[[str, Any], None],
        not_sent: Callable[[KafkaError, str], KafkaGuardError],
    ) -> None:
        self._session = session
        self._check = check
        self._not_sent = not_sent

    def ready(self, topic: str) -> Any:
        """Return the producer in use, once it knows a topic.

        Raises:
            KafkaGuardError: It does not within ``max_block_ms``.
        """
        session = self._session
        end = time.monotonic() + session.producer.config["max_block_ms"] / 1000
        while True:
            if session.gate is not None:
                session.gate(None)
            producer = session.producer
            left = end - time.monotonic()
            try:
                moving.wait_for_topic(producer, topic, min(_SLICE_S, left))
            except KafkaTimeoutError as error:
                if left <= _SLICE_S:
                    raise self._not_sent(error, topic) from error
            except Exception as error:  # noqa: BLE001 - a dying client raises anything
                if left <= 0 or not session.is_replaced(producer):
                    self._raise(error, topic)
            else:
                return producer

    def send(self, letter: Letter) -> GuardedFuture:
        """Send a dead letter, once there is a producer that takes it.

        Raises:
            KafkaGuardError: None does.
        """
        session = self._session
        self._check(letter.topic, letter.record.key)
        sealed = letter.sealed(self._limit(letter))
        while True:
            producer = self.ready(letter.topic)
            send = partial(moving.send_bytes, producer, letter.topic, sealed)
            try:
                inner = session.tracker.hand_over(letter.fate, send)
            except Exception as error:  # noqa: BLE001 - a dying client raises anything
                if session.is_replaced(producer):
                    continue
                self._raise(error, letter.topic)
            if inner.failed():  # perhaps before it came into any batch
                session.tracker.settle_failed(inner)
            return GuardedFuture(inner, session.tracker)

    def _raise(self, error: Exception, topic: str) -> NoReturn:
        if isinstance(error, KafkaError):
            raise self._not_sent(error, topic) from error
        raise error

    def _limit(self, letter: Letter) -> int:
        """Return how many bytes may be sent; compression may help within a topic's."""
        config = self._session.producer.config
        client: int = config["max_request_size"] - _ESTIMATE_BYTES
        topic = self._session.limits.limit(letter.topic)
        was_too_large = reason_of(letter.error) == Reason.TOO_LARGE
        if topic is None or (config["compression_type"] and not was_too_large):
            return client
        return min(client, topic)


class Letters:
    """Sends dead letters, and settles the records that they are about.

    Args:
        session: Whose records they are.
        post: Hands a dead letter over.
    """

    def __init__(self, session: Session, post: Post) -> None:
        self._session = session
        self._post = post
        self._changed = threading.Condition()
        self._open: set[Letter] = set()
        self._waiting: dict[str, list[Letter]] = defaultdict(list)
        self._threads: dict[str, threading.Thread] = {}
        self._is_closed = False

    def add(self, letter: Letter) -> bool:
        """Send a dead letter soon.

        Returns:
            False: it will not be sent, since the producer was closed.
        """
        with self._changed:
            if not self._is_closed:
                self._open.add(letter)
                self._waiting[letter.topic].append(letter)
                self._run_thread(letter.topic)
            return not self._is_closed

    def wait(self, timeout: float) -> bool:
        """Wait until the dead letters of this moment have their outcome.

        Returns:
            Whether they have.
        """
        with self._changed:
            mine = set(self._open)
            if not mine or threading.current_thread() in self._threads.values():
                return True
            return self._changed.wait_for(lambda: not mine & self._open, timeout)

    def pending(self, besides: Iterable[TrackedBatch] = ()) -> int:
        """Count the records that wait for their dead letter.

        Args:
            besides: Batches whose records are counted already.
        """
        counted = {batch.result for batch in besides}
        with self._changed:
            waiting = [each.fate.inner for each in self._open]
        return sum(
            inner is None or reading.result_of(inner) not in counted
            for inner in waiting
        )

    def close(self, timeout: float) -> None:
        """Take on no more; what has no outcome within the time has failed."""
        with self._changed:
            self._is_closed = True
        self.wait(timeout)
        with self._changed:
            left = list(self._open)
            self._waiting.clear()
        for letter in left:
            self._fail(letter, CLOSED)

    # --- the threads ------------------------------------------------------------------

    def _run_thread(self, topic: str) -> None:
        if topic not in self._threads:
            self._threads[topic] = threading.Thread(
                target=self._run,
                args=(topic,),
                name="kafkaguard-dead-letters",
                daemon=True,
            )
            self._threads[topic].start()

    def _run(self, topic: str) -> None:
        while letters := self._take(topic):
            try:
                self._deliver(topic, letters)
            except Exception as error:  # noqa: BLE001 - none may wait for ever
                for letter in letters:
                    self._fail(letter, _told(error))

    def _take(self, topic: str) -> list[Letter]:
        with self._changed:
            letters = self._waiting.pop(topic, [])
            if not letters:
                del self._threads[topic]
            return letters

    def _deliver(self, topic: str, letters: list[Letter]) -> None:
        """Send dead letters, and wait for what becomes of each."""
        self._post.ready(topic)
        sent = [(letter, self._send(letter)) for letter in letters]
        with moving.flushing(self._session.producer):
            for letter, future in sent:
                if future is not None:
                    self._settle(letter, future)

    def _send(self, letter: Letter) -> GuardedFuture | None:
        if letter.refused.is_decided:  # by close()
            return None
        try:
            return self._post.send(letter)
        except Exception as error:  # noqa: BLE001 - it becomes the record's outcome
            self._fail(letter, _told(error))
            return None

    def _settle(self, letter: Letter, future: GuardedFuture) -> None:
        limit = self._session.producer.config["delivery_timeout_ms"] / 1000
        try:
            put = future.get(limit + _MARGIN_S)
        except Exception as error:  # noqa: BLE001 - it becomes the record's outcome
            self._fail(letter, _told(error))
        else:
            words = (
                f"it was put into topic {put.topic}, partition {put.partition}, "
                f"offset {put.offset}"
            )
            self._end(letter, words, is_there=True)

    def _fail(self, letter: Letter, why: str) -> None:
        words = f"its dead letter for topic {letter.topic} was not delivered: {why}"
        self._end(letter, words, is_there=False)

    def _end(self, letter: Letter, words: str, *, is_there: bool) -> None:
        """Settle the refused record itself, unless close() was faster."""
        with self._changed:
            if letter.refused.is_decided:
                return
            add_words(letter.error, words)
            if is_there:
                self._session.teller.dead_lettered(letter.error, letter.topic)
                letter.refused.set_aside(letter.error, "dead_lettered")
            else:
                letter.refused.fail(letter.error)
        self._session.recovery.now_due(letter.refused)
        self._session.teller.tell()
        with self._changed:
            self._open.discard(letter)
            self._changed.notify_all()


def _told(error: Exception) -> str:
    """Say what happened; only the text of an error of ours holds no record."""
    return str(error) if isinstance(error, KafkaGuardError) else type(error).__name__
