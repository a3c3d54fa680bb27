"""Pipelines over files with mistakes in them: nothing is lost on the way in."""

from __future__ import annotations

import json
from operator import itemgetter

import pytest
import yaml
from confluent_kafka import Producer

from kafkaguard_adapters.spark.pipeline import kafka_source
from tests.cli.pipeline_results import records, refused
from tests.spark.spark_reading import read, values, why

pytestmark = pytest.mark.xdist_group("spark")

BROKEN = '{"k": "b", "v": {'
ROWS = (
    f'{{"k": "a", "v": 1}}\n{BROKEN}\n{{"k": "c", "v": "none"}}\n{{"k": "d", "v": 2}}\n'
)
COLUMNS = "k string, v int"


@pytest.fixture
def lines(pipeline, tmp_path):
    """A pipeline over four lines of JSON, of which two do not fit their columns."""
    (tmp_path / "lines.json").write_text(ROWS)
    del pipeline["order_by"]
    source = {"format": "json", "path": "lines.json", "columns": COLUMNS}
    return pipeline | {"source": source}


def test_malformed_lines_are_dead_letters(run, lines, kafka_cluster, topics):
    """The line itself, with the file and the reason, and counted; `*` is the row."""
    report = json.loads(run(lines, "--json").stdout)
    assert (report["read"], report["delivered"]) == (4, 2)
    assert report["dead_lettered"] == {"MALFORMED": 2}
    assert values(kafka_cluster, topics[0]) == ['{"k":"a","v":1}', '{"k":"d","v":2}']
    letters = records(kafka_cluster, topics[1], 2)
    assert {BROKEN, '{"k": "c", "v": "none"}'} == {m.value().decode() for m in letters}
    assert {None} == {m.key() for m in letters}
    said = why(letters[0])
    assert said["reason"] == "MALFORMED"
    assert said["source"].endswith("/lines.json")


def test_malformed_line_stops_the_job_before_anything_is_sent(run, lines, topics):
    """The error names the file, and shows nothing of the line."""
    lines["source"] |= {"on_malformed": "raise", "path": "*.json"}
    result = run(lines)
    assert result.exit_code == 1
    assert "MALFORMED: file:" in result.output
    assert (
        "lines.json has a line that does not fit the declared columns" in result.output
    )
    assert "none" not in result.output


def test_stream_without_dead_letters_stops_at_a_malformed_line(run, lines):
    """That is the default, and a key without value does not hide it."""
    del lines["policy"]
    lines["stream"] = {"checkpoint": "checkpoint"}
    lines["source"]["path"] = "lin*.json"
    result = run(lines)
    assert result.exit_code == 1
    assert "lines.json has a line that does not fit" in result.output


@pytest.fixture
def csv(pipeline, tmp_path):
    """A pipeline over a CSV file, and a function that writes one."""
    file = tmp_path / "rows.csv"
    del pipeline["order_by"]
    pipeline["select"] = {"key": "k", "value": "cast(v as string)"}
    source = {"format": "csv", "path": "rows.csv", "options": {"header": True}}

    def call(text, **changes):
        file.write_text(text)
        return pipeline | {"source": source | changes}

    return call


def test_rows_with_too_many_fields_and_numbers_that_are_none(
    run, csv, kafka_cluster, topics
):
    """Also where no column is selected that shows it, and without `columns`."""
    text = "k,v\na,1\nb,x\nc,2,3\nd\ne,5\n"
    report = json.loads(run(csv(text, columns=COLUMNS), "--json").stdout)
    assert report["dead_lettered"] == {"MALFORMED": 3}
    assert values(kafka_cluster, topics[0]) == ["1", "5"]
    assert values(kafka_cluster, topics[1]) == ["b,x", "c,2,3", "d"]
    report = json.loads(run(csv("k,v\nb,x\nc,2,3\n"), "--json").stdout)
    assert report["dead_lettered"] == {"MALFORMED": 1}


def mistakes():
    """Five files as newcomers write them: a change, its key, and the right word."""
    return [
        ("options: {headr: true}", "source.options.headr", "'header'"),
        ("options: {header: true}\n  colums: k string", "source.colums", "'columns'"),
        ("options: {header: true, mode: PERMISSIVE}", "source.options.mode", "on_malf"),
        (
            "options: {header: true}\n  on_malformed: skip",
            "source.on_malformed",
            "'dead",
        ),
        (
            "options: {header: true}\nselect:\n  key: ${USER}",
            "select.key",
            "Write the value",
        ),
    ]


@pytest.mark.parametrize("number", range(5))
def test_mistakes_of_newcomers(run, kafka_cluster, topics, tmp_path, number):
    """Each is answered with the file, the line, the key and the right word."""
    servers = kafka_cluster.bootstrap_servers
    change, key, word = mistakes()[number]
    (tmp_path / "rows.csv").write_text("k,v\na,1\n")
    source = {"format": "csv", "path": "rows.csv"}
    text = yaml.safe_dump({"source": source})
    if change.startswith("format"):
        text = "source:\n"
    text += f"  {change}\n"
    rest = {"select": {"key": "k", "value": "k"}} if "select" not in change else {}
    if not rest:
        text += "  value: k\n"
    sink = {"bootstrap_servers": servers, "topic": topics[0]}
    text += yaml.safe_dump(rest | {"sink": sink})
    said = refused(run(text))
    name = key.rpartition(".")[2]
    found = [n for n, line in enumerate(text.splitlines(), 1) if name in line]
    assert "pipeline.yaml cannot be run" in said
    assert f"line {found[0]}: {key}: " in said
    assert word in said


def test_stream_of_kafka_takes_what_is_there(run, pipeline, kafka_cluster, topics):
    """From the earliest offset; Spark would begin at the latest and find nothing."""
    run(pipeline)
    target = kafka_cluster.create_topic()
    servers = kafka_cluster.bootstrap_servers
    options = {"kafka.bootstrap.servers": servers, "subscribe": topics[0]}
    copy = {
        "source": {"format": "kafka", "options": options},
        "select": {"key": "key", "value": "value"},
        "sink": {"bootstrap_servers": servers, "topic": target},
        "stream": {"checkpoint": "checkpoint"},
    }
    result = run(copy, "--json")
    assert result.exit_code == 0, result.output
    assert json.loads(result.stdout)["delivered"] == 2


def test_records_pass_whole_from_kafka_to_kafka(run, kafka_cluster):
    """Repeated and null headers in their order, bytes, null values, and the time."""
    # Records of 2009 are older than retention lets them become.
    kept = {"retention.ms": -1}
    source = kafka_cluster.create_topic(config=kept)
    target = kafka_cluster.create_topic(config=kept)
    servers = kafka_cluster.bootstrap_servers
    headers = [("a", b"1"), ("b", b"\xff"), ("a", None)]
    producer = Producer({"bootstrap.servers": servers})
    producer.produce(source, None, b"\xfe", headers=headers, timestamp=1234567890123)
    producer.produce(source, b"\xfd", None, timestamp=1234567890456)
    producer.flush(20)
    options = {"kafka.bootstrap.servers": servers, "subscribe": source}
    names = ("key", "value", "headers", "timestamp")
    copy = {
        "source": {"format": "kafka", "options": options | {"includeHeaders": True}},
        "select": dict(zip(names, names, strict=True)),
        "sink": {"bootstrap_servers": servers, "topic": target},
    }
    result = run(copy, "--json")
    assert result.exit_code == 0, result.output
    assert json.loads(result.stdout)["delivered"] == 2
    arrived = sorted(map(whole, read(kafka_cluster, target)), key=itemgetter(-1))
    assert arrived == [
        (b"\xfe", None, headers, 1234567890123),
        (None, b"\xfd", None, 1234567890456),
    ]
    copy["select"] |= {"headers": {"k": "key"}}
    assert run(copy, "--json").exit_code == 0
    headers = [message.headers() for message in read(kafka_cluster, target)]
    assert [("k", b"\xfe")] in headers


def whole(message):
    """Return all that a message has."""
    _, at = message.timestamp()
    return message.key(), message.value(), message.headers(), at


def test_options_of_the_kafka_source_are_those_of_spark(spark):
    """Spark's connector keeps their names in constants."""
    java = spark._jvm.java.lang
    loader = java.Thread.currentThread().getContextClassLoader()
    name = "org.apache.spark.sql.kafka010.KafkaSourceProvider$"
    provider = java.Class.forName(name, True, loader)
    fields = {field.getName(): field for field in provider.getDeclaredFields()}
    for field in fields.values():
        field.setAccessible(True)
    module = fields["MODULE$"].get(None)
    keys = [f for name, f in fields.items() if name.endswith("OPTION_KEY")]
    missing = {key.get(module).lower() for key in keys} - known_options()
    assert keys
    assert missing <= {"topic"}


def known_options():
    """Return the names in our own list."""
    return set(map(str.lower, kafka_source.OPTIONS))
