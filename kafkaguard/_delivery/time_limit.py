"""The time limit of a send."""

from __future__ import annotations

from typing import NamedTuple


class TimeLimit(NamedTuple):
    """The longest wait of a send, in seconds, and the setting that determines it."""

    seconds: float
    name: str

    def __str__(self) -> str:
        """Show seconds and setting."""
        return f"{self.seconds:g} s ({self.name})"
