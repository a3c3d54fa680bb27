"""Segments that move to remote storage and are read back."""

from __future__ import annotations

import pytest
from kafka import KafkaConsumer, KafkaProducer

from kafkaguard.testing import KafkaCluster
from kafkaguard.testing.cluster.requests import wait_for

pytestmark = pytest.mark.java


SEGMENT_BYTES = 1 << 20
RECORDS = 40
VALUE = b"x" * 100_000


@pytest.fixture(scope="module")
def tiered_cluster():
    """Start a broker with tiered storage."""
    with KafkaCluster(tiered=True) as cluster:
        yield cluster


@pytest.mark.xdist_group("tiered-cluster")
def test_segments_move_away_and_are_read_back(tiered_cluster):
    """The first records are in the remote folder only, and consumers get them."""
    topic = tiered_cluster.create_topic(
        config={
            "remote.storage.enable": True,
            "segment.bytes": SEGMENT_BYTES,
            "local.retention.ms": 500,
        }
    )
    servers = tiered_cluster.bootstrap_servers
    with KafkaProducer(bootstrap_servers=servers) as producer:
        for _ in range(RECORDS):
            producer.send(topic, VALUE, partition=0)
    local = tiered_cluster.broker(0).log.parent / "data-0" / f"{topic}-0"
    first = "00000000000000000000"
    assert wait_for(lambda: not list(local.glob(f"{first}.log")), 60)
    assert list(tiered_cluster.remote_storage.rglob(f"{topic}-0-*/{first}-*.log"))
    with KafkaConsumer(
        topic,
        bootstrap_servers=servers,
        auto_offset_reset="earliest",
        consumer_timeout_ms=30_000,
    ) as consumer:
        assert list(range(RECORDS)) == [next(consumer).offset for _ in range(RECORDS)]
