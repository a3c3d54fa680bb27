"""``guard_sink``: the checks as plain expressions, under Spark's own Kafka sink."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812 - as everyone calls it

from kafkaguard._delivery.dead_letters import (
    CUT_BYTES,
    NAMELESS,
    PARTITION,
    REASON,
    TOPIC,
    VALUE_BYTES,
    Reason,
)
from kafkaguard_adapters.spark.driver.columns import used_columns
from kafkaguard_adapters.spark.driver.frame import check_partitions
from kafkaguard_adapters.spark.driver.plan import failing
from kafkaguard_adapters.spark.driver.refused_columns import (
    Refused,
    is_nameless,
    refusals,
)
from kafkaguard_adapters.spark.executor.limits import Limit
from kafkaguard_adapters.spark.refusal import refuse
from kafkaguard_adapters.spark.settings import (
    check_record_bytes,
    check_topics,
    check_type,
)

if TYPE_CHECKING:
    from pyspark.sql import Column

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
        df: Columns ``key`` and ``value``, and where wanted ``headers`` and
            ``partition``.
        topic: Where the records go.
        dead_letter_topic: Where refused records go, with headers that say why. A value
            that is too large is cut to its first 1,024 bytes: what this topic takes is
            not asked. Default: a refused record fails the job before anything is sent.
        compacted: Whether the topic is, so that every record needs a key.
        max_record_bytes: The largest record, key, value and headers together. Default:
            not checked.
        partitions: How many tasks write; records of a key are written by one.

    Returns:
        Columns ``topic``, ``key``, ``value`` and ``headers``; and ``partition`` where
        the frame has it, which is null for a dead letter.

    Raises:
        ClientConfigurationError: A column is missing, doubled, of another type or
            spelt in another case; the frame has a column topic as well; or an argument
            cannot be meant.
    """
    check_type("df", df, DataFrame, "a DataFrame of Spark")
    check_type("topic", topic, str, "the name of a topic")
    check_topics(topic, dead_letter_topic)
    check_record_bytes(max_record_bytes)
    check_partitions(partitions)
    used = used_columns(df.schema)
    if "topic" in used:
        raise refuse("guard_sink takes the topic as argument: drop the column topic")
    if "timestamp" in used:
        raise refuse(
            "Spark's own sink cannot set a record's time: drop the column timestamp, "
            "or use kafkaguard.spark.write"
        )
    limits = []
    if max_record_bytes is not None:
        limits.append(Limit(max_record_bytes, "max_record_bytes", "record"))
    refused = refusals(df.columns, compacted=compacted, limits=limits)
    key = F.col("key") if "key" in df.columns else F.lit(None).cast("binary")
    headers = F.col("headers") if "headers" in df.columns else F.expr(_NO_HEADERS)
    value = F.col("value").cast("binary")
    plan = {"topic": F.lit(topic), "key": key, "value": value, "headers": headers}
    if "partition" in df.columns:
        plan["partition"] = F.col("partition")
    if dead_letter_topic is None:
        plan["value"] = failing(value, refused, topic)
        guarded = df.select(*_named_as(plan))
        return guarded.repartition(partitions, F.xxhash64("key"))
    return df.select(*_named_as(_parted(plan, _reason(refused), dead_letter_topic)))


def _parted(
    plan: dict[str, Column], reason: Column, dead_letter_topic: str
) -> dict[str, Column]:
    """Return what becomes of each column where a record may be a dead letter."""
    letter = {
        "topic": F.lit(dead_letter_topic),
        "key": plan["key"],
        "value": F.when(reason == Reason.TOO_LARGE, _cut(plan["value"])).otherwise(
            plan["value"]
        ),
        "headers": _why(plan, reason),
        "partition": F.lit(None).cast("int"),
    }
    return {
        name: F.when(reason.isNull(), column).otherwise(letter[name])
        for name, column in plan.items()
    }


def _named_as(plan: dict[str, Column]) -> list[Column]:
    return [column.alias(name) for name, column in plan.items()]


def _reason(refused: list[Refused]) -> Column:
    reason = F.lit(None).cast("string")
    for each in refused:
        reason = F.when(each.bad, F.lit(str(each.reason))).otherwise(reason)
    return reason


def _cut(value: Column) -> Column:
    return F.substring(value, 1, CUT_BYTES)


def _why(plan: dict[str, Column], reason: Column) -> Column:
    """Return the record's own headers, and those that say why it was refused."""
    own = F.coalesce(F.transform(plan["headers"], _named), F.expr(_NO_HEADERS))
    ours = [_header(REASON, reason), _header(TOPIC, plan["topic"])]
    size = _header(VALUE_BYTES, F.octet_length(plan["value"]))
    parts = [own, F.array(*ours), _only(reason == Reason.TOO_LARGE, size)]
    if "partition" in plan:
        meant = _header(PARTITION, plan["partition"])
        parts.append(_only(plan["partition"] >= 0, meant))
    return F.concat(*parts)


def _only(condition: Column, header: Column) -> Column:
    """Return an array with the header, or an empty one."""
    return F.when(condition, F.array(header)).otherwise(F.expr(_NO_HEADERS))


def _named(header: Column, place: Column) -> Column:
    """Call a header that has no name by its place."""
    name = F.concat(F.lit(NAMELESS), place.cast("string"))
    named = F.struct(name.alias("key"), header["value"].alias("value"))
    return F.when(is_nameless(header), named).otherwise(header)


def _header(name: str, value: Column) -> Column:
    text = value.cast("string").cast("binary")
    return F.struct(F.lit(name).alias("key"), text.alias("value"))
