"""What guarded consumers do by the policy."""

from __future__ import annotations

OBEYED = frozenset(
    {
        "backoff",
        "deadline",
        "max_attempts",
        "on_offset_reset",
        "overrides.action",
        "overrides.backoff",
        "overrides.max_attempts",
    }
)
