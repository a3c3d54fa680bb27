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
from pyspark import TaskContext
from pyspark.sql import functions as F  # noqa: N812 - as everyone calls it

import kafkaguard.spark
from kafkaguard import errors as e
from kafkaguard.cli.group import run as run_command
from kafkaguard_adapters.spark.driver import once
from kafkaguard_adapters.spark.driver.once import read_once, write_once
from kafkaguard_adapters.spark.executor.once_task import OnceTask
from kafkaguard_adapters.spark.once.transaction import open_producer
from kafkaguard_adapters.spark.pipeline.file import load_pipeline
from kafkaguard_adapters.spark.pipeline.run import plan
from kafkaguard_adapters.spark.pipeline.run import run as run_pipeline
from kafkaguard_adapters.spark.settings import make_settings
from kafkaguard_adapters.spark.topics import look_up
from tests.spark.spark_reading import committed, committed_values, letters_to, why

pytestmark = pytest.mark.xdist_group("spark")
ROWS = 1000
SHARDS = 2
DAY = 86_400
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
    assert first.valid_until == pytest.approx(time.time() + 0.9 * 7 * DAY, abs=60)
    again = write(rows, anew=True)
    assert (again.delivered, again.replayed) == (ROWS, (SHARDS, ROWS))
    assert again.valid_until == pytest.approx(first.valid_until, abs=2)
    assert f"{ROWS:,} of them before (in 2 shards)" in str(again)
    assert landed(kafka_cluster, kafka_topic) == TEXTS


def test_a_replay_with_other_tasks_has_the_same_shards(
    spark, write, rows, tmp_path, kafka_cluster, kafka_topic
):
    """Other numbers of files, cores and shuffle partitions, and plans that adapt."""
    header = F.expr("struct('h' as key, cast(value as binary) as value)")
    full = rows.withColumn("headers", F.array(header))
    full = full.withColumn(
        "timestamp", F.timestamp_seconds(F.col("key").cast("int") + 1)
    )
    write(full, batch=0)
    full.repartition(5).write.parquet(str(tmp_path / "files"))
    settings = {
        "spark.sql.adaptive.enabled": "true",
        "spark.sql.adaptive.coalescePartitions.parallelismFirst": "false",
        "spark.sql.files.maxPartitionBytes": "4096",
        "spark.sql.shuffle.partitions": "7",
    }
    before = {key: spark.conf.get(key) for key in settings}
    try:
        for key, value in settings.items():
            spark.conf.set(key, value)
        other = spark.read.parquet(str(tmp_path / "files"))
        assert other.rdd.getNumPartitions() > 2
        again = write(other, batch=0, anew=True)
    finally:
        for key, value in before.items():
            spark.conf.set(key, value)
    assert again.replayed == (SHARDS, ROWS)
    assert landed(kafka_cluster, kafka_topic) == TEXTS


def test_null_values_are_part_of_a_digest(spark):
    """A null key and a null value are different rows, although hashes skip nulls."""
    rows = spark.sql("select * from values ('a', null), (null, 'a') as t (key, value)")
    found = rows.select(*once._digests(rows.columns)).collect()
    assert not set(found[0]) & set(found[1])


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
    """PySpark shows the task fewer rows and no error; Spark computes them again.

    Spark compares their checksums, which do not depend on the order of the rows.
    """
    checksum = "spark.sql.shuffle.orderIndependentChecksum.enabled"
    assert spark.conf.get(checksum, "true") == "true"
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


class DisturbedTask(OnceTask):
    """A task whose first attempt loses its transaction behind the first batch."""

    def __call__(self, batches):
        """Write the shard."""
        context = TaskContext.get()
        if context.partitionId() == 0 and context.attemptNumber() == 0:
            batches = self.disturb_once(batches)
        return super().__call__(batches)

    def disturb_once(self, batches):
        """Wait until the broker knows of the transaction, and disturb it."""
        for number, batch in enumerate(batches):
            if number == 1:
                time.sleep(1)
                self.disturb()
            yield batch


class PausedTask(DisturbedTask):
    """Its process is stopped for 16 s, longer than brokers leave it open."""

    def disturb(self):
        """Stop this process; another one lets it go on."""
        pid = os.getpid()
        subprocess.Popen(["sh", "-c", f"sleep 16; kill -CONT {pid}"])
        os.kill(pid, signal.SIGSTOP)


class FencedTask(DisturbedTask):
    """A copy of an earlier batch's task comes late, and takes over the id."""

    def disturb(self):
        """Do what that copy does: it reads the plan then, and ends."""
        home = self.ticket.home
        open_producer(self.settings.client, home, 0, self.ticket.timeout).init()


@pytest.mark.parametrize("task", [PausedTask, FencedTask])
def test_task_that_loses_its_transaction_is_tried_once_more(
    spark, write, rows, kafka_cluster, kafka_topic, monkeypatch, task
):
    """The broker aborts it after 3 s, or fences it; the next attempt writes."""
    monkeypatch.setattr(once, "OnceTask", task)
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
    """Also an empty one, and one whose row leaves other shards empty."""
    one, rest = rows.where("value = '7'"), rows.where("value <> '7'")
    assert write(one, batch=0).read == 1
    assert write(one, batch=0, anew=True).replayed == (SHARDS, 1)
    assert write(rows.where("false"), batch=1).read == 0
    assert write(rest, batch=2).read == ROWS - 1
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
    servers = ["-b", kafka_cluster.bootstrap_servers]
    accept = ["once", "accept", "--batch", "0", name, *servers]
    assert f"`kafkaguard {' '.join(accept)}`" in str(refused.value)
    assert run_command(accept) == 0
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
    settle = ["once", "accept", name, "--batch", "0", "--shard", "0"]
    topic = ["--shards", str(SHARDS), "--marker-topic", kafka_topic]
    code = run_command([*settle, *topic, *servers])
    assert code == 0
    report = write(rows)
    assert report.replayed[0] == 1
    assert len(landed(kafka_cluster, kafka_topic)) == ROWS - report.replayed[1]
    capsys.readouterr()


# --- what is refused before anything is sent ------------------------------------------


def _random(frame):
    return frame.withColumn("value", F.rand().cast("string"))


def _uuid(frame):
    return frame.withColumn("value", F.expr("uuid()"))


def _numbered(frame):
    return frame.withColumn("key", F.monotonically_increasing_id().cast("string"))


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
        (_uuid, "not deterministic"),
        (_numbered, "not deterministic"),
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
    monkeypatch.setattr(type(spark.conf), "get", lambda *_: "TRUE")
    with pytest.raises(e.ClientConfigurationError, match="speculation"):
        write(rows)


def test_other_number_of_tasks_is_refused(write, rows, monkeypatch):
    """Rows of a shard would stand in another one's transaction."""
    real = once.plan_write
    monkeypatch.setattr(
        once, "plan_write", lambda *some, **more: real(*some, **more).coalesce(1)
    )
    with pytest.raises(e.ClientConfigurationError, match="1 tasks for 2 shards"):
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
    """The data source and Spark's own sink say what to use; no batch is continuous."""
    kafkaguard.spark.register(spark)
    writer = rows.write.format("kafkaguard").mode("append").option("exactly_once", "x")
    with pytest.raises(Exception, match=r"use kafkaguard\.spark\.write") as failed:
        writer.option("kafka.bootstrap.servers", kafka_cluster.bootstrap_servers).save()
    assert isinstance(
        kafkaguard.spark.error_from(failed.value), e.ClientConfigurationError
    )
    with pytest.raises(e.ClientConfigurationError, match="no transactions"):
        kafkaguard.spark.guard_sink(rows, kafka_topic, exactly_once="x")
    function = kafkaguard.spark.foreach_batch(
        kafka_topic,
        bootstrap_servers=kafka_cluster.bootstrap_servers,
        exactly_once="x",
    )
    rate = spark.readStream.format("rate").load().selectExpr("'v' as value")
    writer = rate.writeStream.foreachBatch(function).trigger(continuous="1 second")
    with pytest.raises(Exception, match="continuous"):
        writer.start()


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
    """Nothing of the batch is seen by readers of committed records; a note says so."""
    topic = kafka_cluster.create_topic(config={"cleanup.policy": "compact"})
    holed = rows.withColumn("key", F.when(F.col("key") != "7", F.col("key")))
    with pytest.raises(e.InvalidRecordKeyError) as failed:
        write(holed, topic=topic)
    [note] = failed.value.__notes__
    assert note.startswith("of batch 0, 0 of 2 shards are written")
    assert note.endswith("the shards [0, 1]")
    assert committed_values(kafka_cluster, topic) == []


# --- streams --------------------------------------------------------------------------


@pytest.fixture
def stream(spark, rows, tmp_path):
    """A stream of 1,000 rows in two micro-batches, with the time of each batch."""
    folder = tmp_path / "input"
    rows.write.parquet(str(folder))
    reader = spark.readStream.schema("key string, value string")
    files = reader.option("maxFilesPerTrigger", 1).parquet(str(folder))
    return files.withColumn("timestamp", F.current_timestamp())


@pytest.fixture
def run(stream, tmp_path, kafka_cluster, kafka_topic, name):
    """Run the stream to its end, as a new process would; return the reports."""

    def run(function=None, *, anew=True, exactly_once=name):
        if anew:
            once._drivers.clear()
        reports = []
        function = function or kafkaguard.spark.foreach_batch(
            kafka_topic,
            bootstrap_servers=kafka_cluster.bootstrap_servers,
            partitions=SHARDS,
            exactly_once=exactly_once,
            on_report=lambda report, _: reports.append(report),
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
    """After the driver died, the batch is compared and skipped; its time is the same."""
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
    servers = kafka_cluster.bootstrap_servers
    assert f"kafkaguard once forget {name} -b {servers}`, writes" in str(failed.value)
    servers = ["-b", kafka_cluster.bootstrap_servers]
    assert run_command(["once", "forget", name, *servers]) == 0
    run()
    assert len(landed(kafka_cluster, kafka_topic)) == 2 * ROWS
    capsys.readouterr()


def test_new_checkpoint_is_another_query(run, tmp_path):
    """Its batches have the same numbers and other rows."""
    run()
    shutil.rmtree(tmp_path / "checkpoint")
    with pytest.raises(Exception, match="another query") as failed:
        run()
    assert "once accept" not in str(failed.value)  # no batch of this query is written


def test_lost_markers_are_a_decision(
    run, tmp_path, kafka_cluster, kafka_topic, name, capsys
):
    """A topic made anew takes plan and markers with it; ``accept`` goes on."""
    topic = kafka_cluster.create_topic(partitions=SHARDS)
    given = {"name": name, "marker_topic": topic}
    run(exactly_once=given)
    kafka_cluster.delete_topic(topic)
    kafka_cluster.create_topic(topic, partitions=SHARDS)
    _undo(tmp_path, 1)
    with pytest.raises(Exception, match="the batch before batch 1 has no plan"):
        run(exactly_once=given)
    settle = ["once", "accept", name, "--batch", "1", "--shards", str(SHARDS)]
    servers = ["-b", kafka_cluster.bootstrap_servers]
    assert run_command([*settle, "--marker-topic", topic, *servers]) == 0
    [report] = run(exactly_once=given)
    assert report.replayed[0] == SHARDS
    assert landed(kafka_cluster, kafka_topic) == TEXTS
    capsys.readouterr()


def test_write_inside_foreach_batch_needs_its_number(run, write):
    """Without ``batch`` all batches would be the same one."""
    with pytest.raises(Exception, match="needs batch=batch_id"):
        run(lambda batch, _: write(batch) and None)


def test_write_inside_foreach_batch(run, write, tmp_path, kafka_cluster, kafka_topic):
    """A second write of the batch fails it; the repeated batch writes nothing again."""

    def write_twice_once(batch, batch_id):
        write(batch, batch=batch_id)
        if not (tmp_path / "failed").exists():
            (tmp_path / "failed").touch()
            write(batch, batch=batch_id)

    with pytest.raises(Exception, match="give each write its own name"):
        run(write_twice_once)
    run(write_twice_once, anew=False)
    assert landed(kafka_cluster, kafka_topic) == TEXTS


def test_pipeline_file_for_a_daily_job(
    spark, rows, tmp_path, name, kafka_cluster, kafka_topic, monkeypatch
):
    """The variable makes a name for each day; a second run of a day writes nothing.

    A stream takes the name, too.
    """
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
    source["columns"] = "key string, value string"
    content = {"source": source, "select": select, "sink": sink}
    file.write_text(yaml.safe_dump(content | {"stream": {"checkpoint": "checkpoint"}}))
    monkeypatch.setenv("DATE", "stream")
    pipeline = load_pipeline(file)
    report = run_pipeline(plan(spark, pipeline), pipeline, lambda *_: None)
    assert (report.delivered, report.maybe_twice) == (ROWS, 0)
    assert len(landed(kafka_cluster, kafka_topic)) == 3 * ROWS


@pytest.mark.parametrize(
    ("change", "text"),
    [
        (lambda rows: rows, "give it a checkpointLocation"),
        (_random, "not deterministic"),
    ],
)
def test_stream_that_cannot_be_repeated_is_refused(
    stream, name, kafka_cluster, kafka_topic, change, text
):
    """Spark's temporary checkpoint repeats nothing; a random row is another one."""
    function = kafkaguard.spark.foreach_batch(
        kafka_topic,
        bootstrap_servers=kafka_cluster.bootstrap_servers,
        exactly_once=name,
    )
    writer = change(stream).writeStream.foreachBatch(function)
    with pytest.raises(Exception, match=text):
        writer.trigger(availableNow=True).start().awaitTermination(120)
