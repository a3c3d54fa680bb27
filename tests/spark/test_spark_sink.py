"""The sink inside Spark: batches, with four attempts at each task."""

from __future__ import annotations

import json
import os
import pickle
import shutil
import signal
import time

import pytest
from pyspark.sql import functions as F  # noqa: N812 - as everyone calls it

import kafkaguard.spark
from kafkaguard import errors as e
from kafkaguard._delivery.dead_letters import Reason, refusal_facts
from kafkaguard._delivery.dialects import write_headers
from kafkaguard._delivery.sizes import batch_size
from kafkaguard._errors.base import Action
from kafkaguard_adapters.spark.driver import write as write_module
from kafkaguard_adapters.spark.driver.counting import Growth, make_report
from kafkaguard_adapters.spark.driver.data_source import StreamWriter, TaskMessage
from kafkaguard_adapters.spark.driver.plan import plan_write
from kafkaguard_adapters.spark.driver.refused_columns import batch_bytes
from kafkaguard_adapters.spark.executor.task import CountingTask
from kafkaguard_adapters.spark.report import TaskCounts
from kafkaguard_adapters.spark.settings import make_settings
from kafkaguard_adapters.spark.topics import Brokers, SinkTopic
from kafkaguard_adapters.spark.verdicts import record_error
from tests.spark.spark_reading import letters_to, read, values, why

pytestmark = pytest.mark.xdist_group("spark")
COMPACTED = {"cleanup.policy": "compact"}
#: What the headers of such a dead letter say.
NULL_KEY = {"reason": "NULL_KEY", "error": "INVALID_RECORD_KEY", "code": "87"}
HIDE_TRACEBACK = "spark.sql.execution.pyspark.udf.hideTraceback.enabled"


@pytest.fixture
def compacted(kafka_cluster):
    """Create a compacted topic with three partitions."""
    return kafka_cluster.create_topic(partitions=3, config=COMPACTED)


@pytest.fixture
def write(kafka_cluster):
    """Write to the cluster of this test."""

    def call(df, *args, **settings):
        servers = kafka_cluster.bootstrap_servers
        return kafkaguard.spark.write(df, *args, bootstrap_servers=servers, **settings)

    return call


@pytest.fixture
def sink(spark, kafka_cluster):
    """Make a writer of the data source, appending to the cluster of this test."""
    kafkaguard.spark.register(spark)

    def make(df, **options):
        writer = df.write.format("kafkaguard").mode("append").options(**options)
        return writer.option("kafka.bootstrap.servers", kafka_cluster.bootstrap_servers)

    return make


def some(spark, rows=1000, keyless=500):
    """Return rows of which one has no key."""
    number = F.col("id").cast("string")
    key = F.when(F.col("id") != keyless, number)
    return spark.range(rows, numPartitions=4).select(
        key.alias("key"), number.alias("value")
    )


def test_refused_rows_are_counted_and_kept_with_their_reason(
    spark, write, kafka_cluster, kafka_topic, compacted
):
    """999 rows in the topic, one in the other, and the report knows."""
    report = write(some(spark), compacted, policy=letters_to(kafka_topic))
    assert (report.read, report.delivered) == (1000, 999)
    assert report.dead_lettered == {"NULL_KEY": 1}
    assert (report.unaccounted, report.maybe_twice, report.appended) == (0, 0, 1000)
    assert len(read(kafka_cluster, compacted)) == 999
    (dead,) = read(kafka_cluster, kafka_topic)
    assert dead.value() == b"500"
    said = why(dead)
    assert said.pop("message").startswith("NULL_KEY: a record for a compacted topic")
    assert said == NULL_KEY | {"topic": compacted}
    assert "1 dead-lettered (NULL_KEY)" in str(report)
    assert json.loads(json.dumps(report.to_dict()))["unaccounted"] == 0


def test_key_is_checked_as_it_is_written(spark, write, kafka_topic, compacted):
    """A source column without nulls may become a null key on the way."""
    df = spark.range(3).select(F.lit('{"id":1}').alias("value"))
    df = df.withColumn("key", F.get_json_object("value", "$.ID"))
    report = write(df, compacted, policy=letters_to(kafka_topic))
    assert report.dead_lettered == {"NULL_KEY": 3}


def test_null_key_fails_the_job_before_anything_is_sent(
    spark, write, kafka_cluster, compacted
):
    """Four attempts at each task, and not one record in the topic."""
    with pytest.raises(e.InvalidRecordKeyError) as caught:
        write(some(spark, 10_000, 9_000), compacted)
    assert (caught.value.code, caught.value.topic) == (87, compacted)
    assert "NULL_KEY" in str(caught.value)
    assert caught.value.__notes__ == [
        f"0 records were appended to {compacted} while the job ran"
    ]
    assert read(kafka_cluster, compacted) == []


def test_error_of_a_job_survives_pickle(spark, write, compacted):
    """What the driver rebuilt goes through process pools as it is."""
    with pytest.raises(e.InvalidRecordKeyError) as caught:
        write(some(spark), compacted)
    again = pickle.loads(pickle.dumps(caught.value))
    assert type(again) is type(caught.value)
    assert str(again) == str(caught.value)
    assert (again.code, again.topic) == (87, compacted)


def test_too_large_value_fails_the_job_before_anything_is_sent(
    spark, write, kafka_cluster, kafka_topic
):
    """max_record_bytes limits key, value and headers together."""
    df = some(spark).withColumn(
        "headers", F.expr("array(struct('h' key, X'00' value))")
    )
    ok = write(df, kafka_topic, max_record_bytes=3 + 3 + 2)
    assert ok.delivered == 1000
    with pytest.raises(e.MessageTooLargeError, match="TOO_LARGE") as caught:
        write(df, kafka_topic, max_record_bytes=3 + 3 + 1)
    assert "have 8 bytes, and max_record_bytes is 7; raise it" in caught.value.summary
    assert len(read(kafka_cluster, kafka_topic)) == 1000


def test_row_without_a_topic_is_set_aside(spark, write, kafka_cluster, kafka_topic):
    """Spark's own sink fails the job for it."""
    plain = kafka_cluster.create_topic()
    df = some(spark).withColumn("topic", F.when(F.col("key").isNotNull(), plain))
    report = write(df, policy=letters_to(kafka_topic))
    assert report.dead_lettered == {"NULL_TOPIC": 1}
    assert report.delivered == 999
    assert report.maybe_twice is None
    with pytest.raises(e.InvalidTopicError, match="NULL_TOPIC"):
        write(df)


def test_missing_topic_is_found_before_the_job_starts(spark, write, kafka_topic):
    """Spark's own sink waits a minute, four times."""
    started = time.monotonic()
    for topic, policy in [("nope", None), (kafka_topic, letters_to("nope"))]:
        with pytest.raises(e.UnknownTopicOrPartitionError) as caught:
            write(some(spark), topic, policy=policy)
        assert caught.value.topic == "nope"
        assert caught.value.verdict.action is Action.CONFIGURE
        assert "refresh" not in str(caught.value)
    assert time.monotonic() - started < 50


def test_unreachable_broker_is_said_within_a_minute(spark):
    """The error for brokers that are away names their addresses."""
    df = some(spark)
    started = time.monotonic()
    with pytest.raises(e.ClientNotConnectedError, match="localhost:1 answered"):
        kafkaguard.spark.write(df, "t", bootstrap_servers="localhost:1")
    assert time.monotonic() - started < 50


def test_job_with_a_null_key_is_tried_once(spark, write, compacted):
    """A retry around the write knows that it can never succeed."""
    tries = []

    @kafkaguard.retry(kafkaguard.RetryPolicy(max_attempts=5))
    def job():
        tries.append(1)
        write(some(spark), compacted)

    with pytest.raises(e.InvalidRecordKeyError):
        job()
    assert tries == [1]


def places(spark, kafka_cluster, topic):
    """Return rows of which one is meant for a place that there is not."""
    odd = F.col("key") == "500"
    rows = some(spark, keyless=-1)
    partition = F.when(odd, 3).otherwise(F.lit(None)).cast("int")
    return {
        "UNKNOWN_PARTITION": rows.withColumn("partition", partition),
        "UNKNOWN_TOPIC": rows.withColumn("topic", F.when(odd, "nope").otherwise(topic)),
    }


@pytest.mark.parametrize("reason", ["UNKNOWN_PARTITION", "UNKNOWN_TOPIC"])
def test_record_for_a_place_that_there_is_not_is_set_aside_or_fails_the_job(
    spark, write, kafka_cluster, kafka_topic, reason
):
    """Record by record with dead letters; without, nothing has been sent."""
    topic = kafka_cluster.create_topic(partitions=3)
    df = places(spark, kafka_cluster, topic)[reason]
    to = [] if reason == "UNKNOWN_TOPIC" else [topic]
    with pytest.raises(e.UnknownTopicOrPartitionError, match=reason) as caught:
        write(df, *to)
    assert caught.value.topic == ("nope" if reason == "UNKNOWN_TOPIC" else topic)
    assert caught.value.verdict.action is Action.REJECT
    assert "refresh" not in str(caught.value)
    assert caught.value.__notes__[0].startswith("0 records were appended")
    assert read(kafka_cluster, topic) == []

    report = write(df, *to, policy=letters_to(kafka_topic))
    assert (report.delivered, report.dead_lettered) == (999, {reason: 1})
    assert len(read(kafka_cluster, topic)) == 999
    (dead,) = read(kafka_cluster, kafka_topic)
    assert dead.value() == b"500"
    assert why(dead)["reason"] == reason


def test_null_key_of_a_topic_column_fails_the_job_before_anything_is_sent(
    spark, write, kafka_cluster, kafka_topic, compacted
):
    """Whether a topic is compacted is found out below the shuffle."""
    even = F.col("value") % 2 == 0
    df = some(spark).withColumn(
        "topic", F.when(even, F.lit(compacted)).otherwise(F.lit(kafka_topic))
    )
    with pytest.raises(e.InvalidRecordKeyError) as caught:
        write(df)
    assert caught.value.topic == compacted
    (note,) = caught.value.__notes__
    assert note.startswith("0 records were appended")
    assert read(kafka_cluster, kafka_topic) == read(kafka_cluster, compacted) == []
    keyed = df.fillna("k", ["key"])
    with pytest.raises(e.MessageTooLargeError, match="TOO_LARGE"):
        write(keyed, max_record_bytes=3)
    with pytest.raises(e.UnknownTopicOrPartitionError, match="UNKNOWN_PARTITION"):
        write(keyed.withColumn("partition", F.lit(9)))


@pytest.mark.parametrize("by_column", [False, True])
def test_start_of_1970_is_set_aside_or_fails_the_job(
    spark, write, kafka_cluster, kafka_topic, by_column
):
    """The client would write the time of sending; a later timestamp arrives as it is."""
    topic = kafka_cluster.create_topic()
    df = spark.sql(
        "SELECT key, 'v' AS value, timestamp_micros(time) AS timestamp FROM VALUES "
        "('start', 0L), ('end', -500L), ('next', 1000L), ('now', NULL) AS t(key, time)"
    )
    to = [] if by_column else [topic]
    df = df.withColumn("topic", F.lit(topic)) if by_column else df
    with pytest.raises(e.InvalidTimestampError, match="INVALID_TIMESTAMP") as caught:
        write(df, *to)
    assert caught.value.verdict.rule.id == "spark-unwritable-timestamp"
    assert caught.value.__notes__[0].startswith("0 records were appended")
    report = write(df, *to, policy=letters_to(kafka_topic))
    assert (report.delivered, report.dead_lettered) == (2, {"INVALID_TIMESTAMP": 2})
    times = {m.key(): m.timestamp()[1] for m in read(kafka_cluster, topic)}
    assert times.pop(b"now") > 10**12
    assert times == {b"next": 1}
    said = {m.key(): why(m)["timestamp"] for m in read(kafka_cluster, kafka_topic)}
    assert said == {b"start": "0", b"end": "-1"}


HEADERS = "array<struct<key:string,value:binary>>"


@pytest.mark.parametrize(
    "nameless",
    [f"CAST(array(null) AS {HEADERS})", "array(struct(null AS key, X'00' AS value))"],
)
@pytest.mark.parametrize("by_column", [False, True])
def test_header_without_a_name_is_set_aside_or_fails_the_job(
    spark, write, kafka_cluster, kafka_topic, nameless, by_column
):
    """Record by record with dead letters; without, nothing has been sent."""
    topic = kafka_cluster.create_topic()
    rows = some(spark, keyless=-1).withColumn(
        "headers", F.expr(f"if(key = '500', CAST({nameless} AS {HEADERS}), null)")
    )
    df, to = (
        (rows.withColumn("topic", F.lit(topic)), []) if by_column else (rows, [topic])
    )
    with pytest.raises(e.InvalidRecordError, match="NAMELESS_HEADER") as caught:
        write(df, *to)
    assert caught.value.topic == topic
    assert caught.value.verdict.action is Action.REJECT
    assert caught.value.__notes__[0].startswith("0 records were appended")
    assert read(kafka_cluster, topic) == []

    report = write(df, *to, policy=letters_to(kafka_topic))
    assert (report.delivered, report.dead_lettered) == (999, {"NAMELESS_HEADER": 1})
    (dead,) = read(kafka_cluster, kafka_topic)
    assert dead.value() == b"500"
    assert dead.headers()[0][0] == "kafkaguard.header.0"


def test_spark_counts_the_bytes_of_a_record_as_kafka_does(spark):
    """In the topic, that is; at each length from which one more byte is needed."""
    lengths = [0, 1, 63, 64, 8191, 8192]
    rows = [
        (key, "v" * length, own)
        for length in lengths
        for key, own in [
            (None, None),
            ("ü" * length, [("ü", b"x" * length), ("h", None)]),
            ("k", []),
        ]
    ]
    df = spark.createDataFrame(rows, f"key string, value string, headers {HEADERS}")
    counted = [row[0] for row in df.select(batch_bytes(df.columns)).collect()]
    assert counted == [
        batch_size(key and key.encode(), value.encode(), own or ())
        for key, value, own in rows
    ]
    values_only = df.select(batch_bytes(["value"])).first()[0]
    assert values_only == batch_size(None, b"", ())


def test_guard_sink_sets_headers_without_a_name_aside(
    spark, kafka_cluster, kafka_topic, compacted
):
    """Spark's own sink would fail the job with a NullPointerException."""
    nameless = "array(null, struct(null AS key, X'41' AS value))"
    df = some(spark, keyless=-1).withColumn(
        "headers", F.expr(f"if(key = '500', CAST({nameless} AS {HEADERS}), null)")
    )
    guarded = kafkaguard.spark.guard_sink(df, compacted, policy=letters_to(kafka_topic))
    servers = kafka_cluster.bootstrap_servers
    sink = guarded.write.format("kafka").option("includeHeaders", "true")
    sink.option("kafka.bootstrap.servers", servers).save()
    (dead,) = read(kafka_cluster, kafka_topic)
    assert why(dead)["reason"] == "NAMELESS_HEADER"
    assert dead.headers()[:2] == [
        ("kafkaguard.header.0", None),
        ("kafkaguard.header.1", b"A"),
    ]


@pytest.mark.parametrize(
    ("make", "arguments", "said"),
    [
        (lambda spark: None, {}, "df is a DataFrame of Spark, not NoneType"),
        (lambda spark: [1], {}, "df is a DataFrame of Spark, not list"),
        (lambda spark: spark.readStream.format("rate").load(), {}, "foreach_batch"),
        (some, {"order_by": ["keyy"]}, "no column keyy; did you mean 'key'?"),
        (
            some,
            {"order_by": "valu"},
            "did you mean 'value'?; the columns are key, value",
        ),
        (some, {"order_by": ("at", "key")}, "order_by: there is no column at"),
        (some, {"order_by": 1}, "order_by is a list of columns, not int"),
        (some, {"order_by": [1]}, "order_by is a list of columns, not int"),
        (some, {"partitions": -1}, "partitions must be 1 or more, not -1"),
        (some, {"partitions": "4"}, "partitions is a number of tasks, not str"),
    ],
)
def test_wrong_input_is_said_before_anything_starts(
    spark, make, arguments, said, capfd
):
    """Nobody listens at this address: no broker was asked."""
    with pytest.raises(e.ClientConfigurationError) as caught:
        kafkaguard.spark.write(
            make(spark), "t", bootstrap_servers="localhost:1", **arguments
        )
    assert said in caught.value.summary
    assert "Logger" not in capfd.readouterr().err


def test_keys_land_where_sparks_own_sink_puts_them(spark, write, kafka_cluster):
    """Keys of all lengths, the empty one among them: it is a key, not random."""
    ours, theirs = (kafka_cluster.create_topic(partitions=7) for _ in range(2))
    key = F.repeat(F.lit("k"), (F.col("id") % 40).cast("int"))
    df = spark.range(400).select(key.alias("key"), F.lit("v").alias("value"))
    write(df, ours)
    sink = df.write.format("kafka").option("topic", theirs)
    sink.option("kafka.bootstrap.servers", kafka_cluster.bootstrap_servers).save()
    placed = [
        {(m.key(), m.partition()) for m in read(kafka_cluster, topic)}
        for topic in (ours, theirs)
    ]
    assert placed[0] == placed[1]
    assert len(placed[0]) == 40


def test_declared_and_found_must_agree(spark, write, compacted, kafka_topic):
    """A topic whose policy fell back to delete is not written as a compacted one."""
    with pytest.raises(
        e.ClientConfigurationError, match="and the topic is not compacted"
    ):
        write(some(spark), kafka_topic, compacted=True)
    with pytest.raises(e.ClientConfigurationError, match="compacted dead-letter topic"):
        write(some(spark), kafka_topic, policy=letters_to(compacted))


def test_records_of_a_key_arrive_in_the_order_asked_for(
    spark, write, kafka_cluster, compacted
):
    """Whatever order the source has them in."""
    df = spark.range(20_000, numPartitions=4).select(
        (F.col("id") % 97).cast("string").alias("key"),
        F.col("id").cast("string").alias("value"),
        ((F.col("id") * 7919) % 20_000).alias("at"),
    )
    write(df, compacted, order_by=["at"])
    seen = {}
    for message in read(kafka_cluster, compacted):
        at = int(message.value()) * 7919 % 20_000
        assert seen.get(message.key(), -1) < at
        seen[message.key()] = at
    assert len(seen) == 97


def test_data_source_reports_into_a_file(
    spark, sink, kafka_cluster, kafka_topic, compacted, tmp_path
):
    """commit() runs in another process; the file is how its counts get out."""
    report = tmp_path / "report.jsonl"
    options = {"topic": compacted, "policy": json.dumps(letters_to(kafka_topic))}
    sink(some(spark), report=str(report), **options).save()
    counts = json.loads(report.read_text())
    assert (counts["delivered"], counts["dead_lettered"]) == (999, {"NULL_KEY": 1})
    assert counts["maybe_twice"] == 0
    assert len(read(kafka_cluster, compacted)) == 999


@pytest.mark.parametrize("report", ["gone/report.jsonl", ".", "", "nul\0"])
def test_data_source_refuses_a_report_that_cannot_be_written(
    spark, sink, kafka_cluster, kafka_topic, tmp_path, report
):
    """Before anything is sent: who mends it and runs again would double the records."""
    path = str(tmp_path / report) if report else report
    with pytest.raises(Exception, match="report: the file") as caught:
        sink(some(spark), topic=kafka_topic, report=path).save()
    error = kafkaguard.spark.error_from(caught.value)
    assert isinstance(error, e.ClientConfigurationError)
    assert "cannot be written to" in error.summary
    assert read(kafka_cluster, kafka_topic) == []


def test_job_is_done_though_its_report_cannot_be_written_at_the_end(
    spark, sink, kafka_cluster, kafka_topic, tmp_path
):
    """The folder goes while the job runs; failing now would double the records."""
    folder = tmp_path / "reports"
    folder.mkdir()

    def drop(batches):
        shutil.rmtree(folder, ignore_errors=True)
        yield from batches

    df = some(spark).mapInArrow(drop, "key string, value string")
    sink(df, topic=kafka_topic, report=str(folder / "report.jsonl")).save()
    assert not folder.exists()
    assert len(read(kafka_cluster, kafka_topic)) == 1000


@pytest.mark.filterwarnings("error")
def test_counts_are_warned_of_where_the_report_cannot_be_written(tmp_path):
    """In batches and streams, and also where warnings are errors."""
    report = str(tmp_path / "gone" / "report.jsonl")
    settings = make_settings("localhost:1", topic="t", report=report)
    writer = StreamWriter(settings)
    counts = TaskCounts(read=7, delivered=7)
    with pytest.warns(UserWarning, match="records are written, but the report") as told:
        writer.commit([TaskMessage(counts)], 3)
    text = str(told[0].message)
    assert report in text
    assert json.loads(text[text.index("{") :])["delivered"] == 7
    assert json.loads(text[text.index("{") :])["batch_id"] == 3


def test_job_is_done_though_nobody_answers_what_was_appended():
    """How many records may be there twice is unknown then, and no reason to fail."""
    settings = make_settings("localhost:1", topic="t")
    growth = Growth((SinkTopic("t", partitions=1),), before=0, started=time.time())
    report = make_report(settings, TaskCounts(read=7, delivered=7), growth)
    assert (report.delivered, report.appended, report.maybe_twice) == (7, None, None)
    (said,) = report.to_dict()["warnings"]
    assert said.startswith("no broker returned the end offsets")


def test_data_source_fails_with_an_error_that_the_driver_can_read(
    spark, sink, compacted
):
    """Spark makes text of it; error_from makes an error again."""
    with pytest.raises(Exception) as caught:
        sink(some(spark), topic=compacted).save()
    error = kafkaguard.spark.error_from(caught.value)
    assert isinstance(error, e.InvalidRecordKeyError)
    assert (error.code, error.topic) == (87, compacted)


def test_mistake_is_said_shortly_where_spark_hides_tracebacks(spark, sink):
    """Spark's own setting for it works for the options of a data source too."""
    spark.conf.set(HIDE_TRACEBACK, "true")
    try:
        with pytest.raises(Exception) as caught:
            sink(some(spark), topc="t").save()
    finally:
        spark.conf.unset(HIDE_TRACEBACK)
    assert "Traceback" not in str(caught.value)
    assert "did you mean 'topic'?" in str(caught.value)
    error = kafkaguard.spark.error_from(caught.value)
    assert isinstance(error, e.ClientConfigurationError)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"topc": "t"}, "did you mean 'topic'?"),
        ({"topic": "t", "policy": "spark-snik"}, "did you mean 'spark-sink'?"),
        ({"topic": "t", "kafka.linger.ms": "abc"}, "Invalid value"),
        ({"topic": "t", "acks": "1"}, "write kafka.acks"),
        ({}, "no topic is named"),
        ({"topic": "nope"}, "the topic does not exist"),
    ],
)
def test_data_source_checks_before_anything_starts(spark, sink, options, said):
    """The data source checks options, columns and topics before the job starts."""
    with pytest.raises(Exception, match=said) as caught:
        sink(some(spark), **options).save()
    assert said in str(kafkaguard.spark.error_from(caught.value))


def test_topic_column_and_topic_option_are_refused_together(spark, sink, write):
    """A column `topic` beside the option `topic` is refused; Spark would ignore it."""
    df = some(spark).withColumn("topic", F.lit("a"))
    with pytest.raises(e.ClientConfigurationError, match="both a column topic and"):
        write(df, "b")
    with pytest.raises(Exception, match="both a column topic and"):
        sink(df, topic="b").save()


def test_data_source_does_not_overwrite(spark, sink):
    """mode("overwrite") is refused, because Kafka cannot overwrite."""
    with pytest.raises(Exception, match="cannot be overwritten"):
        sink(some(spark), topic="t").mode("overwrite").save()


def test_guard_sink_prepares_rows_for_sparks_own_sink(
    spark, kafka_cluster, kafka_topic, compacted
):
    """Refused rows go to the dead-letter topic in the same pass, with their reason."""
    df = some(spark).withColumn(
        "value", F.when(F.col("key") == "7", F.repeat(F.lit("x"), 5000)).otherwise("v")
    )
    guarded = kafkaguard.spark.guard_sink(
        df, compacted, policy=letters_to(kafka_topic), max_record_bytes=4000
    )
    servers = kafka_cluster.bootstrap_servers
    guarded.write.format("kafka").option("kafka.bootstrap.servers", servers).save()
    assert len(read(kafka_cluster, compacted)) == 998
    found = {why(m)["reason"]: m for m in read(kafka_cluster, kafka_topic)}
    assert set(found) == {"NULL_KEY", "TOO_LARGE"}
    assert len(found["TOO_LARGE"].value()) == 1024
    assert why(found["TOO_LARGE"])["value_bytes"] == "5000"
    assert why(found["NULL_KEY"])["topic"] == compacted


def test_guard_sink_without_dead_letters_lands_nothing(spark, kafka_cluster, compacted):
    """The check is below the shuffle, so Spark's sink never starts."""
    guarded = kafkaguard.spark.guard_sink(some(spark), compacted)
    servers = kafka_cluster.bootstrap_servers
    with pytest.raises(Exception) as caught:
        guarded.write.format("kafka").option("kafka.bootstrap.servers", servers).save()
    error = kafkaguard.spark.error_from(caught.value)
    assert isinstance(error, e.InvalidRecordKeyError)
    assert read(kafka_cluster, compacted) == []
    with pytest.raises(e.ClientConfigurationError, match="drop the column topic"):
        kafkaguard.spark.guard_sink(guarded, compacted)


@pytest.mark.parametrize(
    ("columns", "arguments", "said"),
    [
        ("value as Key, value", {}, "column Key would be ignored"),
        ("key, key as TOPIC, value", {}, "column TOPIC would be ignored"),
        ("key", {}, "there is no column value"),
        ("key, value, 'x' as headers", {}, "column headers is string, and must be arr"),
        ("key, value, 1L as partition", {}, "column partition is bigint"),
        ("key, value, 'x' as topic", {}, "drop the column topic"),
        ("key, value", {"policy": letters_to("comp")}, "are the same"),
        ("key, value", {"policy": letters_to("")}, "not a valid topic name"),
        ("key, value", {"topic": ""}, "topic is empty"),
        ("key, value", {"topic": "a b"}, "'a b' is not a valid topic name"),
        ("key, value", {"topic": None}, "topic is the name of a topic, not NoneType"),
        ("key, value", {"max_record_bytes": 0}, "max_record_bytes must be 1 or more"),
        ("key, value", {"partitions": 0}, "partitions must be 1 or more"),
    ],
)
def test_guard_sink_refuses_what_write_refuses(spark, columns, arguments, said):
    """A column of another case would be lost, and each record be called keyless."""
    df = some(spark).selectExpr(*columns.split(", "))
    with pytest.raises(e.ClientConfigurationError) as caught:
        kafkaguard.spark.guard_sink(df, **{"topic": "comp", **arguments})
    assert said in caught.value.summary


def test_guard_sink_keeps_the_partition(spark, kafka_cluster, kafka_topic):
    """A dead letter has it in a header, since its topic has other partitions."""
    topic = kafka_cluster.create_topic(partitions=3, config=COMPACTED)
    asked = F.expr("if(key = '7', -1, if(key = '8', null, 2))").cast("int")
    df = some(spark).withColumn("partition", asked)
    guarded = kafkaguard.spark.guard_sink(df, topic, policy=letters_to(kafka_topic))
    assert guarded.columns == ["topic", "key", "value", "headers", "partition"]
    servers = kafka_cluster.bootstrap_servers
    guarded.write.format("kafka").option("kafka.bootstrap.servers", servers).save()
    landed = read(kafka_cluster, topic)
    assert len(landed) == 998
    assert {m.partition() for m in landed if m.key() != b"8"} == {2}
    letters = {m.value(): why(m) for m in read(kafka_cluster, kafka_topic)}
    for said in letters.values():
        assert said.pop("message").startswith(said["reason"])
    assert letters == {
        b"500": NULL_KEY | {"topic": topic, "partition": "2"},
        b"7": {
            "reason": "UNKNOWN_PARTITION",
            "topic": topic,
            "error": "UNKNOWN_TOPIC_OR_PARTITION",
            "code": "3",
        },
    }


def test_report_does_not_hang_on_observed_metrics(spark, write, kafka_topic):
    """Counts come from the tasks, where Observation.get would wait for ever."""
    started = time.monotonic()
    assert write(some(spark), kafka_topic).read == 1000
    assert time.monotonic() - started < 60


def test_attempt_after_a_refusal_sends_nothing_again(
    spark, write, kafka_cluster, compacted, monkeypatch
):
    """The broker alone knows of the null key; four attempts would append four times."""
    believed = SinkTopic(compacted, 3, compacted=False)
    monkeypatch.setattr(write_module, "look_up", lambda _: {compacted: believed})
    partition = F.col("value").cast("int") % 2
    df = some(spark, 2, keyless=1).withColumn("partition", partition)
    with pytest.raises(e.InvalidRecordKeyError) as caught:
        write(df, compacted, partitions=1)
    assert caught.value.verdict.action is Action.REJECT
    assert values(kafka_cluster, compacted) == ["0"]
    assert caught.value.__notes__ == [
        f"1 records were appended to {compacted} while the job ran"
    ]


def test_killed_worker_loses_nothing_and_doubles_are_reported(
    spark, write, kafka_cluster, kafka_topic, tmp_path
):
    """A Python worker is killed in the middle; Spark runs the task again."""
    flag = tmp_path / "killed"
    client = {"bootstrap.servers": kafka_cluster.bootstrap_servers}

    def die_once(batches):
        for batch in batches:
            yield batch
            if not flag.exists():
                brokers = Brokers(client)
                while not brokers.end_offsets([kafka_topic]):
                    pass
                flag.touch(exist_ok=False)
                os.kill(os.getpid(), signal.SIGKILL)

    df = spark.range(100_000, numPartitions=1).select(
        F.col("id").cast("string").alias("value")
    )

    class DyingTask(CountingTask):
        def __call__(self, batches):
            return super().__call__(die_once(batches))

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(write_module, "CountingTask", DyingTask)
        report = write(df, kafka_topic, partitions=1, config={"linger.ms": "0"})
    assert report.retried_tasks == 1
    assert (report.read, report.delivered) == (100_000, 100_000)
    landed = values(kafka_cluster, kafka_topic)
    assert set(landed) == {str(number) for number in range(100_000)}
    assert report.appended == len(landed)
    assert report.maybe_twice == len(landed) - 100_000
    assert report.maybe_twice > 0


@pytest.mark.parametrize("dialect", ["own", "spring", "connect"])
def test_guard_sink_obeys_the_policy(spark, compacted, dialect):
    """Refused rows are set aside, dropped, or fail the job, reason by reason."""
    df = some(spark, 10, keyless=1).withColumn("partition", F.lit(7))
    large = F.when(F.col("value") == "2", F.repeat(F.lit("x"), F.lit(100)))
    df = df.withColumn("value", F.coalesce(large, F.col("value")))
    letters = {"topic": "dead", "headers": dialect}
    drop = {"when": {"error": "MESSAGE_TOO_LARGE"}, "on_reject": "drop"}
    policy = letters_to("dead", dead_letter=letters, overrides=[drop])
    guarded = kafkaguard.spark.guard_sink(
        df, compacted, policy=policy, max_record_bytes=50
    )
    rows = guarded.collect()
    assert [row.topic for row in rows].count(compacted) == 8
    (dead,) = [row for row in rows if row.topic == "dead"]
    found = {header.key: bytes(header.value) for header in dead.headers}
    error = record_error(Reason.NULL_KEY, compacted)
    expected = dict(write_headers(refusal_facts(error, partition=7), dialect))
    assert found == expected
    fatal = policy | {"overrides": [drop | {"on_reject": "raise"}]}
    guarded = kafkaguard.spark.guard_sink(
        df, compacted, policy=fatal, max_record_bytes=50
    )
    with pytest.raises(Exception, match="TOO_LARGE"):
        guarded.collect()


def test_policy_that_drops_counts_what_it_drops(spark, write, kafka_cluster, compacted):
    """Nothing is written for such a record, and the report has the reason."""
    report = write(some(spark), compacted, policy={"on_reject": "drop"})
    assert (report.read, report.delivered, report.unaccounted) == (1000, 999, 0)
    assert report.dropped == {"NULL_KEY": 1}
    assert "1 dropped (NULL_KEY)" in str(report)
    assert len(read(kafka_cluster, compacted)) == 999


def test_override_lets_one_reason_fail_the_job_before_anything_is_sent(
    spark, write, kafka_cluster, kafka_topic, compacted
):
    """An override fails the job for one reason; other records are set aside."""
    rule = {"when": {"error": "InvalidRecordKeyError"}, "on_reject": "raise"}
    with pytest.raises(e.InvalidRecordKeyError):
        write(some(spark), compacted, policy=letters_to(kafka_topic, overrides=[rule]))
    assert read(kafka_cluster, compacted) == []
    rule["when"] = {"error": "MESSAGE_TOO_LARGE"}
    report = write(
        some(spark), compacted, policy=letters_to(kafka_topic, overrides=[rule])
    )
    assert report.dead_lettered == {"NULL_KEY": 1}


def test_nothing_is_shuffled_where_nothing_asks_for_it(spark):
    """Only a policy that raises, an order or a number of tasks does."""
    topics = {name: SinkTopic(name, 3, compacted=True) for name in ("t", "d")}

    def shuffles(policy, **more):
        settings = make_settings("b:1", topic="t", policy=policy)
        df = some(spark)
        plan = plan_write(df, settings, topics, df.columns, **more)
        return "Exchange" in plan._jdf.queryExecution().executedPlan().toString()

    assert not shuffles(letters_to("d"))
    assert not shuffles({"on_reject": "drop"})
    assert shuffles(None)
    assert shuffles(letters_to("d"), partitions=2)
    assert shuffles(letters_to("d"), order_by=["value"])
