"""What an attempt at a task knows of those before it."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
from pyspark import SparkFiles, TaskContext

from kafkaguard import errors as e
from kafkaguard.spark import error_from
from kafkaguard_adapters.spark.driver import job
from kafkaguard_adapters.spark.executor import earlier_attempts, task
from kafkaguard_adapters.spark.executor.task import run_task
from kafkaguard_adapters.spark.marker import TaskFailedError, TimeIsOverError
from kafkaguard_adapters.spark.settings import make_settings

SETTINGS = make_settings("localhost:1", topic="t")


@pytest.fixture
def attempt(monkeypatch, tmp_path):
    """Run an attempt at a task that fails with an error; say whether it began."""
    monkeypatch.setattr(SparkFiles, "getRootDirectory", lambda: str(tmp_path))
    monkeypatch.setattr(task, "_check_brokers", lambda *_: None)

    def run(error, stage=1, partition=0, number=0, settings=SETTINGS):
        context = SimpleNamespace(
            stageId=lambda: stage,
            partitionId=lambda: partition,
            attemptNumber=lambda: number,
        )
        monkeypatch.setattr(TaskContext, "get", lambda: context)
        began = []

        def batches():
            began.append(True)
            raise error
            yield

        with pytest.raises(TaskFailedError) as caught:
            run_task(batches(), settings, {})
        return bool(began), error_from(caught.value)

    return run


@pytest.mark.parametrize(
    "error", [e.InvalidRecordKeyError("no key"), e.TopicAuthorizationFailedError("no")]
)
def test_task_that_can_only_fail_again_fails_before_it_begins(attempt, error):
    """With the same error; another task of the stage, or another stage, goes on."""
    assert attempt(error)[0]
    again, told = attempt(e.ClientTimeoutError("later"), number=1)
    assert not again
    assert (told.code, told.summary) == (error.code, error.summary)
    assert attempt(error, stage=2)[0]
    assert attempt(error, partition=1)[0]


@pytest.mark.parametrize(
    "error", [e.ClientTimeoutError("slow"), e.NotEnoughReplicasError("soon")]
)
def test_task_that_may_succeed_is_tried_again(attempt, error):
    """A task that failed with a retriable error is run again."""
    assert attempt(error)[0]
    assert attempt(error, number=1)[0]


def test_deadline_of_the_policy_bounds_all_attempts_at_all_tasks_of_a_stage(
    attempt, monkeypatch
):
    """From the first failure; an executor that was lost takes no time from it."""
    now = [1000.0]
    clock = SimpleNamespace(time=lambda: now[0])
    monkeypatch.setattr(task, "time", clock)
    monkeypatch.setattr(earlier_attempts, "time", clock)
    policy = {"extends": "spark-sink", "on_reject": "raise", "deadline": 20}
    settings = make_settings("localhost:1", topic="t", policy=policy)
    error = e.ClientTimeoutError("slow")
    for number, at, begins in ((0, 0, True), (1, 15, True), (2, 21, False)):
        now[0] = 1000.0 + at
        assert begins == attempt(error, number=number, settings=settings)[0]
    assert not attempt(error, partition=1, settings=settings)[0]
    assert attempt(error, stage=2, settings=settings)[0]


def test_a_task_whose_time_is_over_does_not_fail_so_that_spark_does_not_repeat_it(
    attempt, monkeypatch
):
    """Its row has the failure; the driver raises it when all tasks have ended."""
    now = [1000.0]
    clock = SimpleNamespace(time=lambda: now[0])
    monkeypatch.setattr(task, "time", clock)
    monkeypatch.setattr(earlier_attempts, "time", clock)
    policy = {"extends": "spark-sink", "on_reject": "raise", "deadline": 20}
    settings = make_settings("localhost:1", topic="t", policy=policy)
    attempt(e.ClientTimeoutError("slow"), settings=settings)
    now[0] += 21
    (batch,) = task.CountingTask(settings, {})(())
    (row,) = batch.to_pylist()
    with pytest.raises(TimeIsOverError) as caught:
        job._raise_failure([SimpleNamespace(**row)])
    assert error_from(caught.value).summary == "slow"


def test_note_that_cannot_be_written_hides_no_error(attempt, tmp_path):
    """The task fails with what it failed with."""
    tmp_path.rmdir()
    assert attempt(e.InvalidRecordKeyError("no key"))[1].summary == "no key"
    assert attempt(e.InvalidRecordKeyError("no key"), number=1)[0]
