"""The guarded admin: stands in for a ``confluent_kafka.admin.AdminClient``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Self

from kafkaguard._topic_facts import TopicFactsCache
from kafkaguard.errors import ClientConfigurationError
from kafkaguard_adapters._stand_in import StandIn
from kafkaguard_adapters._view import ClusterCalls, ClusterView
from kafkaguard_adapters.confluent import errors
from kafkaguard_adapters.confluent.settings import read_settings

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from kafkaguard._verdict import TopicFacts


class GuardedAdmin(ClusterCalls, StandIn):
    """An AdminClient that can also ask for log directories and lag.

    Args:
        admin: The client's admin.
        config: The settings that it was made with, which it keeps to itself. Default:
            not given; then the calls of our own raise an error that says so.
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
        """Close our own connections; an AdminClient closes its own when it is freed."""
        self.close_view()

    def __len__(self) -> int:
        """Count what waits in the client's queue."""
        return len(self.client)

    def __bool__(self) -> bool:
        """Hold, as for the client."""
        return True

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
    """Return the view of a client of confluent-kafka, whatever it is for."""

    def settings() -> Any:
        if config is None:
            name = type(client).__name__
            raise errors.make(
                ClientConfigurationError,
                f"the settings were not given, and a {name} of confluent-kafka keeps "
                f"its own to itself: guard(client, config={{...}}) with what it was "
                f"made with, or guard(factory={name}, config={{...}})",
            )
        return read_settings(config, errors.make)

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
