"""Lag, measured and judged without a broker."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from kafka import TopicPartition as TheirPartition

from kafkaguard._cluster.lag import (
    GroupLag,
    LagReason,
    LagReport,
    LagState,
    PartitionLag,
    TimeReason,
    group_state,
    measure,
    partition_states,
    time_facts,
)
from kafkaguard._cluster.reports import (
    TopicPartition,
    as_partition,
    make,
    raise_gravest,
)
from kafkaguard.errors import (
    GroupAuthorizationFailedError,
    MessageTooLargeError,
    NotCoordinatorError,
)

PLACE = TopicPartition("t", 0)
offsets = st.integers(0, 2**63 - 1)


@given(offsets, offsets)
def test_lag_is_never_negative_and_never_a_marker(committed, end):
    """It is the distance, or there is a reason."""
    found = measure(PLACE, committed, end)
    if committed <= end:
        assert end - committed == found.lag
        assert found.reason is None
    else:
        assert (found.lag, found.reason) == (None, LagReason.COMMITTED_BEYOND_END)


@pytest.mark.parametrize(
    ("assume", "lag"), [(None, None), ("earliest", 40), ("latest", 0)]
)
def test_no_commit_is_none_unless_a_beginning_is_assumed(assume, lag):
    """From the log start, not from 0."""
    found = measure(PLACE, None, 100, assume=assume, log_start=60)
    assert (lag, LagReason.NO_COMMIT) == (found.lag, found.reason)


def test_beyond_the_last_stable_offset_is_not_beyond_the_end():
    """A reader of everything, measured as one of committed records only."""
    found = measure(PLACE, 15, 10, high_watermark=20)
    assert (found.lag, found.reason) == (0, None)
    assert measure(PLACE, 15, 10).reason == LagReason.COMMITTED_BEYOND_END


def test_lost_and_blocked():
    """What retention took, and what open transactions hold back."""
    found = measure(PLACE, 5, 20, log_start=8, high_watermark=35, last_stable=20)
    assert (found.lost, found.blocked, found.lag) == (3, 15, 12)
    bare = measure(PLACE, 5, 20)
    assert bare.lost is None
    assert bare.blocked is None


def test_total_counts_what_is_known():
    """Partitions without a commit stand beside the total, not in it."""
    group = GroupLag(
        "g",
        partitions={
            PLACE: measure(PLACE, 8, 10),
            TopicPartition("t", 1): measure(TopicPartition("t", 1), None, 100),
        },
    )
    assert (group.total, group.unknown) == (2, 1)


def test_a_lag_of_one_may_be_a_marker():
    """Three ways to know better: tolerance, the column time, a live position."""
    one = measure(PLACE, 1, 2)
    assert "transaction marker" in one.notes[0]
    assert not one.is_caught_up()
    assert one.is_caught_up(tolerance=1)
    sure = measure(PLACE, 1, 3, has_record=False)
    assert "no record is left" in sure.notes[0]
    assert sure.is_caught_up()
    group = GroupLag("g", partitions={PLACE: one})
    assert measure(PLACE, 1, 2, has_record=True).notes == ()
    assert group.with_positions({TheirPartition("t", 0): 2}).is_caught_up()
    assert group.with_positions({("u", 0): 2}) == group


@pytest.mark.parametrize("position", [None, -1, -1001])
def test_position_that_is_not_known_yet_leaves_the_commit(position):
    """Clients say so with None, or with a negative number."""
    group = GroupLag("g", partitions={PLACE: measure(PLACE, 1, 9)})
    assert group == group.with_positions({PLACE: position})
    with pytest.raises(TypeError, match="a position takes a whole number"):
        group.with_positions({PLACE: "1"})


def test_time_of_the_commit_is_not_that_of_a_position():
    """What was found at the committed offset says nothing about another one."""
    found = measure(PLACE, 1, 9, next_timestamp=5.0, time_lag=4.0, has_record=True)
    group = GroupLag("g", partitions={PLACE: found}).with_positions({PLACE: 7})
    (moved,) = group.partitions.values()
    assert (
        moved.lag,
        moved.time_lag,
        moved.next_timestamp,
        moved.has_record,
    ) == (2, None, None, None)


@given(offsets, offsets, offsets)
def test_offsets_that_are_gone_are_lost_and_no_lag(committed, start, more):
    """Lag and loss together are the distance from the commit to the end."""
    end = start + more
    found = measure(PLACE, min(committed, end), end, log_start=start)
    assert max(0, start - committed) == found.lost
    assert end - min(committed, end) == found.lag + found.lost
    assert found.lag <= more


@pytest.mark.parametrize(
    ("written", "time_lag", "reason"),
    [
        (90.0, 10.0, None),
        (100.5, 0.0, None),  # clocks differ
        (160.0, None, TimeReason.FUTURE),
        (None, None, TimeReason.NO_TIMESTAMP),
    ],
)
def test_time_in_the_future_and_no_time_are_no_zero(written, time_lag, reason):
    """There is a record all the same, so the group is behind."""
    facts = time_facts(written, 100.0, is_of_batch=False)
    found = measure(PLACE, 0, 1000, **facts)
    assert (time_lag, reason) == (found.time_lag, found.time_reason)
    assert not found.is_caught_up()
    assert not any("no record" in note for note in found.notes)
    group = GroupLag("g", "Stable", partitions={PLACE: found})
    assert group_state(group, group) == LagState.STALLED


def test_time_of_a_batch_is_marked_as_an_estimate():
    """There is a number, and a reason beside it."""
    facts = time_facts(90.0, 100.0, is_of_batch=True)
    assert (facts["time_lag"], facts["time_reason"]) == (10.0, TimeReason.BATCH)


def test_topic_that_the_group_has_left_is_told_and_not_counted():
    """It is no backlog of a group that reads other topics now."""
    other = TopicPartition("old", 0)
    left = measure(other, 5, 100, is_left=True)
    group = GroupLag("g", "Stable", partitions={PLACE: measure(PLACE, 3, 3)})
    both = GroupLag("g", "Stable", partitions={**group.partitions, other: left})
    assert (left.lag, left.reason) == (95, LagReason.LEFT)
    assert (both.total, both.unknown) == (0, 0)
    assert both.is_caught_up()
    assert group_state(both, both) == LagState.OK
    assert {PLACE: LagState.OK, other: LagState.LEFT} == partition_states(both, both)
    alone = GroupLag("g", "Stable", partitions={other: left})
    assert (alone.total, group_state(alone, alone)) == (None, LagState.LEFT)
    assert not alone.is_caught_up()


def test_marker_in_place_of_a_commit_is_noted():
    """Librdkafka's -1001 was committed: there is no offset, and it is told why."""
    found = measure(PLACE, None, 1030, marker=-1001)
    assert (found.lag, found.reason) == (None, LagReason.NO_COMMIT)
    assert "-1001" in found.notes[0]


def test_log_that_is_bare_holds_nobody_up():
    """All was deleted before the group committed anything: there is nothing to read."""
    bare = GroupLag("g", "Stable", partitions={PLACE: measure(PLACE, None, 9)})
    assert group_state(bare, bare) == LagState.STALLED
    known = measure(PLACE, None, 9, log_start=9)
    assert partition_states(None, GroupLag("g", partitions={PLACE: known})) == {
        PLACE: LagState.OK
    }


def test_compacted_topics_are_flagged():
    """`compacted` warns that offsets are not a number of records."""
    assert "compacted" in measure(PLACE, 0, 9, compacted=True).notes[0]
    assert measure(PLACE, 9, 9, compacted=True).notes == ()


def test_group_without_a_partition_has_a_reason_and_no_number():
    """One that there is not, one that committed nothing, one that may not be read."""
    unknown = GroupLag("g", "unknown")
    assert (unknown.total, unknown.reason) == (None, LagReason.NO_GROUP)
    assert group_state(None, unknown) == LagState.ERROR
    new = GroupLag("g", "Stable")
    assert (new.total, new.reason) == (None, LagReason.NO_COMMIT)
    denied = GroupLag("g", error=GroupAuthorizationFailedError())
    assert (denied.total, denied.reason) == (None, None)
    assert not any(group.is_caught_up() for group in (unknown, new, denied))


def test_total_is_none_where_no_partition_has_a_lag():
    """The total is 0 if one partition has a lag of 0."""
    gone = PartitionLag("t", 0, reason=LagReason.GONE)
    assert GroupLag("g", partitions={PLACE: gone}).total is None
    assert GroupLag("g", partitions={PLACE: measure(PLACE, 3, 3)}).total == 0


@given(
    st.none() | st.integers(0, 50),
    st.integers(0, 50),
    st.none() | st.integers(0, 50),
    st.none() | st.integers(0, 50),
    st.sampled_from([None, "earliest", "latest"]),
)
def test_a_lag_is_never_negative_whatever_is_known(
    committed, end, high_watermark, log_start, assume
):
    """A lag that is missing or assumed has its reason."""
    known = {"high_watermark": high_watermark, "log_start": log_start}
    found = measure(PLACE, committed, end, assume=assume, **known)
    assert found.lag is None or found.lag >= 0
    assert (committed, end) == (found.committed, found.end)
    if committed is None:
        assert LagReason.NO_COMMIT is found.reason
        assert (found.lag is None) == (
            assume is None or (assume == "earliest" and log_start is None)
        )
    else:
        beyond = committed > (high_watermark or end)
        assert (LagReason.COMMITTED_BEYOND_END if beyond else None) is found.reason
        assert beyond == (found.lag is None)


def test_what_is_ahead_or_below_is_no_negative_number():
    """Positions beyond the end, a commit above the log start, an end below it."""
    assert measure(PLACE, None, 10, assume="earliest", log_start=15).lag == 0
    assert measure(PLACE, 8, 20, log_start=8).lost == 0
    assert measure(PLACE, 9, 20, log_start=8).lost == 0
    assert measure(PLACE, None, 20, log_start=8).lost is None
    group = GroupLag("g", partitions={PLACE: measure(PLACE, 3, 10)})
    for position, lag in ((4, 6), (10, 0), (12, 0)):
        assert group.with_positions({PLACE: position}).partitions[PLACE].lag == lag
    one = measure(PLACE, 3, 10, high_watermark=10)
    assert one.blocked is None
    assert PartitionLag("t", 0, last_stable=3).blocked is None


def test_notes_say_what_the_number_does_not():
    """Each in its case, in this order."""
    marker, left, gaps = (
        "may be a transaction marker (control record)",
        "no record is left: these offsets are transaction markers, or aborted",
        "compacted topic: fewer records than offsets",
    )
    for committed, end, known, notes in (
        (9, 10, {}, (marker,)),
        (8, 10, {}, ()),
        (10, 10, {"has_record": False}, ()),
        (9, 10, {"has_record": False, "compacted": True}, (left, gaps)),
        (9, 10, {"has_record": True}, ()),
        (8, 10, {"has_record": True, "compacted": True}, (gaps,)),
        (8, 10, {"compacted": False}, ()),
    ):
        assert measure(PLACE, committed, end, **known).notes == notes


def test_caught_up_means_nothing_left_to_read():
    """By the offsets, within the tolerance, or since no record is left."""
    assert measure(PLACE, 10, 10).is_caught_up()
    assert not measure(PLACE, 7, 10).is_caught_up(tolerance=2)
    assert measure(PLACE, 7, 10).is_caught_up(tolerance=3)
    assert not measure(PLACE, 7, 10, time_lag=0.0, has_record=True).is_caught_up()
    assert measure(PLACE, 7, 10, has_record=False).is_caught_up()
    assert not measure(PLACE, None, 10).is_caught_up(tolerance=10)
    behind = GroupLag("g", partitions={PLACE: measure(PLACE, 7, 10)})
    assert behind.is_caught_up(tolerance=3)
    assert not behind.is_caught_up(tolerance=2)
    done, not_done = measure(PLACE, 9, 9), measure(PLACE, 8, 9)
    both = {PLACE: done, TopicPartition("t", 1): not_done}
    assert not GroupLag("g", partitions=both).is_caught_up()


LOOKS = (
    # committed then and now, end then and now, state of the group
    ((5, 9), (10, 10), "Stable", LagState.OK),
    ((5, 10), (10, 10), "Empty", LagState.OK),
    ((5, 9), (10, 20), "Stable", LagState.LAGGING),
    ((5, 5), (10, 10), "Stable", LagState.STALLED),
    ((5, 5), (10, 10), None, LagState.STALLED),
    ((5, 5), (10, 12), "Empty", LagState.STOPPED),
    ((None, None), (10, 10), "unknown", LagState.STOPPED),
    ((None, None), (0, 0), "Stable", LagState.OK),
    ((None, 3), (10, 10), "Stable", LagState.LAGGING),
    ((5, 11), (10, 10), "Stable", LagState.ERROR),
    # It reads as fast as the log grows: behind, but steady.
    ((5, 15), (10, 20), "Stable", LagState.OK),
    ((5, 14), (10, 20), "Stable", LagState.LAGGING),
    ((5, 16), (10, 20), "Stable", LagState.OK),
    # Members that are away have moved it before they went.
    ((5, 9), (10, 12), "Empty", LagState.OK),
    ((5, 6), (10, 20), "Empty", LagState.LAGGING),
    ((5, 5), (10, 10), "Dead", LagState.STOPPED),
    ((None, None), (10, 10), "Stable", LagState.STALLED),
    ((9, 9), (10, 10), "Stable", LagState.STALLED),
)


@pytest.mark.parametrize(("committed", "end", "state", "expected"), LOOKS)
def test_states_from_two_looks(committed, end, state, expected):
    """What moved, what is left, and whether anybody is there to read it."""
    earlier, now = (
        GroupLag("g", state, partitions={PLACE: measure(PLACE, c, e)})
        for c, e in zip(committed, end, strict=True)
    )
    reports = [LagReport({"g": each}, taken_at=0.0) for each in (earlier, now)]
    assert {"g": expected} == reports[1].states(reports[0])


def test_gravest_partition_decides_and_the_first_look_can_only_suspect():
    """A group that is seen for the first time has moved nowhere."""
    done, behind = measure(PLACE, 3, 3), measure(TopicPartition("t", 1), 1, 3)
    group = GroupLag("g", "Stable", partitions={PLACE: done, ("t", 1): behind})
    assert group_state(None, group) == LagState.STALLED
    assert group_state(None, GroupLag("g")) == LagState.OK
    denied = GroupLag("g", error=GroupAuthorizationFailedError())
    assert group_state(group, denied) == LagState.ERROR


def test_severity_is_the_order_of_the_states():
    """OK, LAGGING, STALLED, STOPPED, ERROR: the last one of the partitions counts."""
    now = {
        LagState.OK: measure(PLACE, 9, 9),
        LagState.LAGGING: measure(PLACE, 6, 20),
        LagState.STALLED: measure(PLACE, 5, 20),
        LagState.ERROR: PartitionLag("t", 0, reason=LagReason.GONE),
    }
    before = measure(PLACE, 5, 10)
    states = list(now)
    for rank, state in enumerate(states):
        places = [TopicPartition("t", number) for number in range(rank + 1)]
        group = GroupLag(
            "g", "Stable", partitions=dict(zip(places, now.values(), strict=False))
        )
        earlier = GroupLag("g", "Stable", partitions=dict.fromkeys(places, before))
        assert state is group_state(earlier, group)


@pytest.mark.parametrize(
    "reason", [LagReason.GONE, LagReason.NO_LEADER, LagReason.ERROR]
)
def test_no_telling_is_a_state_of_its_own(reason):
    """A partition that cannot be measured is not taken for one that is done."""
    group = GroupLag("g", partitions={PLACE: PartitionLag("t", 0, 5, reason=reason)})
    assert group_state(group, group) == LagState.ERROR
    assert not group.is_caught_up()
    assert group.with_positions({PLACE: 3}) == group


def test_errors_of_brokers_groups_and_partitions_are_collected():
    """One place to look, and one call that raises."""
    broken = PartitionLag("t", 0, reason=LagReason.ERROR, error=NotCoordinatorError())
    report = LagReport(
        {"g": GroupLag("g", partitions={PLACE: broken}), "h": GroupLag("h")},
        taken_at=0.0,
        broker_errors={1: GroupAuthorizationFailedError("broker 1")},
    )
    assert len(report.errors) == 2
    assert not report.complete
    with pytest.raises(GroupAuthorizationFailedError) as caught:
        report.raise_for_errors()
    (note,) = caught.value.__notes__
    assert note.startswith("besides: NOT_COORDINATOR")
    LagReport({}, 0.0).raise_for_errors()
    assert LagReport({}, 0.0).complete


def test_the_gravest_error_has_the_others_as_notes_the_graver_first():
    """By the order of the actions, and each text once."""
    passing, denied = NotCoordinatorError("x"), GroupAuthorizationFailedError("y")
    rejected = MessageTooLargeError("z", api="Produce")
    for _ in range(2):
        with pytest.raises(GroupAuthorizationFailedError) as caught:
            raise_gravest([denied, passing, rejected])
        assert caught.value.__notes__ == [f"besides: {rejected}", f"besides: {passing}"]


def test_errors_are_made_of_a_code_or_a_class():
    """The error of an item has the place where it happened."""
    for said in (16, NotCoordinatorError):
        error = make(said, "moved", api="OffsetFetch", broker=3)
        assert type(error) is NotCoordinatorError
        assert (error.summary, error.api, error.broker) == ("moved", "OffsetFetch", 3)


def test_partitions_of_any_client_are_understood():
    """A pair, a named tuple, or an object with the two attributes."""

    class Confluent:
        topic, partition, offset = "t", 0, -1001

    for each in (("t", 0), TheirPartition("t", 0), Confluent(), PLACE):
        assert as_partition(each) == PLACE
    assert str(PLACE) == "t-0"
    for wrong in ("t-0", ("t",), ("t", "0"), (0, "t"), ("t", True), None):
        with pytest.raises(
            TypeError, match=r"a partition takes a pair \(topic, number"
        ):
            as_partition(wrong)
    assert {TheirPartition("t", 0): 1} == {PLACE: 1}
