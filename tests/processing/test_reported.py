"""What users of other tools reported, each as a test of the machine."""

from __future__ import annotations

from collections import Counter
from operator import itemgetter
from types import SimpleNamespace

import pytest

from kafkaguard import handling, load_policy
from kafkaguard._cluster.reports import TopicPartition
from kafkaguard._processing.machine import ProcessingMachine
from kafkaguard._processing.work import Commit, GiveUp, SendLetter
from kafkaguard.testing import run_handler

LETTERS = {"on_reject": "dead_letter"}
PLACE = TopicPartition("t", 0)


def record(offset, key=None):
    """Make a record."""
    return SimpleNamespace(topic="t", partition=0, offset=offset, key=key)


def machine(order="partition", workers=1, **policy):
    """Make a machine with a partition."""
    made = ProcessingMachine(
        load_policy(policy), order=order, workers=workers, offset_of=itemgetter(0),
        key_of=itemgetter(1), random=lambda: 0.5, client="model",
    )  # fmt: skip
    made.assigned([PLACE], 0.0)
    return made


def commits(made):
    """Return the offsets of the machine's commits."""
    return [
        each.offsets[PLACE] for each in made.take_commands() if isinstance(each, Commit)
    ]


def finish(made, chunk, now, *, error=None):
    """Let a worker finish a chunk; its last record raises an error, if there is one."""
    count = len(chunk.records)
    made.finished(chunk, count, {} if error is None else {count - 1: error}, now)


@pytest.mark.parametrize("count", [1, 3, 10])
def test_a_retry_skips_no_record_and_repeats_no_other(count):
    """Retries by seek call the handler N(N+2) times, or skip what was fetched."""
    calls = Counter()

    def handle(each):
        calls[each.offset] += 1
        if each.offset % 2:
            raise OSError

    policy = {**LETTERS, "handler": {"max_attempts": count}}
    run = run_handler(handle, map(record, range(10)), policy=policy)
    assert calls == {n: count if n % 2 else 1 for n in range(10)}
    assert (run.report.processed, run.report.dead_lettered) == (5, 5)


def test_a_parked_key_does_not_stop_the_intake():
    """More records of a poison key than may be in memory; others are handled."""
    policy = {
        **LETTERS,
        "backoff": {"base": 60, "cap": 60, "jitter": "none"},
        "handler": {"max_in_flight": 10, "max_attempts": 2},
    }
    made = machine("key", **policy)
    made.fetched(PLACE, [(0, b"bad")], 0.0)
    finish(made, made.take(0.0), 0.1, error=OSError())
    done = 0
    for n in range(1, 9):
        made.fetched(PLACE, [(2 * n, b"bad"), (2 * n + 1, b"good")], float(n))
        assert made.is_open
        while (chunk := made.take(float(n))) is not None:
            done += len(chunk.records)
            finish(made, chunk, float(n))
    assert done == 8
    assert made.progress(9.0).parked == 8


def test_a_revocation_during_a_retry_commits_up_to_the_record_that_waits():
    """And the next owner handles it, from its first attempt on."""
    made = machine(**LETTERS)
    made.fetched(PLACE, [(n, None) for n in range(5)], 0.0)
    chunk = made.take(0.0)
    made.finished(chunk, 3, {2: OSError()}, 0.1)
    made.revoked([PLACE], 5.0, 0.2)
    commands = made.take_commands()
    assert [each.offsets for each in commands if isinstance(each, Commit)] == [
        {PLACE: 2}
    ]
    assert isinstance(commands[-1], GiveUp)
    made.assigned([PLACE], 1.0)
    made.fetched(PLACE, [(n, None) for n in range(2, 5)], 1.0)
    chunk = made.take(100.0)
    assert [chunk.records[0], chunk.retry(0)] == [(2, None), None]


def test_an_acknowledgement_from_before_a_rebalance_is_not_committed():
    """The partition came back meanwhile, and its records are handled again."""
    made = machine(**LETTERS)
    made.fetched(PLACE, [(0, None), (1, None)], 0.0)
    old = made.take(0.0)
    made.lost([PLACE], 0.1)
    made.assigned([PLACE], 0.2)
    made.fetched(PLACE, [(0, None), (1, None)], 0.3)
    finish(made, old, 0.4)
    made.tick(10.0)
    assert commits(made) == [0]
    assert (made.report().late, made.report().processed) == (2, 0)
    while (new := made.take(10.0)) is not None:
        finish(made, new, 10.1)
    made.committed(1, {}, 10.1)
    made.tick(20.0)
    assert commits(made) == [2]


def test_what_other_members_have_handled_is_counted_once():
    """`redelivered` counts only what this process has handled before."""
    made = machine(**LETTERS)
    made.fetched(PLACE, [(n, None) for n in range(4)], 0.0)
    made.finished(made.take(0.0), 2, {}, 0.1)
    made.lost([PLACE], 0.2)
    made.assigned([PLACE], 0.3)
    made.fetched(PLACE, [(n, None) for n in range(4)], 0.4)
    assert made.report().redelivered == 2


def test_what_was_handled_behind_a_waiting_record_is_counted_when_it_comes_again():
    """Also if it comes with a later read."""
    made = machine("none", **LETTERS)
    made.fetched(PLACE, [(n, None) for n in range(4)], 0.0)
    made.finished(made.take(0.0), 4, {1: OSError(), 2: OSError()}, 0.1)
    made.lost([PLACE], 0.2)
    made.assigned([PLACE], 0.3)
    for first in (0, 2):
        made.fetched(PLACE, [(first, None), (first + 1, None)], 0.4)
    assert made.report().redelivered == 2


def test_holes_do_not_stop_commits():
    """Compacted records leave holes; the next record that was read proves them."""
    made = machine(**LETTERS)
    made.fetched(PLACE, [(0, None), (7, None), (90, None)], 0.0)
    made.finished(made.take(0.0), 2, {}, 0.1)
    made.tick(10.0)
    assert commits(made) == [90]
    made.committed(1, {}, 10.0)
    finish(made, made.take(10.0), 10.1)
    made.at_rest({made.slots[PLACE]: 95}, 20.0)
    assert commits(made) == [95]


def test_a_poison_record_in_front_of_a_batch_costs_the_others_nothing():
    """They are handled once, behind it."""
    handled = Counter()

    def handle(batch):
        if any(each.offset == 0 for each in batch):
            raise ValueError
        handled.update(each.offset for each in batch)

    policy = {**LETTERS, "handler": {"reject_on": "ValueError"}}
    run = run_handler(handle, map(record, range(20)), policy=policy, batch=20)
    assert handled == dict.fromkeys(range(1, 20), 1)
    assert [letter.record.offset for letter in run.letters] == [0]


def test_a_letter_is_confirmed_before_its_offset_is_committed():
    """A crash between the two repeats the record, and loses none."""
    made = machine(**LETTERS)
    made.fetched(PLACE, [(0, None), (1, None)], 0.0)
    made.finished(made.take(0.0), 1, {0: TypeError()}, 0.1)
    (letter,) = (e for e in made.take_commands() if isinstance(e, SendLetter))
    finish(made, made.take(0.2), 0.3)
    made.tick(10.0)
    assert commits(made) == [0]
    made.committed(1, {}, 10.0)
    made.letter_sent(letter, None, 11.0)
    made.tick(20.0)
    assert commits(made) == [2]


def test_a_handler_that_hangs_does_not_stop_the_end():
    """It is counted, and what is done is committed."""
    made = machine("none", 2, **LETTERS)
    made.fetched(PLACE, [(0, None), (1, None), (2, None)], 0.0)
    first, second = made.take(0.0), made.take(0.0)
    finish(made, first, 0.1)
    made.stop(0.2)
    made.tick(6.0)
    assert made.report().abandoned == 1
    assert commits(made) == [len(first.records)]
    assert second.stops


def test_handling_counts_attempts_from_one():
    """Whatever failed before."""
    seen = []

    def handle(_):
        seen.append(handling().attempt)
        if len(seen) < 3:
            raise OSError

    run_handler(handle, [record(0)])
    assert seen == [1, 2, 3]
