"""Offsets of partitions: a value or an error for each."""

from __future__ import annotations

import pytest

from kafkaguard._cluster.offsets import ISOLATION_LEVELS, OffsetsReport, PartitionOffset
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
    """As they go over the wire."""
    assert ISOLATION_LEVELS == {"read_uncommitted": 0, "read_committed": 1}


def test_an_offset_is_of_all_segments_unless_said():
    """Not known is something else."""
    assert PartitionOffset(1).is_local_only is False
