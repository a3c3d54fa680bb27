"""Real brokers and faults for tests."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from kafkaguard.testing.cluster.broker import Broker
    from kafkaguard.testing.cluster.cluster import KafkaCluster
    from kafkaguard.testing.cluster.errors import (
        ClusterError,
        JarsNotFoundError,
        JavaNotFoundError,
        StartError,
    )
    from kafkaguard.testing.cluster.jars import kafka_jars
    from kafkaguard.testing.cluster.java import java
    from kafkaguard.testing.cluster.listeners import Listener
    from kafkaguard.testing.proxy.faults import Fault
    from kafkaguard.testing.proxy.journal import (
        AnsweredError,
        Closure,
        Exchange,
        Journal,
    )
    from kafkaguard.testing.proxy.language import When
    from kafkaguard.testing.proxy.matching import Request
    from kafkaguard.testing.proxy.names import FaultSpecError
    from kafkaguard.testing.proxy.proxy import FaultProxy, ProxyError

__all__ = [
    "AnsweredError",
    "Broker",
    "Closure",
    "ClusterError",
    "Exchange",
    "Fault",
    "FaultProxy",
    "FaultSpecError",
    "JarsNotFoundError",
    "JavaNotFoundError",
    "Journal",
    "KafkaCluster",
    "Listener",
    "ProxyError",
    "Request",
    "StartError",
    "When",
    "java",
    "kafka_jars",
]

_HOMES = {
    "AnsweredError": "proxy.journal",
    "Broker": "cluster.broker",
    "Closure": "proxy.journal",
    "ClusterError": "cluster.errors",
    "Exchange": "proxy.journal",
    "Fault": "proxy.faults",
    "FaultProxy": "proxy.proxy",
    "FaultSpecError": "proxy.names",
    "JarsNotFoundError": "cluster.errors",
    "JavaNotFoundError": "cluster.errors",
    "Journal": "proxy.journal",
    "KafkaCluster": "cluster.cluster",
    "Listener": "cluster.listeners",
    "ProxyError": "proxy.proxy",
    "Request": "proxy.matching",
    "StartError": "cluster.errors",
    "When": "proxy.language",
    "java": "cluster.java",
    "kafka_jars": "cluster.jars",
}


def __getattr__(name: str) -> Any:
    """Import the module of a public name when the name is first used."""
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    module = importlib.import_module(f"{__name__}.{_HOMES[name]}")
    value = globals()[name] = getattr(module, name)
    return value


def __dir__() -> list[str]:
    return __all__
