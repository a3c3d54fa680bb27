"""Real brokers and real faults, for your tests and ours."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from kafkaguard.testing._broker import Broker
    from kafkaguard.testing._cluster import KafkaCluster
    from kafkaguard.testing._errors import (
        ClusterError,
        JarsNotFoundError,
        JavaNotFoundError,
        StartError,
    )
    from kafkaguard.testing._jars import kafka_jars
    from kafkaguard.testing._java import java
    from kafkaguard.testing._listeners import Listener

__all__ = [
    "Broker",
    "ClusterError",
    "JarsNotFoundError",
    "JavaNotFoundError",
    "KafkaCluster",
    "Listener",
    "StartError",
    "java",
    "kafka_jars",
]

_HOMES = {
    "Broker": "_broker",
    "ClusterError": "_errors",
    "JarsNotFoundError": "_errors",
    "JavaNotFoundError": "_errors",
    "KafkaCluster": "_cluster",
    "Listener": "_listeners",
    "StartError": "_errors",
    "java": "_java",
    "kafka_jars": "_jars",
}


def __getattr__(name: str) -> Any:
    """Import a public name's module at the name's first use."""
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    module = importlib.import_module(f"{__name__}.{_HOMES[name]}")
    value = globals()[name] = getattr(module, name)
    return value


def __dir__() -> list[str]:
    return __all__
