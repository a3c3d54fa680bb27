"""Records that can never be accepted, found by Spark's own expressions."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import functions as F  # noqa: N812 - as everyone calls it

from kafkaguard._dead_letter import Reason

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyspark.sql import Column


def refusals(
    columns: Sequence[str],
    *,
    compacted: bool,
    limit: int | None,
    partitions: int | None = None,
) -> list[tuple[Column, Reason]]:
    """Say which records are refused, and why; a later reason is the stronger one.

    Args:
        columns: The frame's columns.
        compacted: Whether the topic is.
        limit: The most bytes that key, value and headers may have. Default: any.
        partitions: How many the topic has. Default: not known.
    """
    found = []
    if "headers" in columns:
        found.append((has_nameless(columns), Reason.NAMELESS_HEADER))
    if "partition" in columns:
        beyond = F.col("partition") < 0
        if partitions is not None:
            beyond |= F.col("partition") >= partitions
        found.append((beyond, Reason.UNKNOWN_PARTITION))
    if limit is not None:
        found.append((record_size(columns) > F.lit(limit), Reason.TOO_LARGE))
    if compacted:
        keyless = F.col("key").isNull() if "key" in columns else F.lit(True)
        found.append((keyless, Reason.NULL_KEY))
    if "topic" in columns:
        found.append((F.col("topic").isNull(), Reason.NULL_TOPIC))
    return found


def has_nameless(columns: Sequence[str]) -> Column:
    """Say whether a record has a header without a name."""
    if "headers" not in columns:
        return F.lit(False)
    return F.coalesce(F.exists("headers", is_nameless), F.lit(False))


def is_nameless(header: Column) -> Column:
    """Say whether a header has no name; a null in the array is none either."""
    return header["key"].isNull()


def record_size(columns: Sequence[str]) -> Column:
    """Count the bytes of key, value and headers."""
    size = F.lit(0)
    for name in {"key", "value"} & set(columns):
        size += _length(F.col(name))
    if "headers" in columns:
        size += F.coalesce(F.aggregate("headers", F.lit(0), _add_header), F.lit(0))
    return size


def _add_header(total: Column, header: Column) -> Column:
    return total + _length(header["key"]) + _length(header["value"])


def _length(column: Column) -> Column:
    return F.coalesce(F.octet_length(column), F.lit(0))
