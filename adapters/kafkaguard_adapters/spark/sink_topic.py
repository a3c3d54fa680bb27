"""Facts about the topic of a write."""

from __future__ import annotations

from dataclasses import dataclass

from kafkaguard._verdicts.context import TopicFacts


@dataclass(frozen=True, slots=True)
class SinkTopic:
    """A topic of a write.

    Attributes:
        name: The topic's name.
        partitions: The number of partitions.
        compacted: Whether ``cleanup.policy`` contains ``compact``; None if unknown.
        max_message_bytes: The largest batch in bytes, or None if unknown.
    """

    name: str
    partitions: int
    compacted: bool | None = None
    max_message_bytes: int | None = None

    @property
    def facts(self) -> TopicFacts:
        """The facts for verdicts."""
        return TopicFacts(compacted=self.compacted)
