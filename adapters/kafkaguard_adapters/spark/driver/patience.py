"""How long a stream waits for brokers that are away."""

from __future__ import annotations

from functools import cache

from kafkaguard_policies import load_policy

_PRESET = "spark-sink"


@cache
def stream_patience() -> float:
    """Return how many seconds a question of a stream waits: its policy's deadline."""
    return float(load_policy(_PRESET).deadline)
