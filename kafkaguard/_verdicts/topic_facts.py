"""Facts about topics, each with its time of expiry."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from kafkaguard._verdicts.context import TopicFacts

TTL_S = 300.0


class TopicFactsCache:
    """Facts about topics, each with its time of expiry.

    Args:
        declared: Facts that the caller vouches for; they neither expire nor drop out.
        ttl: Seconds that a fact is trusted.
        clock: Returns monotonic seconds.
    """

    def __init__(
        self,
        declared: Mapping[str, TopicFacts] | None = None,
        *,
        ttl: float = TTL_S,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.declared = dict(declared or {})
        self._ttl = ttl
        self._clock = clock
        self._entries: dict[str, tuple[float, TopicFacts]] = {}
        #: Topics that records without a key may go to, for the hot path: as they were
        #: when ``get`` last looked at the clock.
        self.null_keys_allowed: set[str] = set()
        for topic, facts in self.declared.items():
            self._entries[topic] = (float("inf"), facts)

    def get(self, topic: str) -> TopicFacts | None:
        """Return what is known about a topic; None: it must be looked up."""
        entry = self._entries.get(topic)
        if entry is None or entry[0] <= self._clock():
            return None
        if not entry[1].compacted:
            self.null_keys_allowed.add(topic)
        return entry[1]

    def recheck_expiry(self) -> None:
        """Check the time of expiry again at the next record without a key."""
        self.null_keys_allowed.clear()

    def remember(
        self, topic: str, facts: TopicFacts, *, ttl: float | None = None
    ) -> None:
        """Keep a fact for ``ttl`` seconds; what was declared stays as it is."""
        if topic not in self.declared:
            expires = self._clock() + (self._ttl if ttl is None else ttl)
            self._entries[topic] = (expires, facts)
            self.null_keys_allowed.discard(topic)

    def drop(self, topic: str) -> None:
        """Forget a fact that a broker has contradicted."""
        if topic not in self.declared:
            self._entries.pop(topic, None)
            self.null_keys_allowed.discard(topic)
