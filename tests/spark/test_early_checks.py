"""Mistakes of a pipeline file that are found without Spark, all of them at once."""

from __future__ import annotations

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from kafkaguard_adapters.spark.pipeline.early_checks import declared_columns
from kafkaguard_adapters.spark.pipeline.file import PipelineError, load_pipeline

FILE = {
    "source": {"format": "csv", "path": "input", "columns": "tail string, at int"},
    "select": {"key": "tail", "value": "to_json(struct(*))"},
    "sink": {"bootstrap_servers": "localhost:1", "topic": "t"},
}


@pytest.fixture
def load(tmp_path):
    """Load a pipeline with some parts changed."""
    (tmp_path / "input").mkdir()

    def changed(**parts):
        path = tmp_path / "pipeline.yaml"
        content = {
            section: FILE.get(section, {}) | parts.get(section, {})
            for section in {**FILE, **parts}
        }
        path.write_text(yaml.safe_dump(content, sort_keys=False))
        return load_pipeline(path)

    return changed


def mistakes(load, **parts):
    """Return the message for each key that is wrong."""
    with pytest.raises(PipelineError) as caught:
        load(**parts)
    return {".".join(map(str, p.path)): p.message for p in caught.value.problems}


def test_all_mistakes_are_told_at_once(load):
    """A misspelt column, preset and unit, and input that does not exist."""
    found = mistakes(
        load,
        source={"path": "inptu"},
        select={"key": "tial", "headers": {"when": "ta"}},
        policy={"extends": "spark-sinc"},
        stream={"checkpoint": "cp", "every": "5 parsecs"},
    )
    keys = ("source.path", "stream.every", "select.key", "select.headers.when")
    assert {*keys, "policy.extends"} == found.keys()
    assert "there is no column 'tial'; did you mean 'tail'?" in found["select.key"]


@pytest.mark.parametrize(
    ("every", "said"),
    [
        (5, "'5' has no unit: write 5 seconds"),
        ("5", "'5' has no unit: write 5 seconds"),
        ("1 minute 30", "has no unit: write 30 seconds"),
        ("10 secnds", "did you mean 'seconds'?"),
        ("1 month", "'month' is none of the units"),
        ("often", "'often' is not an interval: write it as 10 seconds"),
    ],
)
def test_an_interval_has_units(load, every, said):
    """A number alone could be seconds or milliseconds."""
    stream = {"checkpoint": "cp", "every": every}
    assert said in mistakes(load, stream=stream)["stream.every"]


@pytest.mark.parametrize(
    "every",
    [
        "10 seconds",
        "interval 1 minute",
        "2 HOURS",
        "1 minute 30 seconds",
        "500ms",
        "0 s",
    ],
)
def test_other_intervals_go_to_spark(load, every):
    """Spark's own words; its abbreviations are not among them."""
    stream = {"checkpoint": "cp", "every": every}
    if every in ("500ms", "0 s"):
        assert "is none of the units" in mistakes(load, stream=stream)["stream.every"]
    else:
        assert every == load(stream=stream).stream.every


@pytest.mark.parametrize(
    "key", ["TAIL", " at ", "true", "current_date", "upper(tial)", "destination"]
)
def test_what_may_be_right_is_left_to_spark(load, key):
    """Names have no case, and not every expression is the name of a column."""
    assert key == load(select={"key": key}).select.key


def test_a_folder_of_the_source_may_be_a_column(load, tmp_path):
    """Spark makes a column of folders such as ``tial=7``."""
    (tmp_path / "input" / "tial=7").mkdir(parents=True)
    assert load(select={"key": "tial"}).select.key == "tial"


@given(st.lists(st.from_regex(r"[a-z_]\w{0,8}", fullmatch=True), min_size=1))
def test_declared_columns_are_read(names):
    """Commas in types and quoted names separate no columns."""
    kinds = (
        "int",
        "decimal(4, 2)",
        "map<string, array<int>>",
        "struct<a: int, b: int>",
    )
    ddl = ", ".join(f"{n} {kinds[i % 4]}" for i, n in enumerate(names))
    assert names == declared_columns(ddl)
    assert names == declared_columns(", ".join(f"`{name}` int" for name in names))
