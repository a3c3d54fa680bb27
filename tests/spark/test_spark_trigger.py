"""Continuous triggers, under which Spark calls no sink in Python."""

from __future__ import annotations

import pytest

from kafkaguard_adapters.spark.driver.data_source import StreamWriter, TaskMessage
from kafkaguard_adapters.spark.marker import TaskFailedError
from kafkaguard_adapters.spark.report import TaskCounts
from kafkaguard_adapters.spark.settings import make_settings


def test_epoch_without_a_message_of_each_task_is_not_committed():
    """Spark has not called write(), so the records of the epoch are nowhere."""
    writer = StreamWriter(make_settings("localhost:1", topic="t"))
    with pytest.raises(TaskFailedError, match="trigger"):
        writer.commit([None, None], 0)


@pytest.mark.parametrize("messages", [[], [TaskMessage(TaskCounts())]])
def test_micro_batch_without_partitions_or_records_is_committed(messages):
    """A task without records has a message; without partitions there are no tasks."""
    StreamWriter(make_settings("localhost:1", topic="t")).commit(messages, 0)
