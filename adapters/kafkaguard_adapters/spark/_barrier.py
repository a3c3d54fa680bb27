"""The plan under a write: checks, then a shuffle, then the order that is asked for.

Spark finishes all tasks below a shuffle before it starts those above it. So where a
refused record fails the job, the checks below it fail it before anything is sent.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import functions as F  # noqa: N812 - as everyone calls it

from kafkaguard._dead_letter import Reason
from kafkaguard_adapters.spark._delivery import refusal
from kafkaguard_adapters.spark._known_topics import KnownTopics
from kafkaguard_adapters.spark._marker import as_text

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyspark.sql import Column, DataFrame

    from kafkaguard_adapters.spark._settings import SinkSettings
    from kafkaguard_adapters.spark._topics import SinkTopic

_FEWEST, _MOST = 4, 64


def under_write(
    df: DataFrame,
    settings: SinkSettings,
    topics: dict[str, SinkTopic],
    columns: Sequence[str],
    *,
    partitions: int | None = None,
    order_by: Sequence[str | Column] = (),
) -> DataFrame:
    """Build what is written from what the user gave.

    Args:
        df: The user's frame.
        settings: How to write.
        topics: What the driver knows of the topics.
        columns: The columns that are written.
        partitions: How many tasks write. Default: as many as the topic has
            partitions, at least 4 and at most 64.
        order_by: By what the records of a key are ordered. Default: not at all.
    """
    if settings.on_reject == "fail":
        df = df.withColumn("value", _checked(df, settings, topics))
    shuffled = df.repartition(partitions or _tasks(settings, topics), _spread(df))
    if order_by:
        shuffled = shuffled.sortWithinPartitions(*order_by)
    return shuffled.select(*columns)


def _tasks(settings: SinkSettings, topics: dict[str, SinkTopic]) -> int:
    known = topics[settings.topic].partitions if settings.topic else _FEWEST
    return min(max(known, _FEWEST), _MOST)


def _spread(df: DataFrame) -> Column:
    """Say by what to shuffle: records of a key together, those without one anywhere."""
    if "key" not in df.columns:
        return F.xxhash64("value")
    keyless = F.col("key").isNull()
    return F.when(keyless, F.xxhash64("value")).otherwise(F.xxhash64("key"))


def _checked(
    df: DataFrame, settings: SinkSettings, topics: dict[str, SinkTopic]
) -> Column:
    """Return the column value, which fails the job at a record nobody would accept."""
    value = F.col("value")
    known = KnownTopics(settings, topics)
    for bad, reason in conditions(df, settings, known):
        text = as_text(refusal(reason, settings.topic))
        value = F.when(bad, F.raise_error(F.lit(text))).otherwise(value)
    return value


def conditions(
    df: DataFrame, settings: SinkSettings, known: KnownTopics
) -> list[tuple[Column, Reason]]:
    """Say in Spark's own expressions which records are refused, and why."""
    found = []
    if settings.topic is None:
        found.append((F.col("topic").isNull(), Reason.NULL_TOPIC))
    elif known.compacted(settings.topic):
        keyless = F.col("key").isNull() if "key" in df.columns else F.lit(True)
        found.append((keyless, Reason.NULL_KEY))
    limit = settings.max_record_bytes
    if settings.topic is not None:
        limit = known.limit(settings.topic)
    if limit is not None:
        found.append((_size(df) > F.lit(limit), Reason.TOO_LARGE))
    return found


def _size(df: DataFrame) -> Column:
    sizes = [
        F.coalesce(F.octet_length(name), F.lit(0))
        for name in ("key", "value")
        if name in df.columns
    ]
    if "headers" in df.columns:
        sizes.append(F.coalesce(_headers_size(), F.lit(0)))
    return sum(sizes[1:], start=sizes[0])


def _headers_size() -> Column:
    def grow(total: Column, header: Column) -> Column:
        value = F.coalesce(F.octet_length(header["value"]), F.lit(0))
        return total + F.octet_length(header["key"]) + value

    return F.aggregate("headers", F.lit(0), grow)
