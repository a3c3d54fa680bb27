"""Attempts at a task that writes a shard once, on a real broker and without Spark."""

from __future__ import annotations

import time
import uuid
from dataclasses import replace

import pyarrow as pa
import pytest
from pyspark import TaskContext

from kafkaguard import errors as e
from kafkaguard._errors.base import Action
from kafkaguard_adapters.spark.executor import earlier_attempts, once_task
from kafkaguard_adapters.spark.executor.once_task import DIGESTS, OnceTask, Ticket
from kafkaguard_adapters.spark.marker import TaskFailedError, error_from
from kafkaguard_adapters.spark.once.offsets import Home
from kafkaguard_adapters.spark.once.rules import NO_QUERY, Plan
from kafkaguard_adapters.spark.once.transaction import open_producer
from kafkaguard_adapters.spark.report import TaskCounts
from kafkaguard_adapters.spark.settings import make_settings
from kafkaguard_adapters.spark.topics import SinkTopic, look_up
from tests.spark.spark_reading import committed, committed_values, letters_to, why

ATTEMPTS, TIMEOUT_S, RETENTION = 4, 60.0, 86_400.0
CONFIG = {
    "delivery.timeout.ms": "20000",
    "topic.metadata.propagation.max.ms": "300",
    "linger.ms": "50",
}


class Context(TaskContext):
    """Spark's context of shard 0."""

    number = 0

    def attemptNumber(self):
        """Return how many attempts came before."""
        return self.number

    def partitionId(self):
        """Return the shard."""
        return 0

    def stageId(self):
        """Return the stage."""
        return 1


@pytest.fixture
def attempt(monkeypatch, tmp_path):
    """Run a shard as Spark does; return its counts, and what failed before."""
    context = Context()
    monkeypatch.setattr(TaskContext, "get", lambda: context)
    monkeypatch.setattr(earlier_attempts, "_folder", lambda: tmp_path)
    monkeypatch.setattr(once_task, "check_end", lambda _: None)

    def attempt(settings, topics, rows, attempts=ATTEMPTS):
        home = Home(f"shard-{uuid.uuid4().hex[:8]}", settings.dead_letter_topic, 1)
        now = int(time.time())
        driver = open_producer(settings.client, home, None, TIMEOUT_S)
        driver.init()
        driver.commit(Plan("r", NO_QUERY, 0, 1, 1, "c", now, now))
        task = OnceTask(settings, topics, Ticket(home, "r", 0, RETENTION, TIMEOUT_S))
        failures = []
        for context.number in range(attempts):
            try:
                [done] = task([batch(rows)])
            except TaskFailedError as error:
                failures.append(error_from(error))
            else:
                [counts] = done.column("counts").to_pylist()
                return TaskCounts.from_json(counts), failures
        return None, failures

    return attempt


def batch(rows):
    """Make an Arrow batch as Spark does."""
    columns = {name: [row.get(name) for row in rows] for name in rows[0]}
    columns |= {name: pa.array(range(len(rows)), pa.int64()) for name in DIGESTS}
    return pa.record_batch(columns)


@pytest.fixture
def settings(kafka_cluster):
    """Make the settings of a write with dead letters."""

    def settings(topic, servers=kafka_cluster.bootstrap_servers):
        policy = letters_to(kafka_cluster.create_topic())
        return make_settings(servers, topic=topic, policy=policy, config=CONFIG)

    return settings


@pytest.mark.parametrize("is_seen", [True, False])
def test_refused_row_is_set_aside(
    kafka_cluster, settings, attempt, monkeypatch, is_seen
):
    """A new look at the topic finds it, or the broker names it when it is sent alone.

    With spark.task.maxFailures 1 there is no next attempt, so the text names it.
    """
    topic = kafka_cluster.create_topic(config={"max.message.bytes": 2000})
    given = settings(topic)
    topics = look_up(given)
    topics[topic] = replace(topics[topic], max_message_bytes=1_048_588)
    if not is_seen:
        monkeypatch.setattr(once_task, "look_up", lambda _: topics)
    rows = [{"key": str(n), "value": str(n)} for n in range(20)]
    large = {"key": "k", "value": "large" * 1000}
    counts, failures = attempt(given, topics, [*rows[:5], large, *rows[5:]])
    assert len(failures) == (1 if is_seen else 2)
    for failure in failures:
        assert "refused records (MESSAGE_TOO_LARGE)" in str(failure)
        assert "raise spark.task.maxFailures" in str(failure)
    assert (counts.delivered, counts.dead_lettered.total()) == (20, 1)
    found = committed_values(kafka_cluster, topic)
    assert sorted(map(int, found)) == list(range(20))
    [letter] = committed(kafka_cluster, given.dead_letter_topic)
    assert why(letter)["code"] == "10"


@pytest.mark.parametrize("is_column", [True, False])
def test_topic_that_was_deleted(kafka_cluster, settings, attempt, is_column):
    """A row of a column's topic is set aside by the next attempt; else the job fails."""
    gone, topic = kafka_cluster.create_topic(), kafka_cluster.create_topic()
    given = settings(None if is_column else gone)
    topics = look_up(given)
    topics |= {each: SinkTopic(each, 1, compacted=False) for each in (gone, topic)}
    kafka_cluster.delete_topic(gone)
    rows = [
        {"key": "k", "value": str(n), "topic": topic if n else gone} for n in range(5)
    ]
    counts, failures = attempt(given, topics, rows)
    assert {failure.code for failure in failures} == {3}
    if is_column:
        assert len(failures) == 1
        assert dict(counts.dead_lettered) == {"UNKNOWN_TOPIC": 1}
        assert committed_values(kafka_cluster, topic) == ["1", "2", "3", "4"]
    else:
        assert counts is None
        assert "the topic does not exist" in str(failures[-1])


def test_topic_that_may_not_be_written_to(kafka_faults, kafka_topic, settings, attempt):
    """The client purges the rows; the error says why the transaction failed."""
    given = settings(kafka_topic, kafka_faults.bootstrap_servers)
    topics = look_up(given)
    kafka_faults.on("AddPartitionsToTxn").fail("TOPIC_AUTHORIZATION_FAILED")
    counts, failures = attempt(given, topics, [{"key": "k", "value": "v"}])
    assert counts is None
    for failure in failures:
        assert isinstance(failure, e.TopicAuthorizationFailedError)
        assert failure.verdict.action is Action.CONFIGURE
