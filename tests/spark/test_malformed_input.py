"""What a pipeline reads, judged without Spark: its options, its header, its casts."""

from __future__ import annotations

import hashlib

import pytest

from kafkaguard_adapters.spark.pipeline.casts import strip_casts
from kafkaguard_adapters.spark.pipeline.kafka_source import (
    check_other_topics,
    with_beginning,
)
from kafkaguard_adapters.spark.pipeline.malformed import find_line_number
from kafkaguard_adapters.spark.pipeline.model import Pipeline
from kafkaguard_adapters.spark.pipeline.options import find_wrong_names
from kafkaguard_adapters.spark.pipeline.places import MistakeError
from kafkaguard_adapters.spark.pipeline.rows import (
    decide_on_malformed,
    describe_wrong_header,
)
from tests.spark.spark_reading import letters_to

SINK = {"bootstrap_servers": "b:1", "topic": "t"}
SELECT = {"key": "k", "value": "v"}


def pipeline(source, **parts):
    """Make a pipeline from a source."""
    return Pipeline.model_validate(
        {"source": source, "select": SELECT, "sink": SINK} | parts
    )


@pytest.mark.parametrize(
    ("expression", "inner"),
    [
        ("k", None),
        ("cast(k as string)", "k"),
        ("TRY_CAST( k AS decimal(10, 2))", "k"),
        ("cast(try_cast(a.k as int) as string)", "a.k"),
        ("k::int", "k"),
        ("k::decimal(3,1)::string", "k"),
        ("cast(f(k) as int)::string", "f(k)"),
        ("cast(a as string) || cast(b as string)", None),
        ("cast(')' || k as string)", "')' || k"),
        ("upper(cast(k as string))", None),
        ("cast(map('a', k) as map<string, string>)", "map('a', k)"),
    ],
)
def test_casts_are_peeled_off(expression, inner):
    """Down to the value that one of them may make null of."""
    assert inner == strip_casts(expression)


def test_unknown_option_is_named_with_the_nearest_right_one():
    """Whatever its case; a setting of a file system is passed over."""
    known = ["header", "nullValue", "sep"]
    fine = {"HEADER": True, "nullvalue": "NA", "fs.s3a.endpoint": "s3"}
    source = {"format": "csv", "options": fine}
    assert list(find_wrong_names(pipeline(source).source, known)) == []
    source["options"] |= {"headr": 1, "nulValue": "NA"}
    header, null = find_wrong_names(pipeline(source).source, known)
    assert header.path == ("source", "options", "headr")
    assert "did you mean 'header'?" in header.message
    assert "did you mean 'nullValue'?" in null.message


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("startingOffset", "did you mean 'startingOffsets'?"),
        ("bootstrap.servers", "did you mean 'kafka.bootstrap.servers'?"),
        ("acks", "written 'kafka.acks'"),
        ("kafka.securty.protocol", "did you mean 'kafka.security.protocol'?"),
    ],
)
def test_options_of_kafka_are_known(name, said):
    """With the prefix that its client's settings have."""
    source = {
        "format": "kafka",
        "options": {name: "x", "kafka.anything": 1, "kafka.Linger.ms": 1},
    }
    (wrong,) = find_wrong_names(pipeline(source).source, ["startingOffsets", *KNOWN])
    assert said in wrong.message


KNOWN = ["kafka.bootstrap.servers", "subscribe"]


@pytest.mark.parametrize(
    ("options", "place"),
    [
        ({"subscribe": "a, t"}, "sink.topic"),
        ({"subscribe": "dead"}, "policy.dead_letter.topic"),
        ({"assign": '{"t": [0]}'}, "sink.topic"),
        ({"subscribePattern": "[s-u]"}, "sink.topic"),
    ],
)
def test_topic_that_is_read_and_written_is_refused(options, place):
    """By each of the ways that Spark has to name topics."""
    servers = {"kafka.bootstrap.servers": "other:1, PLAINTEXT://B:1"}
    source = {"format": "kafka", "options": options | servers}
    with pytest.raises(MistakeError) as caught:
        check_other_topics(pipeline(source, policy=letters_to("dead")))
    (problem,) = caught.value.problems
    assert ("source", "options", next(iter(options))) == problem.path
    assert f"written to by {place}" in problem.message


@pytest.mark.parametrize(
    ("servers", "options"),
    [
        ("b:1", {"subscribe": "u"}),
        ("b:1", {"assign": "{"}),
        ("b:1", {"subscribePattern": "("}),
        ("b:1", {"subscribePattern": "a.*"}),
        ("elsewhere:1", {"subscribe": "t"}),
    ],
)
def test_other_topic_or_other_cluster_may_be_read(servers, options):
    """The same name on other brokers is a copy of a topic."""
    options = options | {"kafka.bootstrap.servers": servers}
    check_other_topics(pipeline({"format": "kafka", "options": options}))


def test_beginning_that_is_given_is_kept():
    """Whichever option says it."""
    assert with_beginning({}) == {"startingOffsets": "earliest"}
    given = {"STARTINGTimestamp": "1"}
    assert given == with_beginning(given)


@pytest.mark.parametrize(
    ("first", "has_header", "said"),
    [
        (["k", "v"], True, None),
        (["K ", "V"], True, None),
        (["v", "k"], True, "the header of the file has v, k"),
        (["k", "v", "w"], True, "declare all columns"),
        (["k;v"], True, "is one value, k;v: if ';' separates its values, set sep: ';'"),
        (["k,v"], True, "the header of the file has k,v"),
        (["a", "1"], False, None),
        (["k", "v"], False, "add header: true to the options"),
        ([], True, None),
        ([], False, None),
        ([None, "v"], True, "the header of the file has , v"),
    ],
)
def test_first_line_of_a_csv_file_is_compared_with_the_columns(first, has_header, said):
    """Spark reads by place, and would pass over the names."""
    found = describe_wrong_header(first, ["k", "v"], has_header)
    assert said is None if found is None else said in found


DEAD = {"policy": letters_to("d")}


@pytest.mark.parametrize(
    ("source", "parts", "fate"),
    [
        ({"format": "csv"}, {}, "raise"),
        ({"format": "JSON"}, DEAD, "dead_letter"),
        ({"format": "json", "on_malformed": "raise"}, DEAD, "raise"),
        ({"format": "csv", "options": {"mode": "failfast"}}, DEAD, "raise"),
        ({"format": "parquet"}, DEAD, None),
    ],
)
def test_fate_of_malformed_lines(source, parts, fate):
    """As is asked for; else what the policy does with refused records."""
    assert fate == decide_on_malformed(pipeline(source, **parts))


@pytest.mark.parametrize(
    ("source", "key", "said"),
    [
        ({"format": "parquet", "on_malformed": "raise"}, "on_malformed", "csv, json"),
        ({"format": "csv", "on_malformed": "dead_letter"}, "on_malformed", "a policy"),
        (
            {"format": "csv", "options": {"mode": "DROPMALFORMED"}},
            "mode",
            "keep malfor",
        ),
        ({"format": "csv", "options": {"Mode": "PERMISSIVE"}}, "Mode", "on_malformed"),
        (
            {"format": "json", "options": {"columnNameOfCorruptRecord": "c"}},
            "columnNameOfCorruptRecord",
            "leave it out",
        ),
    ],
)
def test_fate_that_cannot_be_is_refused(source, key, said):
    """With the key, and what to write."""
    with pytest.raises(MistakeError) as caught:
        decide_on_malformed(pipeline(source))
    (problem,) = caught.value.problems
    assert key == problem.path[-1]
    assert said in problem.message


def test_line_is_found_by_its_digest(tmp_path):
    """Without its end; a file that is not on this machine is not looked into."""
    file = tmp_path / "a file.csv"
    file.write_bytes(b"a,1\r\nb,x\nc,2")
    digest = hashlib.md5(b"b,x").hexdigest()
    assert find_line_number(file.as_uri(), digest) == 2
    assert find_line_number(file.as_uri(), "0" * 32) is None
    assert find_line_number("s3a://bucket/a.csv", digest) is None
    assert find_line_number((tmp_path / "gone").as_uri(), digest) is None
