"""Records that are too large for their topic: which they are, and how large."""

from __future__ import annotations

import threading
import time
from typing import TYPE_CHECKING, Any

from kafkaguard._delivery.sizes import batch_size
from kafkaguard_adapters.asking.topic_settings import MAX_MESSAGE_BYTES
from kafkaguard_adapters.kafka_python._private import reading
from kafkaguard_adapters.kafka_python.errors import errors

if TYPE_CHECKING:
    from collections.abc import Callable

    from kafkaguard.errors import KafkaGuardError
    from kafkaguard_adapters.asking.topic_settings import TopicSettings
    from kafkaguard_adapters.kafka_python._private.reading import RawRecord
    from kafkaguard_adapters.kafka_python._tracking import TrackedBatch

MESSAGE_TOO_LARGE = 10
#: Seconds that a record's outcome waits for the limit of its topic at most.
_PATIENCE_S = 1.0
#: Seconds that an answer, or that there was none, is kept.
_TTL_S = 60.0
#: Seconds that an answer is good enough to refuse a record that the broker did not see.
_FRESH_S = 1.0


class SizeLimits:
    """What topics take, looked up where a record was refused for its size.

    Args:
        ask: Asks for the settings of a topic; may take long and may raise.
    """

    def __init__(self, ask: Callable[[str], TopicSettings]) -> None:
        self._ask = ask
        #: When it was asked for, in monotonic seconds, and what was answered.
        self._known: dict[str, tuple[float, int | None]] = {}

    def limit(self, topic: str, *, max_age: float = _TTL_S) -> int | None:
        """Return ``max.message.bytes`` of a topic; None if that cannot be had.

        Args:
            topic: Its name.
            max_age: Seconds that an answer may be old.
        """
        now = time.monotonic()
        asked, limit = self._known.get(topic, (-_TTL_S, None))
        if now - asked < (_TTL_S if limit is None else max_age):
            return limit
        self._known[topic] = (now, None)
        thread = threading.Thread(
            target=self._look_up, args=(topic,), name="kafkaguard-limits", daemon=True
        )
        thread.start()
        thread.join(_PATIENCE_S)
        return self._known[topic][1]

    def _look_up(self, topic: str) -> None:
        asked = time.monotonic()
        try:
            limit = self._ask(topic).max_message_bytes
        except Exception:  # noqa: BLE001 - the text does without it
            return
        if limit is not None:
            self._known[topic] = (asked, limit)

    def explain(self, batch: TrackedBatch, error: KafkaGuardError) -> None:
        """Put sizes into the text of an error."""
        topic = batch.topic_partition.topic
        error.summary = describe(
            topic, reading.size_of(batch.source), self.limit(topic)
        )

    def refusal(
        self, producer: Any, topic_partition: Any, record: RawRecord
    ) -> KafkaGuardError | None:
        """Return the error that awaits a record, if it is too large as well.

        Asked for after another one was refused, and with what the topic takes now.
        """
        topic, (_, key, value, headers) = topic_partition.topic, record
        limit = self.limit(topic, max_age=_FRESH_S)
        if limit is None or batch_size(key, value, headers) <= limit:
            return None
        size = reading.size_alone(producer, record)
        if size <= limit:
            return None
        return errors.make(
            MESSAGE_TOO_LARGE,
            describe(topic, size, limit),
            api="Produce",
            topic=topic,
            partition=topic_partition.partition,
        )


def describe(topic: str, size: int | None, limit: int | None) -> str:
    """Say what is too large, for what, and what can be done."""
    is_size = "is too large" if size is None else f"makes a batch of {size} bytes"
    takes = f"{MAX_MESSAGE_BYTES} of topic {topic}" + (
        "" if limit is None else f" is {limit}"
    )
    return (
        f"the record {is_size}, and {takes}; it was not written. Send less, compress "
        "it (compression_type), or raise that setting"
    )
