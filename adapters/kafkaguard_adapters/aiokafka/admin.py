"""The guarded admin: stands in for an ``aiokafka.admin.AIOKafkaAdminClient``."""

from __future__ import annotations

from kafkaguard_adapters.aiokafka.stand_in import StandIn
from kafkaguard_adapters.aiokafka.view import view_of
from kafkaguard_adapters.asking.cluster_calls import AsyncClusterCalls
from kafkaguard_adapters.stand_in import wrapper


class GuardedAdmin(AsyncClusterCalls, StandIn):
    """An AIOKafkaAdminClient that can also ask for log directories, lag and offsets."""

    _ends_with = "close"

    async def close(self) -> None:
        """Close our own connections, then the client, within 30 s."""
        await self._end()


wrap = wrapper(GuardedAdmin, view_of)
