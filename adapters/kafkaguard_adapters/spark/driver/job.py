"""Run the job of a write, and translate what fails it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kafkaguard_adapters.spark.marker import TimeIsOverError, error_from

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyspark.sql import DataFrame


def collect(
    plan: DataFrame, task: Any, schema: str, describe: Callable[[], str]
) -> list[Any]:
    """Run a task on each partition; return its rows.

    Args:
        plan: The DataFrame to write.
        task: The function for ``mapInArrow``.
        schema: The schema of the rows that it returns.
        describe: Says what a job that failed has written.

    Raises:
        KafkaGuardError: A record failed the job, or brokers went away.
    """
    try:
        rows = plan.mapInArrow(task, schema).collect()
        _raise_failure(rows)
    except Exception as error:
        translated = error_from(error)
        failure = translated or error
        if not hasattr(failure, "__notes__"):
            failure.add_note(describe())
        if translated is None:
            raise
        raise translated from error
    return rows


def _raise_failure(rows: list[Any]) -> None:
    """Raise the failure of a task that has ended because the policy's time is over."""
    failures = (getattr(row, "failure", None) for row in rows)
    failure = next((each for each in failures if each is not None), None)
    if failure is not None:
        raise TimeIsOverError(failure)
