"""The guard's own connections to a client's cluster, kept between calls."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from kafkaguard.errors import ClientClosedError
from kafkaguard_adapters.asking.topic_settings import (
    FactsOfTopics,
    ask_alone,
    size_limit,
)
from kafkaguard_adapters.asking.unconnected import wrong_setting
from kafkaguard_adapters.wire.cluster import Cluster

if TYPE_CHECKING:
    from collections.abc import Callable

    from kafkaguard._cluster.reports import Make, TopicPartition
    from kafkaguard._delivery.facts import SizeAnswer
    from kafkaguard._verdicts.context import TopicFacts
    from kafkaguard._verdicts.topic_facts import TopicFactsCache
    from kafkaguard.errors import KafkaGuardError
    from kafkaguard_adapters.wire.settings import Settings

#: Seconds to wait for ``max.message.bytes`` of a topic.
TIME_LIMIT_S = 3.0


class ClusterView:
    """Sends requests to a cluster over its own connections, which it keeps open.

    Args:
        settings: Returns the connection settings; called at the first request.
        make: Makes the errors.
        cache: Cached facts about topics. Default: an empty cache.
    """

    def __init__(
        self,
        settings: Callable[[], Settings],
        make: Make,
        cache: TopicFactsCache | None = None,
    ) -> None:
        self.settings = settings
        self.make = make
        self.facts = FactsOfTopics(cache)
        #: Errors of partitions whose consumers wait for remote storage.
        self.read_errors: dict[TopicPartition, KafkaGuardError] = {}
        self._cluster: Cluster | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._is_closed = False

    def cluster(self) -> Cluster:
        """Return the cluster, with connections of the running event loop.

        Raises:
            ClientClosedError: The client was closed.
        """
        if self._is_closed:
            raise self.closed("it can send no more requests")
        loop = asyncio.get_running_loop()
        if self._cluster is None or self._loop is not loop:
            self._cluster = Cluster(self.settings(), self.make)
            self._loop = loop
        return self._cluster

    async def topic_facts(self, topic: str) -> TopicFacts:
        """Request the facts about a topic.

        Raises:
            KafkaGuardError: The broker refuses, or no broker answers within 10 s.
        """
        return (await ask_alone(self.settings(), self.make, topic)).facts

    async def size_limit(self, topic: str) -> SizeAnswer:
        """Request ``max.message.bytes`` of a topic; None if it is unknown after 3 s.

        The error is returned if the topic does not exist, and is not created by itself.
        """
        try:
            async with asyncio.timeout(TIME_LIMIT_S):
                return await size_limit(self.settings(), self.make, topic)
        except Exception:  # noqa: BLE001 - the error's text does without it
            return None

    async def wrong_setting(self) -> KafkaGuardError | None:
        """Connect, and return the error if a setting keeps the client out; else None.

        The setting may be the login, the security protocol or the port.
        """
        return await wrong_setting(self.settings, self.make)

    @property
    def is_closed(self) -> bool:
        """Whether the client was closed."""
        return self._is_closed

    def closed(self, consequence: str) -> KafkaGuardError:
        """Make the error for a call on a client that was closed."""
        return self.make(ClientClosedError, f"the client was closed: {consequence}")

    async def close(self) -> None:
        """Close the connections. All later calls raise an error."""
        self._is_closed = True
        if self._cluster is not None and self._loop is asyncio.get_running_loop():
            self._cluster.close()
        self._cluster = None
