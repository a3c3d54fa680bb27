"""Tiered storage in a local folder, with Kafka's test implementation."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kafkaguard.testing.cluster.listeners import PLAINTEXT

if TYPE_CHECKING:
    from pathlib import Path

_STORAGE = "org.apache.kafka.server.log.remote.storage.LocalTieredStorage"


def tiered_settings(remote: Path, brokers: int) -> dict[str, object]:
    """Return the broker settings; segments move within seconds, not minutes."""
    return {
        "remote.log.storage.system.enable": "true",
        "remote.log.storage.manager.class.name": _STORAGE,
        "rsm.config.dir": remote,
        "remote.log.metadata.manager.listener.name": PLAINTEXT.name,
        "rlmm.config.remote.log.metadata.topic.num.partitions": 1,
        "rlmm.config.remote.log.metadata.topic.replication.factor": min(3, brokers),
        "rlmm.config.remote.log.metadata.initialization.retry.interval.ms": 100,
        "remote.log.manager.task.interval.ms": 500,
        "log.initial.task.delay.ms": 500,
        "log.retention.check.interval.ms": 500,
        "log.segment.delete.delay.ms": 100,
    }
