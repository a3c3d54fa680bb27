"""The guarded admin: stands in for a ``kafka.KafkaAdminClient``."""

from __future__ import annotations

from kafkaguard_adapters.asking.cluster_calls import ClusterCalls
from kafkaguard_adapters.kafka_python.view import view_of
from kafkaguard_adapters.stand_in import GuardedClient, wrapper


class GuardedAdmin(ClusterCalls, GuardedClient):
    """A KafkaAdminClient that can also ask for log directories, lag and offsets."""


wrap = wrapper(GuardedAdmin, view_of)
