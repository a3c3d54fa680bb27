"""Records of one topic that are sent again, in the order of each key.

A round::

    [a record is held]  HoldSends; once no send is under way, what is in flight settles
    [nothing is open]   the policy's wait, where it says that they go again
    [it is over]        records with a key are handed over in their old order
    [all have outcome]  then those without a key, on their own: the broker may refuse
                        them with all that is in the same batch
    [all have outcome]  FreeSends

What is refused again is sent in halves, so a record that nobody names is found in a
few steps; none of the others comes before one that stands ahead of it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kafkaguard._delivery.table import (
    TOPICS,
    RecordState,
    TopicEvent,
    TopicState,
)

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from kafkaguard._delivery.facts import Batch, Refusal
    from kafkaguard._delivery.records import Record

#: Seconds that batches have to come to an end before the next records are handed over.
SETTLE_S = 5.0
_HAS_DUE = frozenset({TopicState.SETTLING, TopicState.PAUSED, TopicState.WAITING})


class Topic:
    """A topic of which records wait to be sent again.

    Attributes:
        name: The topic's.
        state: Where its round stands.
        group: The records that were handed over together.
        away: How many of them the client has.
        was_interrupted: The client has died since the driver began to hand them over.
        until: When their outcome is not waited for any longer.
        not_before: When the next ones may be handed over, by the policy's waits.
        deferred: Batches that ended while records were handed over, with the refusals.
    """

    def __init__(self, name: str) -> None:
        self.name = name
        self.state = TopicState.OPEN
        self.group: Sequence[Record] = ()
        self.away = 0
        self.was_interrupted = False
        self.until = float("inf")
        self.not_before = -float("inf")
        self.deferred: list[tuple[Batch, Sequence[Refusal]]] = []
        self._waiting: list[Record] = []
        #: The next one comes last.
        self._groups: list[list[Record]] = []
        #: Those added that are not dead letters at their first try; some wait no more.
        self._others: list[Record] = []

    def happens(self, event: TopicEvent) -> None:
        """Go on to the next state."""
        self.state = TOPICS.after(self.state, event)

    @property
    def is_sending(self) -> bool:
        """Whether the driver gives records to the client."""
        return self.state is TopicState.SENDING

    @property
    def has_due(self) -> bool:
        """Whether it goes on by itself some time."""
        return self.state in _HAS_DUE

    @property
    def next_due(self) -> float:
        """When it goes on at the latest."""
        if self.state is TopicState.PAUSED:
            return self.not_before
        return self.until

    def add(self, record: Record) -> None:
        """Let a record wait."""
        self._waiting.append(record)
        if not record.is_letter or record.resent or record.attempts is not None:
            self._others.append(record)

    def held(self) -> Iterator[Record]:
        """Find the records that wait."""
        for group in (*self._groups, self._waiting):
            for record in group:
                if record.state is RecordState.HELD:
                    yield record

    @property
    def is_empty(self) -> bool:
        """Whether no record waits any more."""
        return not any(self.held())

    def has_only_letters(self) -> bool:
        """Whether what waits are dead letters that were never sent.

        Asked for each record that is added: so it looks only at those that it drops.
        """
        others = self._others
        while others and others[-1].state is not RecordState.HELD:
            others.pop()
        return not others

    def next_group(self) -> list[Record]:
        """Take the records that are sent next; none: nothing waits."""
        if self._waiting:
            waiting, self._waiting = self._waiting, []
            self._groups += _arranged(waiting)
        while self._groups:
            group = [r for r in self._groups.pop() if r.state is RecordState.HELD]
            if group:
                return group
        return []


def _arranged(records: list[Record]) -> Iterator[list[Record]]:
    """Put records into groups; the one to be sent first comes last."""
    records = sorted(records, key=lambda record: record.order)
    for keyless in (True, False):
        group = [r for r in records if (r.key is None) is keyless]
        if len(group) > 1 and any(record.is_suspect for record in group):
            half = len(group) // 2
            yield group[half:]
            yield group[:half]
        elif group:
            yield group
