"""Lag at scale: requests are counted, and memory is watched."""

from __future__ import annotations

import gc
import time
import tracemalloc
from collections import Counter

import pytest

from kafkaguard.testing import FaultProxy, KafkaCluster
from tests.asking.cluster_clients import admin_of, commit

pytestmark = pytest.mark.java


PARTITIONS = 1_000
GROUPS = 10


@pytest.fixture(scope="module")
def three_brokers():
    """Three brokers."""
    with KafkaCluster(brokers=3) as cluster:
        yield cluster


def settled(admin, *arguments):
    """Ask until every new partition answers."""
    deadline = time.monotonic() + 60
    while not (report := admin.lag(*arguments)).complete:
        assert time.monotonic() < deadline, report.errors[:3]
    return report


def left_behind(admin, groups):
    """Read a report, let go of it, and return the bytes that are in use then."""
    if not tracemalloc.is_tracing():
        tracemalloc.start()
        admin.lag(groups)
    admin.lag(groups)
    gc.collect()
    return tracemalloc.get_traced_memory()[0]


@pytest.fixture
def _untraced():
    """End tracing, whatever happens."""
    yield
    tracemalloc.stop()


@pytest.mark.timeout(300)
@pytest.mark.usefixtures("_untraced")
def test_ten_groups_on_a_thousand_partitions_share_their_requests(three_brokers):
    """At most brokers + coordinators + 3, once the connection is up."""
    topic = three_brokers.create_topic(partitions=PARTITIONS, replication_factor=1)
    groups = [f"{topic}-{n}" for n in range(GROUPS)]
    for n, group in enumerate(groups):
        offsets = dict.fromkeys([(topic, p) for p in range(PARTITIONS)], n % 2 * 7)
        commit(three_brokers.bootstrap_servers, group, offsets)
    with FaultProxy(three_brokers) as proxy:
        config = {"bootstrap_servers": proxy.bootstrap_servers}
        with admin_of("kafka-python", config) as admin:
            settled(admin, groups)
            proxy.journal.clear()
            report = admin.lag(groups)
            counts = Counter(each.api for each in proxy.requests())
            coordinators = len({r.broker for r in proxy.requests("OffsetFetch")})
            left = [left_behind(admin, groups) for _ in range(3)]
    assert report.complete
    assert left[-1] - left[0] < 200_000  # of 10,000 lags each
    assert counts.total() <= 3 + coordinators + 3, counts
    assert counts["OffsetFetch"] == coordinators
    assert counts["ListOffsets"] == 3
    assert {PARTITIONS} == {len(g.partitions) for g in report.groups.values()}
    ends = {p.end for g in report.groups.values() for p in g.partitions.values()}
    assert ends == {0}
    beyond = [g for n, g in enumerate(report.groups.values()) if n % 2]
    assert {PARTITIONS} == {group.unknown for group in beyond}
