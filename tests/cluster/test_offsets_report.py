"""Offsets of partitions: a value or an error for each."""

from __future__ import annotations

import pytest

from kafkaguard._cluster.offsets import (
    ISOLATION_LEVELS,
    OffsetsReport,
    PartitionOffset,
    lowest_version,
)
from kafkaguard._cluster.reports import TopicPartition
from kafkaguard.errors import NotLeaderOrFollowerError


def test_values_and_errors_stand_side_by_side():
    """An offset of 0 is one; a time that no record has is neither value nor error."""
    known, late, moved = (TopicPartition("t", number) for number in range(3))
    error = NotLeaderOrFollowerError()
    report = OffsetsReport(
        {
            known: PartitionOffset(0),
            late: PartitionOffset(),
            moved: PartitionOffset(error=error),
        }
    )
    assert report.offsets == {known: 0}
    assert report.errors == [error]
    assert not report.complete
    with pytest.raises(NotLeaderOrFollowerError):
        report.raise_for_errors()
    whole = OffsetsReport({known: PartitionOffset(0)})
    assert whole.complete
    whole.raise_for_errors()


def test_isolation_levels_are_kafkas_numbers():
    """read_uncommitted is 0 and read_committed is 1, as on the wire."""
    assert ISOLATION_LEVELS == {"read_uncommitted": 0, "read_committed": 1}


def test_an_offset_is_of_all_segments_unless_said():
    """`is_local_only` is False by default, and None is not the same."""
    assert PartitionOffset(1).is_local_only is False


@pytest.mark.parametrize(
    ("times", "isolation", "version"),
    [
        ((), 0, 1),
        ((), 1, 2),
        ((-1, -2), 0, 1),
        ((1_700_000_000_000,), 0, 1),
        ((1_700_000_000_000,), 1, 2),
        ((-3,), 0, 7),
        ((-3, -1), 1, 7),
        ((-4,), 0, 8),
        ((-5, -4), 0, 9),
        ((-6,), 1, 11),
    ],
)
def test_the_lowest_version_that_understands_a_question(times, isolation, version):
    """The latest of all that is asked for: KIP-98, 734, 405, 1005, 1023."""
    assert version == lowest_version(times, isolation)
