"""Records that are sent again: in their old order, and none after a later one."""

from __future__ import annotations

import time
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

from kafkaguard._delivery.report import SupersededError
from kafkaguard_adapters.kafka_python import _failures
from kafkaguard_adapters.kafka_python._private import moving
from kafkaguard_adapters.kafka_python.errors import add_words, errors

if TYPE_CHECKING:
    from collections.abc import Callable, Collection

    from kafkaguard.errors import KafkaGuardError
    from kafkaguard_adapters.kafka_python._fate import Fate
    from kafkaguard_adapters.kafka_python._private.reading import RawRecord
    from kafkaguard_adapters.kafka_python._session import Session
    from kafkaguard_adapters.kafka_python._tracking import TrackedBatch

#: Seconds that batches have to come to an end before records are sent again.
SETTLE_S = 5.0

_Later = list[tuple[tuple[int, ...], "set[bytes | None] | None"]]


@dataclass(frozen=True, slots=True, eq=False)
class Rescue:
    """A record that is going to be sent again.

    Attributes:
        batch: The batch that failed.
        index: The record's place in it.
        fate: What its sender holds.
        record: Its bytes.
        error: Why it failed.
    """

    batch: TrackedBatch
    index: int
    fate: Fate
    record: RawRecord
    error: KafkaGuardError

    @property
    def is_overdue(self) -> bool:
        """Whether its time is over."""
        return self.batch.due <= time.monotonic()


class Resender:
    """Hands records over again.

    Args:
        session: Where they go.
        end: Ends what is not sent again, with the error that says why.
        put_back: Keeps a record for the next time, if the producer in use has died.
    """

    def __init__(
        self,
        session: Session,
        end: Callable[[Rescue, KafkaGuardError], None],
        put_back: Callable[[Rescue], bool],
    ) -> None:
        self._session = session
        self._end = end
        self._put_back = put_back

    def send(self, rescues: list[Rescue], too_large: Collection[str] = ()) -> None:
        """Hand records over again in their old order.

        Those without a key come last and on their own, since the broker may refuse
        them with all that is in the same batch. New records still wait at the gate.

        Args:
            rescues: Which.
            too_large: Topics that have just refused a record for its size. Others would
                be refused as well, one after the other, and each cost a producer.
        """
        rescues.sort(key=lambda each: each.fate.order or ())
        left = [each for each in rescues if not self._is_refused(each, too_large)]
        later = self._later_batches(left)
        kept = set()
        for keyless in (False, True):
            for rescue in left:
                if (rescue.record.key is None) == keyless and not self._try_again(
                    rescue, later[rescue.batch.topic_partition]
                ):
                    kept.add(rescue.batch)
            self.let_finish(self._session.tracker.batches())
        for batch in {each.batch for each in rescues} - kept:
            self._session.tracker.resolve(batch)

    def _is_refused(self, rescue: Rescue, too_large: Collection[str]) -> bool:
        place, session = rescue.batch.topic_partition, self._session
        if place.topic not in too_large:
            return False
        error = session.limits.refusal(session.producer, place, rescue.record)
        if error is not None:
            self._end(rescue, error)
        return error is not None

    def let_finish(
        self, batches: list[TrackedBatch], seconds: float = SETTLE_S
    ) -> None:
        """Wait for the outcome of batches, within a bound."""
        deadline = time.monotonic() + seconds
        with moving.flushing(self._session.producer):
            self._session.tracker.wait(batches, deadline)

    def fail(self, rescue: Rescue, why: BaseException | str) -> None:
        """Fail a record that could not be sent again."""
        add_words(rescue.error, f"it could not be sent again: {why}")
        self._end(rescue, rescue.error)

    def expire(self, rescue: Rescue) -> None:
        """Fail a record whose time was over before it could be sent again."""
        batch = rescue.batch
        self._end(rescue, _failures.not_in_time(rescue.error, batch.producer))

    def _later_batches(self, rescues: list[Rescue]) -> dict[Any, _Later]:
        """Find what was accepted after the refused batches, partition by partition."""
        first: dict[Any, TrackedBatch] = {}
        for rescue in rescues:
            first.setdefault(rescue.batch.topic_partition, rescue.batch)
        later = {tp: self._session.tracker.later(batch) for tp, batch in first.items()}
        self.let_finish([batch for line in later.values() for batch in line])
        return {
            tp: [
                (b.position, b.keys())
                for b in line
                if b.accepted or not b.result.is_done
            ]
            for tp, line in later.items()
        }

    def _try_again(self, rescue: Rescue, later: _Later) -> bool:
        """Hand a record over, or end it.

        Returns:
            Whether one of both was done; else it waits for the next time.
        """
        key = rescue.record.key
        if key is not None and any(
            position > rescue.batch.position and (keys is None or key in keys)
            for position, keys in later
        ):
            self._end(rescue, _superseded(rescue))
            return True
        if rescue.is_overdue:
            self.expire(rescue)
            return True
        try:
            self._hand_over(rescue)
        except Exception as error:  # noqa: BLE001 - it becomes the record's outcome
            if self._put_back(rescue):
                return False
            if rescue.is_overdue:
                self.expire(rescue)
            else:
                self.fail(rescue, error)
        return True

    def _hand_over(self, rescue: Rescue) -> None:
        producer = self._session.producer
        place, due = rescue.batch.topic_partition, rescue.batch.due
        moving.wait_for_topic(producer, place.topic, due - time.monotonic())
        self._session.tracker.go_on(
            rescue.fate,
            partial(moving.append, producer, place, rescue.record),
            due=due,
        )


def _superseded(rescue: Rescue) -> KafkaGuardError:
    error = errors.make(
        SupersededError,
        "it failed only with its batch, but a later record of its key was accepted "
        "or is on its way, so it was not sent again",
        api="Produce",
        topic=rescue.error.topic,
        partition=rescue.error.partition,
    )
    error.__cause__ = rescue.error
    return error
