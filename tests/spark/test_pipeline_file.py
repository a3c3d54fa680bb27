"""Mistakes of a pipeline file that are found without Spark, all of them at once."""

from __future__ import annotations

import pytest
import yaml

from kafkaguard.cli.group import run
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


def test_name_of_a_write_has_variables(load, monkeypatch):
    """A daily job has a name for each day; a mapping has more settings."""
    monkeypatch.setenv("DATE", "2026-11-30")
    sink = load(sink={"exactly_once": "pay-${DATE}"}).sink
    assert sink.exactly_once == "pay-2026-11-30"
    given = {"name": "pay-${DATE}", "retention": 60}
    sink = load(sink={"exactly_once": given}).sink
    assert sink.exactly_once == {"name": "pay-2026-11-30", "retention": "60"}


def mistakes(load, **parts):
    """Return the message for each key that is wrong."""
    with pytest.raises(PipelineError) as caught:
        load(**parts)
    return {".".join(map(str, p.path)): p.message for p in caught.value.problems}


def test_all_mistakes_are_told_at_once(load):
    """A misspelt preset, a missing variable, and input that does not exist."""
    found = mistakes(
        load,
        source={"path": "inptu"},
        select={"key": "${tail}"},
        policy={"extends": "spark-sinc"},
    )
    assert {"source.path", "select.key", "policy.extends"} == found.keys()


def test_each_wrong_spark_setting_is_told(load):
    """Spark would ignore the first one, and end at the second one without an error."""
    found = mistakes(
        load,
        source={"path": "inptu"},
        spark={"drvier.memory": "2g", "spark.driver.memory": "2q"},
    )
    assert list(found) == [
        "source.path",
        "spark.drvier.memory",
        "spark.spark.driver.memory",
    ]


def test_wrong_keys_do_not_hide_wrong_values(load):
    """Each part that has the right form is checked; the order is that of the lines."""
    with pytest.raises(PipelineError) as caught:
        load(
            source={"path": "inptu", "optoins": {}},
            select={"key": "${tail}"},
            sink={"topic": ["t"], "partitions": "many"},
            policy={"extends": "spark-sinc", "on_reject": "deadletter"},
            order_by={"a": "b"},
        )
    problems = caught.value.problems
    said = {".".join(map(str, each.path)): each.message for each in problems}
    assert sorted(each.line for each in problems) == [each.line for each in problems]
    assert {
        "source.path",
        "source.optoins",
        "select.key",
        "sink.topic",
        "sink.partitions",
        "policy.extends",
        "policy.on_reject",
        "order_by",
    } == said.keys()
    assert said["sink.topic"] == "must be a text, not a list"
    assert said["order_by"] == "must be a list"


def test_byte_that_is_not_utf8_is_told_with_its_line(tmp_path):
    """A file that was saved as Latin-1."""
    path = tmp_path / "pipeline.yaml"
    path.write_bytes("name: flights\n# für\n".encode("latin-1"))
    with pytest.raises(PipelineError, match="line 2: the byte 0xfc is not UTF-8 text"):
        load_pipeline(path)


def test_key_that_stands_twice_is_told_once(tmp_path):
    """What is inside the second one stands twice as well, and is not told."""
    path = tmp_path / "pipeline.yaml"
    path.write_text("sink: {topic: a}\nsink: {topic: b}\n")
    with pytest.raises(PipelineError) as caught:
        load_pipeline(path)
    (problem,) = caught.value.problems
    assert (problem.path, problem.line) == (("sink",), 2)


def test_columns_as_a_mapping_are_shown_as_they_are_written(load):
    """Other tools have a mapping there; Spark has one line of SQL."""
    found = mistakes(load, source={"columns": {"tail": "string", "at": "int"}})
    said = "must be text, as in CREATE TABLE: columns: 'tail string, at int'"
    assert {"source.columns": said} == found


def test_sink_topic_that_is_missing_is_told_before_spark_starts(
    kafka_cluster, tmp_path, capsys, monkeypatch
):
    """Spark takes seconds to start."""
    monkeypatch.setattr("kafkaguard.cli.commands.pipeline.spark_session", None)
    (tmp_path / "input").touch()
    sink = {"bootstrap_servers": kafka_cluster.bootstrap_servers, "topic": "nowhere"}
    file = tmp_path / "pipeline.yaml"
    file.write_text(yaml.safe_dump(FILE | {"sink": sink}))
    assert run(["pipeline", "run", str(file)]) == 2
    assert "sink.topic: UNKNOWN_TOPIC_OR_PARTITION" in capsys.readouterr().err
