"""The settings file of a broker."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from kafkaguard.testing.cluster.listeners import PLAINTEXT

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from pathlib import Path

    from kafkaguard.testing.cluster.listeners import Listener


_QUORUM = 3


def controllers(brokers: int) -> range:
    """Return which brokers are controllers too: three if there are enough, or one."""
    return range(_QUORUM if brokers >= _QUORUM else 1)


def cluster_settings(brokers: int) -> dict[str, object]:
    """Return settings for a small test cluster that reacts fast."""
    replicas = min(3, brokers)
    return {
        "auto.create.topics.enable": "false",
        "default.replication.factor": replicas,
        "offsets.topic.num.partitions": brokers,
        "offsets.topic.replication.factor": replicas,
        "transaction.state.log.num.partitions": brokers,
        "transaction.state.log.replication.factor": replicas,
        "transaction.state.log.min.isr": min(2, replicas),
        "share.coordinator.state.topic.num.partitions": brokers,
        "share.coordinator.state.topic.replication.factor": replicas,
        "share.coordinator.state.topic.min.isr": min(2, replicas),
        "group.initial.rebalance.delay.ms": 0,
        "broker.heartbeat.interval.ms": 500,
        "broker.session.timeout.ms": 6000,
        "log.cleaner.dedupe.buffer.size": 4 << 20,
        # A record may have any time, and would otherwise be gone after five minutes.
        "log.retention.ms": -1,
    }


def node_settings(
    node: int, folder: Path, listeners: Sequence[Listener], controller: Listener
) -> dict[str, object]:
    """Return the settings that differ between brokers."""
    voters = range(len(controller.addresses))
    node_listeners = [*listeners, controller] if node in voters else listeners
    return {
        "node.id": node,
        "process.roles": "broker,controller" if node in voters else "broker",
        "log.dirs": folder / f"data-{node}",
        "listeners": _join(
            f"{each.name}://{each.addresses[node]}" for each in node_listeners
        ),
        "listener.security.protocol.map": _join(
            f"{each.name}:{each.security_protocol}" for each in [*listeners, controller]
        ),
        "inter.broker.listener.name": listeners[0].name,
        "controller.listener.names": controller.name,
        "controller.quorum.voters": _join(
            f"{voter}@{controller.addresses[voter]}" for voter in voters
        ),
    }


def render(settings: Mapping[str, object]) -> str:
    """Format settings as a Java properties file: ASCII, with the escapes of JSON."""
    lines = (f"{key}={json.dumps(str(value))[1:-1]}" for key, value in settings.items())
    return "\n".join(lines)


def _join(values: Iterable[str]) -> str:
    return ",".join(values)


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
