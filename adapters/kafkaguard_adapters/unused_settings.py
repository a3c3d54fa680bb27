"""Settings of a policy that a place has no use for."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kafkaguard_policies import load_policy, presets

if TYPE_CHECKING:
    from collections.abc import Collection

    from kafkaguard_policies import RetryPolicy

#: Settings that only describe a policy.
_WORDS = frozenset({"name", "description"})


def unused_settings(
    policy: RetryPolicy, obeyed: Collection[str], usual: Collection[str] = ("default",)
) -> list[str]:
    """Return what a policy sets that is not obeyed.

    Args:
        policy: The policy. A preset is made for more places than one: of it nothing is
            returned.
        obeyed: Names of settings; those of overrides as ``overrides.backoff``.
        usual: Presets: what is set as in one of them counts as not set.
    """
    if policy.name in presets() and policy == load_policy(policy.name):
        return []
    bases = [load_policy(name) for name in usual]
    settings = set(type(policy).model_fields) - _WORDS - {"overrides"}
    given = {
        name
        for name in settings
        if all(getattr(policy, name) != getattr(base, name) for base in bases)
    }
    for override in policy.overrides:
        given |= {f"overrides.{name}" for name in override.model_fields_set - {"when"}}
    return sorted(given - set(obeyed))
