"""Mistakes of a pipeline file that are found without Spark, all of them at once."""

from __future__ import annotations

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from kafkaguard.cli.group import run
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


def test_each_wrong_setting_is_told(load):
    """Those of Kafka's client and of Spark, besides the others."""
    found = mistakes(
        load,
        source={"path": "inptu"},
        sink={
            "config": {
                "kafka.acks": 0,
                "compresion.type": "lz4",
                "linger.ms": "soon",
                "batch.size": 16384,
            }
        },
        spark={"drvier.memory": "2g", "spark.driver.memory": "2q"},
    )
    assert list(found) == [
        "source.path",
        "sink.config.kafka.acks",
        "sink.config.compresion.type",
        "sink.config.linger.ms",
        "spark.drvier.memory",
        "spark.spark.driver.memory",
    ]
    assert (
        "did you mean 'kafka.compression.type'?" in found["sink.config.compresion.type"]
    )


@pytest.mark.parametrize(
    ("config", "place"),
    [
        ({"security.protocol": "SASL_SSL", "linger.ms": "soon"}, "linger.ms"),
        ({"security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": "PLAIN"}, None),
    ],
)
def test_a_setting_that_is_missing_is_told_alone(load, config, place):
    """A setting that was left out as wrong may be what the others need."""
    (found,) = mistakes(load, sink={"config": config})
    assert found == ".".join(filter(None, ("sink.config", place)))


def test_wrong_keys_do_not_hide_wrong_values(load):
    """Each part that has the right form is checked; the order is that of the lines."""
    with pytest.raises(PipelineError) as caught:
        load(
            source={"path": "inptu", "optoins": {}},
            select={"key": "tial"},
            sink={"topic": ["t"], "partitions": "many"},
            stream={"checkpoint": "cp", "every": "5 parsecs"},
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
        "stream.every",
        "policy.extends",
        "policy.on_reject",
        "order_by",
    } == said.keys()
    assert said["sink.topic"] == "must be a text, not a list"
    assert said["order_by"] == "must be a list"


def test_byte_that_is_no_utf8_is_told_with_its_line(tmp_path):
    """A file that was saved as Latin-1."""
    path = tmp_path / "pipeline.yaml"
    path.write_bytes("name: flights\n# für\n".encode("latin-1"))
    with pytest.raises(PipelineError, match="line 2: the byte 0xfc is no UTF-8 text"):
        load_pipeline(path)


def test_key_that_stands_twice_is_told_once(tmp_path):
    """What is inside the second one stands twice as well, and is not told."""
    path = tmp_path / "pipeline.yaml"
    path.write_text("sink: {topic: a}\nsink: {topic: b}\n")
    with pytest.raises(PipelineError) as caught:
        load_pipeline(path)
    (problem,) = caught.value.problems
    assert (problem.path, problem.line) == (("sink",), 2)


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
