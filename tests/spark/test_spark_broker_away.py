"""A broker that is killed in the middle of a write, and does not come back."""

from __future__ import annotations

import threading
import time

import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import functions as F  # noqa: N812 - as everyone calls it

import kafkaguard.spark
from kafkaguard import errors as e
from kafkaguard._errors.base import Action
from kafkaguard.testing import KafkaCluster
from kafkaguard_adapters.spark.driver import write
from kafkaguard_adapters.spark.executor.task import CountingTask
from kafkaguard_adapters.spark.topics import Brokers
from tests.contracts.producer import until

pytestmark = [pytest.mark.xdist_group("spark"), pytest.mark.java]
DELIVERY_S = 3
DEADLINE_S = 5
#: As docs/spark.md has it, and some seconds for Spark to start workers.
BOUND_S = 2 * DELIVERY_S + 3 * (3 + 1) + 7 + 40


def waiting_task(sends, killed):
    """Make the task that waits, after its first batch, until the broker is killed."""

    def wait(batches):
        for batch in batches:
            yield batch
            sends.touch()
            until(killed.exists, 60)

    class WaitingTask(CountingTask):
        def __call__(self, batches):
            return super().__call__(wait(batches))

    return WaitingTask


def write_while_the_broker_is_killed(spark, tmp_path, **options):
    """Write, and kill the broker after the first batch of the first task.

    Returns:
        The error, the topic, and the seconds from the end of the broker to the error.
    """
    sends, killed = tmp_path / "sends", tmp_path / "killed"
    df = spark.range(50_000).select(F.col("id").cast("string").alias("value"))
    with KafkaCluster() as cluster, pytest.MonkeyPatch.context() as patch:
        ended = []

        def kill():
            until(sends.exists, 120)
            cluster.broker(0).kill()
            ended.append(time.monotonic())
            killed.touch()

        patch.setattr(write, "CountingTask", waiting_task(sends, killed))
        topic = cluster.create_topic()
        killer = threading.Thread(target=kill)
        killer.start()
        with pytest.raises(e.ClientTimeoutError) as caught:
            kafkaguard.spark.write(
                df,
                topic,
                bootstrap_servers=cluster.bootstrap_servers,
                **options,
            )
        killer.join(30)
        return caught.value, topic, time.monotonic() - ended[0]


def test_killed_broker_ends_the_job_in_a_stated_time(spark, tmp_path):
    """Later attempts of the task ask first, and do not wait for a delivery again."""
    config = {
        "delivery.timeout.ms": str(1000 * DELIVERY_S),
        "request.timeout.ms": "1000",
    }
    error, topic, seconds = write_while_the_broker_is_killed(
        spark, tmp_path, partitions=1, config=config
    )
    assert seconds < BOUND_S
    assert "answered within 3 s at attempt 4 of a task" in error.summary
    assert (error.verdict.action, error.verdict.written) == (Action.IN_DOUBT, "maybe")
    assert error.__notes__ == [
        f"an unknown number of records were appended to {topic} while the job ran"
    ]


def test_the_deadline_of_a_policy_ends_the_job_with_one_attempt_at_each_task(
    spark, tmp_path
):
    """Spark would try each task four times, each in a new Python process."""
    policy = {"extends": "spark-sink", "on_reject": "raise", "deadline": DEADLINE_S}
    error, topic, seconds = write_while_the_broker_is_killed(
        spark, tmp_path, partitions=4, policy=policy
    )
    assert seconds < DEADLINE_S + 3 + 7 + 40
    assert "at attempt" not in str(error)
    assert error.__notes__[-1].endswith(f"were appended to {topic} while the job ran")


def test_question_whether_anybody_answers_is_bounded(kafka_cluster):
    """A cluster that answers does so at once, another is not waited for."""
    assert Brokers({"bootstrap.servers": kafka_cluster.bootstrap_servers}).has_answer(3)
    started = time.monotonic()
    assert not Brokers({"bootstrap.servers": "localhost:1"}).has_answer(1)
    assert time.monotonic() - started < 30


def test_the_deadline_of_a_policy_ends_a_stream_with_its_batch(spark, tmp_path):
    """A batch waits no longer for a broker that is away; the query says why it ended."""
    policy = {"extends": "spark-sink", "on_reject": "raise", "deadline": DEADLINE_S}
    reports = []
    with KafkaCluster() as cluster:
        function = kafkaguard.spark.foreach_batch(
            cluster.create_topic(),
            bootstrap_servers=cluster.bootstrap_servers,
            policy=policy,
            on_report=lambda report, batch_id: reports.append(report),
        )
        numbers = (
            spark.readStream.format("rate-micro-batch")
            .option("rowsPerBatch", 100)
            .load()
            .selectExpr("cast(value as string) key", "cast(value as string) value")
        )
        query = (
            numbers.writeStream.foreachBatch(function)
            .option("checkpointLocation", str(tmp_path / "checkpoint"))
            .start()
        )
        try:
            until(lambda: reports or query.exception(), 120)
            cluster.broker(0).kill()
            killed = time.monotonic()
            with pytest.raises(StreamingQueryException) as caught:
                query.awaitTermination(240)
            assert time.monotonic() - killed < DEADLINE_S + 3 + 7 + 40
            error = kafkaguard.spark.error_from(caught.value)
            assert isinstance(error, e.KafkaGuardError)
        finally:
            query.stop()
