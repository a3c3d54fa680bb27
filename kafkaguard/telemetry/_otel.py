"""Telemetry for OpenTelemetry."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from kafkaguard._common.extras import require
from kafkaguard._version import __version__
from kafkaguard.telemetry import _metrics as m
from kafkaguard.telemetry._collecting import MAX_TOPICS, Telemetry

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from kafkaguard.telemetry._metrics import Samples

_SCHEMA = f"https://opentelemetry.io/schemas/{m.CONVENTIONS}"


def otel(
    meter_provider: Any = None,
    tracer_provider: Any = None,
    *,
    max_topics: int = MAX_TOPICS,
    on_event: Callable[[Any], object] | None = None,
) -> Telemetry:
    """Export metrics, and spans if you want them, to OpenTelemetry.

    It needs the extra ``otel``.

    >>> guard(client, on_event=telemetry.otel())  # doctest: +SKIP

    Args:
        meter_provider: A ``MeterProvider``. Default: the global one.
        tracer_provider: A ``TracerProvider``: each call of ``send`` and of a handler
            makes a span. Default: no spans.
        max_topics: How many topics have their own name in the attribute
            ``messaging.destination.name``; others are exported as ``_OTHER``. Default:
            200.
        on_event: Called with each event, too.

    Returns:
        The hook to give as ``on_event``.

    Raises:
        ModuleNotFoundError: The extra ``otel`` is not installed.
        TypeError: An argument has the wrong type.
        ValueError: ``max_topics`` is below 1.
    """
    require("kafkaguard.telemetry.otel", "otel", "opentelemetry")
    from opentelemetry.metrics import get_meter

    meter = get_meter("kafkaguard", __version__, meter_provider, _SCHEMA)
    histograms: dict[m.Metric, Any] = {}

    def record(metric: m.Metric, value: float, labels: tuple[str, ...]) -> None:
        attributes = dict(zip(metric.labels, labels, strict=True))
        histograms[metric].record(value, attributes)

    spans = None
    if tracer_provider is not None:
        from kafkaguard.telemetry._spans import Spans

        tracer = tracer_provider.get_tracer(
            "kafkaguard", __version__, schema_url=_SCHEMA
        )
        spans = Spans(tracer)
    telemetry = Telemetry(record, spans, max_topics, on_event)
    read = _Reading(telemetry._observer.collect).of  # noqa: SLF001 - what a hook has
    make = {
        "counter": meter.create_observable_counter,
        "gauge": meter.create_observable_gauge,
    }
    for metric in m.METRICS:
        about = {"unit": metric.unit, "description": metric.text}
        if metric.kind == "histogram":
            histograms[metric] = meter.create_histogram(
                metric.name,
                **about,
                explicit_bucket_boundaries_advisory=m.BOUNDS,
            )
        else:
            make[metric.kind](metric.name, [partial(read, metric)], **about)
    return telemetry


class _Reading:
    """One reading for all metrics; the second request of one begins the next."""

    def __init__(self, collect: Callable[[], Samples]) -> None:
        self._collect = collect
        self._served: set[m.Metric] = set()
        self._samples: Samples

    def of(self, metric: m.Metric, _options: object) -> Iterator[Any]:
        """Yield the values of a metric."""
        from opentelemetry.metrics import Observation

        if not self._served or metric in self._served:
            self._served = set()
            self._samples = self._collect()
        self._served.add(metric)
        for labels, value in self._samples[metric].items():
            yield Observation(value, dict(zip(metric.labels, labels, strict=True)))
