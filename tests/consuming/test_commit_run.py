"""One commit: refused partitions are tried again alone, in time, while they are owned."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafkaguard import RetryPolicy
from kafkaguard._cluster.reports import TopicPartition, make
from kafkaguard._consuming.commits import FLOOR_S, Again, CommitRun, OneForAll

A, B = TopicPartition("t", 0), TopicPartition("gone", 0)


def run(places=(A, B), until=5.0):
    """A commit that draws one half."""
    return CommitRun(RetryPolicy(), lambda: 0.5, places, until, client="test")


def refusals(**codes):
    """Errors by partition: ``A=3``."""
    places = {"A": A, "B": B}
    return {
        places[name]: make(
            code, api="OffsetCommit", topic=places[name].topic, partition=0
        )
        for name, code in codes.items()
    }


def test_only_the_refused_partition_is_tried_again_until_the_deadline():
    """Another partition of the same commit is committed at the first try."""
    one = run(until=3.0)
    now, tries = 0.0, 0
    while (again := one.answered(refusals(B=3), None, now)) is not None:
        assert {B} == again.places
        now += again.wait
        tries += 1
        assert now < 3.0
    assert tries > 2
    assert {place: error.code for place, error in one.errors.items()} == {B: 3}


@pytest.mark.parametrize("code", [22, 25, 27, 82])
def test_a_group_that_has_moved_on_is_never_asked_again(code):
    """The same commit is not repeated: poll first."""
    assert run().answered(refusals(A=code, B=code), None, 0.0) is None


def test_a_partition_that_was_taken_away_is_not_committed_again():
    """Only what is still owned is tried again; the other's error stays."""
    one = run()
    assert Again(frozenset({A}), FLOOR_S) == one.answered(
        refusals(A=14, B=14), {A}, 0.0
    )
    assert one.answered({}, {A}, 0.2) is None
    assert {B} == set(one.errors)


def test_a_refusal_for_good_does_not_hide_the_others():
    """One is denied, the other is tried again, and both are in the outcome."""
    one = run()
    assert {B} == one.answered(refusals(A=29, B=16), None, 0.0).places
    assert one.answered({}, None, 0.2) is None
    assert {place: error.code for place, error in one.errors.items()} == {A: 29}


def test_one_error_for_a_whole_commit_is_looked_into():
    """confluent-kafka does not say which partition it is of: each is asked alone."""
    one = run()
    again = one.answered(OneForAll(refusals(A=3, B=3)), None, 0.0)
    assert Again(frozenset({A, B}), 0.0, is_alone=True) == again
    assert {B} == one.answered(refusals(B=3), None, 0.0).places
    assert {B} == set(one.errors)


def test_one_error_that_is_about_the_group_is_about_all():
    """An error about the group ends the commit for all partitions, without a retry."""
    one = run()
    assert one.answered(OneForAll(refusals(A=22, B=22)), None, 0.0) is None
    assert {A, B} == set(one.errors)


@given(
    st.lists(
        st.dictionaries(st.sampled_from(["A", "B"]), st.sampled_from([3, 14, 22, 29])),
        max_size=20,
    ),
    st.floats(0.0, 10.0),
)
def test_it_always_ends_in_time_and_the_outcome_is_the_last_answer(answers, until):
    """Whatever is answered, no wait goes beyond the deadline."""
    one, now, latest = run(until=until), 0.0, {A: None, B: None}
    asked = {A, B}
    for answer in answers:
        errors = {p: e for p, e in refusals(**answer).items() if p in asked}
        latest.update({place: errors.get(place) for place in asked})
        again = one.answered(errors, None, now)
        if again is None:
            break
        assert again.places <= asked
        assert again.wait >= FLOOR_S
        now += again.wait
        assert now < until
        asked = again.places
    assert {p: e for p, e in latest.items() if e is not None} == one.errors
