"""Lag as gauges: one reading a scrape, and no sample for what is not known."""

from __future__ import annotations

import pytest
from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.parser import text_string_to_metric_families

from kafkaguard import telemetry
from kafkaguard._cluster.lag import GroupLag, LagReport, measure
from kafkaguard._cluster.reports import TopicPartition
from kafkaguard.errors import ClientTimeoutError, GroupAuthorizationFailedError
from tests.names import NAMES
from tests.telemetry.exporting import exporting

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


def test_lag_has_its_attributes_and_unknown_partitions_are_counted(export):
    """All from one reading; none is made before the first scrape."""
    read = Reader()
    export.telemetry.lag(read)
    assert read.calls == 0
    values = export.values()
    assert read.calls == 1
    lags = {k: v for k, v in values.items() if k[0] == "kafkaguard.group.lag"}
    ((_, place),) = lags
    assert dict(place) == {
        "messaging.consumer.group.name": "g",
        "messaging.destination.name": "t",
        "messaging.destination.partition.id": "0",
    }
    assert list(lags.values()) == [7]
    assert export.value("kafkaguard.group.unknown", group="g", reason="no commit") == 1


def test_a_failed_reading_has_no_values_and_is_counted(export, caplog):
    """No old number stands in for a new one, and other metrics are exported."""
    read = Reader()
    calls = []

    def sometimes():
        calls.append(1)
        if len(calls) == 2:
            raise ClientTimeoutError
        return read()

    export.telemetry.lag(sometimes)
    first, second, third = export.values(), export.values(), export.values()
    ours = [each for each in first if each[0].startswith("kafkaguard.group.")]
    assert ours
    assert not set(ours) & set(second)
    assert {each: third[each] for each in ours} == {each: first[each] for each in ours}
    failures = (
        "kafkaguard.group.read_failures",
        frozenset([("error.type", "CLIENT_TIMEOUT")]),
    )
    assert third[failures] == 1
    assert len(calls) == 3
    assert "lag could not be read" in caplog.text


def test_lag_leaves_out_what_a_group_has_left_and_counts_what_it_leaves_out(export):
    """The sum of a group's lags is its total; a group that is refused is counted."""
    partitions = {
        PLACES[0]: measure(PLACES[0], 3, 10),
        PLACES[1]: measure(PLACES[1], 1, 5, is_left=True),
    }
    groups = {
        "g": GroupLag("g", partitions=partitions),
        "denied": GroupLag("denied", error=GroupAuthorizationFailedError()),
    }
    export.telemetry.lag(lambda: LagReport(groups, 0.0))
    assert export.value("kafkaguard.group.lag") == 7
    assert export.value("kafkaguard.group.unknown", group="g", reason="left") == 1
    assert export.value("kafkaguard.group.unknown", group="denied", reason="error") == 1


@pytest.mark.parametrize("kind", ["otel", "prometheus"])
def test_lag_of_topics_beyond_the_limit_is_added_up(kind):
    """Their offsets are left out, since those of two logs do not add up."""
    places = [TopicPartition(topic, 0) for topic in "abcd"]
    partitions = {each: measure(each, 1, 10) for each in places}
    report = LagReport({"g": GroupLag("g", partitions=partitions)}, 0.0)
    with exporting(kind, max_topics=2) as export:
        export.telemetry.lag(lambda: report)
        assert export.value("kafkaguard.group.lag") == 36
        assert export.value("kafkaguard.group.lag", topic="_OTHER") == 18
        assert export.value("kafkaguard.group.committed", topic="_OTHER") == 0


@pytest.mark.parametrize("name", NAMES)
def test_labels_are_read_back_as_they_were(name):
    """Quotes, line breaks and the like are Prometheus' to write, and survive."""
    groups = {name: GroupLag(name, partitions={PLACES[0]: measure(PLACES[0], 3, 10)})}
    registry = CollectorRegistry()
    telemetry.prometheus(registry).lag(lambda: LagReport(groups, 0.0))
    families = text_string_to_metric_families(generate_latest(registry).decode())
    label = "messaging_consumer_group_name"
    labels = {s.labels.get(label) for family in families for s in family.samples}
    assert {name, None} == labels | {None}
