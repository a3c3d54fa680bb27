"""What the repair has to do, as its deciders and its thread share it."""

from __future__ import annotations

import threading
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from kafkaguard.errors import KafkaGuardError
    from kafkaguard_adapters.kafka_python._answers import Unanswered
    from kafkaguard_adapters.kafka_python._death import Death
    from kafkaguard_adapters.kafka_python._fate import Fate
    from kafkaguard_adapters.kafka_python._private.reading import RawRecord
    from kafkaguard_adapters.kafka_python._rescue import Rescue
    from kafkaguard_adapters.kafka_python._tracking import TrackedBatch


@dataclass(frozen=True, slots=True, eq=False)
class Oversize:
    """A record that was too large, and whose error does not say yet for what.

    Attributes:
        batch: The batch that it was in.
        fate: What its sender holds.
        error: Why it failed.
        record: Its bytes, as far as they are known.
    """

    batch: TrackedBatch
    fate: Fate
    error: KafkaGuardError
    record: RawRecord | None


@dataclass(slots=True, eq=False)
class Backlog:
    """Records that wait for the repair, and the producer that has died.

    Attributes:
        changed: Guards all of it, and is notified when it becomes less.
        closing: Set when nothing more is taken on.
        rescues: Records that are going to be sent again.
        in_hand: Those that are being sent again.
        unanswered: What was on its way when its producer died.
        oversize: Records whose error is not complete.
        death: Of the producer in use; None while it lives.
    """

    changed: threading.Condition = field(default_factory=threading.Condition)
    closing: threading.Event = field(default_factory=threading.Event)
    rescues: list[Rescue] = field(default_factory=list)
    in_hand: list[Rescue] = field(default_factory=list)
    unanswered: list[Unanswered] = field(default_factory=list)
    oversize: list[Oversize] = field(default_factory=list)
    death: Death | None = None

    @property
    def needs_repair(self) -> bool:
        """Whether records are to be sent again, or a producer replaced."""
        return bool(self.rescues) or self.death is not None

    @property
    def is_empty(self) -> bool:
        """Whether there is nothing to do."""
        return not (self.needs_repair or self.oversize or self.unanswered)

    def held(self) -> int:
        """Count the records that wait."""
        rescues = (*self.in_hand, *self.rescues)
        undecided = sum(not rescue.fate.is_decided for rescue in rescues)
        waiting = sum(len(each.failures) for each in self.unanswered)
        return undecided + waiting + len(self.oversize)

    def take_note(self, death: Death | None) -> None:
        """Keep the first death of a producer, and where it happened."""
        if death is None or self.closing.is_set():
            return
        if self.death is None:
            self.death = death
            death.hear_refusals()
        self.death.where = self.death.where or death.where
