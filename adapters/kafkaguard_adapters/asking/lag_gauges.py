"""Lag as gauges, for Prometheus and OpenTelemetry. Their names are all here.

Each reading makes one call for all groups, so nothing is asked between two scrapes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from kafkaguard._common.extras import require

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from kafkaguard._cluster.lag import LagReport, PartitionLag

LABELS: Final = ("group", "topic", "partition")
#: Name, attribute of a partition's lag, and what it is; None is no sample.
GAUGES: Final = (
    ("kafkaguard_group_lag", "lag", "Offsets that a group is behind"),
    ("kafkaguard_group_committed", "committed", "Offset that a group has committed"),
    ("kafkaguard_group_end", "end", "Offset that lag is measured against"),
    ("kafkaguard_group_lost", "lost", "Offsets that retention took unread"),
    ("kafkaguard_group_blocked", "blocked", "Offsets behind open transactions"),
    ("kafkaguard_group_time_lag_seconds", "time_lag", "Age of the next record"),
)
UNKNOWN: Final = "kafkaguard_group_unknown"
_UNKNOWN_TEXT: Final = "Partitions without a lag, by reason"


def _partitions(report: LagReport) -> Iterator[tuple[str, PartitionLag]]:
    for name, group in report.groups.items():
        for each in group.partitions.values():
            yield name, each


def samples(
    report: LagReport, attribute: str
) -> Iterator[tuple[dict[str, str], float]]:
    """Go through the values of one gauge with their labels."""
    for group, each in _partitions(report):
        value = getattr(each, attribute)
        if value is not None:
            place = (group, each.topic, str(each.partition))
            yield dict(zip(LABELS, place, strict=True)), float(value)


def unknown(report: LagReport) -> dict[tuple[str, str], int]:
    """Count partitions without a lag, by group and reason."""
    counts: dict[tuple[str, str], int] = {}
    for group, each in _partitions(report):
        if each.lag is None and each.reason is not None:
            key = group, str(each.reason)
            counts[key] = counts.get(key, 0) + 1
    return counts


class PrometheusLag:
    """A collector for ``prometheus_client.REGISTRY.register(...)``.

    >>> REGISTRY.register(PrometheusLag(lambda: guard(admin).lag()))  # doctest: +SKIP

    Args:
        read: Reads the lag.

    Raises:
        ModuleNotFoundError: The extra ``prometheus`` is not installed.
    """

    def __init__(self, read: Callable[[], LagReport]) -> None:
        require("PrometheusLag", "prometheus", "prometheus_client")
        self._read = read

    def describe(self) -> Iterable[Any]:
        """Name nothing beforehand, so that registering asks no broker."""
        return []

    def collect(self) -> Iterator[Any]:
        """Read the lag once and hand it over."""
        from prometheus_client.core import GaugeMetricFamily

        report = self._read()
        for name, attribute, text in GAUGES:
            family = GaugeMetricFamily(name, text, labels=LABELS)
            for labels, value in samples(report, attribute):
                family.add_metric(list(labels.values()), value)
            yield family
        family = GaugeMetricFamily(UNKNOWN, _UNKNOWN_TEXT, labels=("group", "reason"))
        for key, count in unknown(report).items():
            family.add_metric(list(key), count)
        yield family


def register_otel(meter: Any, read: Callable[[], LagReport]) -> None:
    """Make observable gauges of an OpenTelemetry meter; one reading serves all of them.

    Args:
        meter: An ``opentelemetry.metrics.Meter``.
        read: Reads the lag.

    Raises:
        ModuleNotFoundError: The extra ``otel`` is not installed.
    """
    require("register_otel", "otel", "opentelemetry")
    from opentelemetry.metrics import Observation

    current: list[LagReport] = []

    def observe(attribute: str, *, is_first: bool) -> Callable[[Any], list[Any]]:
        def callback(_: Any) -> list[Any]:
            if is_first:
                current[:] = [read()]
            return [
                Observation(value, labels)
                for report in current
                for labels, value in samples(report, attribute)
            ]

        return callback

    for position, (name, attribute, text) in enumerate(GAUGES):
        callback = observe(attribute, is_first=position == 0)
        meter.create_observable_gauge(name, [callback], description=text)
