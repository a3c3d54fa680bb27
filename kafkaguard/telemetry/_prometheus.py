"""Telemetry for Prometheus."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kafkaguard._common.extras import require
from kafkaguard.telemetry import _metrics as m
from kafkaguard.telemetry._collecting import MAX_TOPICS, Telemetry

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator


def prometheus(
    registry: Any = None,
    *,
    max_topics: int = MAX_TOPICS,
    on_event: Callable[[Any], object] | None = None,
) -> Telemetry:
    """Export metrics to Prometheus; needs the extra ``prometheus``.

    >>> guard(client, on_event=telemetry.prometheus())  # doctest: +SKIP

    Args:
        registry: A ``CollectorRegistry``. Default: the one of ``prometheus_client``.
        max_topics: How many topics have their own name in the attribute
            ``messaging.destination.name``; others are exported as ``_OTHER``. Default:
            200.
        on_event: Called with each event, too.

    Returns:
        The hook to give as ``on_event``.

    Raises:
        ModuleNotFoundError: The extra ``prometheus`` is not installed.
        TypeError: An argument has the wrong type.
        ValueError: The registry has these metrics already, or ``max_topics`` is below
            1.
    """
    require("kafkaguard.telemetry.prometheus", "prometheus", "prometheus_client")
    from prometheus_client import REGISTRY, Histogram

    place = registry or REGISTRY
    histograms: dict[m.Metric, Histogram] = {}

    def record(metric: m.Metric, value: float, labels: tuple[str, ...]) -> None:
        histograms[metric].labels(*labels).observe(value)

    telemetry = Telemetry(record, None, max_topics, on_event)
    place.register(_Collector(telemetry))
    for metric in m.METRICS:
        if metric.kind == "histogram":
            histograms[metric] = Histogram(
                metric.prometheus_name,
                metric.text,
                list(map(m.to_prometheus, metric.labels)),
                registry=place,
                buckets=m.BOUNDS,
            )
    return telemetry


class _Collector:
    """Reads all counters and gauges at each scrape."""

    def __init__(self, telemetry: Telemetry) -> None:
        self._collect = telemetry._observer.collect  # noqa: SLF001 - what a hook has

    def describe(self) -> Iterator[Any]:
        """Return the names, so that they are registered without a request."""
        for metric in m.METRICS:
            if metric.kind != "histogram":
                yield _family(metric)

    def collect(self) -> Iterator[Any]:
        """Return the metrics with their values."""
        samples = self._collect()
        for family, metric in zip(self.describe(), _READ, strict=True):
            for labels, value in samples[metric].items():
                family.add_metric(labels, value)
            yield family


_READ = tuple(metric for metric in m.METRICS if metric.kind != "histogram")


def _family(metric: m.Metric) -> Any:
    from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily

    kinds = {"counter": CounterMetricFamily, "gauge": GaugeMetricFamily}
    labels = list(map(m.to_prometheus, metric.labels))
    return kinds[metric.kind](metric.prometheus_name, metric.text, labels=labels)
