"""Records that can never be accepted, found in Arrow columns before they are sent."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pyarrow.compute as pc

from kafkaguard._dead_letter import Reason

if TYPE_CHECKING:
    from collections.abc import Callable

    from kafkaguard_adapters.spark._arrow import Columns


def find_refused(
    columns: Columns,
    compacted: Callable[[str], bool | None],
    limit: Callable[[str], int | None],
) -> dict[int, Reason]:
    """Find the rows that no broker would accept.

    Args:
        columns: A batch.
        compacted: Whether a topic is; None: not known, then the broker judges.
        limit: The most bytes that key, value and headers of a record may have; None:
            not known.

    Returns:
        The reason for each such row, by its index; empty if all are well.
    """
    refused: dict[int, Reason] = {}
    for topic, rows in columns.by_topic():
        if topic is None:
            refused |= dict.fromkeys(_indices(rows), Reason.NULL_TOPIC)
            continue
        if (most := limit(topic)) is not None:
            large = pc.greater(columns.sizes(), most)
            refused |= dict.fromkeys(_both(rows, large), Reason.TOO_LARGE)
        if compacted(topic):
            refused |= dict.fromkeys(_both(rows, columns.no_key()), Reason.NULL_KEY)
    return refused


def _both(rows: Any, mask: Any) -> list[int]:
    return _indices(mask if rows is None else pc.and_(rows, mask))


def _indices(mask: Any) -> list[int]:
    if not pc.any(mask).as_py():
        return []
    found: list[int] = pc.indices_nonzero(mask).to_pylist()
    return found
