"""``guard_sink``: the checks as plain expressions, under Spark's own Kafka sink."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import functions as F  # noqa: N812 - as everyone calls it

from kafkaguard._dead_letter import (
    CUT_BYTES,
    NAMELESS,
    REASON,
    TOPIC,
    VALUE_BYTES,
    Reason,
)
from kafkaguard_adapters.spark._barrier import failing
from kafkaguard_adapters.spark._refusal import refuse
from kafkaguard_adapters.spark._refused_columns import is_nameless, refusals

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

_NO_HEADERS = "CAST(array() AS array<struct<key:string,value:binary>>)"


def guard_sink(
    df: DataFrame,
    topic: str,
    *,
    dead_letter_topic: str | None = None,
    compacted: bool = True,
    max_record_bytes: int | None = None,
    partitions: int = 4,
) -> DataFrame:
    """Prepare a frame for Spark's own sink: ``.write.format("kafka")``.

    Only Spark expressions: nothing is asked of a broker and no row crosses into Python,
    so it works wherever Spark does, in batches and in streams. What only the broker
    can find out fails the job, as ever; :func:`kafkaguard.spark.write` does better.

    Do not set the sink's option ``topic``: it would override the column.

    Args:
        df: Columns ``key`` and ``value``, and where wanted ``headers``.
        topic: Where the records go.
        dead_letter_topic: Where refused records go, with headers that say why. A value
            that is too large is cut to its first 1,024 bytes: what this topic takes is
            not asked. Default: a refused record fails the job before anything is sent.
        compacted: Whether the topic is, so that every record needs a key.
        max_record_bytes: The largest record, key, value and headers together. Default:
            not checked.
        partitions: How many tasks write; records of a key are written by one.

    Returns:
        Columns ``topic``, ``key``, ``value`` and ``headers``.

    Raises:
        ClientConfigurationError: The frame has a column topic as well.
    """
    if "topic" in df.columns:
        raise refuse("guard_sink takes the topic as argument: drop the column topic")
    refused = refusals(df.columns, compacted=compacted, limit=max_record_bytes)
    key = F.col("key") if "key" in df.columns else F.lit(None).cast("binary")
    headers = F.col("headers") if "headers" in df.columns else F.expr(_NO_HEADERS)
    value = F.col("value").cast("binary")
    if dead_letter_topic is None:
        checked = failing(value, refused, topic)
        plan = _columns(F.lit(topic), key, checked, headers)
        return df.select(*plan).repartition(partitions, F.xxhash64("key"))
    reason = _reason(refused)
    plan = _columns(
        F.when(reason.isNull(), topic).otherwise(dead_letter_topic),
        key,
        F.when(reason == Reason.TOO_LARGE, _cut(value)).otherwise(value),
        F.when(reason.isNull(), headers).otherwise(_why(headers, reason, topic, value)),
    )
    return df.select(*plan)


def _columns(
    topic: Column, key: Column, value: Column, headers: Column
) -> list[Column]:
    named = {"topic": topic, "key": key, "value": value, "headers": headers}
    return [column.alias(name) for name, column in named.items()]


def _reason(refused: list[tuple[Column, Reason]]) -> Column:
    reason = F.lit(None).cast("string")
    for bad, name in refused:
        reason = F.when(bad, F.lit(str(name))).otherwise(reason)
    return reason


def _cut(value: Column) -> Column:
    return F.substring(value, 1, CUT_BYTES)


def _why(headers: Column, reason: Column, topic: str, value: Column) -> Column:
    ours = [_header(REASON, reason), _header(TOPIC, F.lit(topic))]
    size = _header(VALUE_BYTES, F.octet_length(value))
    own = F.coalesce(F.transform(headers, _named), F.expr(_NO_HEADERS))
    why = F.concat(own, F.array(*ours))
    cut = reason == Reason.TOO_LARGE
    return F.when(cut, F.concat(why, F.array(size))).otherwise(why)


def _named(header: Column, place: Column) -> Column:
    """Call a header that has no name by its place."""
    name = F.concat(F.lit(NAMELESS), place.cast("string"))
    named = F.struct(name.alias("key"), header["value"].alias("value"))
    return F.when(is_nameless(header), named).otherwise(header)


def _header(name: str, value: Column) -> Column:
    text = value.cast("string").cast("binary")
    return F.struct(F.lit(name).alias("key"), text.alias("value"))
