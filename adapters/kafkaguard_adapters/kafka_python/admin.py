"""The guarded admin: stands in for a ``kafka.KafkaAdminClient``."""

from __future__ import annotations

from kafkaguard_adapters._calls import ClusterCalls
from kafkaguard_adapters._stand_in import GuardedClient, wrapper
from kafkaguard_adapters.kafka_python.view import view_of


class GuardedAdmin(ClusterCalls, GuardedClient):
    """A KafkaAdminClient that can also ask for log directories, lag and offsets."""


wrap = wrapper(GuardedAdmin, view_of)
