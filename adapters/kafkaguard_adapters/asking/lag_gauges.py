"""Lag as gauges for Prometheus and OpenTelemetry, with their names.

Each reading makes one call for all groups. No request is sent between two scrapes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from kafkaguard._cluster.lag import LagReason
from kafkaguard._common.extras import require

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from kafkaguard._cluster.lag import LagReport, PartitionLag

LABELS: Final = ("group", "topic", "partition")
#: Name, attribute of ``PartitionLag``, and description. A value of None is left out.
GAUGES: Final = (
    ("kafkaguard_group_lag", "lag", "Offsets that a group is behind"),
    ("kafkaguard_group_committed", "committed", "Offset that a group has committed"),
    ("kafkaguard_group_end", "end", "Offset that lag is measured against"),
    ("kafkaguard_group_lost", "lost", "Offsets that retention took unread"),
    ("kafkaguard_group_blocked", "blocked", "Offsets behind open transactions"),
    ("kafkaguard_group_time_lag_seconds", "time_lag", "Age of the next record"),
)
UNKNOWN: Final = "kafkaguard_group_unknown"
_UNKNOWN_TEXT: Final = "Partitions that the lag leaves out, by reason"


def _iterate_partitions(report: LagReport) -> Iterator[tuple[str, PartitionLag]]:
    for name, group in report.groups.items():
        for each in group.partitions.values():
            yield name, each


def iterate_samples(
    report: LagReport, attribute: str
) -> Iterator[tuple[dict[str, str], float]]:
    """Yield the labels and value of each sample of one gauge.

    The lag of topics that a group no longer reads is left out, so that sums are right.
    """
    for group, each in _iterate_partitions(report):
        value = getattr(each, attribute)
        is_left = attribute == "lag" and each.reason is LagReason.LEFT
        if value is not None and not is_left:
            place = (group, each.topic, str(each.partition))
            yield dict(zip(LABELS, place, strict=True)), float(value)


def count_unknown(report: LagReport) -> dict[tuple[str, str], int]:
    """Count the partitions and groups without a lag, by group and reason."""
    counts: dict[tuple[str, str], int] = {}
    for name, group in report.groups.items():
        reasons = [group.reason if group.error is None else LagReason.ERROR]
        for each in group.partitions.values():
            is_out = each.lag is None or each.reason is LagReason.LEFT
            reasons.append(each.reason if is_out else None)
        for reason in filter(None, reasons):
            counts[name, str(reason)] = counts.get((name, str(reason)), 0) + 1
    return counts


class PrometheusLag:
    """A collector for ``prometheus_client.REGISTRY.register(...)``.

    >>> REGISTRY.register(PrometheusLag(lambda: guard(admin).lag()))  # doctest: +SKIP

    Args:
        read: Returns the lag report; called at each scrape.

    Raises:
        ModuleNotFoundError: The extra ``prometheus`` is not installed.
    """

    def __init__(self, read: Callable[[], LagReport]) -> None:
        require("PrometheusLag", "prometheus", "prometheus_client")
        self._read = read

    def describe(self) -> Iterable[Any]:
        """Return no metrics, so that registering sends no request to a broker."""
        return []

    def collect(self) -> Iterator[Any]:
        """Read the lag once, and yield one metric family for each gauge."""
        from prometheus_client.core import GaugeMetricFamily

        report = self._read()
        for name, attribute, text in GAUGES:
            family = GaugeMetricFamily(name, text, labels=LABELS)
            for labels, value in iterate_samples(report, attribute):
                family.add_metric(list(labels.values()), value)
            yield family
        family = GaugeMetricFamily(UNKNOWN, _UNKNOWN_TEXT, labels=("group", "reason"))
        for key, count in count_unknown(report).items():
            family.add_metric(list(key), count)
        yield family


def register_otel(meter: Any, read: Callable[[], LagReport]) -> None:
    """Make observable gauges of an OpenTelemetry meter; one reading serves all of them.

    If a reading fails, OpenTelemetry logs the error, and this collection has no
    samples. Samples of an earlier reading are not repeated.

    Args:
        meter: An ``opentelemetry.metrics.Meter``.
        read: Returns the lag report; called once for each collection.

    Raises:
        ModuleNotFoundError: The extra ``otel`` is not installed.
    """
    require("register_otel", "otel", "opentelemetry")
    from opentelemetry.metrics import Observation

    collection = _Collection(read)

    def gauge(attribute: str) -> Callable[[Any], list[Any]]:
        def callback(_: Any) -> list[Any]:
            report = collection.report(attribute)
            if report is None:
                return []
            pairs = iterate_samples(report, attribute)
            return [Observation(value, labels) for labels, value in pairs]

        return callback

    def count(_: Any) -> list[Any]:
        report = collection.report(UNKNOWN)
        counts = {} if report is None else count_unknown(report)
        return [
            Observation(value, {"group": group, "reason": reason})
            for (group, reason), value in counts.items()
        ]

    for name, attribute, text in GAUGES:
        meter.create_observable_gauge(name, [gauge(attribute)], description=text)
    meter.create_observable_gauge(UNKNOWN, [count], description=_UNKNOWN_TEXT)


class _Collection:
    """One reading for all gauges; a gauge's second request begins the next reading."""

    def __init__(self, read: Callable[[], LagReport]) -> None:
        self._read = read
        self._served: set[str] = set()
        self._report: LagReport | None = None

    def report(self, gauge: str) -> LagReport | None:
        """Return the reading for a gauge; None if it has failed for another gauge."""
        if not self._served or gauge in self._served:
            self._served = {gauge}
            self._report = None
            self._report = self._read()
        self._served.add(gauge)
        return self._report
