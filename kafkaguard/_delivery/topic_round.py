"""Records of one topic that are sent again in the order of each key.

A round::

    [a record is queued]     HoldSends; once no send is running, open batches end
    [no batch is open]       the wait of the policy, if the policy made the retry
    [the wait is over]       records with a key are handed over in their old order
    [all have an outcome]    then records without a key, in batches of their own: the
                             broker may refuse the whole batch because of them
    [all have an outcome]    FreeSends

Records that are refused again are sent in two halves. So the record to blame is found
in a few steps, even if no answer names it, and the order of the others is kept.
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

#: Seconds to wait for open batches to end before the next records are handed over.
DRAIN_S = 5.0
_HAS_DUE = frozenset({TopicState.DRAINING, TopicState.PAUSED, TopicState.WAITING})


class TopicRound:
    """The round of a topic: its records that wait to be sent again, and their state.

    Attributes:
        name: The topic's name.
        state: The state of its round.
        group: The records that were handed over together.
        away: How many of them the client has.
        was_interrupted: The client died after the driver began to hand them over.
        until: When the round stops waiting for their outcomes.
        not_before: The earliest time of the next hand-over, by the policy's waits.
        deferred: Batches, with their refusals, that ended during a hand-over.
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
        #: The group to be sent next is the last one.
        self._groups: list[list[Record]] = []
        #: Added records except new dead letters; some of them may wait no more.
        self._others: list[Record] = []

    def happens(self, event: TopicEvent) -> None:
        """Change to the next state."""
        self.state = TOPICS.after(self.state, event)

    @property
    def is_sending(self) -> bool:
        """Whether the driver gives records to the client."""
        return self.state is TopicState.SENDING

    @property
    def has_due(self) -> bool:
        """Whether the round continues at some time without a fact from the driver."""
        return self.state in _HAS_DUE

    @property
    def next_due(self) -> float:
        """The latest time at which the round continues."""
        if self.state is TopicState.PAUSED:
            return self.not_before
        return self.until

    def add(self, record: Record) -> None:
        """Add a record that waits."""
        self._waiting.append(record)
        if not record.is_letter or record.resend_count or record.retry is not None:
            self._others.append(record)

    def queued(self) -> Iterator[Record]:
        """Iterate over the records that wait."""
        for group in (*self._groups, self._waiting):
            for record in group:
                if record.state is RecordState.QUEUED:
                    yield record

    @property
    def is_empty(self) -> bool:
        """Whether no record waits any more."""
        return not any(self.queued())

    def has_only_letters(self) -> bool:
        """Return whether only dead letters that were never sent wait.

        Called for each added record. So it reads only the records that it removes from
        the list, and the last one.
        """
        others = self._others
        while others and others[-1].state is not RecordState.QUEUED:
            others.pop()
        return not others

    def next_group(self) -> list[Record]:
        """Remove and return the records to send next; empty if nothing waits."""
        if self._waiting:
            waiting, self._waiting = self._waiting, []
            self._groups += _arranged(waiting)
        while self._groups:
            group = [r for r in self._groups.pop() if r.state is RecordState.QUEUED]
            if group:
                return group
        return []


def _arranged(records: list[Record]) -> Iterator[list[Record]]:
    """Arrange records in groups; the group to be sent first comes last."""
    records = sorted(records, key=lambda record: record.rank)
    for keyless in (True, False):
        group = [r for r in records if (r.key is None) is keyless]
        if len(group) > 1 and any(record.is_suspect for record in group):
            half = len(group) // 2
            yield group[half:]
            yield group[:half]
        elif group:
            yield group
