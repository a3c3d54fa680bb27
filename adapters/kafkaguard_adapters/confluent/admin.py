"""The guarded admin: stands in for a ``confluent_kafka.admin.AdminClient``."""

from __future__ import annotations

from kafkaguard_adapters.asking.cluster_calls import ClusterCalls
from kafkaguard_adapters.confluent.stand_in import QueuedStandIn
from kafkaguard_adapters.confluent.view import view_of
from kafkaguard_adapters.stand_in import GuardedClient, wrapper


class GuardedAdmin(ClusterCalls, QueuedStandIn, GuardedClient):
    """An AdminClient that can also ask for log directories, lag and offsets.

    ``close()`` closes our own connections; an AdminClient closes its own when freed.
    """


wrap = wrapper(GuardedAdmin, view_of)
