"""Base class of guarded confluent-kafka clients that have a queue."""

from __future__ import annotations

from kafkaguard_adapters.stand_in import StandIn


class QueuedStandIn(StandIn):
    """A client with the length of its queue, which is true even if that is 0."""

    def __len__(self) -> int:
        """Return the length of the client's queue."""
        return len(self.client)

    def __bool__(self) -> bool:
        """Return True, as the client does."""
        return True
