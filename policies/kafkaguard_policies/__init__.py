"""What the user decides: retry policies, where they come from, and presets."""

from kafkaguard_policies._models import (
    Backoff,
    Breaker,
    Budget,
    DeadLetter,
    Override,
    RetryPolicy,
    When,
)
from kafkaguard_policies._problems import PolicyError, Problem
from kafkaguard_policies._sources import load_policy, preset_text, presets

__all__ = [
    "Backoff",
    "Breaker",
    "Budget",
    "DeadLetter",
    "Override",
    "PolicyError",
    "Problem",
    "RetryPolicy",
    "When",
    "load_policy",
    "preset_text",
    "presets",
]
