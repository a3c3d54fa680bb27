"""A guarded producer: stands in for a ``confluent_kafka.Producer``, its sends aside."""

from __future__ import annotations

from kafkaguard_adapters._calls import ClusterCalls
from kafkaguard_adapters._stand_in import GuardedClient, passing_sends, wrapper
from kafkaguard_adapters.confluent._queue import Queue
from kafkaguard_adapters.confluent.view import view_of


class GuardedProducer(ClusterCalls, Queue, GuardedClient):
    """A Producer that can also ask for log directories, lag and offsets.

    What it sends is passed on as it is.
    """


wrap = passing_sends(wrapper(GuardedProducer, view_of))
