"""The guarded consumer: stands in for a ``kafka.KafkaConsumer``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol, Self

from kafka.errors import KafkaTimeoutError
from kafka.structs import OffsetAndTimestamp

from kafkaguard._cluster.offsets import EARLIEST, LATEST
from kafkaguard.errors import KafkaGuardError
from kafkaguard_adapters.asking.tiered_offsets import TieredOffsets, offsets_of
from kafkaguard_adapters.client_errors import recast
from kafkaguard_adapters.kafka_python.view import view_of
from kafkaguard_adapters.stand_in import GuardedClient, wrapper
from kafkaguard_adapters.wire.io_thread import run

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from kafkaguard._cluster.offsets import OffsetsReport, PartitionOffset
    from kafkaguard_adapters.asking.cluster_view import ClusterView


class _Client(Protocol):
    """What is called of a ``KafkaConsumer``."""

    config: Mapping[str, Any]

    def beginning_offsets(
        self, partitions: Collection[Any], timeout_ms: float | None
    ) -> dict[Any, int]: ...
    def end_offsets(
        self, partitions: Collection[Any], timeout_ms: float | None
    ) -> dict[Any, int]: ...
    def offsets_for_times(
        self, timestamps: Mapping[Any, float], timeout_ms: float | None
    ) -> dict[Any, Any]: ...
    def __next__(self) -> Any: ...


class GuardedConsumer(GuardedClient):
    """A KafkaConsumer that can also ask for log directories and lag.

    Its own look-ups of offsets wait for remote storage. What is raised then is a
    ``KafkaTimeoutError`` too, as the client alone would raise.

    Args:
        consumer: The client's consumer.
        view: What our own calls ask.
    """

    client: _Client

    def __init__(self, consumer: _Client, view: ClusterView) -> None:
        super().__init__(consumer, view)
        self._tiered = TieredOffsets(view, consumer.config["isolation_level"])

    def beginning_offsets(
        self, partitions: Collection[Any], timeout_ms: float | None = None
    ) -> dict[Any, int]:
        """Find first offsets, as ``KafkaConsumer.beginning_offsets`` does."""
        report = self._find(dict.fromkeys(partitions, EARLIEST), timeout_ms)
        if report is None:
            return self.client.beginning_offsets(partitions, timeout_ms)
        return offsets_of(report, partitions)

    def end_offsets(
        self, partitions: Collection[Any], timeout_ms: float | None = None
    ) -> dict[Any, int]:
        """Find ends, as ``KafkaConsumer.end_offsets`` does."""
        report = self._find(dict.fromkeys(partitions, LATEST), timeout_ms)
        if report is None:
            return self.client.end_offsets(partitions, timeout_ms)
        return offsets_of(report, partitions)

    def offsets_for_times(
        self, timestamps: Mapping[Any, float], timeout_ms: float | None = None
    ) -> dict[Any, Any]:
        """Look times up, as ``KafkaConsumer.offsets_for_times`` does."""
        report = None
        if all(time >= 0 for time in timestamps.values()):  # else the client refuses
            times = {place: int(time) for place, time in timestamps.items()}
            report = self._find(times, timeout_ms)
        if report is None:
            return self.client.offsets_for_times(timestamps, timeout_ms)
        return {each: _at(report.partitions[each]) for each in timestamps}

    def __iter__(self) -> Self:
        """Read record after record, as the client does."""
        return self

    def __next__(self) -> Any:
        """Read the next record."""
        return next(self.client)

    def _find(
        self, wanted: Mapping[Any, int], timeout_ms: float | None
    ) -> OffsetsReport | None:
        if timeout_ms is None:
            timeout_ms = self.client.config["request_timeout_ms"]
        try:
            return run(self._tiered.find(wanted, timeout_ms / 1000))
        except KafkaGuardError as error:
            raise recast(error, KafkaTimeoutError) from error


def _at(found: PartitionOffset) -> Any:
    if found.offset is None or found.timestamp is None:
        return None
    epoch = -1 if found.leader_epoch is None else found.leader_epoch
    return OffsetAndTimestamp(found.offset, round(found.timestamp * 1000), epoch)


wrap = wrapper(GuardedConsumer, view_of)
