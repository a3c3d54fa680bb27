"""What ``classify`` may be told beside the error: its context."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from kafkaguard._common.arguments import known_flag

Phase = Literal[
    "enqueue", "single", "background", "commit", "abort", "repeated", "admin"
]


@dataclass(frozen=True, slots=True)
class TopicFacts:
    """What is known about a topic; None is "not known".

    Args:
        compacted: ``cleanup.policy`` contains ``compact``.
        tiered: ``remote.storage.enable`` is true.
    """

    compacted: bool | None = None
    tiered: bool | None = None

    def __post_init__(self) -> None:
        """Check the types.

        Raises:
            TypeError: A fact is not True, False or None.
        """
        known_flag("TopicFacts(): compacted", self.compacted)
        known_flag("TopicFacts(): tiered", self.tiered)
