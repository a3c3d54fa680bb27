"""Exactly once with real Spark and brokers: each refusal, and each way out."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import time
import uuid
from dataclasses import replace
from pathlib import Path

import pytest
import yaml
from confluent_kafka.admin import AdminClient
from pyspark import TaskContext
from pyspark.sql import functions as F  # noqa: N812 - as everyone calls it

import kafkaguard.spark
from kafkaguard import errors as e
from kafkaguard.cli.group import run as run_command
from kafkaguard_adapters.spark.driver import once
from kafkaguard_adapters.spark.driver.once import read_once, write_once
from kafkaguard_adapters.spark.executor.once_task import OnceTask
from kafkaguard_adapters.spark.pipeline.file import load_pipeline
from kafkaguard_adapters.spark.pipeline.run import plan
from kafkaguard_adapters.spark.pipeline.run import run as run_pipeline
from kafkaguard_adapters.spark.settings import make_settings
from kafkaguard_adapters.spark.topics import look_up
from tests.spark.spark_reading import committed, committed_values, letters_to, why

pytestmark = pytest.mark.xdist_group("spark")
ROWS = 1000
SHARDS = 2
TEXTS = [str(number) for number in range(ROWS)]


@pytest.fixture
def name():
    """A name that no other write has."""
    return f"once-{uuid.uuid4().hex[:8]}"


@pytest.fixture
def rows(spark):
    """1,000 rows with keys and values."""
    number = F.col("id").cast("string")
    return spark.range(ROWS, numPartitions=2).select(
        number.alias("key"), number.alias("value")
    )


@pytest.fixture
def write(kafka_cluster, kafka_topic, name):
    """Write exactly once; with ``anew``, as another process would."""

    def write(frame, *, anew=False, **options):
        if anew:
            once._drivers.clear()
        options = {"exactly_once": name, "topic": kafka_topic} | options
        servers = kafka_cluster.bootstrap_servers
        return kafkaguard.spark.write(
            frame, bootstrap_servers=servers, partitions=SHARDS, **options
        )

    return write


def landed(cluster, topic):
    """Return what readers of committed records see, sorted."""
    return sorted(committed_values(cluster, topic), key=int)


def test_a_repeated_job_writes_nothing_again(write, rows, kafka_cluster, kafka_topic):
    """Its shards are compared with what was written, and skipped."""
    first = write(rows)
    assert (first.read, first.delivered, first.replayed) == (ROWS, ROWS, (0, 0))
    assert (first.maybe_twice, first.appended) == (0, None)
    assert 0 < first.longest_transaction < 900
    again = write(rows, anew=True)
    assert (again.delivered, again.replayed) == (ROWS, (SHARDS, ROWS))
    assert again.valid_until == pytest.approx(first.valid_until, abs=2)
    assert f"{ROWS:,} of them before (in 2 shards)" in str(again)
    assert landed(kafka_cluster, kafka_topic) == TEXTS


def test_a_replay_with_other_tasks_has_the_same_shards(
    spark, write, rows, kafka_cluster, kafka_topic
):
    """The number of files, cores and shuffle partitions does not matter."""
    write(rows, batch=0)
    spark.conf.set("spark.sql.shuffle.partitions", "7")
    try:
        other = rows.repartition(5).orderBy(F.desc("value"))
        again = write(other, batch=0, anew=True)
    finally:
        spark.conf.set("spark.sql.shuffle.partitions", "2")
    assert again.replayed == (SHARDS, ROWS)
    assert landed(kafka_cluster, kafka_topic) == TEXTS


class LosesMapOutput(OnceTask):
    """A task that reads the beginning of its shard, while the rest is deleted once."""

    def __call__(self, batches):
        """Write the shard."""
        context = TaskContext.get()
        lost = Path(context.getLocalProperty("lost"))
        if context.partitionId() == 0 and not lost.exists():
            batches = self.lose_the_rest(batches, lost)
        return super().__call__(batches)

    @staticmethod
    def lose_the_rest(batches, lost):
        """Delete what was shuffled once there was a batch."""
        for batch in batches:
            if not lost.exists():
                files = [*lost.parent.glob("blockmgr-*/*/shuffle_*.data")]
                lost.write_text(str(len(files)))
                for file in files:
                    file.unlink()
            yield batch


def test_lost_map_output_is_no_end_of_a_shard(
    spark, write, kafka_cluster, kafka_topic, monkeypatch
):
    """PySpark shows the task fewer rows and no error; Spark computes them again."""
    count, size = 20_000, "50"
    number = F.col("id").cast("string")
    large = F.sha2(number, 512)  # a shard is larger than what Spark reads ahead
    many = spark.range(count, numPartitions=8).select(
        number.alias("key"), F.concat(number, *[F.lit(" "), large] * 10).alias("value")
    )
    batch_size = "spark.sql.execution.arrow.maxRecordsPerBatch"
    lost = Path(spark.conf.get("spark.local.dir")) / uuid.uuid4().hex
    monkeypatch.setattr(once, "OnceTask", LosesMapOutput)
    spark.sparkContext.setLocalProperty("lost", str(lost))
    spark.conf.set(batch_size, size)
    try:
        report = write(many)
    finally:
        spark.conf.unset(batch_size)
        spark.sparkContext.setLocalProperty("lost", None)
    assert int(lost.read_text()) >= 8
    assert (report.read, report.delivered) == (count, count)
    values = committed_values(kafka_cluster, kafka_topic)
    assert sorted(int(each.split()[0]) for each in values) == list(range(count))


class PausedTask(OnceTask):
    """A task whose process is stopped for 16 s once, with its transaction open."""

    def __call__(self, batches):
        """Write the shard."""
        context = TaskContext.get()
        if context.partitionId() == 0 and context.attemptNumber() == 0:
            batches = self.pause(batches)
        return super().__call__(batches)

    @staticmethod
    def pause(batches):
        """Stop this process behind the first batch; another one lets it go on."""
        for number, batch in enumerate(batches):
            if number == 1:
                time.sleep(1)  # the broker knows of the transaction now
                pid = os.getpid()
                subprocess.Popen(["sh", "-c", f"sleep 16; kill -CONT {pid}"])
                os.kill(pid, signal.SIGSTOP)
            yield batch


def test_pause_that_outlasts_the_transaction(
    spark, write, rows, kafka_cluster, kafka_topic, monkeypatch
):
    """The broker aborts after 3 s; the task fails, and its next attempt writes."""
    monkeypatch.setattr(once, "OnceTask", PausedTask)
    batch_size = "spark.sql.execution.arrow.maxRecordsPerBatch"
    limits = {"transaction.timeout.ms": "3000", "delivery.timeout.ms": "2500"}
    spark.conf.set(batch_size, "100")
    try:
        report = write(rows, config=limits)
    finally:
        spark.conf.unset(batch_size)
    assert (report.retried_tasks, report.delivered) == (1, ROWS)
    assert landed(kafka_cluster, kafka_topic) == TEXTS


def test_batches_follow_each_other(write, rows, kafka_cluster, kafka_topic):
    """Also an empty one; the first number of shards stays."""
    halves = [rows.where("cast(value as int) < 500"), rows.where("false")]
    halves.append(rows.where("cast(value as int) >= 500"))
    reports = [write(each, batch=n) for n, each in enumerate(halves)]
    assert [report.read for report in reports] == [500, 0, 500]
    assert landed(kafka_cluster, kafka_topic) == TEXTS


def test_other_number_of_shards_is_a_warning(kafka_cluster, kafka_topic, rows, name):
    """The number of the first write counts."""
    reports = [
        kafkaguard.spark.write(
            rows,
            kafka_topic,
            bootstrap_servers=kafka_cluster.bootstrap_servers,
            exactly_once=name,
            batch=batch,
            partitions=shards,
        )
        for batch, shards in enumerate([2, 3])
    ]
    assert reports[0].warnings == ()
    assert "partitions=3 was not used" in reports[1].warnings[0]


def test_other_rows_are_refused_and_settled(
    write, rows, name, kafka_cluster, kafka_topic, capsys
):
    """Both digests are in the text; ``accept`` takes what was written."""
    write(rows)
    fewer = rows.where("value <> '7'")
    with pytest.raises(e.ClientConfigurationError, match="rows differ") as refused:
        write(fewer, anew=True)
    assert str(refused.value).count("(digest ") == 2
    assert f"kafkaguard once show {name}" in str(refused.value)
    servers = ["-b", kafka_cluster.bootstrap_servers]
    assert run_command(["once", "accept", name, *servers]) == 0
    assert write(fewer, anew=True).replayed == (SHARDS, ROWS - 1)
    assert landed(kafka_cluster, kafka_topic) == TEXTS
    assert run_command(["once", "forget", name, *servers]) == 0
    assert write(fewer, anew=True).replayed == (0, 0)
    assert len(landed(kafka_cluster, kafka_topic)) == 2 * ROWS - 1
    capsys.readouterr()


def test_one_shard_is_written_after_another_was_accepted(
    write, rows, name, kafka_cluster, kafka_topic, capsys
):
    """A batch that was written in part is completed."""
    servers = ["-b", kafka_cluster.bootstrap_servers]
    settle = ["once", "accept", name, "--shard", "0", "--shards", str(SHARDS)]
    code = run_command([*settle, "--marker-topic", kafka_topic, *servers])
    assert code == 0
    report = write(rows)
    assert report.replayed[0] == 1
    assert len(landed(kafka_cluster, kafka_topic)) == ROWS - report.replayed[1]
    capsys.readouterr()


# --- what is refused before anything is sent ------------------------------------------


def _random(frame):
    return frame.withColumn("value", F.rand().cast("string"))


def _subquery(frame):
    frame.createOrReplaceTempView("once_rows")
    text = "select key, value from once_rows where 2 > (select rand() from range(1))"
    return frame.sparkSession.sql(text)


def _now(frame):
    return frame.withColumn("value", F.current_timestamp().cast("string"))


@pytest.mark.parametrize(
    ("change", "text"),
    [
        (_random, "not deterministic"),
        (_subquery, "not deterministic"),
        (_now, "current_timestamp"),
    ],
)
def test_rows_that_a_replay_would_change_are_refused(write, rows, change, text):
    """Anywhere in the plan, also in a subquery."""
    with pytest.raises(e.ClientConfigurationError, match=text):
        write(change(rows))


def test_speculation_is_refused(spark, write, rows, monkeypatch):
    """Two copies of a task would fence each other."""
    monkeypatch.setattr(type(spark.conf), "get", lambda *_: "true")
    with pytest.raises(e.ClientConfigurationError, match="speculation"):
        write(rows)


def test_second_write_under_a_name_is_refused(write, rows, kafka_cluster):
    """In the same process, or with another topic or other columns."""
    write(rows)
    for change in ({}, {"batch": 0}):
        with pytest.raises(e.ClientConfigurationError, match="its own name"):
            write(rows, **change)
    with pytest.raises(e.ClientConfigurationError, match="its own name"):
        write(rows.withColumn("partition", F.lit(0)), anew=True)
    other = kafka_cluster.create_topic()
    with pytest.raises(e.ClientConfigurationError, match="marker"):
        write(rows, topic=other, anew=True)
    write(rows, batch=1)
    with pytest.raises(e.ClientConfigurationError, match="batch 1 was written before"):
        write(rows, batch=0, anew=True)


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"exactly_once": "a.b"}, "letters, digits"),
        ({"exactly_once": ""}, "letters, digits"),
        ({"exactly_once": 7}, "a name"),
        ({"exactly_once": {"nam": "x"}}, "did you mean 'name'"),
        ({"exactly_once": {"name": "x", "retention": "7d"}}, "seconds"),
        ({"exactly_once": None, "batch": 1}, "needs exactly_once"),
        ({"batch": -1}, "0 or more"),
        ({"batch": "1"}, "number of a batch"),
        ({"config": {"transaction.timeout.ms": "9000000"}}, "brokers allow 900 s"),
        ({"config": {"transaction.timeout.ms": "60000"}}, "lower it, or raise"),
        ({"config": {"transactional.id": "x"}}, "with exactly_once"),
    ],
)
def test_settings_that_cannot_be_used(write, rows, options, text):
    """Each text says what to write instead."""
    with pytest.raises(e.ClientConfigurationError, match=text):
        write(rows, **options)


def test_column_topic_needs_a_marker_topic(write, rows, kafka_cluster, name):
    """The markers need one topic, and the column can name many."""
    topics = [kafka_cluster.create_topic() for _ in range(2)]
    named = rows.withColumn("topic", F.when(F.col("key") < "5", topics[0]))
    named = named.fillna(topics[1], ["topic"])
    with pytest.raises(e.ClientConfigurationError, match="marker_topic"):
        write(named, topic=None)
    given = {"name": name, "marker_topic": topics[0], "retention": 86_400}
    assert write(named, topic=None, exactly_once=given).delivered == ROWS
    found = [len(landed(kafka_cluster, topic)) for topic in topics]
    assert sum(found) == ROWS
    assert all(found)


def test_sinks_without_a_shuffle_refuse(spark, rows, kafka_cluster, kafka_topic):
    """The data source and Spark's own sink say what to use."""
    kafkaguard.spark.register(spark)
    writer = rows.write.format("kafkaguard").mode("append").option("exactly_once", "x")
    with pytest.raises(Exception, match=r"use kafkaguard\.spark\.write") as failed:
        writer.option("kafka.bootstrap.servers", kafka_cluster.bootstrap_servers).save()
    assert isinstance(
        kafkaguard.spark.error_from(failed.value), e.ClientConfigurationError
    )
    with pytest.raises(e.ClientConfigurationError, match="no transactions"):
        kafkaguard.spark.guard_sink(rows, kafka_topic, exactly_once="x")


# --- what brokers refuse --------------------------------------------------------------


def test_dead_letters_are_in_the_same_transaction(
    write, rows, kafka_cluster, kafka_topic
):
    """A row without a key is set aside once, also in a replay."""
    topic = kafka_cluster.create_topic(config={"cleanup.policy": "compact"})
    holed = rows.withColumn("key", F.when(F.col("key") != "7", F.col("key")))
    options = {"topic": topic, "policy": letters_to(kafka_topic)}
    report = write(holed, **options)
    assert dict(report.dead_lettered) == {"NULL_KEY": 1}
    assert write(holed, anew=True, **options).replayed == (SHARDS, ROWS)
    assert committed_values(kafka_cluster, kafka_topic) == ["7"]
    assert len(landed(kafka_cluster, topic)) == ROWS - 1


def test_refused_row_is_set_aside_by_the_next_attempt(
    rows, name, kafka_cluster, kafka_topic
):
    """The topic turned compacted after the driver had looked: the task aborts once."""
    topic = kafka_cluster.create_topic(config={"cleanup.policy": "compact"})
    holed = rows.withColumn("key", F.when(F.col("key") != "7", F.col("key")))
    settings = make_settings(
        kafka_cluster.bootstrap_servers, topic=topic, policy=letters_to(kafka_topic)
    )
    topics = look_up(settings)
    topics[topic] = replace(topics[topic], compacted=False)
    report = write_once(
        holed, settings, topics, read_once(name, topic), None, partitions=SHARDS
    )
    assert report.retried_tasks == 1
    assert report.dead_lettered.keys() <= {"NULL_KEY", "INVALID_RECORD"}
    assert len(landed(kafka_cluster, topic)) == ROWS - 1
    [letter] = committed(kafka_cluster, kafka_topic)
    assert why(letter)["topic"] == topic


def test_refused_row_is_named_by_sending_each_alone(
    rows, name, kafka_cluster, kafka_topic
):
    """The second attempt names the row, and the third sets it aside."""
    topic = kafka_cluster.create_topic(config={"cleanup.policy": "compact"})
    holed = rows.withColumn("key", F.when(F.col("key") != "7", F.col("key")))
    report = kafkaguard.spark.write(
        holed,
        topic,
        bootstrap_servers=kafka_cluster.bootstrap_servers,
        policy=letters_to(kafka_topic, null_key="send"),
        exactly_once=name,
        partitions=SHARDS,
    )
    assert dict(report.dead_lettered) == {"INVALID_RECORD": 1}
    assert len(landed(kafka_cluster, topic)) == ROWS - 1


def test_refused_row_fails_the_job_without_a_policy(write, rows, kafka_cluster):
    """Nothing of the batch is seen by readers of committed records."""
    topic = kafka_cluster.create_topic(config={"cleanup.policy": "compact"})
    holed = rows.withColumn("key", F.when(F.col("key") != "7", F.col("key")))
    with pytest.raises(e.InvalidRecordKeyError):
        write(holed, topic=topic)
    assert committed_values(kafka_cluster, topic) == []


# --- streams --------------------------------------------------------------------------


@pytest.fixture
def stream(spark, rows, tmp_path):
    """A stream of 1,000 rows in two micro-batches."""
    folder = tmp_path / "input"
    rows.write.parquet(str(folder))
    reader = spark.readStream.schema("key string, value string")
    return reader.option("maxFilesPerTrigger", 1).parquet(str(folder))


@pytest.fixture
def run(stream, tmp_path, kafka_cluster, kafka_topic, name):
    """Run the stream to its end, as a new process would; return the reports."""

    def run(function=None, **options):
        once._drivers.clear()
        reports = []
        function = function or kafkaguard.spark.foreach_batch(
            kafka_topic,
            bootstrap_servers=kafka_cluster.bootstrap_servers,
            partitions=SHARDS,
            exactly_once=name,
            on_report=lambda report, _: reports.append(report),
            **options,
        )
        writer = stream.writeStream.foreachBatch(function)
        writer = writer.option("checkpointLocation", str(tmp_path / "checkpoint"))
        query = writer.trigger(availableNow=True).start()
        try:
            assert query.awaitTermination(120)
        finally:
            query.stop()
        return reports

    return run


def _undo(folder, *batches, planned=False):
    """Take micro-batches back in a checkpoint, as if the driver had died."""
    for log in ("commits", "offsets") if planned else ("commits",):
        for batch in batches:
            (folder / "checkpoint" / log / str(batch)).unlink()
            (folder / "checkpoint" / log / f".{batch}.crc").unlink()


def test_stream_repeats_its_last_batch(run, tmp_path, kafka_cluster, kafka_topic):
    """After the driver died, the batch is compared and skipped."""
    assert [report.replayed for report in run()] == [(0, 0), (0, 0)]
    _undo(tmp_path, 1)
    [report] = run()
    assert report.replayed[0] == SHARDS
    assert landed(kafka_cluster, kafka_topic) == TEXTS


def test_older_checkpoint_is_refused_and_forgotten(
    run, tmp_path, kafka_cluster, kafka_topic, name, capsys
):
    """The text has the command; after it the stream writes again."""
    run()
    _undo(tmp_path, 0, 1)
    _undo_offsets = tmp_path / "checkpoint" / "offsets"
    for file in ("1", ".1.crc"):
        (_undo_offsets / file).unlink()
    with pytest.raises(Exception, match="the checkpoint is older") as failed:
        run()
    assert f"kafkaguard once forget {name}" in str(failed.value)
    servers = ["-b", kafka_cluster.bootstrap_servers]
    assert run_command(["once", "forget", name, *servers]) == 0
    run()
    assert len(landed(kafka_cluster, kafka_topic)) == 2 * ROWS
    capsys.readouterr()


def test_new_checkpoint_is_another_query(run, tmp_path):
    """Its batches have the same numbers and other rows."""
    run()
    shutil.rmtree(tmp_path / "checkpoint")
    with pytest.raises(Exception, match="another query"):
        run()


def test_lost_markers_are_a_decision(run, tmp_path, kafka_cluster, name):
    """A topic made anew takes plan and markers with it."""
    run()
    groups = [f"kafkaguard.once.{name}{end}" for end in ("", ".plan")]
    admin = AdminClient({"bootstrap.servers": kafka_cluster.bootstrap_servers})
    for future in admin.delete_consumer_groups(groups).values():
        future.result(30)
    _undo(tmp_path, 1)
    with pytest.raises(Exception, match="the batch before batch 1 has no plan"):
        run()


def test_write_inside_foreach_batch_needs_its_number(run, write):
    """Without ``batch`` all batches would be the same one."""
    with pytest.raises(Exception, match="needs batch=batch_id"):
        run(lambda batch, _: write(batch) and None)


def test_write_inside_foreach_batch(run, write, tmp_path, kafka_cluster, kafka_topic):
    """A function that fails after its write repeats the batch, and not the rows."""

    def fail_once(batch, batch_id):
        write(batch, batch=batch_id)
        if not (tmp_path / "failed").exists():
            (tmp_path / "failed").touch()
            raise ValueError("later")

    with pytest.raises(Exception, match="later"):
        run(fail_once)
    run(fail_once)
    assert landed(kafka_cluster, kafka_topic) == TEXTS


def test_pipeline_file_for_a_daily_job(
    spark, rows, tmp_path, name, kafka_cluster, kafka_topic, monkeypatch
):
    """The variable makes a name for each day; a second run of a day writes nothing."""
    rows.write.parquet(str(tmp_path / "input"))
    file = tmp_path / "pipeline.yaml"
    sink = {
        "bootstrap_servers": kafka_cluster.bootstrap_servers,
        "topic": kafka_topic,
        "partitions": SHARDS,
        "exactly_once": name + "-${DATE}",
    }
    source = {"format": "parquet", "path": "input"}
    select = {"key": "key", "value": "value"}
    file.write_text(yaml.safe_dump({"source": source, "select": select, "sink": sink}))
    reports = []
    for day in ("2026-11-29", "2026-11-30", "2026-11-30"):
        once._drivers.clear()
        monkeypatch.setenv("DATE", day)
        pipeline = load_pipeline(file)
        frame = plan(spark, pipeline)
        reports.append(run_pipeline(frame, pipeline, lambda *_: None))
    assert [report.replayed[0] for report in reports] == [0, 0, SHARDS]
    assert len(landed(kafka_cluster, kafka_topic)) == 2 * ROWS


def test_stream_without_a_checkpoint_is_refused(
    stream, name, kafka_cluster, kafka_topic
):
    """Spark's temporary checkpoint repeats nothing."""
    function = kafkaguard.spark.foreach_batch(
        kafka_topic,
        bootstrap_servers=kafka_cluster.bootstrap_servers,
        exactly_once=name,
    )
    query = stream.writeStream.foreachBatch(function).trigger(availableNow=True).start()
    with pytest.raises(Exception, match="give it a checkpointLocation"):
        query.awaitTermination(120)
