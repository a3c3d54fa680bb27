"""Lag as gauges: one reading a scrape, and no sample for what is not known."""

from __future__ import annotations

import pytest
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.parser import text_string_to_metric_families

from kafkaguard._cluster.lag import GroupLag, LagReport, measure
from kafkaguard._cluster.reports import TopicPartition
from kafkaguard.errors import ClientTimeoutError, GroupAuthorizationFailedError
from kafkaguard_adapters.asking.lag_gauges import PrometheusLag, register_otel
from tests.names import NAMES

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


def points_of(reader):
    """Collect once; return values by gauge and labels."""
    data = reader.get_metrics_data()
    return {
        (metric.name, *sorted(point.attributes.values())): point.value
        for resource in (data.resource_metrics if data else ())
        for scope in resource.scope_metrics
        for metric in scope.metrics
        for point in metric.data.data_points
    }


def test_gauges_tell_nothing_where_reading_fails():
    """No old number stands in for a new one, and the cluster is asked once."""
    read, reader = Reader(), InMemoryMetricReader()
    calls = []

    def sometimes():
        calls.append(1)
        if len(calls) == 2:
            raise ClientTimeoutError
        return read()

    provider = MeterProvider([reader])
    register_otel(provider.get_meter("test"), sometimes)
    first, second, third = points_of(reader), points_of(reader), points_of(reader)
    provider.shutdown()
    assert first[("kafkaguard_group_lag", "0", "g", "t")] == 7
    assert first[("kafkaguard_group_unknown", "g", "no commit")] == 1
    assert (second, len(calls)) == ({}, 3)
    assert first == third


def test_gauges_leave_out_what_a_group_has_left_and_count_what_they_leave_out():
    """The sum of a group's lags is its total; a group that is refused is counted."""
    partitions = {
        PLACES[0]: measure(PLACES[0], 3, 10),
        PLACES[1]: measure(PLACES[1], 1, 5, is_left=True),
    }
    groups = {
        "g": GroupLag("g", partitions=partitions),
        "denied": GroupLag("denied", error=GroupAuthorizationFailedError()),
    }
    registry = CollectorRegistry()
    registry.register(PrometheusLag(lambda: LagReport(groups, 0.0)))
    text = generate_latest(registry).decode()
    assert text.count("kafkaguard_group_lag{") == 1
    assert 'kafkaguard_group_unknown{group="g",reason="left"} 1.0' in text
    assert 'kafkaguard_group_unknown{group="denied",reason="error"} 1.0' in text


@pytest.mark.parametrize("name", NAMES)
def test_labels_are_read_back_as_they_were(name):
    """Quotes, line breaks and the like are Prometheus' to write, and survive."""
    groups = {name: GroupLag(name, partitions={PLACES[0]: measure(PLACES[0], 3, 10)})}
    registry = CollectorRegistry()
    registry.register(PrometheusLag(lambda: LagReport(groups, 0.0)))
    families = text_string_to_metric_families(generate_latest(registry).decode())
    labels = {s.labels["group"] for family in families for s in family.samples}
    assert {name} == labels
