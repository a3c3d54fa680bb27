"""A guarded producer: stands in for a ``confluent_kafka.Producer``, its sends aside."""

from __future__ import annotations

from kafkaguard_adapters.asking.calls import ClusterCalls
from kafkaguard_adapters.confluent.queued import Queue
from kafkaguard_adapters.confluent.view import view_of
from kafkaguard_adapters.stand_in import GuardedClient, passing_sends, wrapper


class GuardedProducer(ClusterCalls, Queue, GuardedClient):
    """A Producer that can also ask for log directories, lag and offsets.

    What it sends is passed on as it is.
    """


wrap = passing_sends(wrapper(GuardedProducer, view_of))
