"""Answers to requests of a dead producer, which has given their batches up already.

kafka-python's dying producer fails what is on its way at once, although the answers
come a moment later, and it reads them: the partition is free again, and where the batch
was written its last confirmed offset has moved on.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

from kafkaguard_adapters.kafka_python._private import reading

if TYPE_CHECKING:
    from kafkaguard.errors import KafkaGuardError
    from kafkaguard_adapters.kafka_python._fate import Fate
    from kafkaguard_adapters.kafka_python._tracking import TrackedBatch

_POLL_S = 0.01


@dataclass(frozen=True, slots=True)
class Unanswered:
    """Records that were on their way when their producer died.

    Attributes:
        batch: Their batch.
        failures: The record's fate, and its error should the answer not come.
    """

    batch: TrackedBatch
    failures: list[tuple[Fate, KafkaGuardError]]

    def base_offset(self, before: int | None) -> int | None:
        """Return where the batch was written; None if that is not known.

        Args:
            before: The last offset that was confirmed before this batch, or -1; None
                if that is not known.
        """
        source = self.batch.source
        place, producer = self.batch.topic_partition, self.batch.producer
        now = reading.acked(producer).get(place, -1)
        if source is None or before is None or now <= before:
            return None
        base: int = now - source.record_count + 1
        return base


def await_answers(unanswered: list[Unanswered], seconds: float) -> None:
    """Wait until the dead producer has heard of all these batches, within a bound."""
    end = time.monotonic() + seconds
    while time.monotonic() < end and not all(
        reading.is_answered(each.batch.producer, each.batch.topic_partition)
        for each in unanswered
    ):
        time.sleep(_POLL_S)
