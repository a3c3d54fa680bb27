"""What consumers are told, word for word, and what an answer that is too late changes."""

from __future__ import annotations

import math
from functools import partial

import pytest

from kafkaguard import Action, RetryPolicy, TopicFacts, errors
from kafkaguard._cluster.reports import TopicPartition, make
from kafkaguard._consuming import commands as c
from kafkaguard._consuming.commits import (
    Again,
    CommitRun,
    OneForAll,
    failed_event,
    may_continue,
)
from kafkaguard._consuming.machine import ConsumerMachine, ReadRefusal
from kafkaguard._consuming.standing import Reader, StandingReaders

HERE, THERE, ELSEWHERE = (
    TopicPartition("t", 0),
    TopicPartition("t", 1),
    TopicPartition("u", 0),
)
STEADY = {"kind": "fixed", "base": 2.0, "jitter": "none"}


def machine(*, shows_answers=True, **policy):
    """A machine of a policy named ``mine``, which always draws one half."""
    return ConsumerMachine(
        RetryPolicy(name="mine", **policy),
        make,
        lambda: 0.5,
        client="a-client",
        shows_answers=shows_answers,
    )


def told(commands):
    """List the events among commands."""
    return [each.event for each in commands if isinstance(each, c.Tell)]


def commit_error(code, topic="t"):
    """Make what a commit is refused with."""
    return make(code, api="OffsetCommit", topic=topic, partition=0)


class TestEvents:
    """Each says where, under which policy, and what comes next."""

    def test_every_event_names_policy_place_and_client(self):
        """An event has policy, partition and client; those of reads name Fetch."""
        one = machine(backoff=STEADY)
        (event,) = told(one.refused(THERE, ReadRefusal(6, position=7), 0.0))
        assert ("mine", one.policy.policy_id) == (event.policy, event.policy_id)
        assert (
            event.context.api,
            event.context.topic,
            event.context.client,
        ) == ("Fetch", "t", "a-client")
        assert (event.topic, event.partition, event.position) == ("t", 1, 7)

    def test_the_wait_that_is_told_is_the_wait_that_is_made(self):
        """The event has the wait of two seconds that the policy sets."""
        one = machine(backoff=STEADY)
        (event,) = told(one.refused(HERE, ReadRefusal(6), 10.0))
        assert (event.wait, one.next_due) == (2.0, 12.0)
        assert one.tick(11.9) == []
        assert [c.Free(HERE)] == one.tick(12.0)
        assert one.tick(20.0) == []

    def test_no_wait_is_shorter_than_a_tenth_of_a_second(self):
        """A policy may say less, but each try asks a broker."""
        one = machine(backoff={"kind": "fixed", "base": 0.01, "jitter": "none"})
        (event,) = told(one.refused(HERE, ReadRefusal(6), 0.0))
        assert (event.wait, one.next_due) == (0.1, 0.1)

    def test_the_end_of_a_wait_tells_how_long_and_how_often(self):
        """From the first refusal on, whenever it was told."""
        one = machine(backoff=STEADY)
        one.refused(HERE, ReadRefusal(6), 10.0)
        one.refused(HERE, ReadRefusal(5), 12.0)
        (event,) = told(one.answered(HERE, 9, 14.5))
        assert (event.waited, event.tries, event.position) == (4.5, 2, 9)

    def test_an_error_is_made_with_its_place_and_its_verdict(self):
        """The request that was refused counts, not always Fetch."""
        one = machine()
        one.refused(THERE, ReadRefusal(6, api="ListOffsets"), 0.0)
        error = one.waiting()[THERE]
        assert (
            error.api,
            error.topic,
            error.partition,
            error.code,
        ) == ("ListOffsets", "t", 1, 6)
        assert error.verdict.action is Action.REFRESH

    def test_an_error_without_a_code_is_the_clients_own(self):
        """A broken connection is told as it came."""
        one, error = machine(), errors.ClientConnectionError("away")
        (event,) = told(one.refused(HERE, ReadRefusal(None, error=error), 0.0))
        assert error is event.error

    def test_denied_topics_are_told_in_order(self):
        """Each with the request that was denied, and that polling raises it."""
        commands = machine().denied({"u", "t"})
        assert [event.topic for event in told(commands)] == ["t", "u"]
        assert {(-1, None, True, Action.CONFIGURE, "Metadata")} == {
            (e.partition, e.position, e.raised, e.action, e.error.api)
            for e in told(commands)
        }
        raised = [each for each in commands if isinstance(each, c.Raise)]
        assert [each.place for each in raised] == [("t", -1), ("u", -1)]

    def test_a_denial_is_judged_for_its_topic(self):
        """An override of one topic is not that of another."""
        policy = {"overrides": [{"when": {"topic": "t"}, "action": "RETRY"}]}
        events = told(machine(**policy).denied({"t", "u"}))
        assert [event.action for event in events] == [Action.RETRY, Action.CONFIGURE]

    def test_an_error_that_is_handed_over_without_a_place_has_its_topic(self):
        """Or none: it is about the whole client."""
        one = machine()
        (event,) = told(one.error_returned(None, make(3, api="Metadata", topic="t")))
        assert (
            event.topic,
            event.partition,
            event.position,
            event.raised,
        ) == ("t", -1, None, False)
        (event,) = told(one.error_returned(None, make(58)))
        assert (event.topic, event.raised) == ("", True)
        (event,) = told(one.error_returned(THERE, make(6, api="Fetch", topic="t")))
        assert (event.topic, event.partition) == ("t", 1)

    @pytest.mark.parametrize(
        ("error", "action", "is_end"),
        [
            (make(29, api="Fetch", topic="t"), Action.CONFIGURE, True),
            (errors.ClientClosedError("closed"), Action.RECREATE, True),
            (make(90, api="Fetch"), Action.FENCED, True),
            (make(6, api="Fetch"), Action.REFRESH, False),
            (make(22, api="Heartbeat"), Action.REJOIN, False),
        ],
    )
    def test_what_is_handed_over_is_raised_where_the_client_is_of_no_use(
        self, error, action, is_end
    ):
        """A human or a new client must mend it; all else stays in the message."""
        commands = machine().error_returned(HERE, error)
        assert [error] * is_end == [
            each.error for each in commands if isinstance(each, c.Raise)
        ]
        assert [(action, is_end)] == [
            (event.action, event.raised) for event in told(commands)
        ]

    def test_a_position_that_is_lost_says_what_the_log_has(self):
        """And what to do: the policy leaves it to the user."""
        one = machine(on_offset_reset="raise")
        one.refused(THERE, ReadRefusal(1, position=20), 0.0)
        event, error = one.range_found(THERE, 60, 100, 0.1)
        assert (
            event.event.outcome,
            event.event.position,
            event.event.earliest,
            event.event.latest,
            event.event.lost,
        ) == ("raised", 20, 60, 100, 40)
        error = error.error
        assert "offset 20 was requested, the log has 60 to 100" in str(error)
        assert (
            error.code,
            error.api,
            error.topic,
            error.partition,
        ) == (1, "Fetch", "t", 1)


class TestFewTries:
    """Faults that waiting may not mend are raised after as many tries as allowed."""

    @pytest.mark.parametrize("code", [-1, 2])
    def test_they_are_raised_from_the_last_try_on(self, code):
        """A corrupt message or a server error of a topic that is not tiered."""
        one = machine(max_attempts=2, backoff=STEADY)
        first = one.refused(HERE, ReadRefusal(code), 0.0)
        first += one.facts_found("t", TopicFacts(tiered=False))
        assert not any(isinstance(each, c.Raise) for each in first)
        for now in (2.0, 4.0):
            again = one.refused(HERE, ReadRefusal(code), now)
            assert any(isinstance(each, c.Raise) for each in again)
            assert [event.raised for event in told(again)] == [True]

    @pytest.mark.parametrize(
        ("code", "facts"),
        [(6, TopicFacts(tiered=False)), (-1, TopicFacts(tiered=True))],
        ids=["no leader", "remote storage"],
    )
    def test_others_wait_however_often_they_were_tried(self, code, facts):
        """A leader comes back, and so does remote storage."""
        one = machine(max_attempts=1, backoff=STEADY)
        commands = one.refused(HERE, ReadRefusal(code), 0.0) + one.facts_found(
            "t", facts
        )
        for now in (2.0, 4.0, 6.0):
            commands += one.refused(HERE, ReadRefusal(code), now)
        assert not any(isinstance(each, c.Raise) for each in commands)


class TestFacts:
    """A topic's settings are asked for once, and only where they matter."""

    def test_a_topic_is_asked_for_by_itself(self):
        """What is known of one says nothing of another."""
        one = machine()
        assert c.AskFacts("t") in one.refused(HERE, ReadRefusal(9), 0.0)
        assert c.AskFacts("u") in one.refused(ELSEWHERE, ReadRefusal(9), 0.0)
        commands = one.facts_found("t", TopicFacts(tiered=True))
        assert [event.topic for event in told(commands)] == ["t"]
        assert [c.Hold(ELSEWHERE)] == one.refused(ELSEWHERE, ReadRefusal(9), 1.0)

    def test_settings_that_cannot_be_had_are_not_asked_for_again(self):
        """The code is taken as it is until the episode ends."""
        one = machine()
        one.refused(HERE, ReadRefusal(9), 0.0)
        (event,) = told(one.facts_found("t", None))
        assert type(event.error) is errors.ReplicaNotAvailableError
        assert c.AskFacts("t") not in one.refused(HERE, ReadRefusal(9), 1.0)
        one.answered(HERE, 5, 2.0)
        assert c.AskFacts("t") in one.refused(HERE, ReadRefusal(9), 3.0)

    def test_one_partition_that_still_waits_keeps_them(self):
        """They are forgotten with the last one."""
        one = machine()
        one.refused(HERE, ReadRefusal(9), 0.0)
        one.refused(THERE, ReadRefusal(9), 0.0)
        one.facts_found("t", TopicFacts(tiered=True))
        one.answered(HERE, 5, 1.0)
        again = one.refused(HERE, ReadRefusal(9), 2.0)
        assert c.AskFacts("t") not in again
        assert [errors.RemoteStorageNotReadyError] == [
            type(event.error) for event in told(again)
        ]

    def test_another_code_is_not_judged_again(self):
        """It was told already, and settings say nothing about it."""
        one = machine()
        one.refused(HERE, ReadRefusal(9), 0.0)
        before = told(one.refused(THERE, ReadRefusal(6), 0.0))
        assert [event.partition for event in before] == [1]
        found = told(one.facts_found("t", TopicFacts(tiered=True)))
        assert [event.partition for event in found] == [0]


class TestLateAnswers:
    """The cluster's answer to a question that nobody asks any more."""

    def test_a_range_of_a_partition_that_waits_for_something_else(self):
        """A range answer changes nothing for a partition that waits for another reason."""
        one = machine()
        assert one.range_found(HERE, 0, 9, 0.0) == []
        assert one.range_unknown(HERE, errors.ClientConnectionError("x"), 0.0) == []
        assert one.moved(HERE, 5, 0.0) == []
        one.refused(HERE, ReadRefusal(6, position=3), 0.0)
        due = one.next_due
        assert one.range_found(HERE, 50, 90, 0.5) == []
        assert one.range_unknown(HERE, errors.ClientConnectionError("x"), 0.5) == []
        assert (due, 6) == (one.next_due, one.waiting()[HERE].code)

    def test_a_probe_that_finds_a_position_out_of_range_asks_for_the_log(self):
        """Of a wait that goes on; where nothing waits the client says so itself."""
        one = machine(shows_answers=False)
        one.check_progress({HERE: Reader(3, 10)}, 0.0)
        one.check_progress({HERE: Reader(3, 10)}, 1.0)
        assert one.probed(HERE, ReadRefusal(1, position=3), 1.1) == []
        assert one.waiting() == {}
        one.refused(HERE, ReadRefusal(6, position=3), 2.0)
        found = one.probed(HERE, ReadRefusal(1, position=3), 3.0)
        assert [c.Hold(HERE), c.AskRange(HERE)] == found
        assert math.inf == one.next_due

    def test_a_probe_that_reaches_no_broker_is_made_again(self):
        """The partition waits as long once more, and is not told again."""
        one = machine(shows_answers=False, backoff=STEADY)
        one.refused(HERE, ReadRefusal(6, position=3), 0.0)
        assert [c.Probe(HERE, 3)] == one.tick(2.0)
        away = ReadRefusal(None, error=errors.ClientConnectionError("away"))
        assert one.probed(HERE, away, 3.0) == []
        assert one.next_due == 5.0
        assert [c.Probe(HERE, 3)] == one.tick(5.0)

    def test_a_probe_ends_no_wait_that_a_read_began(self):
        """The client shows its reads: the next one that succeeds ends it."""
        one = machine()
        one.refused(HERE, ReadRefusal(6, position=3), 0.0)
        assert one.probed(HERE, None, 1.0) == []
        assert one.is_waiting(HERE)
        assert not one.is_waiting(THERE)

    def test_who_waits_or_is_paused_is_not_said_to_stand_still(self):
        """A partition that waits or is paused is not reported as standing still."""
        one = machine(shows_answers=False)
        one.refused(HERE, ReadRefusal(6), 0.0)
        one.user_pauses([THERE])
        readers = dict.fromkeys((HERE, THERE, ELSEWHERE), Reader(3, 10))
        one.check_progress(readers, 0.0)
        assert [c.Probe(ELSEWHERE, 3)] == one.check_progress(readers, 1.0)

    @pytest.mark.parametrize(
        "report", [ConsumerMachine.fenced, lambda one, e: one.error_returned(None, e)]
    )
    def test_a_member_is_fenced_once(self, report):
        """The consumer ends, and nothing is told a second time."""
        one, error = machine(), make(82)
        tell, end = report(one, error)
        assert (tell.event.error, tell.event.raised) == (error, True)
        assert tell.event.action is Action.FENCED
        assert end == c.End(error)
        assert report(one, make(82)) == []

    def test_a_pause_of_the_user_outlasts_a_rebalance_that_takes_the_partition(self):
        """The client keeps the pause, so neither going nor waiting again resumes it."""
        one = machine(shows_answers=False)
        one.refused(HERE, ReadRefusal(6), 0.0)
        one.user_pauses([HERE])
        for now in (1.0, 2.0):  # twice in a row
            assert one.assigned({THERE}) == []
            one.assigned({HERE, THERE})
            one.refused(HERE, ReadRefusal(6), now)
            assert c.Free(HERE) not in one.probed(HERE, None, now + 1.0)
            one.refused(HERE, ReadRefusal(6), now)
        assert one.user_resumes([HERE]) == []  # it waits
        assert c.Free(HERE) in one.probed(HERE, None, 9.0)

    def test_a_partition_that_is_tried_at_the_moment_is_not_held_by_a_rebalance(self):
        """Its next read says whether it still waits."""
        one = machine()
        one.refused(HERE, ReadRefusal(6), 0.0)
        one.tick(one.next_due)
        assert one.assigned({HERE}) == []
        assert one.user_resumes([HERE]) == [HERE]


class TestStandingReaders:
    """Who is looked at, and when again."""

    @pytest.mark.parametrize(
        ("reader", "is_at_end"),
        [
            (Reader(9, 10), False),
            (Reader(10, 10), True),
            (Reader(11, 10), True),
            (Reader(None, 10), False),
            (Reader(10, None), False),
            (Reader(None), False),
        ],
    )
    def test_a_reader_at_the_end_has_nothing_to_read(self, reader, is_at_end):
        """A position at the end, as far as the client knows, is not standing still."""
        assert is_at_end is reader.is_at_end

    def test_the_gaps_double_to_the_longest_one(self):
        """Patience first, then 2, 4, 8, 16, 30 seconds."""
        standing, readers = StandingReaders(), {HERE: Reader(1, 2)}
        standing.note(readers, 0.0)
        now, gaps = 1.0, []
        assert standing.note(readers, now) == [HERE]
        for gap in (2.0, 4.0, 8.0, 16.0, 30.0, 30.0):
            standing.looked(HERE, now)
            assert standing.note(readers, now + gap - 0.1) == []
            now += gap
            gaps.append(gap)
            assert standing.note(readers, now) == [HERE]

    def test_a_reader_that_moves_or_comes_back_is_new(self):
        """Its patience begins again, however rare its looks had become."""
        standing = StandingReaders()
        standing.note({HERE: Reader(1, 9)}, 0.0)
        standing.note({HERE: Reader(2, 9)}, 0.9)
        assert standing.note({HERE: Reader(2, 9)}, 1.0) == []
        assert standing.note({HERE: Reader(2, 9)}, 0.9 + 1.0) == [HERE]
        standing.note({}, 2.0)
        assert not standing.looked(HERE, 2.0)
        assert standing.note({HERE: Reader(2, 9)}, 2.1) == []

    def test_only_those_that_are_kept_are_remembered(self):
        """What a rebalance takes away is forgotten."""
        standing = StandingReaders()
        readers = {HERE: Reader(1, 9), THERE: Reader(1, 9)}
        standing.note(readers, 0.0)
        standing.keep([THERE])
        assert standing.note(readers, 1.0) == [THERE]


class TestCommits:
    """What is told of a commit, and how long it waits."""

    def test_the_gravest_error_stands_for_a_commit(self):
        """Whatever the order in which they came."""
        codes = {HERE: 29, THERE: 82, ELSEWHERE: 14}
        refused = {p: commit_error(code, p.topic) for p, code in codes.items()}
        for each in (refused, dict(reversed(refused.items()))):
            event = failed_event(
                RetryPolicy(name="mine"), each, kind="auto", client="a-client"
            )
            assert (event.error.code, event.action) == (82, Action.FENCED)
            assert ("auto", each) == (event.kind, event.errors)
            assert event.policy == "mine"
            assert RetryPolicy().policy_id == event.policy_id
            assert (
                event.context.api,
                event.context.topic,
                event.context.client,
            ) == ("OffsetCommit", "t", "a-client")

    def test_a_commit_of_nothing_has_not_failed(self):
        """Librdkafka says "no offset stored"; only the other partitions failed."""
        nothing, denied = commit_error(-168), commit_error(29)
        told = partial(failed_event, RetryPolicy(), kind="async", client="a-client")
        assert told({}) is told({HERE: nothing}) is None
        assert {THERE: denied} == told({HERE: nothing, THERE: denied}).errors

    def test_a_commit_that_was_waited_for_is_a_sync_one(self):
        """The event of a synchronous commit has the last refusal of each partition."""
        one = CommitRun(RetryPolicy(), lambda: 0.5, [HERE], 5.0, client="a-client")
        assert one.answered({HERE: commit_error(29)}, None, 0.0) is None
        event = one.event()
        assert ("sync", {HERE}, "a-client") == (
            event.kind,
            set(event.errors),
            event.context.client,
        )

    @pytest.mark.parametrize(
        ("codes", "may"),
        [
            ((29,), True),
            ((12,), True),
            ((29, 12, -1), True),
            ((22,), False),
            ((82,), False),
            ((29, 82), False),
            ((14,), False),
        ],
    )
    def test_a_consumer_reads_on_after_what_the_next_commit_may_not_meet(
        self, codes, may
    ):
        """What the group or the client has to see is not swallowed."""
        places = (HERE, THERE, ELSEWHERE)
        refused = {
            place: commit_error(code)
            for place, code in zip(places, codes, strict=False)
        }
        assert may is may_continue(refused)

    def test_the_waits_are_the_policys(self):
        """The longest one of all that were refused, growing from try to try."""
        policy = RetryPolicy(
            backoff={"kind": "linear", "base": 0.2, "jitter": "none"},
            overrides=[{"when": {"topic": "u"}, "backoff": STEADY}],
        )
        one = CommitRun(policy, lambda: 0.5, [HERE, ELSEWHERE], 60.0, client="c")
        slow = {HERE: commit_error(14), ELSEWHERE: commit_error(14, "u")}
        fast = {HERE: commit_error(14)}
        waits = [one.answered(each, None, 0.0).wait for each in (slow, fast, fast)]
        assert pytest.approx(waits) == [2.0, 0.4, 0.6]

    def test_a_wait_that_ends_at_the_deadline_is_not_begun(self):
        """There would be no time left for the answer."""
        policy = RetryPolicy(backoff=STEADY)
        for until, is_begun in ((12.0, False), (12.1, True)):
            one = CommitRun(policy, lambda: 0.5, [HERE], until, client="c")
            again = one.answered({HERE: commit_error(14)}, None, 10.0)
            assert is_begun == (again is not None)

    def test_a_first_look_at_each_alone_counts_as_no_try(self):
        """It tells what was refused; the waits begin after it."""
        one = CommitRun(RetryPolicy(), lambda: 0.5, [HERE, THERE], 9.0, client="c")
        both = OneForAll({HERE: commit_error(14), THERE: commit_error(14)})
        again = one.answered(both, None, 0.0)
        assert Again(frozenset({HERE, THERE}), 0.0, is_alone=True) == again
        assert {HERE, THERE} == set(one.errors) == one.places
        again = one.answered({THERE: commit_error(14)}, None, 0.0)
        assert Again(frozenset({THERE}), 0.1) == again

    def test_one_error_for_one_partition_is_clear(self):
        """A single error of a single partition needs no look-up."""
        one = CommitRun(RetryPolicy(), lambda: 0.5, [HERE], 9.0, client="c")
        again = one.answered(OneForAll({HERE: commit_error(14)}), None, 0.0)
        assert Again(frozenset({HERE}), 0.1) == again
