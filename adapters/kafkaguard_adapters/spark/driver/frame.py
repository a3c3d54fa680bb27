"""The DataFrame of a write and its order, checked before the job starts."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from pyspark.errors import AnalysisException
from pyspark.logger import PySparkLogger
from pyspark.sql import Column, DataFrame, functions

from kafkaguard._common.closest import did_you_mean
from kafkaguard_adapters.spark.columns import other_columns
from kafkaguard_adapters.spark.setting_errors import setting_error
from kafkaguard_adapters.spark.settings import check_type

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from logging import LogRecord

_LOGGERS_OF_PLANS = ("DataFrameQueryContextLogger", "SQLQueryContextLogger")


def check_frame(df: Any) -> None:
    """Check that a value is a DataFrame and not a stream.

    Raises:
        ClientConfigurationError: The value is not a DataFrame, or it is a stream.
    """
    check_type("df", df, DataFrame, "a DataFrame of Spark")
    if df.isStreaming:
        raise setting_error(
            "the DataFrame is a stream: use df.writeStream with format('kafkaguard') "
            "or "
            "foreachBatch(kafkaguard.spark.foreach_batch(...))"
        )


def check_partitions(partitions: int | None) -> None:
    """Check a number of tasks.

    Raises:
        ClientConfigurationError: The number is not an integer of at least 1.
    """
    check_type("partitions", partitions, int | None, "a number of tasks")
    if partitions is not None and partitions < 1:
        raise setting_error(f"partitions is at least 1, not {partitions}")


def check_order(
    df: DataFrame, order_by: str | Column | Sequence[str | Column]
) -> list[str | Column]:
    """Check the order of a DataFrame.

    Returns:
        The columns as a list.

    Raises:
        ClientConfigurationError: A column does not exist, or the value is not a column.
    """
    given = as_order(order_by)
    for column in given:
        _check_one(df, column)
    return list(given)


def as_order(
    order_by: str | Column | Sequence[str | Column],
) -> tuple[str | Column, ...]:
    """Return the order as columns.

    Raises:
        ClientConfigurationError: A value is not a column.
    """
    given = [order_by] if isinstance(order_by, str | Column) else order_by
    check_type("order_by", given, list | tuple, "a list of columns")
    for column in given:
        check_type("order_by", column, str | Column, "a list of columns")
    return tuple(given)


def _check_one(df: DataFrame, column: str | Column) -> None:
    if why := objection(lambda: df.sortWithinPartitions(column), df.columns):
        raise setting_error(f"order_by: {why}")


def objection(make: Callable[[], DataFrame], columns: Sequence[str]) -> str | None:
    """Return Spark's error for an expression in one line, or None without an error.

    Args:
        make: Makes a DataFrame with the expression, without running it.
        columns: The columns that the expression may use.
    """
    try:
        with _without_plans():
            # Connect analyses a plan only for a schema, and not for that of a sorted
            # DataFrame.
            _ = make().selectExpr("1").schema
    except AnalysisException as error:
        return _in_short(error, columns)
    return None


def _in_short(error: AnalysisException, columns: Sequence[str]) -> str:
    parameters = error.getMessageParameters() or {}
    if function := parameters.get("routineName"):
        name = function.replace("`", "").rpartition(".")[2]
        hint = did_you_mean(name, functions.__all__)
        return f"Spark has no function {name}{hint}"
    if "objectName" not in parameters:
        return next(line for line in str(error).splitlines() if line.strip())
    name = parameters["objectName"].replace("`", "")
    return f"there is no column {name}{other_columns(name, columns)}"


@contextmanager
def _without_plans() -> Iterator[None]:
    """Keep Spark from logging the whole plan when it raises an error."""
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
