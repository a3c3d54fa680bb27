"""Continuous triggers, under which Spark calls no sink in Python."""

from __future__ import annotations

import pytest

import kafkaguard.spark
from kafkaguard import errors as e
from kafkaguard_adapters.spark.driver.batch_notes import check_trigger
from kafkaguard_adapters.spark.driver.data_source import StreamWriter, TaskMessage
from kafkaguard_adapters.spark.marker import TaskFailedError
from kafkaguard_adapters.spark.report import TaskCounts
from kafkaguard_adapters.spark.settings import make_settings


@pytest.mark.xdist_group("spark")
def test_stream_with_a_continuous_trigger_is_refused_at_its_start(
    spark, kafka_cluster, kafka_topic, tmp_path
):
    """Spark would commit epochs whose records were given to no sink."""
    kafkaguard.spark.register(spark)
    rows = spark.readStream.format("rate").option("numPartitions", 1).load()
    writer = (
        rows.selectExpr("cast(value as string) as value")
        .writeStream.format("kafkaguard")
        .option("kafka.bootstrap.servers", kafka_cluster.bootstrap_servers)
        .option("topic", kafka_topic)
        .option("checkpointLocation", str(tmp_path / "checkpoint"))
    )
    query = writer.trigger(continuous="1 second").start()
    try:
        with pytest.raises(Exception) as caught:
            assert query.awaitTermination(30)
    finally:
        query.stop()
    error = kafkaguard.spark.error_from(caught.value)
    assert isinstance(error, e.ClientConfigurationError)
    assert "trigger(processingTime=...)" in str(error)
    assert not list((tmp_path / "checkpoint").glob("commits/[0-9]*"))


def test_epoch_without_a_message_of_each_task_is_not_committed():
    """Spark has not called write(), so the records of the epoch are nowhere."""
    writer = StreamWriter(make_settings("localhost:1", topic="t"))
    with pytest.raises(TaskFailedError, match="trigger"):
        writer.commit([None, None], 0)


@pytest.mark.parametrize("messages", [[], [TaskMessage(TaskCounts())]])
def test_micro_batch_without_partitions_or_records_is_committed(messages):
    """A task without records has a message; without partitions there are no tasks."""
    StreamWriter(make_settings("localhost:1", topic="t")).commit(messages, 0)


@pytest.mark.parametrize(
    ("offsets", "commits", "is_micro_batch"),
    [
        ([], [], False),
        ([0], [], True),
        ([8, 9, 10], [8, 9], True),
        ([9, 10], [9, 10], False),
        (["10.tmp", ".10.crc", 9], [9], False),
    ],
)
def test_micro_batch_is_in_the_log_before_its_sink_is_planned(
    tmp_path, offsets, commits, is_micro_batch
):
    """A continuous query writes to the log of offsets only while it runs."""
    for log, names in (("offsets", offsets), ("commits", commits)):
        (tmp_path / log).mkdir()
        for name in names:
            (tmp_path / log / str(name)).touch()
    if is_micro_batch:
        check_trigger(str(tmp_path))
        check_trigger(tmp_path.as_uri())
    else:
        with pytest.raises(e.ClientConfigurationError, match="trigger"):
            check_trigger(str(tmp_path))


def test_checkpoint_that_cannot_be_read_is_no_reason_to_refuse_a_stream():
    """Spark may know file systems that Arrow does not."""
    check_trigger("strange://bucket/checkpoint")
