"""The guarded admin: stands in for an ``aiokafka.admin.AIOKafkaAdminClient``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Self

from kafkaguard._topic_facts import TopicFactsCache
from kafkaguard_adapters._stand_in import StandIn
from kafkaguard_adapters._view import AsyncClusterCalls, ClusterView
from kafkaguard_adapters.aiokafka import errors
from kafkaguard_adapters.aiokafka.settings import config_of, read_settings

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from kafkaguard._verdict import TopicFacts


class GuardedAdmin(AsyncClusterCalls, StandIn):
    """An AIOKafkaAdminClient that can also ask for log directories and lag.

    Args:
        admin: The client's admin.
        config: Settings for our own connections. Default: read from ``admin``.
        topics: What the caller declares about topics, instead of a look-up.
    """

    def __init__(
        self,
        admin: Any,
        config: Mapping[str, Any] | None = None,
        topics: Mapping[str, TopicFacts] | None = None,
    ) -> None:
        super().__init__(admin)
        self.cluster_view = view_of(admin, config, TopicFactsCache(topics))

    async def close(self) -> None:
        """Close our own connections, then the client."""
        await self.cluster_view.close()
        await self.client.close()

    async def __aenter__(self) -> Self:
        """Start the client; leaving closes it."""
        await self.client.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        """Close."""
        await self.close()


def view_of(
    client: Any,
    config: Mapping[str, Any] | None = None,
    cache: TopicFactsCache | None = None,
) -> ClusterView:
    """Return the view of a client of aiokafka, whatever it is for."""

    def settings() -> Any:
        known = config_of(client) if config is None else config
        return read_settings(known, errors.make)

    return ClusterView(settings, errors.make, cache)


def wrap(
    admin: Any,
    *,
    factory: Callable[..., Any] | None = None,  # noqa: ARG001 - an admin needs no successor
    config: Mapping[str, Any] | None = None,
    topics: Mapping[str, TopicFacts] | None = None,
    **_: Any,
) -> GuardedAdmin:
    """Guard an admin, as :func:`kafkaguard.guard` says."""
    return GuardedAdmin(admin, config, topics)
