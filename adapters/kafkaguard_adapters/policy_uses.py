"""The settings of a policy that each use obeys, for guards, docs and commands."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from kafkaguard_policies.model.policy import Override, PolicyDocument
from kafkaguard_policies.reading.sources import load_policy, presets

if TYPE_CHECKING:
    from collections.abc import Collection

    from kafkaguard_policies.retry_policy import RetryPolicy

PRODUCER: Final = frozenset(
    {
        "attempt_timeout",
        "backoff",
        "breaker",
        "budget",
        "dead_letter",
        "deadline",
        "disguised_null_key",
        "in_doubt",
        "max_attempts",
        "max_waits",
        "null_key",
        "on_reject",
        "overrides.backoff",
        "overrides.cost",
        "overrides.deadline",
        "overrides.in_doubt",
        "overrides.max_attempts",
        "overrides.on_reject",
        "rescue",
    }
)
CONSUMER: Final = frozenset(
    {
        "backoff",
        "dead_letter",
        "deadline",
        "handler",
        "keep_pauses",
        "max_attempts",
        "on_offset_reset",
        "on_reject",
        "overrides.action",
        "overrides.backoff",
        "overrides.max_attempts",
        "overrides.on_reject",
    }
)
SPARK_WRITE: Final = frozenset(
    {
        "attempt_timeout",
        "backoff",
        "budget",
        "dead_letter",
        "deadline",
        "in_doubt",
        "max_attempts",
        "null_key",
        "on_reject",
        "overrides.action",
        "overrides.backoff",
        "overrides.cost",
        "overrides.deadline",
        "overrides.in_doubt",
        "overrides.max_attempts",
        "overrides.on_reject",
        "rescue",
    }
)
GUARD_SINK: Final = frozenset(
    {
        "dead_letter",
        "null_key",
        "on_reject",
        "overrides.action",
        "overrides.on_reject",
    }
)
#: Settings that only describe a policy.
_DESCRIPTION = frozenset({"name", "description"})
_OVERRIDES = {f"overrides.{name}" for name in Override.model_fields if name != "when"}
#: A retried call obeys the settings that are not about records.
_RETRY = (frozenset(PolicyDocument.model_fields) | _OVERRIDES) - (
    _DESCRIPTION
    | {"dead_letter", "disguised_null_key", "handler", "null_key", "on_offset_reset"}
    | {"on_reject", "overrides", "overrides.on_reject", "rescue"}
)
#: The settings that each use obeys; those of overrides as ``overrides.backoff``.
USES: Final[dict[str, frozenset[str]]] = {
    "@retry": _RETRY,
    "kafka-python producer": PRODUCER,
    "confluent-kafka producer": PRODUCER,
    "confluent-kafka AIOProducer": frozenset({"null_key"}),
    "aiokafka producer": PRODUCER - {"attempt_timeout"},
    "consumer": CONSUMER,
    "Spark write": SPARK_WRITE,
    "Spark guard_sink": GUARD_SINK,
}
_USE_OF_MODULE = {
    "kafka_python.producer": "kafka-python producer",
    "confluent.producer": "confluent-kafka producer",
    "confluent.aio_producer": "confluent-kafka AIOProducer",
    "aiokafka.producer": "aiokafka producer",
    "kafka_python.consumer": "consumer",
    "confluent.consumer": "consumer",
    "aiokafka.consumer": "consumer",
}


def obeyed_by(module: str) -> frozenset[str]:
    """Return the settings that a guarded client obeys; an admin client obeys none.

    Args:
        module: The full name of the module that guards the client.
    """
    use = _USE_OF_MODULE.get(module.partition(".")[2])
    return USES[use] if use else frozenset()


def given_settings(policy: RetryPolicy) -> frozenset[str]:
    """Return the settings that a policy, or a policy that it extends, sets."""
    settings = policy.model_fields_set - _DESCRIPTION - {"overrides"}
    return frozenset(settings) | _list_overridden(policy)


def unused_settings(
    policy: RetryPolicy, obeyed: Collection[str], usual: Collection[str] = ("default",)
) -> list[str]:
    """Return the settings that a policy changes but a use does not obey.

    Args:
        policy: The policy. For a preset the list is empty, because a preset is made for
            more than one use.
        obeyed: The settings that the use obeys.
        usual: Names of presets. A setting with the same value as in one of these
            presets counts as not set.
    """
    if policy.name in presets() and policy == load_policy(policy.name):
        return []
    bases = [load_policy(name) for name in usual]
    settings = set(type(policy).model_fields) - _DESCRIPTION - {"overrides"}
    changed = {
        name
        for name in settings
        if all(getattr(policy, name) != getattr(base, name) for base in bases)
    }
    return sorted((changed | _list_overridden(policy)) - set(obeyed))


def _list_overridden(policy: RetryPolicy) -> frozenset[str]:
    names = (override.model_fields_set - {"when"} for override in policy.overrides)
    return frozenset(f"overrides.{name}" for name in frozenset().union(*names))
