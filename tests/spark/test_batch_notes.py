"""From when on a micro-batch counts, whatever happened to the driver before."""

from __future__ import annotations

import tempfile
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafkaguard_adapters.spark.driver.batch_notes import (
    Note,
    Notes,
    first_try,
    is_temporary,
)
from kafkaguard_adapters.spark.report import WriteReport, total


@pytest.mark.parametrize(
    ("last", "batch", "before", "said"),
    [
        (None, 0, 5, None),
        (Note(6, 2), 7, 5, None),
        (Note(7, 2), 7, 2, "was tried before"),
        (None, 3, None, "the end offsets of an earlier try are not stored"),
        (Note(3, 2), 7, None, "the end offsets of an earlier try are not stored"),
        (
            Note(7, 2),
            0,
            None,
            "the checkpoint is new, and the old one had reached batch 7",
        ),
        (Note(0, None, 7), 1, None, "records of batch 1 may have been written before"),
        (Note(7, None, 7), 8, 5, None),
        (Note(7, None, 7), 7, None, "was tried before"),
    ],
)
def test_batch_counts_from_its_first_try_or_nothing_is_known(last, batch, before, said):
    """A warning says why nothing is known, except in the usual case."""
    note, remark = first_try(last, batch, 5)
    assert (note.batch, note.before) == (batch, before)
    assert remark is None if said is None else said in remark


@given(
    st.lists(st.tuples(st.integers(0, 3), st.integers(1, 9)), max_size=12), st.data()
)
def test_duplicates_are_counted_to_the_record(batches, data):
    """However often a driver is killed before, while and after it writes a batch."""
    planned = data.draw(st.booleans(), label="as the data source does it")
    with tempfile.TemporaryDirectory() as folder:
        end = 0
        for number, (kills, rows) in enumerate(batches):
            notes = Notes(str(Path(folder) / "checkpoint"))
            twice = 0
            for _ in range(kills):
                _begin(notes, number, end, planned)
                partly = data.draw(st.integers(0, rows), label="written before a kill")
                end, twice = end + partly, twice + partly
                if planned and partly == rows and data.draw(st.booleans()):
                    notes.begin(number)  # killed before Spark noted it
            before = _begin(notes, number, end, planned)
            end += rows
            if planned:
                before, _ = notes.begin(number)
            assert end - before - rows == twice


def _begin(notes, number, end, planned):
    return notes.plan(end) if planned else notes.begin(number, end)[0]


def test_file_that_cannot_be_used_is_told(tmp_path):
    """The report then says "unknown", not that no record is there twice."""
    notes = Notes(str(tmp_path / "gone" / "checkpoint"))
    before, said = notes.begin(0, 5)
    assert before is None
    assert ".checkpoint.kafkaguard.json cannot be used" in said
    assert notes.plan(5) is None
    assert notes.begin(0)[0] is None
    (tmp_path / ".checkpoint.kafkaguard.json").write_text("[]")
    before, said = Notes((tmp_path / "checkpoint").as_uri()).begin(0, 5)
    assert before is None
    assert "does not have the stored offsets of a stream" in said


def test_checkpoint_that_spark_made_itself_is_used_once():
    """There is nothing to note for later."""
    assert is_temporary("file:/tmp/temporary-1234/")
    assert not is_temporary("/data/checkpoint")


def report(**known):
    """Make a report of ten records."""
    usual = {"read": 10, "delivered": 10, "appended": 10, "seconds": 1.0}
    none = {"dead_lettered": {}, "in_doubt": {}, "resent": 0, "retried_tasks": 0}
    return WriteReport(topic="t", dead_letter_topic=None, **none | usual | known)


@pytest.mark.parametrize(
    ("appended", "twice", "said"),
    [
        (10, 0, "at most 0 duplicates"),
        (13, 3, "at most 3 duplicates"),
        (None, None, "an unknown number of duplicates"),
        (9, None, "an unknown number of duplicates"),
    ],
)
def test_unknown_is_never_zero(appended, twice, said):
    """A topic that grew by less than was written was deleted meanwhile."""
    made = report(appended=appended, warnings=("why",))
    assert made.maybe_twice == twice
    assert said in str(made)
    assert str(made).endswith("; why")
    assert total("t", None, [made, report()]).warnings == ("why",)


def test_keys_that_collapsed_are_warned_of_once_with_their_number():
    """The warning about keys `{}` has their number and appears once."""
    assert report(collapsed_keys=1).warnings == ()
    both = total("t", None, [report(collapsed_keys=1), report(collapsed_keys=3)])
    assert both.warnings[0].startswith("4 records have the key {}: to_json omits")
    assert "4 records have the key {}" in str(both)


def test_planned_batch_that_is_planned_again_was_tried_before(tmp_path):
    """Its first try may have written records; the next batch is a first try."""
    notes = Notes(str(tmp_path / "checkpoint"))
    assert notes.plan(5) == 5
    assert notes.plan(9) == 5
    before, said = notes.begin(0)
    assert (before, said) == (
        5,
        "batch 0 was tried before, and counts from its first try",
    )
    assert notes.plan(11) == 11
    assert notes.begin(1) == (11, None)
