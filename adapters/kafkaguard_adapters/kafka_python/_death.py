"""The death of a producer: whether it has died, of what, and what it leaves behind."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from kafkaguard_adapters.kafka_python import _failures
from kafkaguard_adapters.kafka_python._private import moving, reading

if TYPE_CHECKING:
    from collections.abc import Callable

    from kafkaguard_adapters.kafka_python._fate import Fate
    from kafkaguard_adapters.kafka_python._tracking import TrackedBatch


@dataclass(slots=True)
class Death:
    """What is known of the end of a producer.

    Attributes:
        producer: Who died.
        cause: Of what.
        where: The topic and partition whose answer it was, if it was one.
        acked: The last offsets that were confirmed to it.
        identity: What its successor writes with, to lock out what is on its way.
        refusals: What says why by a record's index, for each of the client's batches
            that was refused after the producer had given it up.
    """

    producer: Any
    cause: BaseException
    where: Any
    acked: dict[Any, int]
    identity: Any = None
    refusals: dict[Any, Callable[[int], BaseException]] = field(default_factory=dict)

    def hear_refusals(self) -> None:
        """Take note of the refusals that come from now on."""
        moving.hear_refusals(self.producer, self.refusals.__setitem__)

    def leaves_in_doubt(self, batch: TrackedBatch) -> None:
        """Take note that one of its records may be written yet."""
        if batch.producer is self.producer and self.identity is None:
            self.identity = reading.next_identity(self.producer, batch.source)

    def __str__(self) -> str:
        """Say what killed it: the code, and of which partition."""
        code = getattr(self.cause, "errno", None)
        said = type(self.cause).__name__ + ("" if code is None else f" ({code})")
        if self.where is None:
            return said
        return f"{said}, topic {self.where.topic}, partition {self.where.partition}"


def death_of(
    producer: Any, cause: BaseException | None, where: Any = None
) -> Death | None:
    """Return the death of a producer, if a new one would fare any better.

    Args:
        producer: Who may have died.
        cause: Of what. Default: what it says itself.
        where: The topic and partition whose answer it was.
    """
    cause = cause or reading.cause_of_death(producer)
    if cause is None or _failures.ends_all(cause):
        return None
    return Death(producer, cause, where, reading.acked(producer))


def died_of(producer: Any, batch: TrackedBatch, fate: Fate) -> Death | None:
    """Tell whether a producer has died of a failed batch, or before.

    One whose sequence of numbers has a hole now is silenced.
    """
    if batch.producer is None or reading.was_given_up(batch.result):
        return death_of(producer, None)
    cause = reading.cause_of_death(producer)
    if cause is None and reading.breaks_sequence(producer, batch.source):
        moving.silence(producer)
        cause = fate.original(batch.result)
    return death_of(producer, cause, batch.topic_partition) if cause else None
