"""Exactly once without Spark and brokers: each row once, or refused."""

from __future__ import annotations

from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafkaguard_adapters.spark.once import rules
from kafkaguard_adapters.spark.once.rules import (
    ANY,
    NO_QUERY,
    NOTHING,
    ForeignError,
    History,
    Marker,
    Plan,
    RefusedError,
    SupersededError,
    decode,
    digest_of,
    encode,
    place_of,
)
from tests.spark.once_world import RETENTION, World, run_alone, settle

SEEDS = st.integers(0, 2**32)
BATCHES = 4
DAY = 86_400
PLAN = Plan("r1", "q", 7, 3, 4, "c", 0, 0)
MARKER = Marker("r1", 7, 10, "d", 0)
LONGEST = 2**63 - 1
NAMES = st.text("0123456789abcdef-", min_size=1, max_size=36)
NUMBERS = st.integers(-1, LONGEST)


@pytest.mark.parametrize("is_stream", [True, False])
@given(SEEDS)
def test_each_row_is_written_once(is_stream, seed):
    """Kills, zombies, late copies and lost answers neither double nor refuse."""
    world = World(Random(seed), is_stream=is_stream)
    assert world.play(BATCHES) is None
    assert world.problems() == []


@pytest.mark.parametrize("faults", [["long"], ["wiped"], ["long", "wiped"]])
@given(SEEDS)
def test_missing_markers_are_refused(faults, seed):
    """Where markers are gone, each row is written once, or the batch is refused."""
    world = World(Random(seed), faults)
    world.play(BATCHES)
    assert world.problems() == []


@pytest.mark.parametrize("faults", [["older"], ["other"]])
@given(SEEDS)
def test_other_rows_and_older_checkpoints_are_refused(faults, seed):
    """A replay with other rows, or from an older checkpoint, writes nothing again."""
    world = World(Random(seed), faults)
    world.play(BATCHES)
    assert world.problems() == []


@given(SEEDS)
def test_a_settled_batch_goes_on(seed):
    """After a command has settled what is written, the stream comes to its end."""
    world = World(Random(seed), ["long", "wiped"])
    for _ in range(100):
        if world.play(BATCHES) is None:
            break
        settle(world)
    assert len(world.finished) == BATCHES
    assert world.problems() == []


@given(SEEDS)
def test_a_forgotten_name_begins_anew(seed):
    """After ``forget``, batch 0 is written again, also by another query."""
    world = World(Random(seed))
    world.play(1)
    shards = world.finished[0]
    forgotten = world.wish(NOTHING, 0)._replace(run="cli", query=ANY, content=ANY)
    assert shards == run_alone(world, rules.settle(forgotten)).shards
    again = world.wish(0, 1)._replace(run="new", query="another")
    plan = run_alone(world, rules.plan_batch(again, None, RETENTION))
    assert plan.shards == 1  # as wished, not as before
    flow = rules.write_shard("new", 0, 0, RETENTION, lambda: world.now)
    copy_of = run_alone(world, _with_rows(flow))
    assert copy_of


def _with_rows(flow):
    """Make a flow whose rows are sent with its commit."""
    answer = None
    while True:
        try:
            step = flow.send(answer)
        except StopIteration as end:
            return end.value
        answer = (1, "d") if step.do in ("send", "count") else (yield step)


# --- what markers say -----------------------------------------------------------------


@given(st.builds(Marker, NAMES, NUMBERS, NUMBERS, st.just("f" * 32), NUMBERS))
def test_markers_are_read_as_written(marker):
    """A marker fits into 200 bytes, and is read as it was written."""
    assert len(encode(marker)) <= 200
    assert marker == decode(Marker, encode(marker))


@given(
    st.builds(
        Plan,
        st.text("0123456789abcdef", min_size=1, max_size=16),
        NAMES,
        NUMBERS,
        st.integers(1, 100_000),
        st.integers(1, 100_000),
        st.text("0123456789abcdef", min_size=1, max_size=16),
        st.integers(0, 2**33),
        st.integers(0, 2**33),
    )
)
def test_plans_are_read_as_written(plan):
    """A plan fits into 200 bytes, and is read as it was written."""
    assert len(encode(plan)) <= 200
    assert plan == decode(Plan, encode(plan))


@pytest.mark.parametrize(
    "text",
    ["", "kafkaguard", "flink", encode(PLAN), "kafkaguard Marker r 1 2", "a b c d e"],
)
def test_foreign_metadata_is_not_a_marker(text):
    """An offset of a real group, or of another version, is not taken for a marker."""
    with pytest.raises(ForeignError):
        decode(Marker, text)


@given(st.lists(st.tuples(st.integers(), st.integers())))
def test_digests_do_not_depend_on_the_order(hashes):
    """The digest is a sum of the rows' hashes, and it has 32 hex digits."""
    sums = [sum(each) for each in zip(*hashes, strict=True)] or [0, 0]
    backwards = [sum(each) for each in zip(*hashes[::-1], strict=True)] or [0, 0]
    assert digest_of(tuple(sums)) == digest_of(tuple(backwards))
    assert len(digest_of(tuple(sums))) == 32


def test_more_shards_than_partitions_have_more_groups():
    """Shard 9 of a topic with 4 partitions has its marker in group 2, partition 1."""
    assert place_of(9, 4) == (2, 1)


# --- what a task decides --------------------------------------------------------------


def _decide(plan, marker, now=0.0, retention=7 * DAY, answer=(10, "d")):
    """Run the task of shard 1 of batch 7; return its steps and its result."""
    flow = rules.write_shard("r1", 7, 1, retention, lambda: now)
    steps = [next(flow), flow.send(None)]
    try:
        steps.append(flow.send((plan, {} if marker is None else {1: marker})))
        steps.append(flow.send(answer))
        flow.send(None)
    except StopIteration as end:
        return [step.do for step in steps], end.value
    raise AssertionError(steps)


@pytest.mark.parametrize("marker", [None, MARKER._replace(batch=6)])
def test_a_shard_without_its_marker_is_written(marker):
    """The marker is committed with the rows."""
    assert _decide(PLAN, marker) == (["init", "look", "send", "commit"], True)


@pytest.mark.parametrize("marker", [MARKER, MARKER._replace(digest=ANY, rows=0)])
def test_a_written_shard_is_skipped(marker):
    """Its rows are counted and compared; a command's marker fits all rows."""
    assert _decide(PLAN, marker) == (["init", "look", "count"], False)


@pytest.mark.parametrize(
    ("plan", "marker"),
    [
        (None, None),
        (PLAN._replace(run="r2"), None),
        (PLAN._replace(batch=8), MARKER),
        (PLAN, MARKER._replace(batch=8)),
    ],
)
def test_a_copy_that_was_left_behind_ends(plan, marker):
    """It writes nothing if another driver or a later batch has taken over."""
    with pytest.raises(SupersededError):
        _decide(plan, marker)


@pytest.mark.parametrize("digest", ["e", "d"])
def test_other_rows_are_refused_with_both_digests(digest):
    """The text has rows and digest of both tries; each of them counts."""
    text = rf"10 rows \(digest d\).* 9 rows .*\(digest {digest}\)"
    with pytest.raises(RefusedError, match=text):
        _decide(PLAN, MARKER, answer=(9, digest))


def test_a_task_of_an_old_plan_is_refused():
    """A task that starts when its marker may be deleted writes nothing."""
    with pytest.raises(RefusedError, match=r"7\.0 days ago.* deleted .* one: 1$"):
        _decide(PLAN, None, now=7.0 * DAY)


# --- what the driver decides ----------------------------------------------------------


def _plan(found, markers=None, history=None, last=None, **wish):
    """Plan batch 7 again, as run r2, two days later; return the plan."""
    wished = PLAN._replace(run="r2", first=2 * DAY, time=2 * DAY, shards=5, **wish)
    flow = rules.plan_batch(wished, history and (lambda: history), 7 * DAY, last)
    answer, committed = None, None
    while True:
        try:
            step = flow.send(answer)
        except StopIteration as end:
            assert committed == end.value
            return end.value
        committed = step.entry or committed
        answer = (found, markers or {}) if step.do == "look" else None


def test_a_replay_keeps_shards_and_first_time():
    """The number of shards is that of the first plan."""
    assert PLAN._replace(run="r2", time=2 * DAY) == _plan(PLAN)
    earlier = PLAN._replace(batch=6)
    assert _plan(earlier)[3:7:3] == (3, 2 * DAY)


@pytest.mark.parametrize(
    ("found", "markers", "history", "text"),
    [
        (PLAN._replace(query="x"), {}, None, "another query"),
        (PLAN._replace(query=NO_QUERY), {}, None, "another query"),
        (PLAN._replace(content="x"), {}, None, "give each write its own name"),
        (PLAN._replace(batch=8), {}, None, "batch 8 was written before batch 7"),
        (None, {0: MARKER._replace(batch=9)}, None, "batch 9 was written before"),
        (PLAN._replace(first=-5 * DAY), {0: MARKER}, None, "without one: 1, 2"),
        (None, {}, History(0.0, None, was_tried=True), "was tried before"),
        (None, {}, History(None), "cannot be read"),
        (None, {}, History(6.5 * DAY), "first planned 6.5 days ago"),
        (None, {}, History(0.0, DAY), "the batch before batch 7 has no plan"),
        (None, {0: MARKER}, None, "its plan is gone"),
    ],
)
def test_what_is_not_known_is_refused(found, markers, history, text):
    """Each refusal says why it is not known what is written."""
    with pytest.raises(RefusedError, match=text):
        _plan(found, markers, history)


def test_a_batch_whose_markers_are_all_there_is_never_too_old():
    """A replay after the retention skips all shards."""
    markers = dict.fromkeys(range(3), MARKER)
    assert _plan(PLAN._replace(first=-5 * DAY), markers)


@pytest.mark.parametrize(
    "history", [History(0.0), History(0.0, 6.5 * DAY), History(DAY, 8 * DAY)]
)
def test_a_stream_that_stood_still_goes_on(history):
    """The markers of the batches before are deleted, and no longer needed."""
    assert _plan(None, {}, history).shards == 5


def test_a_plan_that_vanished_in_the_same_process_is_refused():
    """The driver has committed a plan of this batch, and brokers have none."""
    with pytest.raises(RefusedError, match="its plan is gone"):
        _plan(None, last=PLAN)


# --- what a command decides -----------------------------------------------------------


@pytest.mark.parametrize(
    ("shards", "chosen", "found", "text"),
    [
        (0, None, (None, {}), "--shards"),
        (3, [1, 3], (None, {}), "no shard 3; there are 3"),
        (3, None, (PLAN._replace(batch=8), {}), "batch 8 was written after batch 7"),
        (3, None, (None, {0: MARKER._replace(batch=9)}), "batch 9 was written after"),
    ],
)
def test_shards_that_cannot_be_accepted(shards, chosen, found, text):
    """Their number is not known, or what was written later would be written again."""
    flow = rules.settle(PLAN._replace(shards=shards), chosen)
    next(flow), flow.send(None)
    with pytest.raises(RefusedError, match=text):
        flow.send(found)
