"""The view of a client of confluent-kafka, whatever it is for."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kafkaguard.errors import ClientConfigurationError
from kafkaguard_adapters.asking.cluster_view import ClusterView
from kafkaguard_adapters.confluent.errors import errors
from kafkaguard_adapters.confluent.settings import read_settings

if TYPE_CHECKING:
    from collections.abc import Mapping

    from kafkaguard._verdicts.topic_facts import TopicFactsCache


def view_of(
    client: Any,
    config: Mapping[str, Any] | None = None,
    cache: TopicFactsCache | None = None,
) -> ClusterView:
    """Make the view; without ``config`` its calls raise an error that says so."""

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
