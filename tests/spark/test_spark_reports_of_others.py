"""Public reports of what went wrong in Spark jobs, one group a test, by its number."""

from __future__ import annotations

import pickle
import time

import pyarrow as pa
import pytest
from pyspark import cloudpickle
from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812 - as everyone calls it

import kafkaguard.spark
from kafkaguard import errors as e
from kafkaguard_adapters.spark.driver.options import from_options
from kafkaguard_adapters.spark.executor.delivery import Delivery
from kafkaguard_adapters.spark.executor.task import CountingTask
from kafkaguard_adapters.spark.settings import make_settings
from kafkaguard_adapters.spark.topics import SinkTopic, look_up
from tests.spark.spark_reading import read, values

pytestmark = pytest.mark.xdist_group("spark")
COMPACTED = {"cleanup.policy": "compact"}


def rows_of(count):
    """Make an Arrow batch of so many records."""
    texts = [str(number) for number in range(count)]
    return pa.record_batch({"key": pa.array(texts), "value": pa.array(texts)})


def delivered(settings, topics, count):
    """Send so many records as one task does; return how many are delivered."""
    with Delivery(settings, topics) as delivery:
        delivery.send(rows_of(count))
        delivery.end_window()
    return delivery.counts.delivered


def test_counts_are_not_doubled_by_a_sort(spark, kafka_cluster, kafka_topic):
    """Spark's observed metrics count once for the sort's sample, too."""
    df = spark.range(1000).select(F.col("id").cast("string").alias("value"))
    report = kafkaguard.spark.write(
        df.orderBy("value"),
        kafka_topic,
        bootstrap_servers=kafka_cluster.bootstrap_servers,
    )
    assert (report.read, report.delivered, report.maybe_twice) == (1000, 1000, 0)


def test_task_is_pickled_without_a_client_and_by_its_name():
    """So whoever runs it needs the package, and says so if it is not there."""
    settings = make_settings("b:1", topic="t")
    task = CountingTask(settings, {"t": SinkTopic("t", 1)})
    for text in (pickle.dumps(task), cloudpickle.dumps(task)):
        assert b"kafkaguard_adapters.spark.executor.task" in text
        assert b"cimpl" not in text
        assert pickle.loads(text) == task


def test_tail_of_a_partition_is_flushed(kafka_cluster, kafka_topic):
    """The last records would linger for a minute."""
    settings = make_settings(
        kafka_cluster.bootstrap_servers, topic=kafka_topic, config={"linger.ms": 60_000}
    )
    assert delivered(settings, look_up(settings), 3) == 3
    assert values(kafka_cluster, kafka_topic) == ["0", "1", "2"]


@pytest.mark.parametrize("name", ["kafka.key.serializer", "kafka.value.serializer"])
def test_there_is_no_serializer_that_could_fail(name):
    """Bytes go as they are; a setting that does nothing is refused."""
    options = {"kafka.bootstrap.servers": "b:1", "topic": "t", name: "x.Y"}
    with pytest.raises(e.ClientConfigurationError, match="bytes of the column"):
        from_options(options)


def test_full_queue_of_a_broker_that_is_away_fails_the_task_in_time(
    kafka_cluster, kafka_topic
):
    """The next task has a producer of its own."""
    config = {"queue.buffering.max.messages": 1000, "delivery.timeout.ms": 1000}
    away = make_settings("localhost:1", topic=kafka_topic, config=config)
    topics = {kafka_topic: SinkTopic(kafka_topic, 1)}
    started = time.monotonic()
    with pytest.raises(e.ClientTimeoutError):
        delivered(away, topics, 5000)
    assert time.monotonic() - started < 60
    config["delivery.timeout.ms"] = 60_000
    there = make_settings(
        kafka_cluster.bootstrap_servers, topic=kafka_topic, config=config
    )
    assert delivered(there, topics, 10) == 10


def test_write_caches_nothing_and_leaves_the_session_as_it_is(
    spark, kafka_cluster, kafka_topic, monkeypatch
):
    """Serverless Spark refuses a cache; Connect's batch has a session of its own."""

    def refuse(*_):
        raise AssertionError("a frame is cached")

    kind = type(spark.range(1))
    assert issubclass(kind, DataFrame)
    for name in ("persist", "cache", "createOrReplaceTempView"):
        monkeypatch.setattr(kind, name, refuse)
    before = dict(spark.conf.getAll)
    report = kafkaguard.spark.write(
        spark.range(10).select(F.lit("v").alias("value")),
        kafka_topic,
        bootstrap_servers=kafka_cluster.bootstrap_servers,
    )
    assert report.delivered == 10
    assert dict(spark.conf.getAll) == before


def test_number_of_attempts_cannot_be_set_in_a_running_session(spark):
    """So nothing promises it: an attempt that can only fail ends at once instead."""
    with pytest.raises(Exception, match=r"spark\.task\.maxFailures"):
        spark.conf.set("spark.task.maxFailures", "1")


def test_check_survives_the_optimizer(spark):
    """Where Spark believes that a key cannot be null, too."""
    df = spark.range(3).select(
        F.col("id").cast("string").alias("key"), F.lit("v").alias("value")
    )
    assert not df.schema["key"].nullable
    guarded = kafkaguard.spark.guard_sink(
        df.withColumn("key", F.when(F.col("key") != "1", F.col("key"))), "comp"
    )
    plan = guarded._jdf.queryExecution().optimizedPlan().toString()
    assert "raise_error" in plan


@pytest.mark.parametrize("source", ["local rows", "range"])
def test_refused_row_is_told_wherever_spark_meets_it(spark, kafka_cluster, source):
    """Rows that the driver holds are evaluated by its optimizer, others by tasks."""
    topic = kafka_cluster.create_topic(config=COMPACTED)
    if source == "range":
        number = F.col("id").cast("string")
        key = F.when(number != "1", number)
        df = spark.range(3).select(key.alias("key"), number.alias("value"))
    else:
        df = spark.sql("SELECT * FROM VALUES ('0', '0'), (null, '1') AS t(key, value)")
    with pytest.raises(e.InvalidRecordKeyError) as caught:
        kafkaguard.spark.write(
            df, topic, bootstrap_servers=kafka_cluster.bootstrap_servers
        )
    assert caught.value.topic == topic
    assert read(kafka_cluster, topic) == []
