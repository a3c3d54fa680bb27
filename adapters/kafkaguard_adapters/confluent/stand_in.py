"""Base class of guarded confluent-kafka clients that have a queue."""

from __future__ import annotations

from kafkaguard_adapters.stand_in import StandIn


class QueuedStandIn(StandIn):
    """A client whose length is that of its queue, and that is true when it is empty."""

    def __len__(self) -> int:
        """Count what waits in the client's queue."""
        return len(self.client)

    def __bool__(self) -> bool:
        """Hold, as for the client."""
        return True
