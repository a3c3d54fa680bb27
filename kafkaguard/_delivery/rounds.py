"""Rounds of all topics: which of the records that wait are sent again next."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kafkaguard._delivery import commands
from kafkaguard._delivery.size_limits import FRESH_S
from kafkaguard._delivery.table import RecordEvent, RecordState, TopicEvent, TopicState
from kafkaguard._delivery.topic_round import DRAIN_S

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kafkaguard._delivery.attempts import Attempts
    from kafkaguard._delivery.facts import Place
    from kafkaguard._delivery.fates import Fates
    from kafkaguard._delivery.judging import Judge
    from kafkaguard._delivery.lines import Lines
    from kafkaguard._delivery.outbox import Outbox
    from kafkaguard._delivery.records import Record
    from kafkaguard._delivery.shell import Policy
    from kafkaguard._delivery.size_limits import SizeLimits
    from kafkaguard._delivery.topic_round import TopicRound
    from kafkaguard._delivery.waiting import Waiting


class Rounds:
    """Hands over the records that wait, topic by topic.

    Args:
        policy: The policy.
        judge: Makes the errors that the machine decides on without the client.
        lines: Batches in their order.
        size_limits: The size limits of topics.
        attempts: How long a topic waits for the breaker.
        waiting: The records that wait.
        fates: Ends the records that are not sent again.
        out: Takes the commands.

    Attributes:
        oversize: Topics that have just refused a record for its size; others of the
            round may be too large as well.
    """

    def __init__(
        self,
        policy: Policy,
        judge: Judge,
        lines: Lines,
        size_limits: SizeLimits,
        attempts: Attempts,
        waiting: Waiting,
        fates: Fates,
        out: Outbox,
    ) -> None:
        self.oversize: set[str] = set()
        self._policy = policy
        self._judge = judge
        self._lines = lines
        self._size_limits = size_limits
        self._attempts = attempts
        self._waiting = waiting
        self._fates = fates
        self._out = out
        self._warned: set[str] = set()

    def held(self, name: str, now: float) -> None:
        """Let a topic's batches end: none of its sends is running."""
        topic = self._waiting.topics.get(name)
        if topic is not None and topic.state is TopicState.HOLDING:
            topic.happens(TopicEvent.HELD)
            topic.until = now + DRAIN_S
            if not self._lines.is_quiet(name):
                self._out.emit(commands.SendNow())

    # --- going on ---------------------------------------------------------------------

    def go_on(self, now: float) -> None:
        """Hand over records, or free the sends, of each topic whose wait is over."""
        if self._waiting.can_go_on:
            for topic in list(self._waiting.topics.values()):
                self._go_on(topic, now)

    def _go_on(self, topic: TopicRound, now: float) -> None:
        self._waiting.hold_if_needed(topic)
        if self._needs_size_limit(topic, now):
            self._fates.ask_size_limit(topic.name)
        elif self._is_ready(topic, now) and not self._pause_if_due(topic, now):
            self._hand_over(topic, now)

    def _hand_over(self, topic: TopicRound, now: float) -> None:
        """Hand over a topic's next records, or free its sends if none is left."""
        group = self._next_group(topic, now)
        if not group:
            self._waiting.close(topic)
            return
        is_first = topic.state is TopicState.OPEN
        topic.happens(TopicEvent.LETTERS if is_first else TopicEvent.SEND)
        topic.group, topic.was_interrupted = group, False
        self._attempts.handed_over(topic.name)
        for record in group:
            record.happens(RecordEvent.SEND)
        self._out.emit(commands.Send(topic.name, tuple(group)))

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
        text = self._size_limits.describe(topic.name, record.raw)
        error = self._judge.too_large(record.place, text)
        self._fates.end(record, error, now)
        return True

    def expire(self, record: Record, now: float) -> None:
        """End a record whose time was over before it could be sent again."""
        if record.is_letter:
            self._fates.not_sent_again(record, "its time limit was over", now)
            return
        assert record.error is not None
        self._fates.end(record, self._judge.not_in_time(record.error), now)

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
            self._fates.end(record, error, now)
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
            self._out.warn(
                f"policy {self._policy.name} has rescue: any_order, and a record of "
                f"topic {topic} is sent again after a later one of its key"
            )

    # --- time -------------------------------------------------------------------------

    def dues(self) -> Iterator[float]:
        """Iterate over the times at which ``tick`` has something to do."""
        for record in self._waiting.records():
            yield record.due
        if not self._waiting.can_go_on:
            return
        for topic in self._waiting.topics.values():
            if topic.has_due and topic.name not in self._size_limits.asked:
                yield topic.next_due

    def expire_all(self, now: float) -> None:
        """End the waiting records whose time is over."""
        for record in [r for r in self._waiting.records() if r.due <= now]:
            if record.state is RecordState.QUEUED:
                self.expire(record, now)
