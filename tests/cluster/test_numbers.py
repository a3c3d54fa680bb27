"""Numbers of brokers and clients: what is known, what is a marker, what is left."""

from __future__ import annotations

import pytest

from kafkaguard._cluster.lag import (
    LagReason,
    LagState,
    PartitionLag,
    measure,
    partition_state,
)
from kafkaguard._cluster.reports import (
    TopicPartition,
    as_partition,
    read_number,
    read_position,
    read_time,
)

PLACE = TopicPartition("t", 0)


@pytest.mark.parametrize(
    ("told", "meant"), [(7, 7), (0, 0), (-1, None), (-1001, None), (None, None)]
)
def test_a_negative_number_is_none(told, meant):
    """0 is a number like any other; times are seconds from here on."""
    assert read_number(told) == meant
    assert read_position(told) == meant
    assert read_time(told) == (None if meant is None else meant / 1000)


@pytest.mark.parametrize(
    ("at", "end", "lag"),
    [
        (3, 10, 7),
        (10, 10, 0),
        (12, 10, 0),
        (0, 10, 10),
        (None, 10, None),
        (3, None, None),
    ],
)
def test_a_position_has_a_lag_of_its_own(at, end, lag):
    """Never negative; not known where one of the two is not."""
    assert PartitionLag("t", 0, 1, end, position=at).position_lag == lag


@pytest.mark.parametrize(
    ("before", "now", "state"),
    [
        ((5, 5), (6, 7), LagState.LAGGING),  # from nothing to one offset
        ((5, 7), (6, 8), LagState.OK),  # steady
        ((5, 9), (8, 10), LagState.OK),
        ((5, 9), (5, 9), LagState.STALLED),
        ((5, 7), (6, 9), LagState.LAGGING),
        ((5, 7), (9, 9), LagState.OK),
        ((5, 7), (12, 9), LagState.ERROR),  # beyond the end
    ],
)
def test_what_two_looks_say(before, now, state):
    """Whether it moved, and whether the lag grew."""
    earlier, later = (measure(PLACE, *look) for look in (before, now))
    assert partition_state(earlier, later, is_empty=False) is state


def test_a_reader_without_a_commit_reads_from_the_first_offset():
    """A committed offset of 0 is a number, not a missing one."""
    found = measure(PLACE, None, 9, assume="earliest", log_start=0)
    assert (found.lag, found.reason) == (9, LagReason.NO_COMMIT)


def test_a_longer_tuple_is_a_partition_by_its_first_two():
    """A tuple of topic, partition and offset is accepted as a partition."""
    assert as_partition(("t", 1, 5)) == ("t", 1)
