"""The machine of consumers: partitions wait alone, are told once, and always go on."""

from __future__ import annotations

import math

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from kafkaguard import Action, RetryPolicy, TopicFacts, errors
from kafkaguard._cluster.reports import TopicPartition, make
from kafkaguard._consuming import commands as c
from kafkaguard._consuming import events as ev
from kafkaguard._consuming.machine import FLOOR_S, ConsumerMachine, ReadRefusal
from kafkaguard._consuming.standing import LONGEST_INTERVAL_S, PATIENCE_S, Reader

P = [TopicPartition("t", 0), TopicPartition("t", 1), TopicPartition("u", 0)]
CAP = 5.0


def machine(*, shows_answers=True, reset=None, **policy):
    """A machine that always draws one half."""
    return ConsumerMachine(
        RetryPolicy(**policy),
        make,
        lambda: 0.5,
        client="test",
        shows_answers=shows_answers,
        reset=reset,
    )


def told(commands):
    """List the events among commands."""
    return [each.event for each in commands if isinstance(each, c.Tell)]


def raised(commands):
    """List the errors among commands."""
    return [each.error for each in commands if isinstance(each, c.Raise)]


def test_a_refused_partition_waits_with_growing_gaps_and_is_told_once():
    """Each refusal holds it for longer; one event at the start, one at the end."""
    one = machine()
    now, gaps, events = 0.0, [], []
    for _ in range(4):
        commands = one.refused(P[0], ReadRefusal(6, position=7), now)
        assert c.Hold(P[0]) in commands
        events += told(commands)
        gaps.append(one.next_due - now)
        now = one.next_due
        assert [c.Free(P[0])] == one.tick(now)
    assert pytest.approx(gaps) == [FLOOR_S, FLOOR_S, 0.2, 0.4]
    events += told(one.answered(P[0], 8, now))
    waits, resumes = events
    assert (
        waits.topic,
        waits.partition,
        waits.position,
        waits.action,
    ) == ("t", 0, 7, Action.REFRESH)
    assert isinstance(waits.error, errors.NotLeaderOrFollowerError)
    assert (8, 4, now) == (resumes.position, resumes.tries, resumes.waited)
    assert math.inf == one.next_due
    assert one.waiting() == {}


def test_a_read_that_succeeds_costs_nothing():
    """Where nothing waits there are no commands."""
    assert machine().answered(P[0], 1, 0.0) == []


@pytest.mark.parametrize("code", [9, -1])
def test_a_tiered_topic_is_told_apart_before_anything_is_said(code):
    """KIP-1007: 9 and -1 mean remote storage where the topic is tiered."""
    one = machine(max_attempts=1)
    first = one.refused(P[0], ReadRefusal(code, position=3), 0.0)
    assert [c.Hold(P[0]), c.AskFacts("t")] == first
    assert [c.Hold(P[1])] == one.refused(P[1], ReadRefusal(code), 0.0)  # asked once
    commands = one.facts_found("t", TopicFacts(tiered=True))
    assert [P[0], P[1]] == [(each.topic, each.partition) for each in told(commands)]
    for event in told(commands):
        assert isinstance(event.error, errors.RemoteStorageNotReadyError)
        assert event.action == Action.RETRY
    assert raised(commands) == []


def test_a_failed_broker_is_tried_as_often_as_the_policy_says():
    """-1 on a topic that is not tiered is raised in the end, and never spins."""
    one = machine(max_attempts=3)
    one.refused(P[0], ReadRefusal(-1), 0.0)
    assert [ev.PartitionWaitsEvent] == [
        type(e) for e in told(one.facts_found("t", TopicFacts(tiered=False)))
    ]
    now = one.next_due
    one.tick(now)
    assert [c.Hold(P[0])] == one.refused(P[0], ReadRefusal(-1), now)
    now = one.next_due
    one.tick(now)
    commands = one.refused(P[0], ReadRefusal(-1), now)
    (error,) = raised(commands)
    assert (error.code, error.topic, error.partition) == (-1, "t", 0)
    assert one.next_due > now


@pytest.mark.parametrize(("api", "asks"), [("Fetch", True), ("ListOffsets", False)])
def test_only_a_position_that_is_read_can_be_out_of_range(api, asks):
    """OFFSET_OUT_OF_RANGE of a look-up of offsets resets no position."""
    commands = machine().refused(P[0], ReadRefusal(1, api, position=7), 0.0)
    assert asks == (c.AskRange(P[0]) in commands)


def test_what_waiting_does_not_mend_is_raised_at_once():
    """A denied topic is an error of the next poll, with its place, and an event."""
    one = machine()
    commands = one.refused(P[0], ReadRefusal(29, position=0), 0.0)
    (error,) = raised(commands)
    assert (
        error.code,
        error.topic,
        error.partition,
        error.api,
    ) == (29, "t", 0, "Fetch")
    (event,) = told(commands)
    assert (event.raised, event.action) == (True, Action.CONFIGURE)
    assert c.Hold(P[0]) in commands


def test_a_position_within_the_log_is_read_again_and_not_reset():
    """The broker's word is compared with the log first."""
    one = machine()
    assert [c.Hold(P[0]), c.AskRange(P[0])] == one.refused(
        P[0], ReadRefusal(1, position=5), 0.0
    )
    (event,) = told(one.range_found(P[0], 0, 100, 0.1))
    assert (
        event.outcome,
        event.position,
        event.earliest,
        event.latest,
        event.lost,
    ) == ("kept", 5, 0, 100, 0)
    assert [c.Free(P[0])] == one.tick(one.next_due)


@pytest.mark.parametrize(
    ("position", "outcome", "lost"),
    [
        (59, "reset", 1),
        (60, "kept", 0),
        (100, "kept", 0),
        (101, "reset", 0),
        (None, "reset", None),
    ],
)
def test_both_ends_of_the_log_are_within_it(position, outcome, lost):
    """The end is where the next record will be; a position may not be known."""
    one = machine()
    one.refused(P[0], ReadRefusal(1, position=position), 0.0)
    (event,) = told(one.range_found(P[0], 60, 100, 0.1))
    assert (event.outcome, event.position, event.lost) == (outcome, position, lost)


def test_a_lost_position_is_the_clients_to_reset_with_a_count_of_what_is_lost():
    """Retention has taken 40 offsets: the event says so, and the client resets."""
    one = machine()
    one.refused(P[0], ReadRefusal(1, position=20), 0.0)
    commands = one.range_found(P[0], 60, 100, 0.1)
    (event,) = told(commands)
    assert (event.outcome, event.lost) == ("reset", 40)
    assert [c.LetReset(P[0]), c.Free(P[0])] == commands[1:]
    assert one.answered(P[0], 61, 0.2) == []
    assert one.waiting() == {}


@pytest.mark.parametrize(
    ("reset", "position", "outcome", "lost", "skipped"),
    [
        ("earliest", 20, "reset", 40, 0),
        ("latest", 20, "reset", 40, 40),
        ("none", 20, "raised", 40, 0),
        (None, 20, "reset", 40, None),
        ("earliest", 200, "reset", 0, 0),
        ("latest", 200, "reset", 0, 40),
        ("latest", None, "reset", None, None),
        ("latest", 70, "kept", 0, 0),
    ],
)
def test_what_a_reset_costs_is_counted_by_the_clients_own_setting(
    reset, position, outcome, lost, skipped
):
    """The log has 60 to 100; a setting that is not known leaves the count unknown."""
    one = machine(reset=reset)
    one.refused(P[0], ReadRefusal(1, position=position), 0.0)
    commands = one.range_found(P[0], 60, 100, 0.1)
    (event,) = told(commands)
    assert (event.outcome, event.lost, event.skipped) == (outcome, lost, skipped)
    assert event.is_beyond_end is (position == 200)
    assert (c.LetReset(P[0]) in commands) is (outcome != "kept")
    assert raised(commands) == []  # the client raises by itself


def test_a_sentence_says_what_a_reset_costs():
    """Also that the log is another one."""
    one = machine(reset="latest")
    one.refused(P[0], ReadRefusal(1, position=20), 0.0)
    (event,) = told(one.range_found(P[0], 60, 100, 0.1))
    assert event.sentence == (
        "t-0: position 20 is out of range, the log has 60 to 100; 40 offsets were "
        "removed before they were read; 40 that exist are skipped"
    )
    one.refused(P[1], ReadRefusal(1, position=100), 0.0)
    (event,) = told(one.range_found(P[1], 0, 5, 0.1))
    assert (
        "the topic was created again, or its log was truncated; 5 that"
        in event.sentence
    )


def test_a_lost_position_is_raised_where_the_policy_says_so():
    """`on_offset_reset: raise` leaves the position alone; each poll says it again."""
    one = machine(on_offset_reset="raise")
    for first in (True, False):
        one.refused(P[0], ReadRefusal(1, position=20), 0.0)
        commands = one.range_found(P[0], 60, 100, 0.1)
        (error,) = raised(commands)
        assert isinstance(error, errors.OffsetOutOfRangeError)
        assert "60 to 100" in str(error)
        assert first == bool(told(commands))
        one.tick(one.next_due)


def test_where_nobody_can_compare_the_client_resets_as_ever():
    """Without a connection of our own the guard is not in the way."""
    one = machine()
    one.refused(P[0], ReadRefusal(1, position=20), 0.0)
    error = errors.ClientConfigurationError("no settings")
    assert [c.LetReset(P[0]), c.Free(P[0])] == one.range_unknown(P[0], error, 0.1)


def test_a_look_up_that_fails_for_now_is_made_again():
    """The partition waits; nothing is reset on a guess."""
    one = machine()
    one.refused(P[0], ReadRefusal(1, position=20), 0.0)
    error = make(errors.LeaderNotAvailableError, api="ListOffsets", topic="t")
    (event,) = told(one.range_unknown(P[0], error, 0.1))
    assert isinstance(event, ev.PartitionWaitsEvent)
    assert [c.Free(P[0])] == one.tick(one.next_due)
    assert c.AskRange(P[0]) in one.refused(P[0], ReadRefusal(1, position=20), 1.0)


def test_a_reader_that_stands_still_is_probed_and_held_until_a_probe_succeeds():
    """For a client that swallows answers; readers at the end are left alone."""
    one = machine(shows_answers=False)
    readers = {P[0]: Reader(3, 10), P[1]: Reader(10, 10), P[2]: Reader(None)}
    assert one.check_progress(readers, 0.0) == []
    assert [c.Probe(P[0], 3), c.Probe(P[2], None)] == one.check_progress(
        readers, PATIENCE_S
    )
    assert one.check_progress(readers, PATIENCE_S + 0.1) == []  # one probe at a time
    assert one.probed(P[2], None, 1.1) == []
    commands = one.probed(P[0], ReadRefusal(6, position=3), 1.1)
    assert c.Hold(P[0]) in commands
    assert [c.Probe(P[0], 3)] == one.tick(one.next_due)
    again = one.probed(P[0], ReadRefusal(6, position=3), 1.5)
    assert ([], [c.Hold(P[0])]) == (told(again), again)
    one.tick(one.next_due)
    commands = one.probed(P[0], None, 2.0)
    assert [c.Free(P[0])] == commands[:1]
    assert [ev.PartitionResumesEvent] == [type(each) for each in told(commands)]


def test_what_a_probe_finds_denied_is_raised():
    """The client may have said so once, or may be waiting for its group."""
    one = machine(shows_answers=False)
    one.check_progress({P[0]: Reader(None)}, 0.0)
    (probe,) = one.check_progress({P[0]: Reader(None)}, PATIENCE_S)
    commands = one.probed(probe.place, ReadRefusal(29), 1.1)
    (error,) = raised(commands)
    assert (error.code, error.topic, error.partition) == (29, "t", 0)
    assert [each.raised for each in told(commands)] == [True]
    assert [c.Probe(P[0], None)] == one.tick(one.next_due)


def test_an_answer_to_a_probe_that_comes_after_a_rebalance_counts_for_nothing():
    """The partition is another member's by then."""
    one = machine(shows_answers=False)
    one.check_progress({P[0]: Reader(3, 10)}, 0.0)
    assert [c.Probe(P[0], 3)] == one.check_progress({P[0]: Reader(3, 10)}, PATIENCE_S)
    one.assigned([P[1]])
    assert one.probed(P[0], ReadRefusal(6, position=3), 1.1) == []
    assert one.waiting() == {}


def test_a_silent_client_goes_on_at_a_position_within_the_log():
    """A probe confirms it, and the end of the wait sets the position again."""
    one = machine(shows_answers=False)
    one.refused(P[0], ReadRefusal(1, position=5), 0.0)
    (event,) = told(one.range_found(P[0], 0, 100, 0.1))
    assert event.outcome == "kept"
    assert [c.Probe(P[0], 5)] == one.tick(one.next_due)
    assert [c.Free(P[0])] == one.probed(P[0], None, 1.0)[:1]
    assert one.waiting() == {}


def test_a_silent_client_is_left_alone_once_it_may_reset():
    """It shows no read that could end the wait."""
    one = machine(shows_answers=False)
    one.refused(P[0], ReadRefusal(1, position=20), 0.0)
    commands = one.range_found(P[0], 60, 100, 0.1)
    assert [c.LetReset(P[0]), c.Free(P[0])] == commands[1:]
    assert ({}, math.inf) == (one.waiting(), one.next_due)


def test_a_position_that_the_user_sets_ends_what_was_wrong_with_the_old_one():
    """`on_offset_reset: raise` says to seek; other waits go on."""
    one = machine(shows_answers=False, on_offset_reset="raise")
    one.refused(P[0], ReadRefusal(1, position=20), 0.0)
    one.refused(P[1], ReadRefusal(6, position=20), 0.0)
    one.range_found(P[0], 60, 100, 0.1)
    assert [c.Free(P[0])] == one.moved(P[0], 60, 0.2)[:1]
    assert one.moved(P[1], 60, 0.2) == []
    assert {P[1]} == set(one.waiting())


def test_only_a_probe_ends_what_a_probe_began():
    """The client shows nothing, so that a read succeeded would be a guess."""
    one = machine()
    one.check_progress({P[0]: Reader(3, 10)}, 0.0)
    assert [c.Probe(P[0], 3)] == one.check_progress({P[0]: Reader(3, 10)}, PATIENCE_S)
    one.probed(P[0], ReadRefusal(6, position=3), 1.0)
    assert one.answered(P[0], 4, 1.1) == []
    assert one.is_waiting(P[0])


def test_a_topics_settings_are_asked_for_anew_after_a_rebalance():
    """They may have changed while the partition was another's."""
    one = machine()
    one.refused(P[0], ReadRefusal(9), 0.0)
    one.facts_found("t", TopicFacts(tiered=True))
    one.assigned(set())
    assert c.AskFacts("t") in one.refused(P[0], ReadRefusal(9), 1.0)


def test_probes_without_a_result_become_rare():
    """A reader at the end of a log whose end nobody knows costs a probe in 30 s."""
    one = machine()
    now, asked = 0.0, []
    while now < 200:
        for _ in one.check_progress({P[0]: Reader(None)}, now):
            asked.append(now)
            one.probed(P[0], None, now)
        now += 0.5
    assert asked[-1] - asked[-2] == LONGEST_INTERVAL_S
    assert len(asked) < 12


def test_a_probe_that_does_not_reach_a_broker_holds_nothing():
    """Our own connection's trouble is not the client's."""
    one = machine()
    one.check_progress({P[0]: Reader(1, 2)}, 0.0)
    unreachable = ReadRefusal(None, error=errors.ClientConnectionError("away"))
    assert one.probed(P[0], unreachable, 1.0) == []
    assert one.waiting() == {}


@pytest.mark.parametrize("shows_answers", [True, False])
def test_a_hold_that_is_a_pause_of_the_client_is_left_to_the_user(shows_answers):
    """Where it is not, the partition is freed, and the user's pause stays."""
    one = machine(shows_answers=shows_answers)
    one.user_pauses([P[0]])
    one.refused(P[0], ReadRefusal(6, position=7), 0.0)
    freed = c.Free(P[0]) in [
        *one.tick(one.next_due),
        *one.probed(P[0], None, 9.0),
    ]
    assert shows_answers == freed


def test_the_users_own_pauses_are_never_touched():
    """A partition that the user paused is not freed, one that waits not resumed."""
    one = machine(shows_answers=False)
    one.refused(P[0], ReadRefusal(6), 0.0)
    one.user_pauses([P[0]])
    assert [c.Probe(P[0], None)] == one.tick(one.next_due)
    assert [ev.PartitionResumesEvent] == [
        type(each.event) for each in one.probed(P[0], None, 1.0)
    ]
    assert [P[0]] == one.user_resumes([P[0]])
    one.refused(P[0], ReadRefusal(6), 2.0)
    one.user_pauses([P[0], P[1]])
    assert [P[1]] == one.user_resumes([P[0], P[1]])
    one.tick(one.next_due)
    assert c.Free(P[0]) in one.probed(P[0], None, 3.0)


def test_a_rebalance_forgets_what_is_revoked_and_holds_what_still_waits():
    """Holds are set again, since a rebalance may have lifted them."""
    one = machine(shows_answers=False)
    one.refused(P[0], ReadRefusal(6), 0.0)
    one.refused(P[1], ReadRefusal(6), 0.0)
    assert [c.Free(P[0]), c.Hold(P[1])] == one.assigned({P[1], P[2]})
    assert {P[1]} == set(one.waiting())


@pytest.mark.parametrize(
    ("code", "is_told", "is_raised"),
    [(3, True, False), (-191, False, False), (29, True, True)],
    ids=["no such topic", "end of partition", "denied"],
)
def test_an_error_that_the_client_hands_over_is_raised_only_at_the_end(
    code, is_told, is_raised
):
    """It stays in the message, unless the client is of no use any more."""
    error = make(code, api="Fetch", topic="t", client="confluent-kafka")
    commands = machine().error_returned(P[0], error)
    assert is_told == bool(told(commands))
    assert ([error] if is_raised else []) == raised(commands)
    assert all(is_raised == event.raised for event in told(commands))


def test_a_topic_that_may_not_be_seen_is_raised_each_time_and_told_once():
    """There is no read of it that could be refused."""
    one = machine()
    first, again = one.denied({"t"}), one.denied({"t"})
    (event,) = told(first)
    assert (event.topic, event.partition, event.error.code) == ("t", -1, 29)
    assert told(again) == []
    assert [error.code for error in raised(first + again)] == [29, 29]
    assert one.denied(set()) == []
    assert len(told(one.denied({"t"}))) == 1


NEEDS_COMMIT = Reader(None, needs_commit=True)


def coordinator_error(code=16):
    """Make the error of a look-up of committed offsets."""
    return make(code, api="OffsetFetch")


class TestStartless:
    """librdkafka asks once where to begin; if that fails, it never asks again."""

    def test_it_is_told_to_look_up_again_after_each_wait(self):
        """The gaps grow; partitions that have begun are left alone."""
        one, now, gaps = machine(shows_answers=False), 0.0, []
        readers = {P[0]: NEEDS_COMMIT, P[1]: NEEDS_COMMIT, P[2]: Reader(4)}
        events = []
        for _ in range(4):
            events += told(one.starts_unknown(readers, coordinator_error(), now))
            assert one.tick(now) == []
            gaps.append(one.next_due - now)
            now = one.next_due
            assert one.begun(readers, now) == []
            assert [c.Restart(frozenset(P[:2]))] == one.tick(now)
        assert pytest.approx(gaps) == [FLOOR_S, FLOOR_S, 0.2, 0.4]
        assert [
            (each.partition, each.error.api, each.error.code) for each in events
        ] == [(0, "OffsetFetch", 16), (1, "OffsetFetch", 16)]
        assert set(P[:2]) == set(one.waiting())
        begun = {P[0]: Reader(7), P[1]: Reader(None, 9, needs_commit=True)}
        resumes = told(one.begun(begun, now))
        assert [(each.partition, each.position, each.tries) for each in resumes] == [
            (0, 7, 4),
            (1, None, 4),
        ]
        assert (math.inf, {}) == (one.next_due, one.waiting())

    def test_one_look_up_is_made_for_all(self):
        """All partitions that wait share one look-up and one wait."""
        drawn = iter([0.9, 0.1])
        policy = RetryPolicy(backoff={"base": 1})
        one = ConsumerMachine(policy, make, drawn.__next__, client="test")
        one.starts_unknown(dict.fromkeys(P[:2], NEEDS_COMMIT), coordinator_error(), 0.0)
        assert one.next_due == 0.9
        assert [c.Restart(frozenset(P[:2]))] == one.tick(0.9)

    def test_an_error_that_does_not_pass_is_raised_once_for_the_client(self):
        """It is looked up again nevertheless: a human may correct the cause."""
        one, error = machine(shows_answers=False), coordinator_error(30)
        commands = one.starts_unknown(dict.fromkeys(P, NEEDS_COMMIT), error, 0.0)
        assert [error] == raised(commands)
        assert [ev.ReadFailedEvent] == [type(each) for each in told(commands)]
        assert [c.Restart(frozenset(P))] == one.tick(one.next_due)
        assert told(one.begun(dict.fromkeys(P, Reader(1)), 9.0)) == []

    def test_a_late_probe_does_not_end_the_wait(self):
        """The client would never look up where to begin."""
        one, readers = machine(shows_answers=False), {P[0]: NEEDS_COMMIT}
        one.check_progress(readers, 0.0)
        assert [c.Probe(P[0], None)] == one.check_progress(readers, PATIENCE_S)
        one.starts_unknown(readers, coordinator_error(), PATIENCE_S)
        assert one.probed(P[0], None, PATIENCE_S) == []
        assert one.probed(P[0], ReadRefusal(6), PATIENCE_S) == []
        assert [c.Restart(frozenset(P[:1]))] == one.tick(one.next_due)
        assert one.probed(P[0], None, 2.0) == []

    def test_after_a_restart_a_partition_without_progress_is_probed(self):
        """Its leader may be away as well; then it waits as any other partition."""
        one, readers = machine(shows_answers=False), {P[0]: NEEDS_COMMIT}
        one.starts_unknown(readers, coordinator_error(), 0.0)
        one.tick(1.0)
        one.check_progress(readers, 1.0)
        assert [c.Probe(P[0], None)] == one.check_progress(readers, 1.0 + PATIENCE_S)
        assert [c.Hold(P[0])] == one.probed(P[0], ReadRefusal(6), 3.0)
        assert one.begun(readers, 3.1) == []
        assert [c.Probe(P[0], None)] == one.tick(one.next_due)

    def test_a_held_partition_is_freed_before_it_is_looked_up(self):
        """While it is paused, nothing would show that it has begun."""
        one, readers = machine(shows_answers=False), {P[0]: NEEDS_COMMIT}
        one.refused(P[0], ReadRefusal(6), 0.0)
        one.starts_unknown(readers, coordinator_error(), 0.1)
        due = one.tick(one.next_due)
        assert [c.Free(P[0]), c.Restart(frozenset(P[:1]))] == due


class World(RuleBasedStateMachine):
    """A client and a cluster in which partitions break, heal and move.

    The client reads all that it may at each poll. The machine is told what it is
    answered, and the client does what the machine says.
    """

    shows_answers = True

    def __init__(self):
        super().__init__()
        self.machine = machine(shows_answers=self.shows_answers)
        self.now = 0.0
        self.assignment = set(P)
        self.held, self.user_paused = set(), set()
        self.broken, self.refused_at = {}, {}
        self.open_since_told, self.questions = set(), []
        self.resets = set()
        self.read = []

    def carry_out(self, commands):
        """Do what the machine says."""
        for each in commands:
            match each:
                case c.Hold(place):
                    self.held.add(place)
                case c.Free(place):
                    assert self.shows_answers or place not in self.user_paused
                    self.held.discard(place)
                case c.LetReset(place):
                    self.resets.add(place)
                case c.Tell(event):
                    self.hear(event)
                case c.AskFacts() | c.AskRange() | c.Probe():
                    self.questions.append(each)

    def hear(self, event):
        """Partitions are told to wait once, then to resume once."""
        place = TopicPartition(event.topic, event.partition)
        if isinstance(event, ev.PartitionWaitsEvent):
            assert place not in self.open_since_told
            self.open_since_told.add(place)
        elif isinstance(event, ev.PartitionResumesEvent):
            self.open_since_told.discard(place)

    def may_read(self, place):
        """Whether the client reads a partition at this poll."""
        return place not in self.held and place not in self.user_paused

    @rule(place=st.sampled_from(P), code=st.sampled_from([-1, 1, 5, 6, 9, 29, 74]))
    def breaks(self, place, code):
        """Reads of a partition are refused from now on."""
        self.broken[place] = code

    @rule(place=st.sampled_from(P))
    def heals(self, place):
        """Reads of a partition succeed from now on."""
        self.broken.pop(place, None)

    @rule()
    def polls(self):
        """The client reads all that it may."""
        self.read = []
        for place in sorted(self.assignment):
            if not self.may_read(place):
                continue
            code = self.broken.get(place)
            if code == 1 and place in self.resets:
                self.resets.discard(place)
                del self.broken[place]
                code = None
            if code is None:
                self.read.append(place)
                self.carry_out(self.machine.answered(place, 1, self.now))
                continue
            if code != 1:  # out of range is compared with the log, not waited for
                last = self.refused_at.get(place, -math.inf)
                assert self.now - last >= FLOOR_S - 1e-9
                self.refused_at[place] = self.now
            self.carry_out(
                self.machine.refused(place, ReadRefusal(code, position=5), self.now)
            )

    @rule(seconds=st.sampled_from([0.01, 0.1, 1.0, 10.0]))
    def time_passes(self, seconds):
        """The machine does what is due."""
        self.now += seconds
        if self.now >= self.machine.next_due:
            self.carry_out(self.machine.tick(self.now))

    @rule(tiered=st.booleans(), within=st.booleans())
    def questions_are_answered(self, tiered, within):
        """Whoever was asked answers, late perhaps."""
        asked, self.questions = self.questions, []
        for each in asked:
            match each:
                case c.AskFacts(topic):
                    facts = TopicFacts(tiered=tiered)
                    self.carry_out(self.machine.facts_found(topic, facts))
                case c.AskRange(place):
                    ends = (0, 10) if within else (8, 10)
                    self.carry_out(self.machine.range_found(place, *ends, self.now))
                case c.Probe(place, position):
                    code = self.broken.get(place)
                    refusal = (
                        None if code is None else ReadRefusal(code, position=position)
                    )
                    self.carry_out(self.machine.probed(place, refusal, self.now))

    @rule(places=st.sets(st.sampled_from(P)))
    def rebalances(self, places):
        """Another assignment; what is gone is forgotten."""
        self.assignment = places
        if self.shows_answers:  # else the client keeps the user's pauses
            self.user_paused &= places
        self.open_since_told &= places
        self.refused_at = {p: at for p, at in self.refused_at.items() if p in places}
        self.carry_out(self.machine.assigned(places))
        self.open_since_told &= set(self.machine.waiting())

    @rule(place=st.sampled_from(P))
    def user_pauses(self, place):
        """The user pauses a partition."""
        if place in self.assignment:
            self.user_paused.add(place)
            self.machine.user_pauses([place])

    @rule(place=st.sampled_from(P))
    def user_resumes(self, place):
        """The user resumes a partition."""
        if place in self.assignment:
            self.user_paused.discard(place)
            self.held -= set(self.machine.user_resumes([place]))

    @invariant()
    def only_what_waits_is_held(self):
        """No other partition is ever touched."""
        waiting = set(self.machine.waiting())
        if self.shows_answers:
            assert self.held <= waiting
        assert waiting <= self.assignment
        assert self.open_since_told <= waiting

    def teardown(self):
        """Once all is well every partition is read, and nothing is left behind."""
        self.broken.clear()
        for place in sorted(self.user_paused):
            self.user_paused.discard(place)
            self.held -= set(self.machine.user_resumes([place]))
        for _ in range(4):
            self.questions_are_answered(tiered=False, within=True)
            self.time_passes(2 * CAP)
            self.polls()
        assert sorted(self.assignment) == self.read
        assert (set(), {}) == (self.held, self.machine.waiting())
        assert math.inf == self.machine.next_due


class SilentWorld(World):
    """A client that shows no answers: its readers stand still, and a hold is a pause.

    Only that an offset is out of range shows: the client says so when it resets it.
    """

    shows_answers = False

    def __init__(self):
        super().__init__()
        self.position = dict.fromkeys(P, 5)
        self.startless, self.has_coordinator = set(), True

    def carry_out(self, commands):
        """Restart partitions too; a look-up may fail again at once."""
        commands = list(commands)
        super().carry_out(commands)
        for each in commands:
            if isinstance(each, c.Restart):
                self.look_up(each.places)

    def look_up(self, places):
        """The client looks up committed offsets, once."""
        if self.has_coordinator:
            self.startless -= places
            return
        self.startless |= places
        error = make(16, api="OffsetFetch")
        self.carry_out(self.machine.starts_unknown(self.readers(), error, self.now))

    def readers(self):
        """Say where each partition is read."""
        return {
            place: Reader(None, None, needs_commit=True)
            if place in self.startless
            else Reader(self.position[place], math.inf)
            for place in self.assignment
        }

    @rule(places=st.sets(st.sampled_from(P)))
    def rebalances(self, places):
        """What is new begins at its committed offset."""
        new = places - self.assignment
        self.startless &= places
        super().rebalances(places)
        if new:
            self.look_up(new)

    @rule(has_coordinator=st.booleans())
    def coordinator_moves(self, has_coordinator):
        """Look-ups of committed offsets fail or succeed from now on."""
        self.has_coordinator = has_coordinator

    @rule()
    def polls(self):
        """The client reads all that it may, and keeps to itself what it cannot."""
        self.read = []
        for place in sorted(self.assignment - self.startless):
            if not self.may_read(place):
                continue
            if self.broken.get(place) == 1 and place in self.resets:
                self.resets.discard(place)
                del self.broken[place]
            code = self.broken.get(place)
            if code is None:
                self.read.append(place)
                self.position[place] += 1
            elif code == 1:
                refusal = ReadRefusal(1, position=self.position[place])
                self.carry_out(self.machine.refused(place, refusal, self.now))
        self.carry_out(self.machine.begun(self.readers(), self.now))
        self.carry_out(self.machine.check_progress(self.readers(), self.now))

    def teardown(self):
        """The coordinator is found as well."""
        self.coordinator_moves(has_coordinator=True)
        super().teardown()

    @rule(place=st.sampled_from(P))
    def user_seeks(self, place):
        """The user sets a position that is there."""
        if place in self.assignment and self.broken.get(place) == 1:
            del self.broken[place]
            self.carry_out(self.machine.moved(place, 9, self.now))


TestWorld = World.TestCase
TestSilentWorld = SilentWorld.TestCase
