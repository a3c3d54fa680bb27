"""The policy of a write: read on the driver, sent to the tasks as text."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final

from kafkaguard._common.logs import Log
from kafkaguard._errors.base import Action
from kafkaguard._retries.machine import CallContext
from kafkaguard_adapters.spark.setting_errors import setting_error

if TYPE_CHECKING:
    from collections.abc import Collection

    from kafkaguard._errors import KafkaGuardError
    from kafkaguard._retries.machine import OnReject
    from kafkaguard_policies.retry_policy import RetryPolicy

#: The name of a Spark write in ``when.client`` of an override.
CLIENT: Final = "spark"
#: The setting that errors about dead letters name.
DEAD_LETTER: Final = "policy.dead_letter.topic"
#: The policy of a write without one: a refused record fails the job, and only Kafka's
#: client and Spark retry.
_WITHOUT = {
    "extends": "spark-sink",
    "name": "spark",
    "on_reject": "raise",
    "max_attempts": 1,
}
_USUAL = ("default", "spark-sink")
_log = Log("spark")


def read_policy(
    given: Any,
    obeyed: Collection[str] | None = None,
    place: str = "a Spark write",
) -> RetryPolicy:
    """Read a policy, and warn once about settings that this use does not obey.

    Args:
        given: An argument of ``load_policy``, or None for no policy.
        obeyed: The settings that the use obeys. Default: those of a Spark write.
        place: The use, in words, for the warning.

    Raises:
        ClientConfigurationError: ``given`` is not a valid policy; the text says why.
    """
    from kafkaguard_adapters.policy_uses import SPARK_WRITE, unused_settings
    from kafkaguard_policies.reading.sources import load_policy

    try:
        policy = load_policy(_WITHOUT if given is None else given)
    except (TypeError, ValueError) as error:
        raise setting_error(f"policy: {error}", setting="policy") from error
    if given is not None:
        unused = unused_settings(policy, obeyed or SPARK_WRITE, _USUAL)
        _warn_once(policy.name, ", ".join(unused), place)
    return policy


def warn_of_long_attempts(policy: RetryPolicy, seconds: float) -> None:
    """Warn once if an attempt of the client may take longer than the policy allows.

    Args:
        policy: The policy.
        seconds: The client's ``delivery.timeout.ms``, in seconds.
    """
    longest = min(policy.deadline, policy.attempt_timeout or policy.deadline)
    if seconds > longest:
        _warn_of_limit(policy.name, longest, seconds)


@lru_cache(maxsize=64)
def _warn_of_limit(name: str, longest: float, seconds: float) -> None:
    _log.warning(
        "attempt_longer_than_policy",
        "policy %s limits an attempt to %g s, but delivery.timeout.ms lets the client "
        "take %g s: lower delivery.timeout.ms, or raise attempt_timeout or deadline",
        name,
        longest,
        seconds,
        policy=name,
    )


@lru_cache(maxsize=64)
def _warn_once(name: str, unused: str, place: str) -> None:
    """Warn about settings without effect, once in a process."""
    if unused:
        _log.warning(
            "settings_unused",
            "policy %s sets %s, which %s does not use",
            name,
            unused,
            place,
            policy=name,
        )


@lru_cache(maxsize=16)
def policy_of(document: str) -> RetryPolicy:
    """Return the policy of a JSON text."""
    from kafkaguard_policies.retry_policy import RetryPolicy

    return RetryPolicy.model_validate_json(document)


def on_reject(policy: RetryPolicy, error: KafkaGuardError) -> OnReject:
    """Return what a policy does with a record that is refused with this error."""
    context = CallContext(api="Produce", topic=error.topic, client=CLIENT)
    ruling = policy.ruling(error.verdict, context, error)
    return ruling.on_reject if ruling.action is Action.REJECT else "raise"
