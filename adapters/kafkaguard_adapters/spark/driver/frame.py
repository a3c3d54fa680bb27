"""The DataFrame of a write and its order, checked before the job starts."""

from __future__ import annotations

from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, Any

from pyspark.errors import AnalysisException
from pyspark.logger import PySparkLogger
from pyspark.sql import Column, DataFrame, functions

from kafkaguard._common.closest import did_you_mean
from kafkaguard_adapters.spark.columns import list_columns
from kafkaguard_adapters.spark.setting_errors import setting_error
from kafkaguard_adapters.spark.settings import check_type

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from logging import LogRecord

_RANDOM = (
    "the DataFrame has a column that is not deterministic (such as rand, uuid or "
    "monotonically_increasing_id), and a shuffle: if an executor is lost, Spark "
    "computes some rows again with other values, and records are lost or written twice "
    "with different values, or the job fails. Write the DataFrame to a file, or call "
    "checkpoint(), before the write"
)
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
            "or foreachBatch(kafkaguard.spark.foreach_batch(...))"
        )


def check_order(
    df: DataFrame, order_by: str | Column | Sequence[str | Column]
) -> list[str | Column]:
    """Check the order of a DataFrame.

    Returns:
        The columns as a list.

    Raises:
        ClientConfigurationError: A column does not exist, or the value is not a column.
    """
    columns = as_order(order_by)
    for column in columns:
        sort = partial(df.sortWithinPartitions, column)
        if why := find_objection(sort, df.columns):
            raise setting_error(f"order_by: {why}")
    return list(columns)


def as_order(
    order_by: str | Column | Sequence[str | Column],
) -> tuple[str | Column, ...]:
    """Return the order as columns.

    Raises:
        ClientConfigurationError: A value is not a column.
    """
    columns = [order_by] if isinstance(order_by, str | Column) else order_by
    check_type("order_by", columns, list | tuple, "a list of columns")
    for column in columns:
        check_type("order_by", column, str | Column, "a list of columns")
    return tuple(columns)


def describe_random_rows(df: DataFrame, plan: DataFrame) -> str | None:
    """Return a warning if rows of a shuffle cannot be computed again as they were.

    Args:
        df: The DataFrame of the caller.
        plan: The DataFrame that is written, with kafkaguard's own shuffle.

    Returns:
        The warning; None: no such column is known. Connect shows no plan.
    """
    java: Any = getattr(df, "_jdf", None)
    if java is None or java.queryExecution().analyzed().deterministic():
        return None
    query = getattr(plan, "_jdf").queryExecution()  # noqa: B009 - PySpark has no public name for it
    return _RANDOM if "Exchange" in query.executedPlan().toString() else None


def find_objection(make: Callable[[], DataFrame], columns: Sequence[str]) -> str | None:
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
        return _shorten(error, columns)
    return None


def _shorten(error: AnalysisException, columns: Sequence[str]) -> str:
    parameters = error.getMessageParameters() or {}
    if function := parameters.get("routineName"):
        name = function.replace("`", "").rpartition(".")[2]
        hint = did_you_mean(name, functions.__all__)
        return f"Spark has no function {name}{hint}"
    if "objectName" not in parameters:
        return next(line for line in str(error).splitlines() if line.strip())
    name = parameters["objectName"].replace("`", "")
    return f"there is no column {name}{list_columns(name, columns)}"


@contextmanager
def _without_plans() -> Iterator[None]:
    """Keep Spark from logging the whole plan when it raises an error."""
    loggers = [PySparkLogger.getLogger(name) for name in _LOGGERS_OF_PLANS]
    for logger in loggers:
        logger.addFilter(_drop)
    try:
        yield
    finally:
        for logger in loggers:
            logger.removeFilter(_drop)


def _drop(_: LogRecord) -> bool:
    return False
