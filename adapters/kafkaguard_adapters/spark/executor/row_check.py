"""The check of rows whose topic is in a column."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

from kafkaguard._delivery.dead_letters import Reason
from kafkaguard_adapters.spark.executor.known_topics import KnownTopics
from kafkaguard_adapters.spark.executor.size_limits import Sizes, describe_exceeded
from kafkaguard_adapters.spark.marker import task_failed
from kafkaguard_adapters.spark.verdicts import record_error

if TYPE_CHECKING:
    from kafkaguard._errors import KafkaGuardError
    from kafkaguard_adapters.spark.settings import SinkSettings

_NOTHING_SENT = (
    "0 records were appended: all records are checked before the first one is sent"
)


@dataclass
class RowCheck:
    """A function of a row that fails the job if no broker would accept the record.

    Args:
        settings: The settings of the write.
    """

    settings: SinkSettings

    def __call__(self, is_aside: bool, topic: str | None, *row: Any) -> bool:
        """Return True, or raise an error, which the driver converts."""
        if is_aside:
            return True
        error = self._find_error(topic, *row)
        if error is not None and self.settings.on_reject(error) == "raise":
            error.add_note(_NOTHING_SENT)
            raise task_failed(error)
        return True

    def _find_error(
        self, topic: str | None, keyless: bool, record: int, batch: int, *rest: Any
    ) -> KafkaGuardError | None:
        if topic is None:
            return record_error(Reason.NULL_TOPIC, topic)
        if not self._known.exists(topic):
            return record_error(Reason.UNKNOWN_TOPIC, topic)
        if keyless and self._known.refuses_null_keys(topic):
            return record_error(Reason.NULL_KEY, topic)
        if text := describe_exceeded(self._known.limits(topic), Sizes(record, batch)):
            return record_error(Reason.TOO_LARGE, topic, text)
        reason = self._find_reason(topic, *rest)
        return record_error(reason, topic) if reason else None

    def _find_reason(
        self, topic: str, partition: int | None, nameless: bool, cut: bool, time: bool
    ) -> Reason | None:
        if partition is not None and not (
            0 <= partition < self._known.partitions(topic)
        ):
            return Reason.UNKNOWN_PARTITION
        if nameless:
            return Reason.NAMELESS_HEADER
        if cut:
            return Reason.NUL_IN_HEADER
        return Reason.INVALID_TIMESTAMP if time else None

    @cached_property
    def _known(self) -> KnownTopics:
        return KnownTopics(self.settings, {})
