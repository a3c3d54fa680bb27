"""Spark expressions that find records which can never succeed."""

from __future__ import annotations

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


def find_refused_columns(
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
    refused = []
    if "headers" in columns:
        refused.append(Refused(has_nameless(columns), Reason.NAMELESS_HEADER))
    if "partition" in columns:
        beyond = F.col("partition") < 0
        if partitions is not None:
            beyond |= F.col("partition") >= partitions
        refused.append(Refused(beyond, Reason.UNKNOWN_PARTITION))
    for limit in limits:
        size = _SIZES[limit.counts](columns)
        large = size > F.lit(limit.most)
        if "headers" not in columns:  # a cheaper check first
            large = (record_size(columns) > limit.most - MOST_FRAMING_BYTES) & large
        refused.append(Refused(large, Reason.TOO_LARGE, limit, size))
    if compacted:
        keyless = F.col("key").isNull() if "key" in columns else F.lit(True)
        refused.append(Refused(keyless, Reason.NULL_KEY))
    if "topic" in columns:
        refused.append(Refused(F.col("topic").isNull(), Reason.NULL_TOPIC))
    return refused


def get_reason(refused: Sequence[Refused]) -> Column:
    """Return the reason of a refusal, or null."""
    reason = F.lit(None).cast("string")
    for each in refused:
        reason = F.when(each.bad, F.lit(str(each.reason))).otherwise(reason)
    return reason


def select_strongest(
    refused: Sequence[Refused], some: Sequence[Refused]
) -> list[Refused]:
    """Return some refusals, without records that have a stronger reason."""
    if len(some) == len(refused):
        return list(some)
    reason = get_reason(refused)
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
    parts = [_measure(name) for name in ("key", "value") if name in columns]
    if "headers" in columns:
        added = f"total + {_measure('header.key')} + {_measure('header.value')}"
        parts.append(f"coalesce({_sum_headers('0', added)}, 0)")
    return F.expr(" + ".join(parts))


def batch_bytes(columns: Sequence[str]) -> Column:
    """Count the bytes of an uncompressed batch with this record only."""
    parts = [str(FIXED_BYTES)]
    parts += [_measure_field(n) if n in columns else "1" for n in ("key", "value")]
    if "headers" in columns:
        added = (
            f"total + {_measure_field('header.key')} + {_measure_field('header.value')}"
        )
        own = _sum_headers(_measure_number("size(headers)"), added)
        parts.append(f"coalesce({own}, 1)")
    else:
        parts.append("1")
    record = f"({' + '.join(parts)})"
    return F.expr(f"{record} + {_measure_number(record)} + {BATCH_HEADER_BYTES}")


_SIZES = {"record": record_size, "batch": batch_bytes}


def _sum_headers(start: str, added: str) -> str:
    return f"aggregate(headers, {start}, (total, header) -> {added})"


def _measure_field(name: str) -> str:
    """Count the bytes of a field and of its length; null has a length, too."""
    return f"{_measure(name)} + {_measure_number(_measure(name))}"


def _measure_number(length: str) -> str:
    """Count the bytes of a number in Kafka's record format (a varint)."""
    longer = [f"cast({length} >= {step} as int)" for step in NUMBER_STEPS]
    return f"1 + {' + '.join(longer)}"


def _measure(name: str) -> str:
    return f"coalesce(octet_length({name}), 0)"
