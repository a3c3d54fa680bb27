"""Decisions of the machine that a schedule seldom shows, one by one."""

from __future__ import annotations

import math
from operator import itemgetter

import pytest

from kafkaguard import errors, load_policy
from kafkaguard._cluster.reports import TopicPartition
from kafkaguard._consuming.events import CommitFailedEvent
from kafkaguard._processing.events import HandlerFailedEvent, HandlerSlowEvent
from kafkaguard._processing.handling import handle
from kafkaguard._processing.lanes import MOST
from kafkaguard._processing.machine import ProcessingMachine
from kafkaguard._processing.rounds import Rounds
from kafkaguard._processing.run import RunState
from kafkaguard._processing.slots import Slot
from kafkaguard._processing.work import (
    AbortRound,
    BeginRound,
    Commit,
    CommitRound,
    End,
    Pause,
    Resume,
    SendLetter,
    Tell,
)

PLACE = TopicPartition("t", 0)
LETTERS = {"on_reject": "dead_letter"}


def machine(order="partition", workers=1, *, now=0.0, batch=None, idle=None, **policy):
    """Make a machine with a partition."""
    made = ProcessingMachine(
        load_policy(policy), order=order, workers=workers, offset_of=itemgetter(0),
        key_of=itemgetter(1), random=lambda: 0.5, client="model", batch=batch,
        idle_timeout=idle, now=now,
    )  # fmt: skip
    made.assigned([PLACE], now)
    return made


def read(made, count, now=0.0, *, start=0):
    """Let records be read, without keys."""
    made.fetched(PLACE, [(start + n, None) for n in range(count)], now)


def told(made, kind):
    """Return the events of a class among the commands."""
    return [
        each.event
        for each in made.take_commands()
        if isinstance(each, Tell) and isinstance(each.event, kind)
    ]


def commands(made, kind):
    """Return the commands of a class."""
    return [each for each in made.take_commands() if isinstance(each, kind)]


def test_a_chunk_has_what_takes_about_ten_milliseconds():
    """From one record to five hundred."""
    made = machine()
    read(made, 2000)
    chunk = made.take(0.0)
    assert len(chunk.records) == MOST
    made.finished(chunk, MOST, {}, 0.5)  # a millisecond each, of which 0.3 count
    chunk = made.take(1.0)
    assert len(chunk.records) == 33
    made.finished(chunk, 33, {}, 1.033)
    chunk = made.take(2.0)
    assert len(chunk.records) == 19
    made.finished(chunk, 19, {}, 22.0)
    assert len(made.take(35.0).records) == 1


def test_few_records_are_spread_over_the_workers():
    """Nobody waits while another has all."""
    made = machine("none", 4)
    read(made, 8)
    assert [len(made.take(0.0).records) for _ in range(3)] == [3, 3, 2]
    assert made.take(0.0) is None


@pytest.mark.parametrize("order", ["partition", "key", "none"])
def test_a_partition_has_one_turn_at_a_time(order):
    """However many workers take from it, others have theirs in between."""
    made = machine(order, 4)
    other = TopicPartition("t", 1)
    made.assigned([other], 0.0)
    for place in (PLACE, other):
        made.fetched(place, [(n, b"%d" % n) for n in range(2000)], 0.0)
    for _ in range(20):
        chunks = [chunk for _ in range(4) if (chunk := made.take(0.0)) is not None]
        assert len(made._lanes._turns) <= 2
        if order != "partition":
            places = [chunk.slot.place.partition for chunk in chunks]
            assert places in ([0, 1, 0, 1], [1, 0, 1, 0])
        for chunk in chunks:
            made.finished(chunk, len(chunk.records), {}, 1.0)


def test_a_slow_handler_is_told_once_for_each_record():
    """With how long it runs, and where."""
    made = machine(handler={"timeout": 1})
    read(made, 2)
    chunk = made.take(0.0)
    records = chunk.begin()
    next(records)
    made.tick(0.9)
    assert told(made, HandlerSlowEvent) == []
    made.tick(1.5)
    (event,) = told(made, HandlerSlowEvent)
    assert (event.offset, event.attempts, event.running) == (0, 1, 1.5)
    made.tick(9.0)
    assert told(made, HandlerSlowEvent) == []
    next(records)
    made.tick(9.1)
    made.tick(10.2)
    (event,) = told(made, HandlerSlowEvent)
    assert (event.offset, round(event.running, 3)) == (1, 1.1)


def test_a_long_chunk_ends_at_its_next_record():
    """So that what is done counts."""
    made = machine(now=50.0)
    read(made, 10, 50.0)
    chunk = made.take(50.0)
    made.tick(50.09)
    assert not chunk.stops
    made.tick(50.11)
    assert chunk.stops


@pytest.mark.parametrize("decode", [None, list])
def test_a_chunk_that_is_to_stop_ends_before_its_next_record(decode):
    """As when its partition is revoked while a record of it is handled."""
    made = machine()
    read(made, 3)
    chunk = made.take(0.0)
    calls = []

    def handle_one(record):
        calls.append(record)
        if len(calls) == 2:
            made.revoked([PLACE], 5.0, 0.0)

    assert handle(chunk, handle_one, decode) == (2, {})
    assert len(calls) == 2


def test_the_note_of_an_error_counts_the_attempts():
    """With the record's place."""
    made = machine(handler={"max_attempts": 2})
    read(made, 1)
    made.finished(made.take(0.0), 1, {0: OSError()}, 0.0)
    (event,) = told(made, HandlerFailedEvent)
    assert (event.attempts, event.wait, event.error) == (1, 0.05, "OSError")
    assert made.take(0.04) is None
    error = OSError()
    made.finished(made.take(0.05), 1, {0: error}, 0.06)
    assert error.__notes__ == [
        "kafkaguard: handling t-0 at offset 0 failed (2 attempts); it is not committed"
    ]
    assert made.state is RunState.COMMITTING


def test_a_letter_that_fails_is_sent_again_and_then_ends_the_run():
    """By the verdict on its own error."""
    made = machine(**LETTERS, max_attempts=2)
    read(made, 1)
    made.finished(made.take(0.0), 1, {0: TypeError()}, 0.0)
    (letter,) = commands(made, SendLetter)
    assert (letter.topic, letter.attempts) == ("t.dlq", 1)
    made.letter_sent(letter, errors.NotLeaderOrFollowerError(), 1.0)
    made.tick(1.01)
    assert commands(made, SendLetter) == []
    made.tick(1.05)
    (again,) = commands(made, SendLetter)
    error = errors.NotLeaderOrFollowerError()
    made.letter_sent(again, error, 2.0)
    made.tick(2.0)
    assert made.state is not RunState.RUNNING
    assert "offset 0" in error.__notes__[0]
    assert made.report().dead_lettered == 0


def test_dropped_records_count_for_the_ratio_of_letters():
    """As others that are not delivered."""
    made = machine(
        on_reject="drop",
        dead_letter={"limit": {"ratio": 0.5}},
    )
    read(made, 3)
    for n in range(3):
        made.finished(made.take(n), 1, {0: TypeError()}, n)
    assert made.report().dropped == 3
    assert made._run.letter_count._others == 3


def test_reading_stops_at_the_bound_and_begins_at_half_of_it():
    """Paused after five seconds, since a pause drops what was fetched."""
    made = machine(handler={"max_in_flight": 4})
    read(made, 3)
    assert made.is_open
    read(made, 1, start=3)
    assert not made.is_open
    made.tick(4.9)
    assert commands(made, Pause) == []
    made.tick(5.0)
    (pause,) = commands(made, Pause)
    assert pause.places == [PLACE]
    chunk = made.take(6.0)
    made.finished(chunk, 1, {}, 6.0)
    assert not made.is_open
    chunk = made.take(6.1)
    made.finished(chunk, 1, {}, 6.1)
    assert made.is_open
    assert len(commands(made, Resume)) == 1


def test_a_new_partition_is_paused_while_reading_has_stopped():
    """The client would read it otherwise."""
    made = machine(handler={"max_in_flight": 1})
    read(made, 1)
    made.tick(5.0)
    made.take_commands()
    other = TopicPartition("t", 1)
    made.assigned([other], 6.0)
    (pause,) = commands(made, Pause)
    assert pause.places == [other]


def test_a_commit_that_is_refused_for_now_is_made_again():
    """And its failure is told when it is given up."""
    made = machine()
    read(made, 1)
    made.finished(made.take(0.0), 1, {}, 0.0)
    made.tick(5.0)
    (commit,) = commands(made, Commit)
    made.committed(commit.number, {PLACE: errors.CoordinatorLoadInProgressError()}, 5.5)
    assert made.report().committed == 0
    made.tick(5.9)
    (commit,) = commands(made, Commit)
    made.committed(commit.number, {PLACE: errors.IllegalGenerationError()}, 6.0)
    (event,) = told(made, CommitFailedEvent)
    assert event.errors.keys() == {PLACE}
    made.tick(11.0)
    (commit,) = commands(made, Commit)
    made.committed(commit.number, {}, 11.1)
    assert made.report().committed == 1


def test_a_member_that_is_fenced_ends():
    """Another one has its place."""
    made = machine()
    read(made, 1)
    made.finished(made.take(0.0), 1, {}, 0.0)
    made.tick(5.0)
    (commit,) = commands(made, Commit)
    error = errors.FencedInstanceIdError()
    made.committed(commit.number, {PLACE: error}, 6.0)
    made.tick(30.0)
    assert [each.error for each in commands(made, End)] == [error]


def test_a_commit_without_an_answer_does_not_stop_the_end():
    """It ends after ten seconds."""
    made = machine()
    read(made, 1)
    made.finished(made.take(0.0), 1, {}, 0.0)
    made.stop(1.0)
    made.tick(10.9)
    assert not made.is_ended
    made.tick(11.0)
    assert made.is_ended


def test_an_idle_run_ends():
    """Seconds after its last record was handled, not read."""
    made = machine(idle=3.0)
    read(made, 1)
    chunk = made.take(0.0)
    made.tick(50.0)
    made.finished(chunk, 1, {}, 50.0)
    made.tick(52.9)
    assert made.state is RunState.RUNNING
    made.tick(53.0)
    assert made.state is not RunState.RUNNING


def test_progress_counts_what_is_where():
    """For a liveness probe."""
    made = machine("key", 2, **LETTERS)
    made.polled(1.0)
    made.fetched(PLACE, [(0, b"a"), (1, b"a"), (2, b"b"), (3, b"c")], 2.0)
    chunk = made.take(2.0)
    made.finished(chunk, 1, {0: OSError()}, 2.0)
    other = made.take(2.0)
    progress = made.progress(7.0)
    assert (progress.in_flight, progress.waiting, progress.parked) == (3, 1, 1)
    assert progress.running == len(other.records)
    assert (progress.oldest_age, progress.last_poll_age) == (5.0, 6.0)
    assert not progress.is_waiting


def test_it_says_when_something_is_due():
    """So that a simulated clock can go on."""
    made = machine(now=100.0)
    assert made.next_due() == 105.0
    read(made, 2, 100.0)
    made.finished(made.take(100.0), 1, {0: OSError()}, 100.0)
    assert made.next_due() == made.work_due() == 100.05
    made.revoked([PLACE], 0.0, 100.0)
    assert made.slots == {}
    assert math.isinf(machine().work_due())


def test_a_seek_back_is_followed():
    """The application may move its position; what is read again is handled again."""
    made = machine()
    read(made, 3)
    made.finished(made.take(0.0), 3, {}, 0.1)
    read(made, 3, 1.0)
    while (chunk := made.take(1.0)) is not None:
        made.finished(chunk, len(chunk.records), {}, 1.0)
    assert made.report().processed == 6


@pytest.mark.parametrize("batch", [None, 2])
def test_what_is_read_for_a_partition_that_is_gone_is_left_out(batch):
    """It was revoked between the poll and this call."""
    made = machine(batch=batch)
    made.lost([PLACE], 0.0)
    read(made, 3)
    assert made.take(0.0) is None


def test_what_a_chunk_that_hangs_has_done_is_committed_at_the_end():
    """The worker is asked where it is."""
    made = machine()
    read(made, 5)
    chunk = made.take(0.0)
    records = chunk.begin()
    for _ in range(3):
        next(records)
    made.stop(0.0)
    made.tick(5.0)
    (commit,) = commands(made, Commit)
    assert commit.offsets == {PLACE: 2}
    made.committed(commit.number, {}, 5.1)
    report = made.report()
    assert (report.processed, report.committed, report.abandoned) == (2, 2, 1)


def rounds_machine(**policy):
    """Make a machine whose records are handled in rounds."""
    made = ProcessingMachine(
        load_policy(policy), order="partition", workers=1, offset_of=itemgetter(0),
        key_of=itemgetter(1), random=lambda: 0.5, client="model", rounds=Rounds(10.0),
    )  # fmt: skip
    made.assigned([PLACE], 0.0)
    return made


def begin_round(made, now):
    """Let the transaction begin."""
    assert len(commands(made, BeginRound)) == 1
    made.round_began(None, now)


def test_a_round_counts_when_it_is_committed():
    """Outcomes of an aborted one do not, and its records are handled again."""
    made = rounds_machine(**LETTERS)
    read(made, 2)
    begin_round(made, 0.0)
    made.finished(made.take(0.0), 1, {0: TypeError()}, 0.1)
    (letter,) = commands(made, SendLetter)
    made.letter_sent(letter, None, 0.2)
    made.finished(made.take(0.2), 1, {}, 0.3)
    (end,) = commands(made, CommitRound)
    assert end.offsets == {PLACE: 2}
    made.round_ended(None, 0.4, is_committed=False)
    assert made.report().dead_lettered == made.report().processed == 0
    begin_round(made, 0.5)
    made.finished(made.take(0.5), 1, {0: TypeError()}, 0.6)
    (letter,) = commands(made, SendLetter)
    made.letter_sent(letter, None, 0.6)
    made.finished(made.take(0.6), 1, {}, 0.7)
    made.round_ended(None, 0.8, is_committed=True)
    report = made.report()
    assert (report.dead_lettered, report.processed, report.committed) == (1, 1, 2)


def test_a_record_that_must_wait_aborts_its_round_and_has_one_of_its_own():
    """What is before it is handled meanwhile."""
    made = rounds_machine()
    read(made, 4)
    begin_round(made, 0.0)
    chunk = made.take(0.0)
    made.finished(chunk, 3, {2: OSError()}, 0.0)
    assert made.take(0.0) is None
    assert len(commands(made, AbortRound)) == 1
    made.round_ended(None, 0.01, is_committed=False)
    begin_round(made, 0.01)
    assert [each[0] for each in made.take(0.01).records] == [0, 1]


def test_a_round_ends_in_time():
    """What was not begun is left to the next one."""
    made = rounds_machine()
    read(made, 3)
    begin_round(made, 0.0)
    chunk = made.take(0.0)
    made.tick(10.0)
    assert chunk.stops
    made.finished(chunk, 1, {}, 10.1)
    (end,) = commands(made, CommitRound)
    assert end.offsets == {PLACE: 1}


def test_a_producer_that_can_make_no_transaction_ends_the_run():
    """With its error."""
    made = rounds_machine()
    read(made, 1)
    error = errors.ProducerFencedError()
    made.take_commands()
    made.round_began(error, 0.1)
    made.tick(1.0)
    assert [each.error for each in commands(made, End)] == [error]


def test_a_late_handler_sends_nothing_into_another_round():
    """Its partition is gone."""
    made = rounds_machine()
    read(made, 2)
    begin_round(made, 0.0)
    chunk = made.take(0.0)
    assert made.may_send(chunk)
    made.lost([PLACE], 0.1)
    assert not made.may_send(chunk)


def test_a_round_that_is_aborted_at_the_end_holds_nothing_up():
    """No other round begins, so its records are not waited for."""
    made = rounds_machine()
    read(made, 2)
    begin_round(made, 0.0)
    chunk = made.take(0.0)
    next(chunk.begin())
    made.stop(0.1)
    made.finished(chunk, 1, {}, 0.2)
    assert len(commands(made, CommitRound)) == 1
    made.round_ended(None, 0.3, is_committed=False)
    assert made.is_ended


def test_after_the_end_nothing_is_sent():
    """The application may use the producer by itself again."""
    made = rounds_machine()
    read(made, 2)
    begin_round(made, 0.0)
    chunk = made.take(0.0)
    made.stop(0.1)
    made.tick(100.0)
    assert made.is_ended
    assert not made.may_send(chunk)


@pytest.mark.parametrize(
    ("done", "is_contiguous"),
    [(b"", True), (b"\1\1", True), (b"\1\0", True), (b"\0\1", False), (b"\0", True)],
)
def test_a_round_may_end_early_if_nothing_beyond_a_hole_is_done(done, is_contiguous):
    """Otherwise what is beyond would be handled twice."""
    slot = Slot(PLACE, 1)
    slot.done = bytearray(done)
    assert slot.is_contiguous() is is_contiguous


def test_a_failed_round_ends_at_once():
    """Its workers end before their next record."""
    made = rounds_machine()
    read(made, 4)
    begin_round(made, 0.0)
    chunk = made.take(0.0)
    made.rebalanced(0.1)
    assert chunk.stops
    made.finished(chunk, 1, {}, 0.2)
    assert len(commands(made, AbortRound)) == 1
