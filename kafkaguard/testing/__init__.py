"""Real brokers and real faults, for your tests and ours."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from kafkaguard.testing._errors import (
        ClusterError,
        JarsNotFoundError,
        JavaNotFoundError,
        StartError,
    )
    from kafkaguard.testing._jars import kafka_jars
    from kafkaguard.testing._java import java

__all__ = [
    "ClusterError",
    "JarsNotFoundError",
    "JavaNotFoundError",
    "StartError",
    "java",
    "kafka_jars",
]

_HOMES = {
    "ClusterError": "_errors",
    "JarsNotFoundError": "_errors",
    "JavaNotFoundError": "_errors",
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
