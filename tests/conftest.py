"""Fixtures for every test: a real broker and a topic of one's own."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from kafkaguard.testing import KafkaCluster

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture(scope="session")
def kafka_cluster() -> Iterator[KafkaCluster]:
    """One plain broker for the whole run, or for each of its parallel workers."""
    with KafkaCluster() as cluster:
        yield cluster


@pytest.fixture
def kafka_topic(kafka_cluster: KafkaCluster) -> str:
    """Create an empty topic with one partition that no other test uses."""
    return kafka_cluster.create_topic()
