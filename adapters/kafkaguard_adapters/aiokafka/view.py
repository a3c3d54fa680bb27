"""The cluster view of an aiokafka client."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kafkaguard_adapters.aiokafka.errors import errors
from kafkaguard_adapters.aiokafka.settings import config_of, read_settings
from kafkaguard_adapters.asking.cluster_view import ClusterView

if TYPE_CHECKING:
    from collections.abc import Mapping

    from kafkaguard._verdicts.topic_facts import TopicFactsCache


def view_of(
    client: Any,
    config: Mapping[str, Any] | None = None,
    cache: TopicFactsCache | None = None,
) -> ClusterView:
    """Make the view; without ``config`` the settings are read from the client."""

    def settings() -> Any:
        known = config_of(client) if config is None else config
        return read_settings(known, errors.make)

    return ClusterView(settings, errors.make, cache)
