"""Lag as gauges: one reading a scrape, and no sample for what is not known."""

from __future__ import annotations

from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from prometheus_client import CollectorRegistry, generate_latest

from kafkaguard._cluster.lag import GroupLag, LagReport, measure
from kafkaguard._cluster.reports import TopicPartition
from kafkaguard_adapters.asking.lag_gauges import PrometheusLag, register_otel

PLACES = [TopicPartition("t", n) for n in range(2)]


class Reader:
    """Returns a report, and counts how often it was asked."""

    def __init__(self):
        self.calls = 0

    def __call__(self):
        """Read."""
        self.calls += 1
        partitions = {
            PLACES[0]: measure(PLACES[0], 3, 10),
            PLACES[1]: measure(PLACES[1], None, 5),
        }
        return LagReport({"g": GroupLag("g", partitions=partitions)}, 0.0)


def test_prometheus():
    """The lag with its labels, and partitions without one by reason."""
    read, registry = Reader(), CollectorRegistry()
    registry.register(PrometheusLag(read))
    assert read.calls == 0
    text = generate_latest(registry).decode()
    assert read.calls == 1
    assert 'kafkaguard_group_lag{group="g",partition="0",topic="t"} 7.0' in text
    assert 'kafkaguard_group_lag{group="g",partition="1"' not in text
    assert 'kafkaguard_group_unknown{group="g",reason="no commit"} 1.0' in text


def test_otel():
    """The same by observable gauges, all from one reading."""
    read, reader = Reader(), InMemoryMetricReader()
    provider = MeterProvider([reader])
    register_otel(provider.get_meter("test"), read)
    (resource,) = reader.get_metrics_data().resource_metrics
    metrics = {m.name: m for m in resource.scope_metrics[0].metrics}
    (point,) = metrics["kafkaguard_group_lag"].data.data_points
    assert point.value == 7
    assert point.attributes == {"group": "g", "topic": "t", "partition": "0"}
    assert read.calls == 1
    provider.shutdown()
