"""Reads what telemetry exports, by OpenTelemetry's names, of both kinds."""

from __future__ import annotations

from contextlib import contextmanager

from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from prometheus_client import CollectorRegistry

from kafkaguard import telemetry
from kafkaguard.telemetry import _metrics as m

#: The metrics by the name that a test gives.
BY_NAME = {metric.name: metric for metric in m.METRICS}


class Export:
    """Telemetry, and the values that it exports.

    Args:
        kind: ``"otel"`` or ``"prometheus"``.
        options: Arguments of the function of that name.
    """

    def __init__(self, kind, **options):
        self.kind = kind
        if kind == "otel":
            self.reader = InMemoryMetricReader()
            self.provider = MeterProvider([self.reader])
            self.telemetry = telemetry.otel(self.provider, **options)
        else:
            self.registry = CollectorRegistry()
            self.telemetry = telemetry.prometheus(self.registry, **options)

    def values(self):
        """Scrape once; return each value by its name and attributes.

        Of a histogram, the value is the count and the sum.
        """
        return dict(self._otel() if self.kind == "otel" else self._prometheus())

    def _otel(self):
        data = self.reader.get_metrics_data()
        for resource in data.resource_metrics if data else ():
            for scope in resource.scope_metrics:
                for metric in scope.metrics:
                    for point in metric.data.data_points:
                        value = getattr(point, "value", None)
                        if value is None:
                            value = point.count, point.sum
                        yield key(metric.name, point.attributes), value

    def _prometheus(self):
        families = {family.name: family for family in self.registry.collect()}
        for metric in m.METRICS:
            family = families[metric.prometheus_name.removesuffix("_total")]
            names = {m.to_prometheus(label): label for label in metric.labels}
            sums = {}
            for sample in family.samples:
                labels = {names[n]: v for n, v in sample.labels.items() if n in names}
                place = key(metric.name, labels)
                if metric.kind != "histogram":
                    yield place, sample.value
                elif sample.name.endswith("_count"):
                    sums[place] = sample.value
                elif sample.name.endswith("_sum"):
                    yield place, (sums[place], sample.value)

    def value(self, name, **attributes):
        """Scrape; return the sum of the values of a metric with these attributes.

        Attributes are given by the last part of their names.
        """
        assert name in BY_NAME
        wanted = set(attributes.items())
        return sum(
            value
            for (its_name, place), value in self.values().items()
            if its_name == name and wanted <= {(short(n), v) for n, v in place}
        )

    def close(self):
        """Stop exporting."""
        if self.kind == "otel":
            self.provider.shutdown()


def key(name, attributes):
    """Return what a value is found by."""
    return name, frozenset(dict(attributes).items())


def short(attribute):
    """Return the name by which a test gives an attribute."""
    return {
        m.TOPIC: "topic",
        m.GROUP: "group",
        m.ERROR: "error",
        m.PARTITION: "partition",
    }.get(attribute, attribute.rpartition(".")[2])


@contextmanager
def exporting(kind, **options):
    """Export during a block."""
    export = Export(kind, **options)
    try:
        yield export
    finally:
        export.close()
