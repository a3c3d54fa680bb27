"""Says of a record that is too large how large it was, and what its topic takes."""

from __future__ import annotations

import threading
import time
from typing import TYPE_CHECKING, Any

from kafkaguard_adapters.kafka_python import _insides

if TYPE_CHECKING:
    from collections.abc import Callable

    from kafkaguard.errors import KafkaGuardError
    from kafkaguard_adapters.kafka_python._tracking import TrackedBatch

MESSAGE_TOO_LARGE = 10
_SETTING = "max.message.bytes"
#: Seconds that a record's outcome waits for the limit of its topic at most.
_PATIENCE_S = 1.0
#: Seconds that an answer, or that there was none, is kept.
_TTL_S = 60.0


class SizeLimits:
    """What topics take, looked up where a record was refused for its size.

    Args:
        ask: Asks for settings of a topic; may take long and may raise.
    """

    def __init__(self, ask: Callable[[str, list[str]], dict[str, Any]]) -> None:
        self._ask = ask
        self._known: dict[str, tuple[float, int | None]] = {}

    def limit(self, topic: str) -> int | None:
        """Return ``max.message.bytes`` of a topic; None if that cannot be had."""
        expires, limit = self._known.get(topic, (0.0, None))
        if expires > time.monotonic():
            return limit
        self._known[topic] = (time.monotonic() + _TTL_S, None)
        thread = threading.Thread(
            target=self._look_up, args=(topic,), name="kafkaguard-limits", daemon=True
        )
        thread.start()
        thread.join(_PATIENCE_S)
        return self._known[topic][1]

    def _look_up(self, topic: str) -> None:
        try:
            value = self._ask(topic, [_SETTING]).get(_SETTING)
        except Exception:  # noqa: BLE001 - the text does without it
            return
        if value is not None:
            self._known[topic] = (time.monotonic() + _TTL_S, int(value))

    def explain(self, batch: TrackedBatch, error: KafkaGuardError) -> None:
        """Put sizes into the text of an error."""
        topic = batch.topic_partition.topic
        error.summary = describe(
            topic, _insides.size_of(batch.source), self.limit(topic)
        )


def describe(topic: str, size: int | None, limit: int | None) -> str:
    """Say what is too large, for what, and what can be done."""
    is_size = "is too large" if size is None else f"makes a batch of {size} bytes"
    takes = f"{_SETTING} of topic {topic}" + ("" if limit is None else f" is {limit}")
    return (
        f"the record {is_size}, and {takes}; it was not written. Send less, compress "
        "it (compression_type), or raise that setting"
    )
