"""The guarded admin: stands in for a ``kafka.KafkaAdminClient``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Self

from kafkaguard._topic_facts import TopicFactsCache
from kafkaguard_adapters._stand_in import StandIn
from kafkaguard_adapters._view import ClusterCalls, ClusterView
from kafkaguard_adapters.kafka_python import errors
from kafkaguard_adapters.kafka_python.settings import read_settings

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from kafkaguard._verdict import TopicFacts


class GuardedAdmin(ClusterCalls, StandIn):
    """A KafkaAdminClient that can also ask for log directories and lag.

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

    def close(self) -> None:
        """Close our own connections, then the client."""
        self.close_view()
        self.client.close()

    def __enter__(self) -> Self:
        """Enter; leaving closes it."""
        return self

    def __exit__(self, *_: object) -> None:
        """Close."""
        self.close()


def view_of(
    client: Any,
    config: Mapping[str, Any] | None = None,
    cache: TopicFactsCache | None = None,
) -> ClusterView:
    """Return the view of a client of kafka-python, whatever it is for."""
    known = client.config if config is None else config
    return ClusterView(lambda: read_settings(known, errors.make), errors.make, cache)


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
