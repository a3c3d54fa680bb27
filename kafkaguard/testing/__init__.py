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
    from kafkaguard.testing._faults import Fault, Request
    from kafkaguard.testing._jars import kafka_jars
    from kafkaguard.testing._java import java
    from kafkaguard.testing._journal import AnsweredError, Closure, Exchange, Journal
    from kafkaguard.testing._language import When
    from kafkaguard.testing._listeners import Listener
    from kafkaguard.testing._proxy import FaultProxy, ProxyError
    from kafkaguard.testing._words import FaultSpecError

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
    "AnsweredError": "_journal",
    "Broker": "_broker",
    "Closure": "_journal",
    "ClusterError": "_errors",
    "Exchange": "_journal",
    "Fault": "_faults",
    "FaultProxy": "_proxy",
    "FaultSpecError": "_words",
    "JarsNotFoundError": "_errors",
    "JavaNotFoundError": "_errors",
    "Journal": "_journal",
    "KafkaCluster": "_cluster",
    "Listener": "_listeners",
    "ProxyError": "_proxy",
    "Request": "_faults",
    "StartError": "_errors",
    "When": "_language",
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
