"""The DataFrame of a write and its order, checked before the job starts."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from pyspark.errors import AnalysisException
from pyspark.logger import PySparkLogger
from pyspark.sql import Column, DataFrame, functions

from kafkaguard._common.closest import did_you_mean
from kafkaguard_adapters.spark.refusal import refuse
from kafkaguard_adapters.spark.settings import check_type

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from logging import LogRecord

_LOGGERS_OF_PLANS = ("DataFrameQueryContextLogger", "SQLQueryContextLogger")


def check_frame(df: Any) -> None:
    """Check that it is a frame that can be written at once.

    Raises:
        ClientConfigurationError: It is something else, or a stream.
    """
    check_type("df", df, DataFrame, "a DataFrame of Spark")
    if df.isStreaming:
        raise refuse(
            "the DataFrame is a stream: use df.writeStream with format('kafkaguard') "
            "or "
            "foreachBatch(kafkaguard.spark.foreach_batch(...))"
        )


def check_partitions(partitions: int | None) -> None:
    """Check a number of tasks.

    Raises:
        ClientConfigurationError: It is none.
    """
    check_type("partitions", partitions, int | None, "a number of tasks")
    if partitions is not None and partitions < 1:
        raise refuse(f"partitions is at least 1, not {partitions}")


def check_order(
    df: DataFrame, order_by: str | Column | Sequence[str | Column]
) -> list[str | Column]:
    """Check by what a frame is to be ordered.

    Returns:
        Its columns as a list.

    Raises:
        ClientConfigurationError: One of them is not there, or is no column.
    """
    given = as_order(order_by)
    for column in given:
        _check_one(df, column)
    return list(given)


def as_order(
    order_by: str | Column | Sequence[str | Column],
) -> tuple[str | Column, ...]:
    """Return by what to order as columns.

    Raises:
        ClientConfigurationError: One of them is no column.
    """
    given = [order_by] if isinstance(order_by, str | Column) else order_by
    check_type("order_by", given, list | tuple, "a list of columns")
    for column in given:
        check_type("order_by", column, str | Column, "a list of columns")
    return tuple(given)


def _check_one(df: DataFrame, column: str | Column) -> None:
    if why := objection(lambda: df.sortWithinPartitions(column), df.columns):
        raise refuse(f"order_by: {why}")


def objection(make: Callable[[], DataFrame], columns: Sequence[str]) -> str | None:
    """Say in one line what Spark has against an expression; None: nothing.

    Args:
        make: Makes a frame with the expression; nothing is run.
        columns: What the expression may be about.
    """
    try:
        with _without_plans():
            # Connect looks at a plan only when it is asked for a schema, and knows that
            # of a sorted frame without a look.
            _ = make().selectExpr("1").schema
    except AnalysisException as error:
        return _in_short(error, columns)
    return None


def _in_short(error: AnalysisException, columns: Sequence[str]) -> str:
    told = error.getMessageParameters() or {}
    if function := told.get("routineName"):
        name = function.replace("`", "").rpartition(".")[2]
        hint = did_you_mean(name, functions.__all__)
        return f"Spark has no function {name}{hint}"
    if "objectName" not in told:
        return next(line for line in str(error).splitlines() if line.strip())
    name = told["objectName"].replace("`", "")
    hint = did_you_mean(name, columns)
    return f"there is no column {name}{hint}; the columns are {', '.join(columns)}"


@contextmanager
def _without_plans() -> Iterator[None]:
    """Keep Spark from printing the whole plan beside the error that it raises."""
    loggers = [PySparkLogger.getLogger(name) for name in _LOGGERS_OF_PLANS]
    for logger in loggers:
        logger.addFilter(_nothing)
    try:
        yield
    finally:
        for logger in loggers:
            logger.removeFilter(_nothing)


def _nothing(_: LogRecord) -> bool:
    return False
