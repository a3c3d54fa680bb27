"""A warning about random columns, which Spark cannot compute again as they were."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_RANDOM = (
    "the DataFrame has a column that is not deterministic (such as rand, uuid or "
    "monotonically_increasing_id), and a shuffle: if an executor is lost, Spark "
    "computes some rows again with other values, and records are lost or written twice "
    "with different values, or the job fails. Write the DataFrame to a file, or call "
    "checkpoint(), before the write"
)


def random_rows(df: DataFrame, plan: DataFrame) -> str | None:
    """Return a warning if rows of a shuffle cannot be computed again as they were.

    Args:
        df: The DataFrame of the caller.
        plan: The DataFrame that is written, with kafkaguard's own shuffle.

    Returns:
        The warning; None: nothing of the kind is seen. Connect shows no plan.
    """
    java: Any = getattr(df, "_jdf", None)
    if java is None or java.queryExecution().analyzed().deterministic():
        return None
    query = getattr(plan, "_jdf").queryExecution()  # noqa: B009 - PySpark has no public name for it
    return _RANDOM if "Exchange" in query.executedPlan().toString() else None
