"""A topic counted against the reports of the stream that wrote it."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence


class Count(NamedTuple):
    """What a topic holds, and what the reports say.

    Attributes:
        lost: Records that are not in the topic.
        twice: Records that are in it more often than once, each time but the first.
        told: How many of these the reports tell at most.
        unknown: Of how many micro-batches the reports say that they do not know.
    """

    lost: int
    twice: int
    told: int
    unknown: int

    @property
    def is_true(self) -> bool:
        """Whether nothing was lost, and no more is there twice than was told."""
        return not self.lost and (self.unknown > 0 or self.twice <= self.told)


def last_of_each(lines: Iterable[Mapping[str, object]]) -> list[Mapping[str, object]]:
    """Keep the last report of each batch: it counts from the batch's first try."""
    return list({line["batch_id"]: line for line in lines}.values())


def count(
    expected: Iterable[str], found: Iterable[str], told: Sequence[int | None]
) -> Count:
    """Count a topic.

    Args:
        expected: All values that must be there.
        found: The values that are there.
        told: ``maybe_twice`` of each batch.
    """
    times = Counter(found)
    lost = sum(value not in times for value in expected)
    known = [number for number in told if number is not None]
    twice = times.total() - len(times)
    return Count(lost, twice, sum(known), len(told) - len(known))
