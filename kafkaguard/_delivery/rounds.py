"""Rounds of all topics: which records wait, and which are sent again next."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from kafkaguard._delivery import commands
from kafkaguard._delivery.size_limits import FRESH_S
from kafkaguard._delivery.table import RecordEvent, RecordState, TopicEvent, TopicState
from kafkaguard._delivery.topic_round import DRAIN_S, TopicRound
from kafkaguard.errors import MessageTooLargeError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from kafkaguard._delivery.attempts import Attempts
    from kafkaguard._delivery.client_life import ClientLife
    from kafkaguard._delivery.commands import Command
    from kafkaguard._delivery.facts import Place
    from kafkaguard._delivery.fates import Fates
    from kafkaguard._delivery.judging import Judge
    from kafkaguard._delivery.lines import Lines
    from kafkaguard._delivery.records import Record
    from kafkaguard._delivery.shell import ClientErrors, Policy
    from kafkaguard._delivery.size_limits import SizeLimits


class Rounds:
    """The topics with records that wait to be sent again.

    Args:
        policy: The policy.
        errors: Makes the client's errors.
        judge: Makes the errors that the machine decides on without the client.
        lines: Batches in their order.
        size_limits: The size limits of topics.
        client: Whether records can be handed over.
        attempts: How long a topic waits for the breaker.
        emit: Gives a command to the driver.

    Attributes:
        fates: Ends the records that are not sent again.
        holds: The topics whose sends wait; with None in it, all sends wait.
        topics: Topics with a round, by name.
        oversize: Topics that have just refused a record for its size; others of the
            round may be too large as well.
    """

    fates: Fates

    def __init__(
        self,
        policy: Policy,
        errors: ClientErrors,
        judge: Judge,
        lines: Lines,
        size_limits: SizeLimits,
        client: ClientLife,
        attempts: Attempts,
        emit: Callable[[Command], None],
    ) -> None:
        self.holds: set[str | None] = set()
        self.topics: dict[str, TopicRound] = {}
        self.oversize: set[str] = set()
        self._policy = policy
        self._errors = errors
        self._judge = judge
        self._lines = lines
        self._size_limits = size_limits
        self._client = client
        self._attempts = attempts
        self._emit = emit
        self._warned: set[str] = set()

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
        elif topic.state is TopicState.OPEN and topic.has_only_letters():
            pass  # dead letters are sent at once, without a hold
        elif topic.state is TopicState.OPEN or self._lacks_hold(topic):
            self._begin(topic)

    def _lacks_hold(self, topic: TopicRound) -> bool:
        """Return whether only dead letters were sent, and now another record waits."""
        return (
            topic.state is TopicState.WAITING
            and topic.name not in self.holds
            and not topic.has_only_letters()
        )

    def _begin(self, topic: TopicRound) -> None:
        topic.happens(TopicEvent.TROUBLE)
        self.holds.add(topic.name)
        self._emit(commands.HoldSends(topic.name))

    def held(self, name: str, now: float) -> None:
        """Let a topic's batches end: none of its sends is running."""
        topic = self.topics.get(name)
        if topic is not None and topic.state is TopicState.HOLDING:
            topic.happens(TopicEvent.HELD)
            topic.until = now + DRAIN_S
            if not self._lines.is_quiet(name):
                self._emit(commands.SendNow())

    # --- going on ---------------------------------------------------------------------

    def go_on(self, now: float) -> None:
        """Hand over records, or free the sends, of each topic whose wait is over."""
        if self._client.is_alive:
            for topic in list(self.topics.values()):
                self._go_on(topic, now)

    def _go_on(self, topic: TopicRound, now: float) -> None:
        if self._lacks_hold(topic):
            self._begin(topic)
        if self._needs_size_limit(topic, now):
            self.fates.ask_size_limit(topic.name)
        elif self._is_ready(topic, now) and not self._pause_if_due(topic, now):
            self._hand_over(topic, now)

    def _hand_over(self, topic: TopicRound, now: float) -> None:
        """Hand over a topic's next records, or free its sends if none is left."""
        group = self._next_group(topic, now)
        if not group:
            self._close(topic)
            return
        is_first = topic.state is TopicState.OPEN
        topic.happens(TopicEvent.LETTERS if is_first else TopicEvent.SEND)
        topic.group, topic.was_interrupted = group, False
        self._attempts.handed_over(topic.name)
        for record in group:
            self.fates.happens(record, RecordEvent.SEND)
        self._emit(commands.Send(topic.name, tuple(group)))

    def _needs_size_limit(self, topic: TopicRound, now: float) -> bool:
        """Return whether the next records may be above a limit that is not known."""
        is_known = self._size_limits.is_known
        return (
            topic.name in self.oversize
            and topic.has_due
            and not is_known(topic.name, now, FRESH_S)
        )

    def _is_ready(self, topic: TopicRound, now: float) -> bool:
        """Return whether nothing but the policy's wait delays the next records."""
        if topic.state is TopicState.OPEN:
            return topic.has_only_letters()
        if not topic.has_due:
            return False
        if topic.state is TopicState.DRAINING:
            return self._lines.is_quiet(topic.name) or now >= topic.until
        if topic.state is TopicState.PAUSED:
            return now >= topic.not_before or topic.is_empty
        return not topic.away or now >= topic.until

    def _pause_if_due(self, topic: TopicRound, now: float) -> bool:
        """Pause a topic if the policy or the breaker requires it; return whether."""
        if topic.state is TopicState.OPEN or topic.is_empty:
            return False
        if topic.not_before <= now:
            wait = self._attempts.wait(topic.name, now)
            if not wait:
                return False
            topic.not_before = now + wait
        if topic.state is not TopicState.PAUSED:
            topic.happens(TopicEvent.PAUSE)
        return True

    def _close(self, topic: TopicRound) -> None:
        if topic.state is not TopicState.OPEN:
            topic.happens(TopicEvent.NOTHING_LEFT)
        del self.topics[topic.name]
        if topic.name in self.holds:
            self.holds.discard(topic.name)
            self._emit(commands.FreeSends(topic.name))

    def _next_group(self, topic: TopicRound, now: float) -> list[Record]:
        """Return the records to hand over next; end those that must not be sent."""
        is_quiet = self._lines.is_quiet(topic.name)
        while group := topic.next_group():
            group = [r for r in group if not self._end_if_hopeless(r, topic, now)]
            group = self._without_superseded(group, now)
            if group:
                is_single = len(group) == 1
                for record in group:
                    record.is_alone = is_single and is_quiet
                    record.singles += is_single and not is_quiet
                return group
        self.oversize.discard(topic.name)
        return []

    def _end_if_hopeless(self, record: Record, topic: TopicRound, now: float) -> bool:
        """End a record that is too late or too large; return whether it was ended."""
        assert record.raw is not None
        if record.due <= now:
            self.expire(record, now)
            return True
        if topic.name not in self.oversize or record.is_letter:
            return False
        if self._size_limits.size_beyond(topic.name, record.raw) is None:
            return False
        error = self._errors.make(
            MessageTooLargeError,
            self._size_limits.describe(topic.name, record.raw),
            api="Produce",
            topic=topic.name,
            partition=record.place.partition,
        )
        self.fates.end(record, error, now)
        return True

    def expire(self, record: Record, now: float) -> None:
        """End a record whose time was over before it could be sent again."""
        if record.is_letter:
            self.fates.not_sent_again(record, "its time limit was over", now)
            return
        assert record.error is not None
        self.fates.end(record, self._judge.not_in_time(record.error), now)

    # --- the order of keys ------------------------------------------------------------

    def _without_superseded(self, group: list[Record], now: float) -> list[Record]:
        late = self._superseded(group)
        if not late:
            return group
        if self._policy.rescue == "any_order":
            self._warn_of_order(group[0].place.topic)
            return group
        for record in late:
            assert record.error is not None
            error = record.error
            if error.verdict.written == "no":
                error = self._judge.superseded(error)
            self.fates.end(record, error, now)
        return [record for record in group if record not in late]

    def _superseded(self, group: list[Record]) -> set[Record]:
        """Find the records whose key has a later record that may have been written."""
        by_place: dict[Place, list[Record]] = {}
        for record in group:
            if record.batch is not None and record.key is not None:
                by_place.setdefault(record.batch.place, []).append(record)
        late = set()
        for place, records in by_place.items():
            keys = {record.key for record in records}
            newest, unknown = self._lines.newest(place, keys)
            for record in records:
                later = (newest.get(record.key), unknown)
                if any(rank is not None and record.rank < rank for rank in later):
                    late.add(record)
        return late

    def _warn_of_order(self, topic: str) -> None:
        if topic not in self._warned:
            self._warned.add(topic)
            self._emit(
                commands.Warn(
                    f"policy {self._policy.name} has rescue: any_order, and a record "
                    f"of topic {topic} is sent again after a later one of its key"
                )
            )

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

    def replaced(self, now: float) -> None:
        """Continue with the successor."""
        for topic in self.topics.values():
            if topic.state is TopicState.STALLED:
                topic.happens(TopicEvent.REPLACED)
                topic.until = now + DRAIN_S

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
                self._close(topic)

    # --- time -------------------------------------------------------------------------

    def waiting(self) -> Iterator[Record]:
        """Iterate over the records that wait to be handed over."""
        for topic in self.topics.values():
            yield from topic.queued()

    def dues(self) -> Iterator[float]:
        """Iterate over the times at which ``tick`` has something to do."""
        for record in self.waiting():
            yield record.due
        if not self._client.is_alive:
            return
        for topic in self.topics.values():
            if topic.has_due and topic.name not in self._size_limits.asked:
                yield topic.next_due

    def expire_all(self, now: float) -> None:
        """End the waiting records whose time is over."""
        for record in [r for r in self.waiting() if r.due <= now]:
            if record.state is RecordState.QUEUED:
                self.expire(record, now)
