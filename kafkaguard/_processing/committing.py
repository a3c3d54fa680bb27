"""The commits of what is done."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from kafkaguard._consuming.commits import CommitRun
from kafkaguard._errors.base import Action
from kafkaguard._processing.work import Commit

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from kafkaguard._cluster.reports import TopicPartition
    from kafkaguard._errors import KafkaGuardError
    from kafkaguard._processing.run import Run
    from kafkaguard._processing.slots import Slot

#: How long the last commit may take.
LAST_COMMIT_S: Final = 10.0


class Commits:
    """Commits what is done, and again what is refused for now.

    Args:
        run: The run.
        now: The time.

    Attributes:
        due: When the next commit is made.
    """

    def __init__(self, run: Run, now: float) -> None:
        self._run = run
        self._interval = run.settings.commit_interval
        self.due = now + self._interval
        self._number = 0
        self._open: dict[int, dict[Slot, tuple[int, int]]] = {}
        self._repeated: CommitRun | None = None

    @property
    def are_open(self) -> bool:
        """Whether a commit has no answer yet."""
        return bool(self._open)

    def is_due(self, now: float) -> bool:
        """Return whether it is time for a commit; if so, plan the next one."""
        if now < self.due:
            return False
        self.due = now + self._interval
        return True

    def commit(self, slots: Iterable[Slot]) -> None:
        """Commit what is done of some partitions, unless it is committed."""
        offsets, kept = {}, {}
        for slot in slots:
            position = slot.position(self._run.offset_of)
            if position is not None and position != slot.committed:
                offsets[slot.place] = position
                kept[slot] = position, slot.passed
        if offsets:
            self._number += 1
            self._open[self._number] = kept
            self._run.commands.append(Commit(self._number, offsets))

    def answered(
        self,
        number: int,
        errors: Mapping[TopicPartition, KafkaGuardError],
        now: float,
    ) -> KafkaGuardError | None:
        """Record an answer; return the error of a member that is fenced."""
        run = self._run
        kept = self._open.pop(number)
        for slot, (position, passed) in kept.items():
            if slot.place not in errors:
                slot.committed = position
                self.count(slot, passed)
        attempts = self._repeated or CommitRun(
            run.policy,
            run.random,
            [slot.place for slot in kept],
            now + max(self._interval, LAST_COMMIT_S),
            client=run.client,
        )
        again = attempts.answered(errors, run.slots, now)
        self._repeated = None if again is None else attempts
        if again is not None:
            self.due = now + again.wait
            return None
        event = attempts.event()
        if event is None:
            return None
        run.tell(event)
        return event.error if event.action is Action.FENCED else None

    def count(self, slot: Slot, passed: int) -> None:
        """Count the records that are committed: all that had left the slot then."""
        if passed > slot.counted:
            count, slot.counted = passed - slot.counted, passed
            self._run.counts.add(slot.place.topic, "committed", count)
