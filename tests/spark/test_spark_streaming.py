"""Streams: the data source, foreachBatch, and both in Connect."""

from __future__ import annotations

import json
import pickle
import shutil

import pytest
from prometheus_client import CollectorRegistry
from pyspark import cloudpickle
from pyspark.sql import functions as F  # noqa: N812 - as everyone calls it

import kafkaguard.spark
from kafkaguard import errors as e
from kafkaguard_adapters.spark.driver.foreach_batch import ForeachBatch
from tests.contracts.producer import until
from tests.spark.spark_reading import letters_to, read, values, why

pytestmark = pytest.mark.xdist_group("spark")
COMPACTED = {"cleanup.policy": "compact"}


@pytest.fixture
def stream(spark, tmp_path):
    """A stream of 1,000 rows in two micro-batches, with a null key at 500."""
    folder = tmp_path / "input"
    number = F.col("id").cast("string")
    key = F.when(F.col("id") != 500, number)
    rows = spark.range(1000, numPartitions=2)
    rows.select(key.alias("key"), number.alias("value")).write.parquet(str(folder))
    reader = spark.readStream.schema("key string, value string")
    return reader.option("maxFilesPerTrigger", 1).parquet(str(folder))


def run(writer, folder):
    """Run a stream to the end of its input; return the query."""
    writer = writer.option("checkpointLocation", str(folder / "checkpoint"))
    query = writer.trigger(availableNow=True).start()
    try:
        assert query.awaitTermination(120)
    finally:
        query.stop()
    return query


def test_stream_dead_letters_and_reports_each_micro_batch(
    spark, stream, kafka_cluster, kafka_topic, tmp_path
):
    """Two lines in the report, one dead letter."""
    kafkaguard.spark.register(spark)
    topic = kafka_cluster.create_topic(config=COMPACTED)
    writer = stream.writeStream.format("kafkaguard").options(
        **{"kafka.bootstrap.servers": kafka_cluster.bootstrap_servers},
        topic=topic,
        policy=json.dumps(letters_to(kafka_topic)),
        report=str(tmp_path / "report.jsonl"),
    )
    run(writer, tmp_path)
    lines = (tmp_path / "report.jsonl").read_text().splitlines()
    reports = [json.loads(line) for line in lines]
    assert [report["batch_id"] for report in reports] == [0, 1]
    assert sum(report["delivered"] for report in reports) == 999
    assert sum(report["appended"] for report in reports) == 1000
    assert [r["maybe_twice"] for r in reports] == [0, 0]
    assert all(report["seconds"] > 0 for report in reports)
    assert len(read(kafka_cluster, topic)) == 999
    assert [why(m)["reason"] for m in read(kafka_cluster, kafka_topic)] == ["NULL_KEY"]


def test_listener_hands_each_batch_of_a_stream_to_prometheus(
    spark, stream, kafka_cluster, kafka_topic, tmp_path
):
    """Records by what became of them, and the seconds of both micro-batches."""
    kafkaguard.spark.register(spark)
    registry = CollectorRegistry()
    report = str(tmp_path / "report.jsonl")
    listener = kafkaguard.spark.ReportListener(
        report, kafkaguard.telemetry.prometheus(registry)
    )
    topic = kafka_cluster.create_topic(config=COMPACTED)
    writer = stream.writeStream.format("kafkaguard").options(
        **{"kafka.bootstrap.servers": kafka_cluster.bootstrap_servers},
        topic=topic,
        policy=json.dumps(letters_to(kafka_topic)),
        report=report,
    )

    def value(name, **labels):
        labels["messaging_destination_name"] = topic
        return registry.get_sample_value(f"kafkaguard_spark_{name}", labels) or 0

    spark.streams.addListener(listener)
    try:
        run(writer, tmp_path)
        until(lambda: value("batch_duration_seconds_count") == 2, 60)
    finally:
        spark.streams.removeListener(listener)
    kept = {"kafkaguard_outcome": "delivered", "error_type": ""}
    refused = {"kafkaguard_outcome": "dead_lettered", "error_type": "NULL_KEY"}
    assert value("records_total", **kept) == 999
    assert value("records_total", **refused) == 1
    assert value("batch_duration_seconds_sum") > 0


def test_stream_that_fails_says_why(spark, stream, kafka_cluster, tmp_path):
    """The query's exception is text; error_from makes an error of it."""
    kafkaguard.spark.register(spark)
    topic = kafka_cluster.create_topic(config=COMPACTED)
    writer = stream.writeStream.format("kafkaguard").options(
        **{"kafka.bootstrap.servers": kafka_cluster.bootstrap_servers}, topic=topic
    )
    with pytest.raises(Exception) as caught:
        run(writer, tmp_path)
    error = kafkaguard.spark.error_from(caught.value)
    assert isinstance(error, e.InvalidRecordKeyError)
    assert error.topic == topic


def test_foreach_batch_is_one_job_over_the_input_for_each_batch(
    spark, stream, kafka_cluster, kafka_topic, tmp_path
):
    """No isEmpty, no count, no cache: each row is read once."""
    topic = kafka_cluster.create_topic(config=COMPACTED)
    reads = spark.sparkContext.accumulator(0)

    def touch(batches):
        for batch in batches:
            reads.add(batch.num_rows)
            yield batch

    reports = []
    function = kafkaguard.spark.foreach_batch(
        topic,
        bootstrap_servers=kafka_cluster.bootstrap_servers,
        policy=letters_to(kafka_topic),
        on_report=lambda report, batch_id: reports.append((batch_id, report)),
    )
    touched = stream.mapInArrow(touch, "key string, value string")
    run(touched.writeStream.foreachBatch(function), tmp_path)
    assert reads.value == 1000
    assert [batch_id for batch_id, _ in reports] == [0, 1]
    assert sum(report.delivered for _, report in reports) == 999
    assert len(read(kafka_cluster, topic)) == 999


def test_foreach_batch_that_fails_says_why(stream, kafka_cluster, tmp_path):
    """The error of foreach_batch is found in the exception of the query."""
    topic = kafka_cluster.create_topic(config=COMPACTED)
    function = kafkaguard.spark.foreach_batch(
        topic, bootstrap_servers=kafka_cluster.bootstrap_servers
    )
    with pytest.raises(Exception) as caught:
        run(stream.writeStream.foreachBatch(function), tmp_path)
    assert isinstance(
        kafkaguard.spark.error_from(caught.value), e.InvalidRecordKeyError
    )


def test_batch_that_is_tried_again_counts_from_its_first_try(
    spark, stream, kafka_cluster, kafka_topic, tmp_path
):
    """The driver ends after the write and before Spark notes it; it is started anew.

    Then the checkpoint is deleted, and that is told.
    """
    seen = []
    function = kafkaguard.spark.foreach_batch(
        kafka_topic,
        bootstrap_servers=kafka_cluster.bootstrap_servers,
        on_report=lambda report, batch_id: seen.append(report),
    )

    def dying(batch, batch_id):
        function(batch, batch_id)
        raise RuntimeError("the driver ends")

    with pytest.raises(Exception, match="the driver ends"):
        run(stream.writeStream.foreachBatch(dying), tmp_path)
    run(stream.writeStream.foreachBatch(function), tmp_path)
    assert [report.maybe_twice for report in seen] == [0, 500, 0]
    assert "was tried before" in seen[1].warnings[0]
    assert len(read(kafka_cluster, kafka_topic)) == 1500
    shutil.rmtree(tmp_path / "checkpoint")
    run(stream.writeStream.foreachBatch(function), tmp_path)
    assert [report.maybe_twice for report in seen[3:]] == [None, None]
    assert "the checkpoint is new" in str(seen[3])


def test_bug_in_a_hook_does_not_break_the_stream(spark, kafka_cluster, kafka_topic):
    """The batch is written already; the bug is logged."""

    def broken(report, batch_id):
        raise ZeroDivisionError

    function = kafkaguard.spark.foreach_batch(
        kafka_topic,
        bootstrap_servers=kafka_cluster.bootstrap_servers,
        on_report=broken,
    )
    function(spark.range(3).select(F.lit("v").alias("value")), 0)
    assert values(kafka_cluster, kafka_topic) == ["v"] * 3


def test_foreach_batch_pickles_and_shows_no_password():
    """It holds settings, no session and no client, however these were imported."""
    function = kafkaguard.spark.foreach_batch(
        "t", bootstrap_servers="b:1", config={"sasl.password": "hunter2"}
    )
    for pickler in (pickle, cloudpickle):
        assert pickle.loads(pickler.dumps(function)) == function
    assert isinstance(function, ForeachBatch)
    assert "hunter2" not in repr(function)
