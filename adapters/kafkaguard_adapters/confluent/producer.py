"""A guarded producer: stands in for a ``confluent_kafka.Producer``, its sends aside."""

from __future__ import annotations

from kafkaguard_adapters.asking.cluster_calls import ClusterCalls
from kafkaguard_adapters.confluent.stand_in import QueuedStandIn
from kafkaguard_adapters.confluent.view import view_of
from kafkaguard_adapters.stand_in import GuardedClient, passing_sends, wrapper


class GuardedProducer(ClusterCalls, QueuedStandIn, GuardedClient):
    """A Producer that can also ask for log directories, lag and offsets.

    What it sends is passed on as it is.
    """


wrap = passing_sends(wrapper(GuardedProducer, view_of))
