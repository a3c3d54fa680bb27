"""kafkaguard: what an error of a Kafka broker means, and the right next step.

The front door. Public names of all rooms are re-exported here, lazily (PEP 562), so
that ``import kafkaguard`` loads no Kafka client, no pydantic and no pyspark.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kafkaguard._version import __version__

if TYPE_CHECKING:
    from kafkaguard import errors
    from kafkaguard._cluster.lag import LagReason, LagReport, LagState
    from kafkaguard._cluster.log_dirs import LogDirsReport
    from kafkaguard._cluster.offsets import OffsetsReport
    from kafkaguard._cluster.remote_storage import RemoteStorageEvent
    from kafkaguard._delivery.report import (
        CallbackError,
        DeliveryFailed,
        DeliveryReport,
        ForkedProducerError,
        SupersededError,
    )
    from kafkaguard._verdicts.classification import classify
    from kafkaguard._verdicts.verdict import Action, RuleInfo, TopicFacts, Verdict
    from kafkaguard_adapters.asking.lag_gauges import PrometheusLag, register_otel
    from kafkaguard_adapters.asking.remote_storage import RemoteStorageWatch
    from kafkaguard_adapters.guarded import guard
    from kafkaguard_policies import PolicyError, RetryPolicy, load_policy, retry

#: Where each public name lives; loaded at its first use.
_HOMES = {
    "Action": "kafkaguard._verdicts.verdict",
    "CallbackError": "kafkaguard._delivery.report",
    "DeliveryFailed": "kafkaguard._delivery.report",
    "DeliveryReport": "kafkaguard._delivery.report",
    "ForkedProducerError": "kafkaguard._delivery.report",
    "LagReason": "kafkaguard._cluster.lag",
    "LagReport": "kafkaguard._cluster.lag",
    "LagState": "kafkaguard._cluster.lag",
    "LogDirsReport": "kafkaguard._cluster.log_dirs",
    "OffsetsReport": "kafkaguard._cluster.offsets",
    "PolicyError": "kafkaguard_policies",
    "PrometheusLag": "kafkaguard_adapters.asking.lag_gauges",
    "RemoteStorageEvent": "kafkaguard._cluster.remote_storage",
    "RemoteStorageWatch": "kafkaguard_adapters.asking.remote_storage",
    "RetryPolicy": "kafkaguard_policies",
    "RuleInfo": "kafkaguard._verdicts.verdict",
    "SupersededError": "kafkaguard._delivery.report",
    "TopicFacts": "kafkaguard._verdicts.verdict",
    "Verdict": "kafkaguard._verdicts.verdict",
    "classify": "kafkaguard._verdicts.classification",
    "guard": "kafkaguard_adapters.guard",
    "load_policy": "kafkaguard_policies",
    "register_otel": "kafkaguard_adapters.asking.lag_gauges",
    "retry": "kafkaguard_policies",
}
_MODULES = frozenset({"errors"})

__all__ = [
    "Action",
    "CallbackError",
    "DeliveryFailed",
    "DeliveryReport",
    "ForkedProducerError",
    "LagReason",
    "LagReport",
    "LagState",
    "LogDirsReport",
    "OffsetsReport",
    "PolicyError",
    "PrometheusLag",
    "RemoteStorageEvent",
    "RemoteStorageWatch",
    "RetryPolicy",
    "RuleInfo",
    "SupersededError",
    "TopicFacts",
    "Verdict",
    "__version__",
    "classify",
    "errors",
    "guard",
    "load_policy",
    "register_otel",
    "retry",
]


def __getattr__(name: str) -> Any:
    from importlib import import_module

    if name in _MODULES:
        return import_module(f"kafkaguard.{name}")
    if name in _HOMES:
        value = getattr(import_module(_HOMES[name]), name)
        globals()[name] = value
        return value
    raise AttributeError(f"module 'kafkaguard' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
