"""The cluster view of a kafka-python client."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kafkaguard_adapters.asking.cluster_view import ClusterView
from kafkaguard_adapters.kafka_python.errors import errors
from kafkaguard_adapters.kafka_python.settings import read_settings

if TYPE_CHECKING:
    from collections.abc import Mapping

    from kafkaguard._verdicts.topic_facts import TopicFactsCache


def view_of(
    client: Any,
    config: Mapping[str, Any] | None = None,
    cache: TopicFactsCache | None = None,
) -> ClusterView:
    """Make the cluster view. Without ``config``, settings are read from the client."""
    source = client.config if config is None else config
    return ClusterView(lambda: read_settings(source, errors.make), errors.make, cache)
