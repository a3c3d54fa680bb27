"""Find records in Arrow columns that can never succeed, before they are sent."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pyarrow.compute as pc

from kafkaguard._delivery.dead_letters import Reason

if TYPE_CHECKING:
    from kafkaguard_adapters.spark.executor.arrow import Columns
    from kafkaguard_adapters.spark.executor.known_topics import KnownTopics


def find_refused(columns: Columns, known: KnownTopics) -> dict[int, Reason]:
    """Find the rows that no broker would accept, as far as the facts are known.

    Args:
        columns: A batch.
        known: Facts about the topics.

    Returns:
        The reason for each refused row, by its index; empty if none is refused.
    """
    refused: dict[int, Reason] = {}
    for topic, rows in columns.by_topic():
        if topic is None:
            refused |= dict.fromkeys(_indices(rows), Reason.NULL_TOPIC)
        elif known.takes_dead_letters(topic):
            refused |= dict.fromkeys(_indices(rows), Reason.DEAD_LETTER_TOPIC)
        elif not known.exists(topic):
            refused |= dict.fromkeys(_indices(rows), Reason.UNKNOWN_TOPIC)
        else:
            refused |= _find_refused_by(topic, rows, columns, known)
    return refused | columns.get_earlier_refusals()


def _find_refused_by(
    topic: str, rows: Any, columns: Columns, known: KnownTopics
) -> dict[int, Reason]:
    """Find the rows that one topic refuses; a later reason has precedence."""
    masks = [
        (columns.has_unwritable_time(), Reason.INVALID_TIMESTAMP),
        (columns.has_cut_name(), Reason.NUL_IN_HEADER),
        (columns.has_nameless_header(), Reason.NAMELESS_HEADER),
        (columns.is_outside(known.partitions(topic)), Reason.UNKNOWN_PARTITION),
    ]
    limits, largest = known.limits(topic), columns.bound_size()
    if any(limit.most < largest for limit in limits):
        sizes = columns.sizes()
        for limit in limits:
            is_large = pc.greater(sizes[limit.counts], limit.most)
            masks.append((is_large, Reason.TOO_LARGE))
    if known.refuses_null_keys(topic):
        masks.append((columns.has_no_key(), Reason.NULL_KEY))
    refused: dict[int, Reason] = {}
    for mask, reason in masks:
        both = mask if rows is None else pc.and_(rows, mask)
        refused |= dict.fromkeys(_indices(both), reason)
    return refused


def _indices(mask: Any) -> list[int]:
    indices: list[int] = pc.indices_nonzero(mask).to_pylist()
    return indices
