"""The check of rows whose topic is in a column."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

from pyspark.sql import functions as F  # noqa: N812 - as everyone calls it

from kafkaguard._delivery.dead_letters import Reason
from kafkaguard_adapters.spark.driver.columns import REFUSED
from kafkaguard_adapters.spark.driver.refused_columns import (
    batch_bytes,
    has_cut_name,
    has_nameless,
    has_unwritable_time,
    record_size,
)
from kafkaguard_adapters.spark.executor.known_topics import KnownTopics
from kafkaguard_adapters.spark.executor.size_limits import Sizes, exceeded
from kafkaguard_adapters.spark.marker import task_failed
from kafkaguard_adapters.spark.verdicts import record_error

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyspark.sql import Column

    from kafkaguard.errors import KafkaGuardError
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
        error = self._error(topic, *row)
        if error is not None and self.settings.on_reject(error) == "raise":
            error.add_note(_NOTHING_SENT)
            raise task_failed(error)
        return True

    def _error(
        self, topic: str | None, keyless: bool, record: int, batch: int, *rest: Any
    ) -> KafkaGuardError | None:
        if topic is None:
            return record_error(Reason.NULL_TOPIC, topic)
        if not self._known.exists(topic):
            return record_error(Reason.UNKNOWN_TOPIC, topic)
        if keyless and self._known.refuses_null_keys(topic):
            return record_error(Reason.NULL_KEY, topic)
        if said := exceeded(self._known.limits(topic), Sizes(record, batch)):
            return record_error(Reason.TOO_LARGE, topic, said)
        reason = self._reason(topic, *rest)
        return record_error(reason, topic) if reason else None

    def _reason(
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


def row_check(columns: Sequence[str], settings: SinkSettings) -> Column:
    """Return a column that is true, or fails the job at a refused record.

    Args:
        columns: The DataFrame's columns; ``topic`` is one of them.
        settings: The settings of the write.
    """
    accept = RowCheck(settings)
    # With type hints, Spark would try to make another kind of function, and warn.
    check = F.udf(lambda *row: accept(*row), "boolean")  # noqa: PLW0108 - has no hints
    keyless = F.col("key").isNull() if "key" in columns else F.lit(True)
    partition = F.col("partition") if "partition" in columns else F.lit(None)
    sizes = record_size(columns), batch_bytes(columns)
    flags = (
        has_nameless(columns),
        has_cut_name(columns),
        has_unwritable_time(columns),
    )
    aside = F.col(REFUSED).isNotNull() if REFUSED in columns else F.lit(False)
    return check(aside, F.col("topic"), keyless, *sizes, partition.cast("int"), *flags)
