"""Size limits of topics, and records that are too large for them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kafkaguard._delivery.sizes import batch_size

if TYPE_CHECKING:
    from collections.abc import Callable

    from kafkaguard._delivery.facts import Raw

SETTING = "max.message.bytes"
#: Seconds that an answer, or that there was none, is kept.
TTL_S = 60.0
#: Seconds that an answer is good enough to refuse a record that no broker has seen.
FRESH_S = 1.0


class Limits:
    """The largest batches of topics.

    Args:
        size_alone: Returns the bytes of a batch with one record, compressed; None: that
            cannot be known.

    Attributes:
        asked: Topics that the driver asks about.
    """

    def __init__(self, size_alone: Callable[[Raw], int | None]) -> None:
        self.asked: set[str] = set()
        self._size_alone = size_alone
        self._known: dict[str, tuple[float, int | None]] = {}

    def most(self, topic: str) -> int | None:
        """Return what a topic takes, in bytes; None if that is not known."""
        return self._known.get(topic, (0.0, None))[1]

    def is_known(self, topic: str, now: float, max_age: float = TTL_S) -> bool:
        """Tell whether there is no need to ask."""
        if topic not in self._known:
            return False
        told, most = self._known[topic]
        return now - told < (TTL_S if most is None else max_age)

    def told(self, topic: str, most: int | None, now: float) -> None:
        """Take note of an answer."""
        self.asked.discard(topic)
        self._known[topic] = (now, most)

    def size_beyond(self, topic: str, raw: Raw) -> int | None:
        """Return the bytes of a batch with this record, if its topic takes less."""
        most = self.most(topic)
        if most is None or batch_size(raw.key, raw.value, raw.headers) <= most:
            return None
        size = self._size_alone(raw)
        return size if size is not None and size > most else None

    def fits(self, topic: str, raw: Raw | None) -> bool | None:
        """Tell whether a record alone is small enough; None: not known."""
        if raw is None or self.most(topic) is None:
            return None
        return self.size_beyond(topic, raw) is None

    def describe(self, topic: str, raw: Raw | None) -> str:
        """Say what is too large, for what, and what can be done."""
        most = self.most(topic)
        size = None if raw is None else self._size_alone(raw)
        is_size = "is too large" if size is None else f"makes a batch of {size} bytes"
        takes = f"{SETTING} of topic {topic}" + ("" if most is None else f" is {most}")
        return (
            f"the record {is_size}, and {takes}; it was not written. Send less, "
            "compress it (compression_type), or raise that setting"
        )
