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
            refused |= _refused_by(topic, rows, columns, known)
    return refused | columns.refused_before()


def _refused_by(
    topic: str, rows: Any, columns: Columns, known: KnownTopics
) -> dict[int, Reason]:
    """Find the rows that one topic refuses; a later reason has precedence."""
    times = columns.unwritable_times()
    refused = dict.fromkeys(_both(rows, times), Reason.INVALID_TIMESTAMP)
    cut = columns.cut_names()
    refused |= dict.fromkeys(_both(rows, cut), Reason.NUL_IN_HEADER)
    nameless = columns.nameless()
    refused |= dict.fromkeys(_both(rows, nameless), Reason.NAMELESS_HEADER)
    beyond = columns.outside(known.partitions(topic))
    refused |= dict.fromkeys(_both(rows, beyond), Reason.UNKNOWN_PARTITION)
    limits = known.limits(topic)
    most = columns.at_most()
    if any(limit.most < most for limit in limits):
        sizes = columns.sizes()
        for limit in limits:
            large = pc.greater(sizes[limit.counts], limit.most)
            refused |= dict.fromkeys(_both(rows, large), Reason.TOO_LARGE)
    if known.refuses_null_keys(topic):
        refused |= dict.fromkeys(_both(rows, columns.no_key()), Reason.NULL_KEY)
    return refused


def _both(rows: Any, mask: Any) -> list[int]:
    return _indices(mask if rows is None else pc.and_(rows, mask))


def _indices(mask: Any) -> list[int]:
    if not pc.any(mask).as_py():
        return []
    found: list[int] = pc.indices_nonzero(mask).to_pylist()
    return found
