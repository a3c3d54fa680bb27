"""What a pipeline reads, judged without Spark: its options, and its malformed lines."""

from __future__ import annotations

import pytest

from kafkaguard_adapters.spark.pipeline.kafka_source import with_beginning
from kafkaguard_adapters.spark.pipeline.model import Pipeline
from kafkaguard_adapters.spark.pipeline.options import wrong_names
from kafkaguard_adapters.spark.pipeline.places import MistakeError
from kafkaguard_adapters.spark.pipeline.rows import on_malformed
from tests.spark.spark_reading import letters_to

SINK = {"bootstrap_servers": "b:1", "topic": "t"}
SELECT = {"key": "k", "value": "v"}


def pipeline(source, **parts):
    """Make a pipeline from a source."""
    return Pipeline.model_validate(
        {"source": source, "select": SELECT, "sink": SINK} | parts
    )


def test_unknown_option_is_named_with_the_nearest_right_one():
    """Whatever its case; a setting of a file system is passed over."""
    known = ["header", "nullValue", "sep"]
    fine = {"HEADER": True, "nullvalue": "NA", "fs.s3a.endpoint": "s3"}
    source = {"format": "csv", "options": fine}
    assert list(wrong_names(pipeline(source).source, known)) == []
    source["options"] |= {"headr": 1, "nulValue": "NA"}
    header, null = wrong_names(pipeline(source).source, known)
    assert header.place == ("source", "options", "headr")
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
    (wrong,) = wrong_names(pipeline(source).source, ["startingOffsets", *KNOWN])
    assert said in wrong.message


KNOWN = ["kafka.bootstrap.servers", "subscribe"]


def test_beginning_that_is_given_is_kept():
    """Any option for the start of a Kafka source is kept."""
    assert with_beginning({}) == {"startingOffsets": "earliest"}
    given = {"STARTINGTimestamp": "1"}
    assert given == with_beginning(given)


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
    assert fate == on_malformed(pipeline(source, **parts))


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
        on_malformed(pipeline(source))
    assert key == caught.value.place[-1]
    assert said in caught.value.message
