"""State that a process keeps between writes: a client and cached topic settings.

A stream's micro-batches follow each other within milliseconds, and brokers may be down
between two of them. So topics are not looked up for each batch. While no broker
answers, the cached facts stay valid, and the records wait in the producers.
"""

from __future__ import annotations

import logging
import time
from typing import TYPE_CHECKING, Protocol, TypeVar

from kafkaguard.errors import ClientNotConnectedError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from kafkaguard_adapters.spark.sink_topic import SinkTopic

    T = TypeVar("T")

#: Seconds that a stream caches facts of a topic, unless a broker contradicts them.
KEEP_S = 60.0
_log = logging.getLogger("kafkaguard.spark")


class Asker(Protocol):
    """Look-ups in a cluster."""

    def describe(self, names: Iterable[str], timeout: float) -> dict[str, SinkTopic]:
        """Look topics up."""

    def end_offsets(self, names: Iterable[str]) -> int | None:
        """Return the sum of the topics' end offsets, or None if unknown."""


class Kept:
    """A client of one cluster, and the cached facts of topics.

    Args:
        connect: Makes the client. A client that failed is not kept.
        now: The time in seconds.
    """

    def __init__(
        self, connect: Callable[[], Asker], now: Callable[[], float] = time.monotonic
    ) -> None:
        self._connect = connect
        self._now = now
        self._client: Asker | None = None
        self._topics: dict[str, tuple[float, SinkTopic]] = {}

    def find(
        self,
        names: Iterable[str],
        *,
        timeout: float,
        keep_s: float = 0.0,
        old_timeout: float | None = None,
    ) -> dict[str, SinkTopic]:
        """Look topics up, if the cached facts are too old.

        Args:
            names: The topics.
            timeout: Seconds to wait for an answer.
            keep_s: The largest age of cached facts in seconds.
            old_timeout: Seconds to wait if all topics are cached, before the cached
                facts are used for another batch. Default: they are not used.

        Raises:
            KafkaGuardError: A topic does not exist or may not be written to, or no
                broker answers.
        """
        wanted = list(names)
        due = [name for name in wanted if self._age(name) >= keep_s]
        known = all(name in self._topics for name in wanted)
        will_do = known and old_timeout is not None
        if will_do and old_timeout is not None:
            timeout = min(timeout, old_timeout)
        try:
            if due:
                found = self._ask(lambda client: client.describe(due, timeout))
                at = self._now()
                self._topics |= {name: (at, topic) for name, topic in found.items()}
        except ClientNotConnectedError as error:
            if not will_do:
                raise
            _log.warning(
                "topic settings cannot be looked up again, so the cached "
                "ones are used: %s",
                error,
            )
        return {name: self._topics[name][1] for name in wanted}

    def forget(self, names: Iterable[str]) -> None:
        """Drop the cached facts of topics: a broker has contradicted them."""
        for name in names:
            self._topics.pop(name, None)

    def end_offsets(self, names: Iterable[str]) -> int | None:
        """Return the sum of the topics' end offsets, or None if unknown.

        Raises:
            KafkaGuardError: No broker answers.
        """
        return self._ask(lambda client: client.end_offsets(names))

    def _age(self, name: str) -> float:
        if name not in self._topics:
            return float("inf")
        return self._now() - self._topics[name][0]

    def _ask(self, question: Callable[[Asker], T]) -> T:
        client, self._client = self._client or self._connect(), None
        answer = question(client)
        self._client = client
        return answer
