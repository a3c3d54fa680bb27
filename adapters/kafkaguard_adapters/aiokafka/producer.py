"""A guarded producer: stands in for an ``AIOKafkaProducer``, its sends aside."""

from __future__ import annotations

from kafkaguard_adapters._calls import AsyncClusterCalls
from kafkaguard_adapters._stand_in import GuardedAsyncClient, passing_sends, wrapper
from kafkaguard_adapters.aiokafka.view import view_of


class GuardedProducer(AsyncClusterCalls, GuardedAsyncClient):
    """An AIOKafkaProducer that can also ask for log directories, lag and offsets.

    What it sends is passed on as it is.
    """

    async def stop(self) -> None:
        """Close our own connections, then the client, within 30 s."""
        await self._end()


wrap = passing_sends(wrapper(GuardedProducer, view_of))
