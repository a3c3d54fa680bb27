"""Facts about the topic of a write."""

from __future__ import annotations

from dataclasses import dataclass

from kafkaguard._verdicts.verdict import TopicFacts


@dataclass(frozen=True, slots=True)
class SinkTopic:
    """A topic that is written to.

    Attributes:
        name: Its name.
        partitions: How many it has.
        compacted: Whether ``cleanup.policy`` contains ``compact``; None: not known.
        max_message_bytes: The largest batch that it takes; None: not known.
    """

    name: str
    partitions: int
    compacted: bool | None = None
    max_message_bytes: int | None = None

    @property
    def facts(self) -> TopicFacts:
        """What a verdict may rest on."""
        return TopicFacts(compacted=self.compacted)
