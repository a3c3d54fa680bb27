"""A guarded producer: stands in for an ``AIOKafkaProducer``, its sends aside."""

from __future__ import annotations

from typing import Any

from aiokafka.errors import ProducerClosed

from kafkaguard_adapters.aiokafka.stand_in import StandIn
from kafkaguard_adapters.aiokafka.view import view_of
from kafkaguard_adapters.asking.cluster_calls import AsyncClusterCalls
from kafkaguard_adapters.client_errors import recast
from kafkaguard_adapters.stand_in import passing_sends, wrapper


class GuardedProducer(AsyncClusterCalls, StandIn):
    """An AIOKafkaProducer that can also ask for log directories, lag and offsets.

    What it sends is passed on as it is.
    """

    async def send(self, *args: Any, **kwargs: Any) -> Any:
        """Send, as ``AIOKafkaProducer.send`` does.

        Raises:
            ClientClosedError: It was stopped or did not start; the client would wait
                for ever. Also a ``ProducerClosed`` of aiokafka.
        """
        self._check_open()
        return await self.client.send(*args, **kwargs)

    async def send_and_wait(self, *args: Any, **kwargs: Any) -> Any:
        """Send and wait, as ``AIOKafkaProducer.send_and_wait`` does.

        Raises:
            ClientClosedError: As for :meth:`send`.
        """
        self._check_open()
        return await self.client.send_and_wait(*args, **kwargs)

    async def send_batch(self, *args: Any, **kwargs: Any) -> Any:
        """Send a batch, as ``AIOKafkaProducer.send_batch`` does.

        Raises:
            ClientClosedError: As for :meth:`send`.
        """
        self._check_open()
        return await self.client.send_batch(*args, **kwargs)

    def _check_open(self) -> None:
        if self.is_ended:
            error = self.cluster_view.closed("nothing was sent")
            raise recast(error, ProducerClosed)

    async def stop(self) -> None:
        """Close our own connections, then the client, within 30 s."""
        await self._end()


wrap = passing_sends(wrapper(GuardedProducer, view_of))
