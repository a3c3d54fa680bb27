"""Parts of the machine by themselves, and what others read of it."""

from __future__ import annotations

from operator import itemgetter

import pytest

from kafkaguard import errors, load_policy
from kafkaguard._cluster.reports import TopicPartition
from kafkaguard._processing.events import (
    DependencyEvent,
    HandlerFailedEvent,
    RecordSetAsideEvent,
)
from kafkaguard._processing.machine import ProcessingMachine
from kafkaguard._processing.report import NAMES, Counts, ProcessReport
from kafkaguard._processing.rounds import (
    FIRST,
    ROUNDS,
    RoundEvent,
    Rounds,
    RoundState,
)
from kafkaguard._processing.rounds import MOST as MOST_OF_ROUND
from kafkaguard._processing.run import RUNS, RunEvent, RunState
from kafkaguard._processing.slots import SLOTS, Slot, SlotEvent, SlotState
from kafkaguard._processing.work import (
    AbortRound,
    BeginRound,
    Commit,
    CommitRound,
    End,
    GiveUp,
    Pause,
    Resume,
    SendLetter,
    Tell,
)

PLACE = TopicPartition("t", 0)


def machine(order="partition", workers=1, *, rounds=None, batch=None, **policy):
    """Make a machine with a partition."""
    made = ProcessingMachine(
        load_policy(policy), order=order, workers=workers, offset_of=itemgetter(0),
        key_of=itemgetter(1), random=lambda: 0.5, client="model", rounds=rounds,
        batch=batch, until_end=True,
    )  # fmt: skip
    made.assigned([PLACE], 0.0)
    return made


def read(made, count, now=0.0, *, start=0, keys=(None,)):
    """Let records be read."""
    records = [(start + n, keys[n % len(keys)]) for n in range(count)]
    made.fetched(PLACE, records, now)


def told(made):
    """Return the events among the commands."""
    return [each.event for each in made.take_commands() if isinstance(each, Tell)]


def commands(made, *kinds):
    """Return the commands of some classes."""
    return [each for each in made.take_commands() if isinstance(each, kinds)]


@pytest.mark.parametrize(
    "names", [RunState, RunEvent, SlotState, SlotEvent, RoundState, RoundEvent]
)
def test_states_are_shown_by_their_names(names):
    """In pictures and texts."""
    assert [each.value for each in names] == [each.name for each in names]
    assert (RUNS.name, SLOTS.name, ROUNDS.name) == ("run", "partition", "round")


def test_nothing_beyond_the_end_is_handled():
    """The log had this end when the run began."""
    made = machine()
    made.ends({PLACE: 2, TopicPartition("t", 9): 5})
    read(made, 5)
    chunk = made.take(0.0)
    assert [offset for offset, _ in chunk.records] == [0, 1]
    made.finished(chunk, 2, {}, 0.1)
    made.tick(0.2)
    assert made.state is not RunState.RUNNING
    assert made.report().processed == 2


def test_an_event_says_where_it_happened():
    """With the policy, and with the context of a call of this client."""
    made = machine(on_reject="drop", name="mine", handler={"max_attempts": 2})
    read(made, 1, start=40)
    made.finished(made.take(0.0), 1, {0: OSError()}, 0.0)
    made.finished(made.take(1.0), 1, {0: OSError()}, 1.0)
    failed, aside = told(made)
    for event, kind, attempts in (
        (failed, HandlerFailedEvent, 1),
        (aside, RecordSetAsideEvent, 2),
    ):
        assert isinstance(event, kind)
        assert (event.topic, event.partition, event.offset) == ("t", 0, 40)
        assert (event.attempts, event.error) == (attempts, "OSError")
        assert (event.context.topic, event.context.client) == ("t", "model")
        assert event.policy == "mine"
        assert event.policy_id == made._run.policy.policy_id
    assert (aside.on_reject, aside.dead_letter_topic) == ("drop", None)


def test_an_outage_is_told_with_its_first_record():
    """And with the time that it took."""
    made = machine("none", 3, handler={"wait_on": ["OSError"]})
    read(made, 2)
    first, second = made.take(0.0), made.take(0.0)
    made.finished(first, 1, {0: OSError()}, 1.0)
    made.finished(second, 1, {0: ConnectionError()}, 1.0)
    (down,) = told(made)
    assert isinstance(down, DependencyEvent)
    assert (down.offset, down.state, down.waited) == (0, "down", 0.0)
    assert (down.error, down.attempts) == ("OSError", 0)
    assert made.progress(1.0).is_waiting
    made.tick(1.0)
    assert not made.is_open
    assert made.take(1.04) is None
    assert made.work_due() == 1.05
    probe = made.take(1.05)
    assert (len(probe.records), made.take(9.0)) == (1, None)
    made.finished(probe, 1, {}, 9.0)
    (back,) = told(made)
    assert (back.state, back.waited, back.offset) == ("back", 8.0, 0)
    assert not made.progress(9.0).is_waiting
    assert made.is_open
    assert made.take(9.0) is not None


def test_the_record_that_failed_tries_its_dependency_before_others():
    """Others may not need it: it would seem to be back, again and again."""
    made = machine("key", 2, handler={"wait_on": ["OSError"]})
    other = TopicPartition("t", 1)
    made.assigned([other], 0.0)
    for place in (other, PLACE):
        made.fetched(place, [(n, b"%d" % n) for n in range(3)], 0.0)
    failed = made.take(0.0)
    failure = {1: OSError()}
    made.finished(failed, 2, failure, 0.1)
    for now in (10.0, 20.0):
        probe = made.take(now)
        assert (probe.slot, probe.seqs) == (failed.slot, [1])
        made.finished(probe, 1, {0: OSError()}, now)
    assert [each.state for each in told(made)] == ["down"]


def test_another_record_tries_a_dependency_when_the_first_ones_partition_goes():
    """Otherwise nothing would be handled again."""
    made = machine("none", 2, handler={"wait_on": ["OSError"]})
    other = TopicPartition("t", 1)
    made.assigned([other], 0.0)
    read(made, 1)
    made.finished(made.take(0.0), 1, {0: OSError()}, 0.0)
    made.fetched(other, [(0, None)], 0.0)
    probe = made.take(1.0)
    made.lost([probe.slot.place], 1.0)
    assert made.take(1.0).slot.place != probe.slot.place


def test_a_machine_has_nothing_when_all_is_done_and_committed():
    """Then the group's metadata of a later poll may be used."""
    made = machine(rounds=Rounds(10.0))
    assert made.has_nothing
    read(made, 1)
    assert not made.has_nothing
    made.take_commands()
    made.round_began(None, 0.0)
    made.finished(made.take(0.0), 1, {}, 0.1)
    assert not made.has_nothing
    made.round_ended(None, 0.2, is_committed=True)
    assert made.has_nothing


def test_a_record_that_waits_has_no_round_before_its_time():
    """Nor have the records behind it, in the order of a partition."""
    made = machine(rounds=Rounds(10.0))
    read(made, 3)
    made.take_commands()
    made.round_began(None, 0.0)
    made.finished(made.take(0.0), 1, {0: OSError()}, 0.0)
    assert len(commands(made, AbortRound)) == 1
    made.round_ended(None, 0.01, is_committed=False)
    made.tick(0.04)
    assert commands(made, BeginRound) == []
    assert made.next_due() == 0.05
    made.tick(0.05)
    assert len(commands(made, BeginRound)) == 1
    made.round_began(None, 0.05)
    chunk = made.take(0.05)
    assert [offset for offset, _ in chunk.records] == [0]
    made.finished(chunk, 1, {}, 0.06)
    (end,) = commands(made, CommitRound)
    assert end.offsets == {PLACE: 1}


def slot_with(count, place=PLACE):
    """Make a partition with records."""
    slot = Slot(place, 500)
    slot.add([(n, None) for n in range(count)], 0.0)
    slot.next = count
    return slot


def play_round(rounds, slot, began, ended, *, is_committed=True):
    """Begin and end a round; return how many records it has taken."""
    ((_, count),) = rounds.plan([slot], began, is_probe=False)
    rounds.begun(began)
    slot.mark(range(count)) if is_committed else rounds.fail()
    assert rounds.end_command(itemgetter(0)) is not None
    rounds.ended(ended, is_committed=is_committed)
    slot.rewind()
    return count


def test_rounds_grow_to_what_takes_half_a_second():
    """At most twice as large as the one before, and never beyond a bound."""
    rounds, slot = Rounds(10.0), slot_with(30_000)
    assert play_round(rounds, slot, 0.0, 0.1) == FIRST
    assert play_round(rounds, slot, 1.0, 1.1) == 200
    assert play_round(rounds, slot, 2.0, 4.0) == 400
    assert play_round(rounds, slot, 5.0, 5.5) == 100  # 400 took 2 s
    for at in range(10, 25):
        play_round(rounds, slot, at, at + 0.001)
    assert play_round(rounds, slot, 30.0, 90.0) == MOST_OF_ROUND
    assert play_round(rounds, slot, 100.0, 100.1) == 83


def test_rounds_that_last_too_long_are_halved():
    """Down to one record."""
    rounds, slot = Rounds(2.0), slot_with(500)
    sizes = [
        play_round(rounds, slot, at, at + 2.0, is_committed=False)
        for at in range(0, 90, 10)
    ]
    assert sizes == [100, 50, 25, 12, 6, 3, 1, 1, 1]


def test_a_round_that_was_aborted_early_is_as_large_again():
    """A rebalance says nothing about time."""
    rounds, slot = Rounds(2.0), slot_with(500)
    play_round(rounds, slot, 0.0, 1.9, is_committed=False)
    assert play_round(rounds, slot, 3.0, 3.1) == FIRST


def test_a_round_is_shared_by_the_partitions():
    """One that tries a dependency has one record."""
    slots = [slot_with(500, TopicPartition("t", n)) for n in range(3)]
    rounds = Rounds(2.0)
    assert [n for _, n in rounds.plan(slots, 0.0, is_probe=False)] == [33, 33, 33]
    assert Rounds(2.0).plan(slots, 0.0, is_probe=True) == [(slots[0], 1)]


def test_an_aborted_round_counts_no_outcomes_but_its_retries():
    """They have happened."""
    counts = Counts(by_round=True)
    for name in ("processed", "dead_lettered", "dropped", "retried"):
        counts.add("t", name, 2)
    counts.end_round(is_committed=False)
    counts.add("t", "processed", 3)
    counts.end_round(is_committed=True)
    report = counts.report()
    assert (report.processed, report.dead_lettered, report.dropped) == (3, 0, 0)
    assert report.retried == 2


def vars_of(report):
    """Return the counts of a report."""
    return [getattr(report, name) for name in NAMES]


def test_a_report_shows_its_totals():
    """And has the counts of each topic, in their order. Nothing counts from 0."""
    assert set(vars_of(ProcessReport())) == {0}
    counts = Counts()
    counts.add("b", "processed")
    counts.add("a", "late", 4)
    report = counts.report()
    assert repr(report).startswith("ProcessReport(processed=1, retried=0,")
    assert "topics" not in repr(report)
    assert list(report.topics) == ["a", "b"]
    assert (report.topics["a"].late, report.topics["b"].processed) == (4, 1)


def test_after_a_stop_only_what_is_before_a_begun_record_may_begin():
    """Lanes with such a record stay, others are left out."""
    made = machine("key", 10)
    read(made, 8, keys=(b"a", b"b", b"c", b"d"))
    chunks = [made.take(0.0) for _ in range(3)]
    made.revoked([PLACE], 5.0, 0.1)
    for chunk in chunks:
        made.finished(chunk, 0, {}, 0.2)
    taken = []
    while (chunk := made.take(0.3)) is not None:
        taken += [offset for offset, _ in chunk.records]
        made.finished(chunk, 1, {}, 0.3)
    assert taken == [0, 1, 2]


def test_a_revocation_ends_at_its_bound():
    """Not at the next look after it."""
    made = machine()
    read(made, 1)
    made.take(0.0)
    made.revoked([PLACE], 3.0, 1.0)
    assert made.next_due() == 4.0
    made.tick(3.9)
    assert commands(made, GiveUp) == []
    made.tick(4.0)
    assert [each.places for each in commands(made, GiveUp)] == [[PLACE]]


def test_a_partition_that_comes_while_the_run_ends_does_not_hold_it_up():
    """Nothing of it is begun."""
    made = machine()
    read(made, 1)
    chunk = made.take(0.0)
    made.stop(0.0)
    other = TopicPartition("t", 1)
    made.assigned([other], 0.1)
    made.fetched(other, [(0, None)], 0.1)
    made.finished(chunk, 1, {}, 0.2)
    assert made.state is RunState.COMMITTING


def test_a_partition_with_much_behind_a_waiting_record_is_paused_by_itself():
    """Others are read on; it is resumed when half of that is gone."""
    backoff = {"base": 60, "cap": 60, "jitter": "none"}
    made = machine(backoff=backoff, handler={"max_in_flight": 8})
    other = TopicPartition("t", 1)
    made.assigned([other], 0.0)
    made.ends({PLACE: 100, other: 100})
    read(made, 1)
    made.finished(made.take(0.0), 1, {0: OSError()}, 0.0)
    read(made, 7, start=1)
    made.tick(1.0)
    assert commands(made, Pause) == []
    read(made, 1, start=8)
    made.tick(1.0)
    assert [each.places for each in commands(made, Pause)] == [[PLACE]]
    assert made.is_open
    made.tick(30.0)
    assert commands(made, Pause, Resume) == []
    chunk = made.take(60.0)
    made.finished(chunk, 1, {}, 60.0)
    assert [each.places for each in commands(made, Resume)] == [[PLACE]]


def test_what_is_done_behind_a_waiting_record_is_bounded():
    """A crash repeats it: nothing of it is committed."""
    backoff = {"base": 60, "cap": 60, "jitter": "none"}
    made = machine("none", backoff=backoff, handler={"max_in_flight": 4})
    read(made, 1)
    made.finished(made.take(0.0), 1, {0: OSError()}, 0.0)
    for n in range(1, 5):
        assert commands(made, Pause) == []
        read(made, 1, start=n)
        made.finished(made.take(0.0), 1, {}, 0.0)
    made.tick(1.0)
    assert [each.places for each in commands(made, Pause)] == [[PLACE]]


def test_a_free_worker_takes_the_next_key():
    """Keys are not bound to workers: one that takes long holds up no other key."""
    made = machine("key", 2)
    read(made, 1, keys=(b"slow",))
    slow = made.take(0.0)
    keys = (b"slow", *(b"%d" % n for n in range(9)))
    read(made, 20, start=1, keys=keys)
    taken = []
    while (chunk := made.take(1.0)) is not None:
        taken += [key for _, key in chunk.records]
        made.finished(chunk, len(chunk.records), {}, 1.0)
    assert sorted(taken) == sorted(2 * keys[1:])
    made.finished(slow, 1, {}, 2.0)
    assert [key for _, key in made.take(2.0).records] == [b"slow"]


def test_partitions_that_stay_go_on_while_others_are_revoked():
    """With what was read; the client is not polled meanwhile."""
    made = machine(workers=2)
    other = TopicPartition("t", 1)
    made.assigned([other], 0.0)
    read(made, 1)
    held = made.take(0.0)
    made.fetched(other, [(0, None), (1, None)], 0.0)
    made.revoked([PLACE], 5.0, 0.1)
    chunk = made.take(0.2)
    assert chunk.slot.place == other
    made.finished(chunk, 1, {}, 0.3)
    assert made.take(0.3).slot.place == other
    assert commands(made, GiveUp) == []
    made.finished(held, 1, {}, 0.4)
    assert [each.places for each in commands(made, GiveUp)] == [[PLACE]]


def test_a_commit_of_a_revoked_partition_that_is_refused_later_is_told():
    """It is not made again: another member owns the partition."""
    made = machine()
    read(made, 1)
    made.finished(made.take(0.0), 1, {}, 0.0)
    made.revoked([PLACE], 5.0, 0.1)
    (commit,) = commands(made, Commit)
    made.committed(commit.number, {PLACE: errors.RebalanceInProgressError()}, 1.0)
    (event,) = told(made)
    assert event.errors.keys() == {PLACE}
    made.tick(20.0)
    assert commands(made, Commit) == []
    assert made.report().committed == 0


def test_a_rebalance_aborts_a_round_at_once():
    """The open transaction has the group's old generation."""
    made = machine(rounds=Rounds(10.0))
    read(made, 2)
    made.take_commands()
    made.round_began(None, 0.0)
    made.rebalanced(0.1)
    assert len(commands(made, AbortRound)) == 1


def test_a_listener_that_waits_returns_when_the_run_has_ended():
    """Its partitions were revoked while the run ended, and a handler hangs."""
    made = machine()
    read(made, 1)
    made.take(0.0)
    made.stop(0.0)
    made.revoked([PLACE], 5.0, 3.0)
    made.tick(4.9)
    assert commands(made, GiveUp, End) == []
    made.tick(5.0)
    (commit,) = commands(made, Commit, GiveUp, End)
    made.committed(commit.number, {}, 5.1)
    given_up, end = commands(made, GiveUp, End)
    assert (given_up.places, end.error) == ([PLACE], None)
    assert made.is_ended


def test_the_first_wait_for_a_dependency_is_as_short_as_that_of_a_record():
    """Waits that depend on the one before begin anew with each outage."""
    backoff = {"kind": "decorrelated", "base": 0.5, "cap": 60}
    made = machine(backoff=backoff, handler={"wait_on": ["OSError"]})
    other = machine(backoff=backoff)
    for each in (made, other):
        read(each, 1)
        each.finished(each.take(0.0), 1, {0: OSError()}, 0.0)
    assert made.work_due() == other.work_due()


def test_each_letter_has_attempts_of_its_own():
    """Also beside others of its partition."""
    made = machine("none", 3, on_reject="dead_letter", max_attempts=2)
    read(made, 2)
    for chunk in [made.take(0.0), made.take(0.0)]:
        made.finished(chunk, 1, {0: TypeError()}, 0.0)
    for letter in commands(made, SendLetter):
        made.letter_sent(letter, errors.NotLeaderOrFollowerError(), 1.0)
    made.tick(2.0)
    again = commands(made, SendLetter)
    assert {letter.seq for letter in again} == {0, 1}
    assert made.next_due() > 2.0
    for letter in again:
        made.letter_sent(letter, None, 2.0)
    assert made.report().dead_lettered == 2
    assert made.slots[PLACE].letters == 0


def test_a_letter_that_is_sent_in_another_round_begins_at_its_first_attempt():
    """The first round was aborted after its letter had been sent."""
    made = machine(rounds=Rounds(100.0), on_reject="dead_letter", max_attempts=2)
    read(made, 1)
    for begin in (0.0, 10.0):
        made.tick(begin)
        assert len(commands(made, BeginRound)) == 1
        made.round_began(None, begin)
        made.finished(made.take(begin), 1, {0: TypeError()}, begin)
        (letter,) = commands(made, SendLetter)
        made.letter_sent(letter, errors.NotLeaderOrFollowerError(), begin + 1)
        made.tick(begin + 2)
        (letter,) = commands(made, SendLetter)
        made.letter_sent(letter, None, begin + 2)
        assert len(commands(made, CommitRound)) == 1
        made.round_ended(None, begin + 3, is_committed=begin > 0)
    assert made.report().dead_lettered == 1


def test_an_unknown_error_of_a_letter_ends_the_run_with_it():
    """Not with the handler's exception, which is in the letter."""
    made = machine(on_reject="dead_letter")
    read(made, 1)
    made.finished(made.take(0.0), 1, {0: TypeError()}, 0.0)
    (letter,) = (each for each in made.take_commands() if not isinstance(each, Tell))
    error = errors.TopicAuthorizationFailedError()
    made.letter_sent(letter, error, 1.0)
    made.tick(60.0)
    assert made._error is error
