"""The guarded consumer: stands in for an ``aiokafka.AIOKafkaConsumer``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol, Self

from aiokafka.structs import OffsetAndTimestamp

from kafkaguard._cluster.offsets import EARLIEST, LATEST
from kafkaguard_adapters.aiokafka.settings import consumer_config_of
from kafkaguard_adapters.aiokafka.stand_in import StandIn
from kafkaguard_adapters.aiokafka.view import view_of
from kafkaguard_adapters.asking.tiered_offsets import TieredOffsets, offsets_of
from kafkaguard_adapters.stand_in import wrapper

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from kafkaguard._cluster.offsets import PartitionOffset
    from kafkaguard_adapters.asking.cluster_view import ClusterView


class _Client(Protocol):
    """What is called of an ``AIOKafkaConsumer``."""

    async def beginning_offsets(
        self, partitions: Collection[Any]
    ) -> dict[Any, int]: ...
    async def end_offsets(self, partitions: Collection[Any]) -> dict[Any, int]: ...
    async def offsets_for_times(
        self, timestamps: Mapping[Any, float]
    ) -> dict[Any, Any]: ...
    def __aiter__(self) -> Self: ...
    async def __anext__(self) -> Any: ...


class GuardedConsumer(StandIn):
    """An AIOKafkaConsumer that can also ask for log directories and lag.

    Its own look-ups of offsets wait for remote storage, up to ``request_timeout_ms``.

    Args:
        consumer: The client's consumer.
        view: What our own calls ask.
    """

    client: _Client

    def __init__(self, consumer: _Client, view: ClusterView) -> None:
        super().__init__(consumer, view)
        known = consumer_config_of(consumer)
        self._seconds = known["request_timeout_ms"] / 1000
        self._tiered = TieredOffsets(view, known["isolation_level"])

    async def stop(self) -> None:
        """Close our own connections, then the client, within 30 s."""
        await self._end()

    async def beginning_offsets(self, partitions: Collection[Any]) -> dict[Any, int]:
        """Find first offsets, as ``AIOKafkaConsumer.beginning_offsets`` does."""
        wanted = dict.fromkeys(partitions, EARLIEST)
        report = await self._tiered.find(wanted, self._seconds)
        if report is None:
            return await self.client.beginning_offsets(partitions)
        return offsets_of(report, partitions)

    async def end_offsets(self, partitions: Collection[Any]) -> dict[Any, int]:
        """Find ends, as ``AIOKafkaConsumer.end_offsets`` does."""
        wanted = dict.fromkeys(partitions, LATEST)
        report = await self._tiered.find(wanted, self._seconds)
        if report is None:
            return await self.client.end_offsets(partitions)
        return offsets_of(report, partitions)

    async def offsets_for_times(
        self, timestamps: Mapping[Any, float]
    ) -> dict[Any, Any]:
        """Look times up, as ``AIOKafkaConsumer.offsets_for_times`` does."""
        report = None
        if all(time >= 0 for time in timestamps.values()):  # else the client refuses
            times = {place: int(time) for place, time in timestamps.items()}
            report = await self._tiered.find(times, self._seconds)
        if report is None:
            return await self.client.offsets_for_times(timestamps)
        return {each: _at(report.partitions[each]) for each in timestamps}

    def __aiter__(self) -> Self:
        """Read record after record, as the client does."""
        self.client.__aiter__()  # which refuses where it is closed
        return self

    async def __anext__(self) -> Any:
        """Read the next record."""
        return await self.client.__anext__()


def _at(found: PartitionOffset) -> Any:
    if found.offset is None or found.timestamp is None:
        return None
    return OffsetAndTimestamp(found.offset, round(found.timestamp * 1000))


wrap = wrapper(GuardedConsumer, view_of)
