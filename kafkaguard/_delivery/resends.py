"""Records that are sent again: which of those that wait are next, by topic."""

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
    from kafkaguard._delivery.in_flight import InFlight
    from kafkaguard._delivery.judging import Judge
    from kafkaguard._delivery.outbox import Outbox
    from kafkaguard._delivery.outcomes import Outcomes
    from kafkaguard._delivery.records import Record
    from kafkaguard._delivery.resend_queue import ResendQueue
    from kafkaguard._delivery.shell import Policy
    from kafkaguard._delivery.size_limits import SizeLimits
    from kafkaguard._delivery.topic_round import TopicRound


class Resends:
    """Hands over the records that wait, topic by topic.

    Args:
        policy: The policy.
        judge: Makes the errors that the machine decides on without the client.
        in_flight: Batches in their order.
        size_limits: The size limits of topics.
        attempts: How long a topic waits for the breaker.
        queue: The records that wait.
        outcomes: Ends the records that are not sent again.
        outbox: Takes the commands.

    Attributes:
        oversize: Topics that have just refused a record for its size; others of the
            round may be too large as well.
    """

    def __init__(
        self,
        policy: Policy,
        judge: Judge,
        in_flight: InFlight,
        size_limits: SizeLimits,
        attempts: Attempts,
        queue: ResendQueue,
        outcomes: Outcomes,
        outbox: Outbox,
    ) -> None:
        self.oversize: set[str] = set()
        self._policy = policy
        self._judge = judge
        self._in_flight = in_flight
        self._size_limits = size_limits
        self._attempts = attempts
        self._queue = queue
        self._outcomes = outcomes
        self._outbox = outbox
        self._warned: set[str] = set()

    def held(self, name: str, now: float) -> None:
        """Let a topic's batches end: none of its sends is running."""
        topic = self._queue.topics.get(name)
        if topic is not None and topic.state is TopicState.HOLDING:
            topic.happens(TopicEvent.HELD)
            topic.until = now + DRAIN_S
            if not self._in_flight.is_quiet(name):
                self._outbox.emit(commands.SendNow())

    # --- hand-overs -------------------------------------------------------------------

    def go_on(self, now: float) -> None:
        """Hand over records, or free the sends, of each topic whose wait is over."""
        if self._queue.can_go_on:
            for topic in list(self._queue.topics.values()):
                self._go_on(topic, now)

    def _go_on(self, topic: TopicRound, now: float) -> None:
        self._queue.hold_if_needed(topic)
        if self._needs_size_limit(topic, now):
            self._outcomes.ask_size_limit(topic.name)
        elif self._is_ready(topic, now) and not self._pause_if_due(topic, now):
            self._hand_over(topic, now)

    def _hand_over(self, topic: TopicRound, now: float) -> None:
        """Hand over a topic's next records, or free its sends if none is left."""
        group = self._next_group(topic, now)
        if not group:
            self._queue.close(topic)
            return
        is_first = topic.state is TopicState.OPEN
        topic.happens(TopicEvent.LETTERS if is_first else TopicEvent.SEND)
        topic.group, topic.was_interrupted = group, False
        self._attempts.handed_over(topic.name)
        for record in group:
            record.happens(RecordEvent.SEND)
        self._outbox.emit(commands.Send(topic.name, tuple(group)))

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
            return self._in_flight.is_quiet(topic.name) or now >= topic.until
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
        is_quiet = self._in_flight.is_quiet(topic.name)
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
        error = self._judge.make_too_large(record.place, text)
        self._outcomes.end(record, error, now)
        return True

    def expire(self, record: Record, now: float) -> None:
        """End a record whose time was over before it could be sent again."""
        if record.is_letter:
            self._outcomes.not_sent_again(record, "its time limit was over", now)
            return
        assert record.error is not None
        self._outcomes.end(record, self._judge.make_late(record.error), now)

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
                error = self._judge.make_superseded(error)
            self._outcomes.end(record, error, now)
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
            newest, unknown = self._in_flight.find_newest(place, keys)
            for record in records:
                later = (newest.get(record.key), unknown)
                if any(rank is not None and record.rank < rank for rank in later):
                    late.add(record)
        return late

    def _warn_of_order(self, topic: str) -> None:
        if topic not in self._warned:
            self._warned.add(topic)
            self._outbox.warn(
                "record_out_of_order",
                f"policy {self._policy.name} has rescue: any_order, and a record of "
                f"topic {topic} is sent again after a later one of its key",
                topic,
            )

    # --- time -------------------------------------------------------------------------

    def dues(self) -> Iterator[float]:
        """Iterate over the times at which ``tick`` has something to do."""
        for record in self._queue.records():
            yield record.due
        if not self._queue.can_go_on:
            return
        for topic in self._queue.topics.values():
            if topic.has_due and topic.name not in self._size_limits.pending:
                yield topic.next_due

    def expire_all(self, now: float) -> None:
        """End the waiting records whose time is over."""
        for record in [r for r in self._queue.records() if r.due <= now]:
            if record.state is RecordState.QUEUED:
                self.expire(record, now)
