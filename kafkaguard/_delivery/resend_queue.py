"""The records that wait to be sent again, by topic, and the sends that they hold."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from kafkaguard._delivery import commands
from kafkaguard._delivery.table import TopicEvent, TopicState
from kafkaguard._delivery.topic_round import DRAIN_S, TopicRound

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kafkaguard._delivery.client_life import ClientLife
    from kafkaguard._delivery.outbox import Outbox
    from kafkaguard._delivery.records import Record


class ResendQueue:
    """The topics with records that wait to be sent again.

    Args:
        client: Whether records can be handed over.
        outbox: Takes the commands.

    Attributes:
        holds: The topics whose sends wait; with None in it, all sends wait.
        topics: Topics with a round, by name.
    """

    def __init__(self, client: ClientLife, outbox: Outbox) -> None:
        self.holds: set[str | None] = set()
        self.topics: dict[str, TopicRound] = {}
        self._client = client
        self._outbox = outbox

    def add(self, record: Record, not_before: float = -math.inf) -> None:
        """Let a record wait for the next group of its topic's round.

        Args:
            record: The record.
            not_before: The earliest time at which that group may be handed over.
        """
        name = record.place.topic
        topic = self.topics.setdefault(name, TopicRound(name))
        topic.add(record)
        topic.not_before = max(topic.not_before, not_before)
        if not self._client.is_alive:
            if topic.state is TopicState.OPEN:
                self.stall(topic)
        elif topic.state is TopicState.OPEN:
            if not topic.has_only_letters():  # those are sent at once, without a hold
                self._hold(topic)
        else:
            self.hold_if_needed(topic)

    def hold_if_needed(self, topic: TopicRound) -> None:
        """Hold a topic of which only dead letters were sent: another record waits."""
        if (
            topic.state is TopicState.WAITING
            and topic.name not in self.holds
            and not topic.has_only_letters()
        ):
            self._hold(topic)

    def _hold(self, topic: TopicRound) -> None:
        topic.happens(TopicEvent.TROUBLE)
        self.holds.add(topic.name)
        self._outbox.emit(commands.HoldSends(topic.name))

    def close(self, topic: TopicRound) -> None:
        """Free a topic of which no record waits any more."""
        if topic.state is not TopicState.OPEN:
            topic.happens(TopicEvent.NOTHING_LEFT)
        del self.topics[topic.name]
        if topic.name in self.holds:
            self.holds.discard(topic.name)
            self._outbox.emit(commands.FreeSends(topic.name))

    @property
    def can_go_on(self) -> bool:
        """Whether records can be handed over: the client is alive."""
        return self._client.is_alive

    def records(self) -> Iterator[Record]:
        """Iterate over the records that wait to be handed over."""
        for topic in self.topics.values():
            yield from topic.queued()

    # --- the client -------------------------------------------------------------------

    def stall(self, topic: TopicRound) -> None:
        """Let a topic wait for the client's successor."""
        topic.happens(TopicEvent.DIED)
        topic.away = 0
        self.holds.add(topic.name)

    def died(self) -> None:
        """Let all topics wait for a successor; one in a hand-over waits after it."""
        for topic in self.topics.values():
            if topic.is_sending:
                topic.was_interrupted = True
            else:
                self.stall(topic)
        self.holds.add(None)

    def replaced(self, now: float) -> None:
        """Continue with the successor."""
        for topic in self.topics.values():
            if topic.state is TopicState.STALLED:
                topic.happens(TopicEvent.REPLACED)
                topic.until = now + DRAIN_S
        self.holds.discard(None)

    def abandon(self) -> None:
        """Free all topics for good; one in a hand-over after the driver's reply."""
        self.holds.clear()
        for topic in list(self.topics.values()):
            if not topic.is_sending:
                del self.topics[topic.name]

    def drop_all(self) -> None:
        """Free all topics that wait for a successor; their records are settled."""
        for topic in list(self.topics.values()):
            if topic.state is TopicState.STALLED:
                self.close(topic)
