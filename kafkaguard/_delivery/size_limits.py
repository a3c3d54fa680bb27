"""Size limits of topics, and records that are too large for them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kafkaguard._delivery.sizes import batch_size
from kafkaguard._errors import KafkaGuardError

if TYPE_CHECKING:
    from collections.abc import Callable

    from kafkaguard._delivery.facts import Raw, SizeAnswer

SETTING = "max.message.bytes"
#: Seconds for which an answer, or the lack of one, is cached.
TTL_S = 60.0
#: An answer up to this many seconds old may refuse a record before it is sent; so long
#: a missing topic counts as missing.
FRESH_S = 1.0


class SizeLimits:
    """The largest batches of topics.

    Args:
        size_alone: Returns the compressed bytes of a batch with one record, or None if
            unknown.

    Attributes:
        pending: Topics that the driver is looking up.
    """

    def __init__(self, size_alone: Callable[[Raw], int | None]) -> None:
        self.pending: set[str] = set()
        self._size_alone = size_alone
        self._answers: dict[str, tuple[float, SizeAnswer]] = {}

    def most(self, topic: str) -> int | None:
        """Return the largest batch of a topic in bytes, or None if unknown."""
        answer = self._answer(topic)
        return None if isinstance(answer, KafkaGuardError) else answer

    def missing(self, topic: str) -> KafkaGuardError | None:
        """Return the error of a topic that does not exist, or None."""
        answer = self._answer(topic)
        return answer if isinstance(answer, KafkaGuardError) else None

    def _answer(self, topic: str) -> SizeAnswer:
        return self._answers.get(topic, (0.0, None))[1]

    def is_known(self, topic: str, now: float, max_age: float = TTL_S) -> bool:
        """Return whether the limit is known."""
        if topic not in self._answers:
            return False
        asked_at, answer = self._answers[topic]
        if isinstance(answer, KafkaGuardError):
            max_age = FRESH_S  # the topic may be created at any time
        return now - asked_at < (TTL_S if answer is None else max_age)

    def remember(self, topic: str, answer: SizeAnswer, now: float) -> None:
        """Remember an answer."""
        self.pending.discard(topic)
        self._answers[topic] = (now, answer)

    def size_beyond(self, topic: str, raw: Raw) -> int | None:
        """Return the bytes of a batch with this record, if they exceed the limit."""
        return self._size_alone(raw) if self.fits(topic, raw) is False else None

    def fits(self, topic: str, raw: Raw | None) -> bool | None:
        """Return whether a record alone is within the limit; None if unknown."""
        most = self.most(topic)
        if raw is None or most is None:
            return None
        if batch_size(raw.key, raw.value, raw.headers) <= most:
            return True
        size = self._size_alone(raw)
        return None if size is None else size <= most

    def describe(self, topic: str, raw: Raw | None) -> str:
        """Describe what is too large, for which limit, and what to do."""
        most = self.most(topic)
        size = None if raw is None else self._size_alone(raw)
        is_size = "is too large" if size is None else f"makes a batch of {size} bytes"
        takes = f"{SETTING} of topic {topic}" + ("" if most is None else f" is {most}")
        return (
            f"the record {is_size}, and {takes}; it was not written. Send less, "
            "compress it, or raise that setting"
        )
