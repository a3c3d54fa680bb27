"""``kafkaguard pipeline run``: files that run, and files that are refused."""

from __future__ import annotations

import json
import logging
import os
import subprocess
import sys
import time
from contextlib import suppress
from itertools import islice
from pathlib import Path
from types import SimpleNamespace

import pytest
import yaml
from click.testing import CliRunner

from kafkaguard.cli import spark_session
from kafkaguard.cli.commands import pipeline as command_module
from kafkaguard.cli.demo.flights import unpack
from kafkaguard.cli.group import cli
from kafkaguard.cli.group import run as command
from kafkaguard.cli.interrupts import Terminated
from kafkaguard.cli.spark_session import NotStarted
from kafkaguard_adapters.spark.driver.foreach_batch import ForeachBatch
from kafkaguard_adapters.spark.pipeline import run as running
from kafkaguard_adapters.spark.pipeline.file import load_pipeline
from kafkaguard_adapters.spark.report import total
from tests.cli.pipeline_results import records, refused
from tests.spark.spark_reading import letters_to

pytestmark = pytest.mark.xdist_group("spark")
ROOT = Path(__file__).parents[2]
EXAMPLE = ROOT / "examples" / "flights.yaml"
DEAD_JAVA = """Invalid maximum heap size: -Xmx1x
Error: Could not create the Java Virtual Machine.
Error: A fatal exception has occurred. Program will exit.
"""
COMPACTED = {"cleanup.policy": "compact"}
PACKAGES = "spark.jars.packages"
SINK = "org.apache.spark:spark-sql-kafka-0-10_2.13"
CONNECTOR = spark_session.connector()


def test_pipeline_writes_in_order_and_reports(run, pipeline, kafka_cluster, topics):
    """Two records in the topic, one dead letter, and the counts for programs."""
    result = run(pipeline, "--json")
    assert result.exit_code == 0, result.output
    report = json.loads(result.stdout)
    assert (report["read"], report["delivered"]) == (3, 2)
    assert report["dead_lettered"] == {"NULL_KEY": 1}
    first, second = records(kafka_cluster, topics[0], 2)
    assert [json.loads(m.value())["at"] for m in (first, second)] == [1, 2]
    assert first.headers() == [("v", b"3")]
    assert len(records(kafka_cluster, topics[1], 1)) == 1


def test_people_get_a_table(run, pipeline, topics):
    """Each reason has its line."""
    result = run(pipeline)
    assert result.exit_code == 0, result.output
    assert "Delivered" in result.output
    assert "NULL_KEY" in result.output


def test_stream_takes_what_is_there(run, pipeline, kafka_cluster, topics):
    """A second run finds nothing new, since the checkpoint knows."""
    stream = pipeline | {"stream": {"checkpoint": "checkpoint"}}
    stream["source"] = pipeline["source"] | {"columns": "k string, v int, at int"}
    stream["source"]["path"] = "*.json"
    first = json.loads(run(stream, "--json").stdout)
    assert (first["delivered"], first["dead_lettered"]) == (2, {"NULL_KEY": 1})
    assert json.loads(run(stream, "--json").stdout)["read"] == 0


def test_kafka_is_a_source_as_well(run, pipeline, kafka_cluster, topics, tmp_path):
    """From a topic into another, key by key."""
    run(pipeline)
    target = kafka_cluster.create_topic()
    servers = kafka_cluster.bootstrap_servers
    copy = {
        "source": {
            "format": "kafka",
            "options": {"kafka.bootstrap.servers": servers, "subscribe": topics[0]},
        },
        "select": {"key": "key", "value": "value", "topic": f"'{target}'"},
        "sink": {"bootstrap_servers": servers},
    }
    result = run(copy, "--json")
    assert json.loads(result.stdout)["delivered"] == 2
    assert [m.key() for m in records(kafka_cluster, target, 2)] == [b"a", b"a"]


def test_refused_record_fails_the_job_with_exit_code_1(run, pipeline, topics):
    """Nothing was sent, and the message says so."""
    del pipeline["policy"]
    result = run(pipeline)
    assert result.exit_code == 1
    assert "NULL_KEY" in result.output
    assert f"0 records were appended to {topics[0]}" in result.output
    assert "Traceback" not in result.output


def test_job_that_failed_says_so_in_json(error_of, pipeline, topics):
    """As every other failure does."""
    del pipeline["policy"]
    code, error = error_of(pipeline)
    assert code == 1
    assert error.startswith("the job failed: INVALID_RECORD_KEY (87)")
    assert f"0 records were appended to {topics[0]}" in error


def test_bad_cast_is_one_message(run, written, pipeline, capfd):
    """Spark's own line of JSON is not beside it."""
    pipeline["select"]["value"] = "cast(cast(concat('x', v) as int) as string)"
    assert command(["pipeline", "run", written(pipeline)]) == 1
    said = capfd.readouterr().err
    assert "Error: the job failed: [CAST_INVALID_INPUT]" in said
    assert '"logger"' not in said
    assert all(logging.getLogger(name).disabled for name in spark_session._ECHO_LOGGERS)


def interrupt(by):
    """Return a function that is interrupted by Ctrl-C or SIGTERM."""

    def call(*_, **__):
        raise by

    return call


@pytest.mark.parametrize(
    ("where", "name", "said"),
    [
        (command_module, "load_pipeline", "nothing was written"),
        (command_module, "spark_session", "nothing was written"),
        (command_module.running, "plan", "nothing was written"),
        (command_module.running, "run", "records may have been written to TOPIC"),
    ],
)
def test_interrupted_run_says_whether_anything_may_have_been_written(
    run, error_of, pipeline, topics, monkeypatch, where, name, said
):
    """For people and for programs, with the exit code of Ctrl-C."""
    monkeypatch.setattr(where, name, interrupt(KeyboardInterrupt()))
    said = said.replace("TOPIC", topics[0])
    result = run(pipeline)
    assert result.exit_code == 130
    assert f"Error: interrupted: {said}" in result.output
    code, error = error_of(pipeline)
    assert code == 130
    assert error.startswith(f"interrupted: {said}")


def test_run_that_sigterm_ends_has_the_exit_code_of_sigterm(
    run, pipeline, topics, monkeypatch
):
    """The text is that of Ctrl-C."""
    monkeypatch.setattr(command_module.running, "run", interrupt(Terminated()))
    result = run(pipeline)
    assert result.exit_code == 143
    assert f"interrupted: records may have been written to {topics[0]}" in result.output


class Query:
    """A query whose first micro-batch is written, and whose second one is cancelled."""

    def __init__(self, function):
        self.function = function

    def awaitTermination(self, _seconds):
        """Press Ctrl-C after the first batch."""
        self.function("good", 0)
        raise KeyboardInterrupt

    def stop(self):
        """Let the running batch fail, as Spark does when it stops a query."""
        with suppress(RuntimeError):
            self.function("cancelled", 1)


def test_interrupted_stream_says_what_its_batches_have_written(
    error_of, pipeline, monkeypatch
):
    """Those that are finished, and the one that is not: its records are in no report."""

    def write(self, batch, batch_id):
        if batch == "good":
            return self.on_report(total("t", None, []), batch_id)
        error = RuntimeError("cancelled")
        error.add_note("7 records were appended to t")
        raise error

    monkeypatch.setattr(ForeachBatch, "__call__", write)
    monkeypatch.setattr(running, "_start", lambda _, function, __: Query(function))
    pipeline["stream"] = {"checkpoint": "checkpoint", "every": "1 second"}
    pipeline["source"] |= {"columns": "k string, v int, at int", "path": "*.json"}
    code, error = error_of(pipeline)
    assert code == 130
    assert "of finished micro-batches: 0 read" in error
    assert error.endswith("of the unfinished one: 7 records were appended to t")


def test_failed_micro_batch_of_a_stream_is_told_without_a_traceback(
    run, pipeline, written, capfd
):
    """Py4j logs one, and the error of the query says it all."""
    del pipeline["policy"]
    pipeline["stream"] = {"checkpoint": "checkpoint"}
    pipeline["source"] |= {"columns": "k string, v int, at int", "path": "*.json"}
    assert command(["pipeline", "run", written(pipeline)]) == 1
    said = capfd.readouterr().err
    assert "Error: the job failed: INVALID_RECORD_KEY" in said
    assert "Traceback" not in said


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"sorce": {}}, "did you mean 'source'?"),
        ({"sink": {"bootstrap_server": "b", "topic": "t"}}, "'bootstrap_servers'"),
        ({"source": {"format": "json", "path": "gone.json"}}, "does not exist"),
        ({"source": {"format": "jso", "path": "."}}, "Spark refuses the pipeline"),
        ({"select": {"key": "at", "value": "k"}}, "column key is bigint"),
        ({"select": {"key": "k"}}, "select.value: must be given"),
        ({"policy": "spark-snik"}, "did you mean 'spark-sink'?"),
        ({"policy": 5}, "policy: must be a preset's name, a file, or"),
        ({"policy": {"on_reject": "fail"}}, "policy.on_reject: must be 'raise', "),
        ({"policy": {"on_rejct": "drop"}}, "did you mean 'on_reject'?"),
        ({"stream": {"order_by": ["k"]}}, "'order_by' belongs at the top level. "),
        (
            {"in_doubt": "raise"},
            "'in_doubt' belongs in 'policy' or in 'policy.overrides'. ",
        ),
        ({"dead_letter": {"topic": "d"}}, "'dead_letter' belongs in 'policy'. "),
        ({"stream": {"path": "x"}}, "'path' belongs in 'source'. "),
        ({"policy": {"extends": "spark-sink"}}, "the topic does not exist"),
        ({"policy": "spark-sink"}, "CONFIGURE: create the topic, or correct"),
        ({"sink": {"bootstrap_servers": "a:b:c", "topic": "t"}}, "cannot be parsed"),
    ],
)
def test_wrong_content_is_one_message_and_exit_code_2(run, pipeline, change, said):
    """Before anything starts, without a traceback."""
    assert said in refused(run(pipeline | change))


@pytest.mark.parametrize(
    ("change", "key", "said"),
    [
        ({"select": {"key": "at", "value": "k"}}, "select.key", "column key is bigint"),
        (
            {"policy": letters_to("nope")},
            "policy.dead_letter.topic",
            "it is the dead-letter topic that the policy needs",
        ),
        ({"policy": letters_to("TOPIC")}, "policy.dead_letter.topic", "are the same"),
        ({"policy": {"max_attemps": 3}}, "policy.max_attemps", "'max_attempts'?"),
        ({"sink": {"topic": "nope"}}, "sink.topic", "the topic does not exist"),
        ({"sink": {"compacted": False}}, "sink.compacted", "topic is compacted"),
        ({"sink": {"config": {"Kafka.acks": 0}}}, "sink.config.Kafka.acks", "acks=all"),
        ({"sink": {"config": {"lingr.ms": 0}}}, "sink.config.lingr.ms", "no such sett"),
        (
            {"sink": {"config": {"max.request.size": "x"}}},
            "sink.config",
            "Invalid value",
        ),
        ({"sink": {"bootstrap_servers": ":"}}, "sink.bootstrap_servers", "be parsed"),
        ({"sink": {"topic": None}}, "sink.topic", "no topic is named"),
        ({"select": {"topic": "k", "value": "k"}}, "select.topic", "drop one"),
        ({"source": {"format": "jso"}}, "source.format", "did you mean 'json'?"),
        ({"source": {"format": "json", "columns": "?"}}, "source.columns", "PARSE"),
        ({"stream": {"checkpoint": "c", "every": "5 moons"}}, "stream.every", "moons"),
    ],
)
def test_mistake_found_while_starting_is_said_with_file_line_and_key(
    run, pipeline, topics, change, key, said
):
    """Settings, topics, types and Spark's own refusals; the line is that of the key."""
    changed = dict(pipeline)
    for section, content in change.items():
        kept = pipeline.get(section, {}) if section == "sink" else {}
        changed[section] = kept | content
    if "stream" in change:
        changed["source"] |= {"columns": "k string, v int, at int", "path": "*.json"}
    text = yaml.safe_dump(changed, sort_keys=False).replace("TOPIC", topics[0])
    name = (
        key.split(".", 2)[-1] if key.startswith("sink.config.") else key.split(".")[-1]
    )
    section = (
        text.index(f"\n{key.split('.')[0]}:") if key.split(".")[0] != "source" else 0
    )
    line = text[: text.index(f"{name}:", section)].count("\n") + 1
    message = refused(run(text))
    assert "pipeline.yaml cannot be run" in message
    assert f"\n  line {line}: {key}: " in message
    assert said in message


@pytest.mark.parametrize(
    ("name", "value", "said"),
    [
        ("nonsense", 1, "their names begin with 'spark.'"),
        ("fs.s3a.endpoint", "s3", "those of Hadoop with 'spark.hadoop.'"),
        ("spark.driver.memory", "lots", "'lots' is too small, or not a size"),
        ("spark.driver.memory", "8m", "Spark needs at least 450m"),
        ("spark.driver.memory", "1gb", "write it as '512m' or '4g'"),
        ("spark.driver.memory", 4, "'4' is too small"),
    ],
)
def test_wrong_setting_of_spark_is_said_with_its_line_before_anything_starts(
    written, pipeline, name, value, said
):
    """Spark would pass over it, or die of it without a word."""
    pipeline["sink"]["bootstrap_servers"] = "localhost:1"
    text = yaml.safe_dump(pipeline | {"spark": {"spark.a": 1, name: value}})
    line = text[: text.index(f"  {name}:")].count("\n") + 1
    message = refused(CliRunner().invoke(cli, ["pipeline", "run", written(text)]))
    assert f"pipeline.yaml cannot be run:\n  line {line}: spark.{name}: " in message
    assert said in message


@pytest.mark.parametrize(
    ("change", "key"),
    [
        ({"source": {"format": "json", "path": "${KG}/a.json"}}, "source.path"),
        ({"stream": {"checkpoint": "${KG}/c"}}, "stream.checkpoint"),
    ],
)
def test_paths_take_variables(written, pipeline, monkeypatch, tmp_path, change, key):
    """Relative to the file, and one that is not set is named with its line."""
    file = written(pipeline | change)
    monkeypatch.delenv("KG", raising=False)
    message = refused(CliRunner().invoke(cli, ["pipeline", "run", file]))
    assert f"{key}: the environment variable KG is not set" in message
    monkeypatch.setenv("KG", "sub")
    (tmp_path / "sub").mkdir()
    (tmp_path / "sub" / "a.json").write_text("{}")
    section, name = key.split(".")
    found = getattr(getattr(load_pipeline(Path(file)), section), name)
    assert found.startswith(str(tmp_path / "sub"))


def test_one_expression_to_order_by_needs_no_list(written, pipeline):
    """As for `write`."""
    file = Path(written(pipeline | {"order_by": "at"}))
    assert load_pipeline(file).order_by == ["at"]


@pytest.mark.parametrize("size", ["450m", "1G", "471859200", "1t"])
def test_memory_that_is_enough_is_taken(written, pipeline, size):
    """In each way that Java writes it."""
    settings = {"spark.driver.memory": size}
    assert (
        settings == load_pipeline(Path(written(pipeline | {"spark": settings}))).spark
    )


@pytest.mark.parametrize(
    ("said", "place"),
    [
        (
            "Spark does not start: Could not parse Master URL: 'local[x]'",
            "spark.master",
        ),
        ("Spark does not start: spark.b must be a number", "spark.b"),
        ("Spark does not start: no idea", None),
    ],
)
def test_spark_that_does_not_start_is_told_with_the_setting_that_it_names(
    run, pipeline, monkeypatch, said, place
):
    """Spark's text has the setting's name or its value."""

    def fail(name, settings):
        raise NotStarted(said)

    monkeypatch.setattr(command_module, "spark_session", fail)
    settings = {"spark.b": 1, "spark.master": "local[x]"}
    message = refused(run(pipeline | {"spark": settings}))
    assert said in message
    assert ("cannot be run" in message) == (place is not None)
    assert place is None or f": spark.{place}: " in message


@pytest.mark.parametrize(
    ("log", "reason"),
    [
        (DEAD_JAVA, "Invalid maximum heap size: -Xmx1x"),
        ("WARN a\norg.X: SparkException: b\n\tat c\n", "org.X: SparkException: b"),
        ("\n", None),
    ],
)
def test_reason_is_the_line_that_says_something(log, reason):
    """Not the one that says that there was an error."""
    assert spark_session._find_reason(log) == reason


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("key: k", "key: kk", "line 5: select.key: 'kk': there is no column kk"),
        ("v: v", "v: vv", "line 8: select.headers.v: 'vv': there is no column vv"),
        ("- at", "- att", "line 10: order_by[0]: 'att': there is no column att"),
        ("key: k", "key: upper(", "line 5: select.key: 'upper(': [PARSE_SYNTAX_ERROR]"),
    ],
)
def test_wrong_expression_is_said_with_its_line_and_the_columns(
    run, pipeline, old, new, said
):
    """No plan is printed beside it."""
    text = yaml.safe_dump(pipeline, sort_keys=False)
    assert old in text
    message = refused(run(text.replace(old, new)))
    assert said in message
    assert "pipeline.yaml cannot be run" in message
    assert "PARSE" in said or "the columns are at, k, v" in message
    assert len(message.splitlines()) == 2


def test_wrong_key_is_named_with_its_line_and_the_nearest_one(run, pipeline):
    """As an editor would point at it."""
    text = yaml.safe_dump(pipeline, sort_keys=False).replace("path:", "pth:")
    said = refused(run(text))
    assert "line 3: source.pth: no such setting; did you mean 'path'?" in said


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("source: [", "not well-formed YAML"),
        ("", "must be a mapping"),
        ("- a", "must be a mapping"),
        ("a: &a [*a]", "a policy or a pipeline needs four"),
        ("source: {path: ${NAME}}", 'write "${NAME}" in quotes'),
        ("source:\n  {path: [${NAME}]}", "line 2: is not well-formed YAML"),
    ],
)
def test_what_is_no_pipeline_is_refused(run, text, said):
    """Whatever the file holds."""
    assert said in refused(run(text))


def test_missing_file_is_refused(tmp_path):
    """The error names the file."""
    result = CliRunner().invoke(cli, ["pipeline", "run", str(tmp_path / "gone.yaml")])
    assert "gone.yaml" in refused(result)
    assert "No such file" in result.output


def test_unreachable_broker_is_said_soon(run, pipeline):
    """Before Spark starts."""
    pipeline["sink"]["bootstrap_servers"] = "localhost:1"
    started = time.monotonic()
    said = refused(run(pipeline))
    assert "sink.bootstrap_servers: " in said
    assert "no broker at localhost:1 answered" in said
    assert "nothing was written; run it again when a broker answers there" in said
    assert "RETRY" not in said
    assert time.monotonic() - started < 30


def test_secrets_come_from_the_environment(run, pipeline, monkeypatch):
    """A variable that is not set is named; a value is never shown."""
    pipeline["sink"]["config"] = {"sasl.password": "${KG_TEST_PASSWORD}"}
    monkeypatch.delenv("KG_TEST_PASSWORD", raising=False)
    assert "variable KG_TEST_PASSWORD is not set" in refused(run(pipeline))
    monkeypatch.setenv("KG_TEST_PASSWORD", "hunter2")
    result = run(pipeline)
    assert result.exit_code == 0
    assert "hunter2" not in result.output


def shell(*arguments, **environment):
    """Run the command line in a process of its own."""
    return subprocess.run(
        [sys.executable, "-m", "kafkaguard.cli", *arguments],
        capture_output=True,
        text=True,
        timeout=150,
        env={**os.environ, **environment},
    )


def test_no_java_is_one_message_and_exit_code_2(pipeline, tmp_path):
    """Said before Spark tries, and before a broker is asked."""
    pipeline["sink"]["bootstrap_servers"] = "localhost:1"
    file = tmp_path / "pipeline.yaml"
    file.write_text(yaml.safe_dump(pipeline))
    done = shell("pipeline", "run", str(file), JAVA_HOME="/nowhere", PATH="/nowhere")
    assert done.returncode == 2, done.stderr
    assert "Java 17" in done.stderr
    assert "Traceback" not in done.stderr


def yaml_of(page):
    """Return the pipeline that a page shows."""
    return page.read_text().partition("```yaml\nsource:")[2].partition("```")[0]


@pytest.mark.parametrize(
    "text",
    [
        EXAMPLE.read_text(),
        "source:" + yaml_of(ROOT / "docs" / "spark.md"),
    ],
    ids=["examples", "docs"],
)
def test_example_runs(text, run, kafka_cluster, tmp_path, monkeypatch):
    """Each file that is shown, over the first five thousand flights."""
    topic = kafka_cluster.create_topic(config=COMPACTED)
    text = text.replace("flights-refused", kafka_cluster.create_topic())
    text = text.replace("topic: flights\n", f"topic: {topic}\n")
    with unpack(tmp_path).open() as file:
        head = list(islice(file, 5001))
    (tmp_path / "flights.csv").write_text("".join(head))
    keyless = sum(line.split(",")[11] == "NA" for line in head)
    monkeypatch.setenv("KAFKA", kafka_cluster.bootstrap_servers)
    report = json.loads(run(text, "--json").stdout)
    assert (report["read"], report["delivered"]) == (5000, 5000 - keyless)
    assert report["dead_lettered"] == {"NULL_KEY": keyless}


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        (None, [CONNECTOR]),
        ("a:b:1", ["a:b:1", CONNECTOR]),
        (f"{SINK}:4.2.0", [f"{SINK}:4.2.0"]),
    ],
)
def test_package_for_kafka_is_added_unless_it_is_named(given, expected):
    """Not every version of Spark has one of its own everywhere."""
    spark = {} if given is None else {PACKAGES: given}
    definition = SimpleNamespace(spark=spark, source=SimpleNamespace(format="kafka"))
    assert ",".join(expected) == command_module._settings(definition)[PACKAGES]
