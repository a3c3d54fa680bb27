"""The check of rows whose topic a column names: only a task can know what is there."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

from pyspark.sql import functions as F  # noqa: N812 - as everyone calls it

from kafkaguard._dead_letter import Reason
from kafkaguard_adapters.spark._delivery import refusal
from kafkaguard_adapters.spark._known_topics import KnownTopics
from kafkaguard_adapters.spark._marker import task_failed
from kafkaguard_adapters.spark._refused_columns import has_nameless, record_size

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyspark.sql import Column

    from kafkaguard_adapters.spark._settings import SinkSettings

_NOTHING_SENT = "0 records were appended: all are checked before the first is sent"


@dataclass
class RowCheck:
    """A function of a row that fails the job where nobody would accept the record.

    Args:
        settings: How the records are to be written.
    """

    settings: SinkSettings

    def __call__(self, topic: str | None, *row: Any) -> bool:
        """Return True, or raise what the driver's side makes a KafkaGuardError of."""
        if reason := self._reason(topic, *row):
            error = refusal(reason, topic)
            error.add_note(_NOTHING_SENT)
            raise task_failed(error)
        return True

    def _reason(
        self,
        topic: str | None,
        keyless: bool,
        size: int,
        partition: int | None,
        nameless: bool,
    ) -> Reason | None:
        if topic is None:
            return Reason.NULL_TOPIC
        if not self._known.exists(topic):
            return Reason.UNKNOWN_TOPIC
        if keyless and self._known.compacted(topic):
            return Reason.NULL_KEY
        limit = self._known.limit(topic)
        if limit is not None and size > limit:
            return Reason.TOO_LARGE
        if partition is not None and not (
            0 <= partition < self._known.partitions(topic)
        ):
            return Reason.UNKNOWN_PARTITION
        return Reason.NAMELESS_HEADER if nameless else None

    @cached_property
    def _known(self) -> KnownTopics:
        return KnownTopics(self.settings, {})


def row_check(columns: Sequence[str], settings: SinkSettings) -> Column:
    """Return a column that is true, unless it fails the job.

    Args:
        columns: The frame's columns; ``topic`` is one of them.
        settings: How the records are to be written.
    """
    accept = RowCheck(settings)
    # Of a function with type hints Spark would try to make another kind, and warn.
    check = F.udf(lambda *row: accept(*row), "boolean")  # noqa: PLW0108 - has no hints
    keyless = F.col("key").isNull() if "key" in columns else F.lit(True)
    partition = F.col("partition") if "partition" in columns else F.lit(None)
    size = record_size(columns)
    nameless = has_nameless(columns)
    return check(F.col("topic"), keyless, size, partition.cast("int"), nameless)
