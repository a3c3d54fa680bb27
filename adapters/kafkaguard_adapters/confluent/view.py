"""The cluster view of a confluent-kafka client."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kafkaguard._errors import ClientConfigurationError
from kafkaguard_adapters.asking.cluster_view import ClusterView
from kafkaguard_adapters.confluent.errors import errors
from kafkaguard_adapters.confluent.settings import read_settings

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from kafkaguard._verdicts.topic_facts import TopicFactsCache
    from kafkaguard_adapters.wire.settings import Settings


def view_of(
    client: Any,
    config: Mapping[str, Any] | None = None,
    cache: TopicFactsCache | None = None,
) -> ClusterView:
    """Make the view; without ``config`` its calls raise an error that says so."""
    return ClusterView(settings_reader(client, config), errors.make, cache)


def settings_reader(
    client: Any, config: Mapping[str, Any] | None
) -> Callable[[], Settings]:
    """Return a function that reads the settings, or raises if they are unknown."""

    def settings() -> Settings:
        if config is None:
            name = type(client).__name__
            raise errors.make(
                ClientConfigurationError,
                f"the guard cannot read the settings of a {name} of confluent-kafka: "
                "use guard(client, config={...}) with the client's settings, or "
                f"guard(factory={name}, config={{...}})",
            )
        return read_settings(config, errors.make)

    return settings
