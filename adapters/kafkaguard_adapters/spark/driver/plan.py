"""The plan of a write: checks, a shuffle, the requested order.

Without checks, ``partitions`` or ``order_by`` there is no shuffle.

Spark finishes all tasks before a shuffle before it starts those after it. So if a
refused record fails the job, the check before the shuffle fails it before anything is
sent.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import functions as F  # noqa: N812 - as everyone calls it

from kafkaguard._delivery.dead_letters import Reason
from kafkaguard_adapters.spark.columns import REFUSED
from kafkaguard_adapters.spark.driver.refused_columns import (
    Refused,
    batch_bytes,
    find_refused_columns,
    has_cut_name,
    has_nameless,
    has_unwritable_time,
    record_size,
    select_strongest,
)
from kafkaguard_adapters.spark.executor.known_topics import KnownTopics
from kafkaguard_adapters.spark.executor.row_check import RowCheck
from kafkaguard_adapters.spark.marker import as_text
from kafkaguard_adapters.spark.verdicts import record_error
from kafkaguard_policies.model.policy import ways_of_rejecting

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyspark.sql import Column, DataFrame

    from kafkaguard_adapters.spark.settings import SinkSettings
    from kafkaguard_adapters.spark.topics import SinkTopic

FEWEST, _MOST = 4, 64
#: The placeholder of a size that Spark computes.
_SIZE = "<size>"


def plan_write(
    df: DataFrame,
    settings: SinkSettings,
    topics: dict[str, SinkTopic],
    columns: Sequence[str],
    *,
    partitions: int | None = None,
    order_by: Sequence[str | Column] = (),
) -> DataFrame:
    """Build the DataFrame to write from the user's.

    Args:
        df: The user's DataFrame.
        settings: The settings of the write.
        topics: Facts about the topics.
        columns: The columns that are written.
        partitions: The number of writing tasks. Default: that of the DataFrame; after a
            shuffle the number of the topic's partitions, at least 4 and at most 64.
        order_by: The order of the records of a key. Default: none.
    """
    value = _check_records(df, settings, topics)
    if not (value is not None or order_by or partitions):
        return df.select(*columns)
    if value is not None:
        df = df.withColumn("value", value)
    tasks = partitions or count_tasks(settings, topics)
    shuffled = df.repartition(tasks, _make_shuffle_key(df))
    if order_by:
        shuffled = shuffled.sortWithinPartitions(*order_by)
    return shuffled.select(*columns)


def count_tasks(settings: SinkSettings, topics: dict[str, SinkTopic]) -> int:
    """Return the number of writing tasks after a shuffle, if none is given."""
    partitions = topics[settings.topic].partitions if settings.topic else FEWEST
    return min(max(partitions, FEWEST), _MOST)


def _make_shuffle_key(df: DataFrame) -> Column:
    """Return the shuffle key: records of a key together, others anywhere."""
    if "key" not in df.columns:
        return F.xxhash64("value")
    keyless = F.col("key").isNull()
    return F.when(keyless, F.xxhash64("value")).otherwise(F.xxhash64("key"))


def _check_records(
    df: DataFrame, settings: SinkSettings, topics: dict[str, SinkTopic]
) -> Column | None:
    """Return the column value with a check that fails the job at a refused record.

    Returns:
        The column, or None if the policy lets no such record fail the job.
    """
    topic = settings.topic
    if topic is None:
        if "raise" not in ways_of_rejecting(settings.policy):
            return None
        return F.when(_row_check(df.columns, settings), F.col("value"))
    if not any(_is_fatal(reason, settings) for reason in Reason):
        return None
    known = KnownTopics(settings, topics)
    refused = find_refused_columns(
        df.columns,
        compacted=known.refuses_null_keys(topic),
        limits=known.limits(topic),
        partitions=known.partitions(topic),
    )
    refused[:0] = [
        Refused(has_unwritable_time(df.columns), Reason.INVALID_TIMESTAMP),
        Refused(has_cut_name(df.columns), Reason.NUL_IN_HEADER),
    ]
    fatal = [each for each in refused if _is_fatal(each.reason, settings)]
    if not fatal:
        return None
    fatal = select_strongest(refused, fatal)
    if REFUSED in df.columns:
        aside = F.col(REFUSED).isNotNull()
        fatal = [each._replace(bad=each.bad & ~aside) for each in fatal]
    return fail(F.col("value"), fatal, topic)


def _row_check(columns: Sequence[str], settings: SinkSettings) -> Column:
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


def _is_fatal(reason: Reason, settings: SinkSettings) -> bool:
    return settings.on_reject(record_error(reason, settings.topic)) == "raise"


def fail(value: Column, refused: Sequence[Refused], topic: str) -> Column:
    """Return a column that fails the job at a refused record."""
    for each in refused:
        failure = F.raise_error(_describe(each, topic))
        value = F.when(each.bad, failure).otherwise(value)
    return value


def _describe(refused: Refused, topic: str) -> Column:
    """Return the error text for a refused record, with its size if needed."""
    reason, limit = refused.reason, refused.limit
    if limit is None or refused.size is None:
        return F.lit(as_text(record_error(reason, topic)))
    text = as_text(record_error(reason, topic, limit.describe(_SIZE)))
    return F.replace(F.lit(text), F.lit(_SIZE), F.format_number(refused.size, 0))
