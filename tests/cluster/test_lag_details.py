"""Lag, where a small mistake would not show: edges, notes, times."""

from __future__ import annotations

import pytest

from kafkaguard._cluster.lag import (
    GroupLag,
    LagReason,
    LagState,
    PartitionLag,
    TimeReason,
    group_state,
    measure,
    partition_state,
    time_facts,
)
from kafkaguard._cluster.reports import TopicPartition
from kafkaguard.errors import GroupAuthorizationFailedError, NotCoordinatorError

PLACE = TopicPartition("t", 0)


@pytest.mark.parametrize(
    ("high_watermark", "last_stable", "blocked"),
    [(20, 20, 0), (20, 12, 8), (12, 20, 0), (None, 20, None), (20, None, None)],
)
def test_what_open_transactions_hold_back(high_watermark, last_stable, blocked):
    """The number of blocked offsets is never negative."""
    found = PartitionLag("t", 0, high_watermark=high_watermark, last_stable=last_stable)
    assert blocked == found.blocked


def test_notes_tell_what_is_gone_and_why_there_is_no_time():
    """Both are about the number beside them."""
    gone = measure(PLACE, 5, 20, log_start=8)
    assert gone.notes == ("3 offsets are gone unread (retention, deletion)",)
    late = measure(PLACE, 5, 20, time_reason=TimeReason.NO_TIMESTAMP)
    assert late.notes == (f"time of the next record: {TimeReason.NO_TIMESTAMP}",)
    marked = measure(PLACE, None, 20, marker=-1001)
    assert marked.notes == ("-1001 was committed: a marker, not an offset",)


def test_errors_of_the_group_come_before_those_of_its_partitions():
    """A partition without an error adds none."""
    denied, moved = GroupAuthorizationFailedError(), NotCoordinatorError()
    places = {
        PLACE: PartitionLag("t", 0, error=moved),
        TopicPartition("t", 1): measure(TopicPartition("t", 1), 1, 1),
    }
    assert GroupLag("g", error=denied, partitions=places).errors == [denied, moved]


def test_a_position_replaces_all_that_was_said_of_the_commit():
    """Its reason and times go; at the end there is no record, before it who knows."""
    known = {"time_reason": TimeReason.BATCH, "time_lag": 4.0, "next_timestamp": 1.0}
    one = measure(PLACE, None, 10, **known)
    group = GroupLag("g", partitions={PLACE: one})
    at_end = group.with_positions({PLACE: 10}).partitions[PLACE]
    before = group.with_positions({PLACE: 9}).partitions[PLACE]
    for moved, lag, has_record in ((at_end, 0, False), (before, 1, None)):
        assert (lag, has_record) == (moved.lag, moved.has_record)
        assert (moved.reason, moved.time_reason, moved.time_lag) == (None, None, None)
        assert moved.next_timestamp is None
    assert group.with_positions({PLACE: None}) == group


def test_a_log_without_offsets_is_no_lag():
    """Empty from the beginning, or emptied; an end that is not known is neither."""
    new = measure(PLACE, None, 0)
    emptied = measure(PLACE, None, 30, log_start=30)
    filled = measure(PLACE, None, 30, log_start=29)
    unknown = PartitionLag("t", 0, committed=3)
    states = [
        partition_state(None, each, is_empty=False)
        for each in (new, emptied, filled, unknown)
    ]
    assert states == [LagState.OK, LagState.OK, LagState.STALLED, LagState.STALLED]


@pytest.mark.parametrize(
    ("before", "now", "state"),
    [
        ((5, 7), (6, 8), LagState.OK),
        ((5, 7), (6, 9), LagState.LAGGING),
        ((7, 7), (8, 9), LagState.LAGGING),
        ((None, 7), (6, 7), LagState.LAGGING),
        ((5, 6), (6, 7), LagState.OK),
    ],
)
def test_behind_and_moving_is_lagging_where_the_lag_grew(before, now, state):
    """From nothing known, or from nothing left, any lag has grown."""
    earlier, later = (measure(PLACE, *each) for each in (before, now))
    assert state is partition_state(earlier, later, is_empty=False)


def test_what_a_group_has_left_is_a_state_of_its_own():
    """Topics that the members no longer read have the state LEFT."""
    left = measure(PLACE, 3, 9, is_left=True)
    assert (left.lag, left.reason) == (6, LagReason.LEFT)
    group = GroupLag("g", "Stable", partitions={PLACE: left})
    assert group_state(None, group) is LagState.LEFT


def test_a_reader_that_begins_at_the_latest_has_no_lag():
    """One that begins at the earliest has all that is there."""
    found = {
        assume: measure(PLACE, None, 30, assume=assume, log_start=12).lag
        for assume in ("latest", "earliest", None)
    }
    assert found == {"latest": 0, "earliest": 18, None: None}


def test_how_old_the_next_record_is():
    """The table shows the age, or why it is unknown or only roughly known."""
    assert time_facts(90.0, 100.0, is_of_batch=False) == {
        "has_record": True,
        "next_timestamp": 90.0,
        "time_lag": 10.0,
        "time_reason": None,
    }
    assert time_facts(90.0, 100.0, is_of_batch=True)["time_reason"] is TimeReason.BATCH
    assert time_facts(None, 100.0, is_of_batch=True) == {
        "has_record": True,
        "next_timestamp": None,
        "time_reason": TimeReason.NO_TIMESTAMP,
    }
    ahead = time_facts(101.0, 100.0, is_of_batch=False)
    assert (ahead["time_lag"], ahead["time_reason"]) == (0.0, None)
    future = time_facts(100_000.0, 100.0, is_of_batch=False)
    assert future == {
        "has_record": True,
        "next_timestamp": 100_000.0,
        "time_reason": TimeReason.FUTURE,
    }


def test_a_time_in_seconds_instead_of_milliseconds_is_no_lag_of_57_years():
    """A producer gave time.time() as the timestamp: the record seems to be of 1970."""
    now = 1_790_000_000.0
    facts = time_facts(1_789_999.0, now, is_of_batch=False)
    assert facts == {
        "has_record": True,
        "next_timestamp": 1_789_999.0,
        "time_reason": TimeReason.SECONDS,
    }
    for old in (0.0, 900_000.0, 1_800_000.0):  # before 2000, or after now, if seconds
        assert time_facts(old, now, is_of_batch=False)["time_lag"] == now - old


def test_reasons_are_words_that_people_read():
    """Tables and labels of gauges show them."""
    words = {
        "no group",
        "no commit",
        "no leader",
        "gone",
        "committed beyond end",
        "left",
        "error",
    }
    assert words <= set(LagReason)
