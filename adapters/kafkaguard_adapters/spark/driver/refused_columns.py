"""Spark expressions that find records which can never succeed."""

from __future__ import annotations

from functools import reduce
from operator import add
from typing import TYPE_CHECKING, NamedTuple

from pyspark.sql import functions as F  # noqa: N812 - as everyone calls it

from kafkaguard._delivery.dead_letters import Reason
from kafkaguard._delivery.sizes import BATCH_HEADER_BYTES, FIXED_BYTES, NUMBER_STEPS
from kafkaguard_adapters.spark.executor.arrow import (
    MOST_FRAMING_BYTES,
    NUL,
    UNWRITABLE_TIMES,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from pyspark.sql import Column

    from kafkaguard_adapters.spark.executor.size_limits import SizeLimit


class Refused(NamedTuple):
    """Columns that say which records are refused, and why.

    Attributes:
        bad: True for a refused record.
        reason: The reason of the refusal.
        limit: The limit, if the record is too large.
        size: The record's size, if the record is too large.
    """

    bad: Column
    reason: Reason
    limit: SizeLimit | None = None
    size: Column | None = None


def refused_columns(
    columns: Sequence[str],
    *,
    compacted: bool,
    limits: Sequence[SizeLimit],
    partitions: int | None = None,
) -> list[Refused]:
    """Return which records are refused, and why; a later reason has precedence.

    Args:
        columns: The DataFrame's columns.
        compacted: Whether the topic is compacted.
        limits: The size limits of a record.
        partitions: The topic's number of partitions. Default: unknown.
    """
    found = []
    if "headers" in columns:
        found.append(Refused(has_nameless(columns), Reason.NAMELESS_HEADER))
    if "partition" in columns:
        beyond = F.col("partition") < 0
        if partitions is not None:
            beyond |= F.col("partition") >= partitions
        found.append(Refused(beyond, Reason.UNKNOWN_PARTITION))
    for limit in limits:
        size = _SIZES[limit.counts](columns)
        large = size > F.lit(limit.most)
        if "headers" not in columns:  # a cheaper check first
            large = (record_size(columns) > limit.most - MOST_FRAMING_BYTES) & large
        found.append(Refused(large, Reason.TOO_LARGE, limit, size))
    if compacted:
        keyless = F.col("key").isNull() if "key" in columns else F.lit(True)
        found.append(Refused(keyless, Reason.NULL_KEY))
    if "topic" in columns:
        found.append(Refused(F.col("topic").isNull(), Reason.NULL_TOPIC))
    return found


def strongest(refused: Sequence[Refused]) -> Column:
    """Return the reason of a refusal, or null."""
    reason = F.lit(None).cast("string")
    for each in refused:
        reason = F.when(each.bad, F.lit(str(each.reason))).otherwise(reason)
    return reason


def only(refused: Sequence[Refused], some: Sequence[Refused]) -> list[Refused]:
    """Return some refusals, without records that have a stronger reason."""
    if len(some) == len(refused):
        return list(some)
    reason = strongest(refused)
    return [each._replace(bad=each.bad & (reason == str(each.reason))) for each in some]


def has_nameless(columns: Sequence[str]) -> Column:
    """Return whether a record has a header without a name."""
    return _has_header(columns, is_nameless)


def has_cut_name(columns: Sequence[str]) -> Column:
    """Return whether a record has a header whose name librdkafka would cut."""
    return _has_header(columns, lambda header: header["key"].contains(NUL))


def has_unwritable_time(columns: Sequence[str]) -> Column:
    """Return whether a record's timestamp would get another meaning."""
    if "timestamp" not in columns:
        return F.lit(False)
    is_such = F.unix_millis("timestamp").isin(*UNWRITABLE_TIMES)
    return F.coalesce(is_such, F.lit(False))


def _has_header(columns: Sequence[str], is_such: Callable[[Column], Column]) -> Column:
    if "headers" not in columns:
        return F.lit(False)
    return F.coalesce(F.exists("headers", is_such), F.lit(False))


def is_nameless(header: Column) -> Column:
    """Return whether a header has no name, or is null."""
    return header["key"].isNull()


def record_size(columns: Sequence[str]) -> Column:
    """Count the bytes of key, value and headers."""
    size = F.lit(0)
    for name in {"key", "value"} & set(columns):
        size += _length(F.col(name))
    if "headers" in columns:
        size += F.coalesce(F.aggregate("headers", F.lit(0), _add_header), F.lit(0))
    return size


def batch_bytes(columns: Sequence[str]) -> Column:
    """Count the bytes of an uncompressed batch with this record only."""
    record = F.lit(FIXED_BYTES)
    for name in ("key", "value"):
        record += _field(F.col(name)) if name in columns else F.lit(1)
    if "headers" in columns:
        own = F.aggregate("headers", _number(F.size("headers")), _add_fields)
        record += F.coalesce(own, F.lit(1))
    else:
        record += F.lit(1)
    return record + _number(record) + F.lit(BATCH_HEADER_BYTES)


_SIZES = {"record": record_size, "batch": batch_bytes}


def _add_fields(total: Column, header: Column) -> Column:
    return total + _field(header["key"]) + _field(header["value"])


def _field(column: Column) -> Column:
    """Count the bytes of a field and of its length; null has a length, too."""
    return _length(column) + _number(_length(column))


def _number(length: Column) -> Column:
    """Count the bytes of a number in Kafka's record format (a varint)."""
    longer = [(length >= F.lit(step)).cast("int") for step in NUMBER_STEPS]
    return reduce(add, longer, F.lit(1))


def _add_header(total: Column, header: Column) -> Column:
    return total + _length(header["key"]) + _length(header["value"])


def _length(column: Column) -> Column:
    return F.coalesce(F.octet_length(column), F.lit(0))
