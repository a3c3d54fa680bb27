"""A task in an executor: one partition of the DataFrame, from Arrow to Kafka."""

from __future__ import annotations

import time
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from kafkaguard._errors import ClientTimeoutError, KafkaGuardError
from kafkaguard_adapters.confluent.errors import errors
from kafkaguard_adapters.spark.executor.delivery import Delivery
from kafkaguard_adapters.spark.executor.earlier_attempts import fail_as_before, remember
from kafkaguard_adapters.spark.marker import TimeIsOverError, task_failed
from kafkaguard_adapters.spark.report import TaskCounts
from kafkaguard_adapters.spark.topics import Brokers

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from kafkaguard_adapters.spark.settings import SinkSettings
    from kafkaguard_adapters.spark.topics import SinkTopic

#: Seconds that brokers have to answer a task that has failed before.
ASK_AGAIN_S = 3.0
#: The schema of the row that :class:`CountingTask` returns.
COUNTS_SCHEMA = "counts string, failure string"


def run_task(
    batches: Iterable[Any], settings: SinkSettings, topics: dict[str, SinkTopic]
) -> TaskCounts:
    """Send a partition's records; return the counts when each has its outcome.

    Raises:
        TaskFailedError: The job fails; the driver turns it into a KafkaGuardError.
        TimeIsOverError: The same, and no task of it needs another attempt.
    """
    with attempt_at(settings) as context, Delivery(settings, topics) as delivery:
        for batch in batches:
            delivery.send(batch)
        delivery.end_window()
    delivery.counts.attempt = context.attemptNumber() if context else 0
    return delivery.counts


@contextmanager
def attempt_at(settings: SinkSettings) -> Iterator[Any]:
    """Make an attempt at a task; yield Spark's context of it, None outside a task.

    Raises:
        TaskFailedError: An earlier attempt has failed for good; or this attempt fails.
    """
    from pyspark import TaskContext

    context = TaskContext.get()
    attempt = context.attemptNumber() if context else 0
    remaining_s = fail_as_before(context)
    began = time.time()
    try:
        if attempt:
            _check_brokers(settings, attempt, remaining_s)
        yield context
    except KafkaGuardError as error:
        failure = task_failed(error)
        until = _get_deadline(settings, began)
        raise remember(context, error, failure, until) from error


def _get_deadline(settings: SinkSettings, began: float) -> float | None:
    """Return when the policy's deadline is over for records that have failed now.

    It counts from when they were sent: at most the client's longest attempt ago.

    Args:
        settings: The settings of the write.
        began: When this attempt began, in seconds since the epoch.
    """
    if settings.deadline_s is None:
        return None
    longest = float(settings.client["delivery.timeout.ms"]) / 1000
    return max(began, time.time() - longest) + settings.deadline_s


def _check_brokers(
    settings: SinkSettings, attempt: int, remaining_s: float | None
) -> None:
    """Fail a repeated task at once if no broker answers."""
    patience = settings.patience_s or ASK_AGAIN_S
    if remaining_s is not None:
        patience = min(patience, max(remaining_s, 1.0))
    if Brokers(settings.client).has_answer(patience):
        return
    raise errors.make(
        ClientTimeoutError,
        f"no broker at {settings.servers} answered within {patience:g} s at attempt "
        f"{attempt + 1} of a task; what earlier attempts sent may have been written",
        api="Produce",
    )


@dataclass(frozen=True)
class CountingTask:
    """The function for ``mapInArrow``: sends records, returns one row of counts.

    If the policy's deadline is over, the row has the failure. An exception would let
    Spark try the task three more times, each in a new Python process.

    Args:
        settings: The settings of the write.
        topics: The facts about topics that the driver has looked up.
    """

    settings: SinkSettings
    topics: dict[str, SinkTopic]

    def __call__(self, batches: Iterable[Any]) -> Iterator[Any]:
        """Send the records of a partition."""
        import pyarrow as pa

        counts, failure = TaskCounts(), None
        try:
            counts = run_task(batches, self.settings, self.topics)
        except TimeIsOverError as error:
            failure = str(error)
        row = [counts.to_json()], [failure]
        yield pa.record_batch(
            [pa.array(each, pa.string()) for each in row], names=["counts", "failure"]
        )
