"""Settings that a consumer must have to handle records, for all clients."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kafkaguard._errors import ClientConfigurationError
from kafkaguard_adapters.policy_uses import USES, unused_settings
from kafkaguard_policies.reading.sources import load_policy

if TYPE_CHECKING:
    from kafkaguard._delivery.shell import ClientErrors
    from kafkaguard._errors import KafkaGuardError
    from kafkaguard_policies.retry_policy import RetryPolicy


def auto_commits(errors: ClientErrors, setting: str) -> KafkaGuardError:
    """Make the error of a client that commits records before they are handled.

    Args:
        errors: Makes the client's errors.
        setting: The setting as it is to be written.
    """
    return errors.make(
        ClientConfigurationError,
        "process() commits a record when it is handled, and this client commits by "
        f"itself when it is read: build it with {setting}, or let the guard build it: "
        "guard(factory=..., config={...})",
    )


def check_once(
    errors: ClientErrors, producer: Any, transactional_id: object, isolation: str
) -> None:
    """Refuse clients that cannot handle records exactly once.

    Args:
        errors: Makes the client's errors.
        producer: What was given as ``producer=``.
        transactional_id: Its ``transactional.id``.
        isolation: The consumer's ``isolation.level``.

    Raises:
        ClientConfigurationError: What to write instead.
    """
    if not hasattr(producer, "cluster_view"):
        why = "a guarded producer: producer=guard(factory=..., config={...})"
    elif not transactional_id:
        why = "a producer with a transactional.id of its own for each instance"
    elif isolation != "read_committed":
        why = (
            "isolation.level read_committed: otherwise records of aborted transactions "
            "are handled too"
        )
    else:
        return
    raise errors.make(
        ClientConfigurationError, f"process(producer=...), exactly once, needs {why}"
    )


def letter_policy(policy: RetryPolicy, errors: ClientErrors) -> RetryPolicy:
    """Return the policy of the producer of dead letters: a refused one is an error.

    What only the consumer uses is left out.
    """
    name = f"{policy.name}-letters"[:64]
    policy = policy.replace(name=name, on_reject="raise", overrides=())
    usual = load_policy("default")
    unused = unused_settings(policy, USES[f"{errors.client} producer"])
    return policy.replace(**{name: getattr(usual, name) for name in unused})
