"""The guarded consumer: stands in for a ``confluent_kafka.Consumer``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

from confluent_kafka import OFFSET_END, TopicPartition

from kafkaguard._cluster.offsets import EARLIEST, LATEST
from kafkaguard._cluster.reports import as_partition
from kafkaguard._verdicts.topic_facts import TopicFactsCache
from kafkaguard_adapters.asking.cluster_calls import TIMEOUT_S
from kafkaguard_adapters.asking.tiered_offsets import TieredOffsets
from kafkaguard_adapters.confluent.view import view_of
from kafkaguard_adapters.stand_in import GuardedClient
from kafkaguard_adapters.wire.io_thread import run

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from kafkaguard._cluster.offsets import OffsetsReport
    from kafkaguard._verdicts.verdict import TopicFacts
    from kafkaguard_adapters.asking.cluster_view import ClusterView

#: librdkafka's own defaults.
_ISOLATION = "read_committed"
_FOR_EVER = -1


class _Client(Protocol):
    """What is called of a ``Consumer``."""

    def get_watermark_offsets(
        self, partition: Any, timeout: float, cached: bool
    ) -> tuple[int, int] | None: ...
    def offsets_for_times(
        self, partitions: Sequence[Any], timeout: float
    ) -> list[Any]: ...


class GuardedConsumer(GuardedClient):
    """A Consumer that can also ask for log directories and lag.

    Its own look-ups of offsets wait for remote storage, up to ``timeout``, or 30 s
    where none is given. They need ``config=``, as all of our own calls.

    Args:
        consumer: The client's consumer.
        view: What our own calls ask.
        isolation: The consumer's ``isolation.level``.
    """

    client: _Client

    def __init__(
        self, consumer: _Client, view: ClusterView, isolation: str = _ISOLATION
    ) -> None:
        super().__init__(consumer, view)
        self._tiered = TieredOffsets(view, isolation)

    def get_watermark_offsets(
        self, partition: Any, timeout: float = _FOR_EVER, cached: bool = False
    ) -> tuple[int, int] | None:
        """Find start and end, as ``Consumer.get_watermark_offsets`` does."""
        if cached:
            return self.client.get_watermark_offsets(partition, timeout, cached)
        low = self._find({partition: EARLIEST}, timeout)
        high = low and self._find({partition: LATEST}, timeout)
        if low is None or high is None:
            return self.client.get_watermark_offsets(partition, timeout, cached)
        place = as_partition(partition)
        return low.offsets[place], high.offsets[place]

    def offsets_for_times(
        self, partitions: Sequence[Any], timeout: float = _FOR_EVER
    ) -> list[Any]:
        """Look times up, as ``Consumer.offsets_for_times`` does."""
        report = self._find({each: each.offset for each in partitions}, timeout)
        if report is None:
            return self.client.offsets_for_times(partitions, timeout)
        return [_at(each, report) for each in partitions]

    def _find(self, wanted: Mapping[Any, int], timeout: float) -> OffsetsReport | None:
        seconds = TIMEOUT_S if timeout < 0 else timeout
        return run(self._tiered.find(wanted, seconds))


def _at(wanted: Any, report: OffsetsReport) -> Any:
    place = as_partition(wanted)
    found = report.partitions[place]
    if found.offset is None:
        return TopicPartition(*place, OFFSET_END)
    return TopicPartition(*place, found.offset, leader_epoch=found.leader_epoch)


def wrap(
    consumer: Any,
    *,
    config: Mapping[str, Any] | None = None,
    topics: Mapping[str, TopicFacts] | None = None,
    **_: Any,
) -> GuardedConsumer:
    """Guard a consumer, as :func:`kafkaguard.guard` says."""
    view = view_of(consumer, config, TopicFactsCache(topics))
    isolation = (config or {}).get("isolation.level", _ISOLATION)
    return GuardedConsumer(consumer, view, isolation)
