"""Malformed lines of a pipeline's source.

If the policy sends such a line to the dead-letter topic or drops it, the column
:data:`REFUSED` has the reason for the sink. If it must fail the job, its columns raise
an error before the shuffle, so nothing was sent yet.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import functions as F  # noqa: N812 - as everyone calls it

from kafkaguard._delivery.dead_letters import Reason
from kafkaguard_adapters.spark.driver.columns import REFUSED
from kafkaguard_adapters.spark.marker import as_text
from kafkaguard_adapters.spark.pipeline.rows import FILE, LINE
from kafkaguard_adapters.spark.verdicts import record_error

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_OF_A_ROW = {"key", "topic", "partition", "timestamp", "headers"}
_FILE = "<file>"
_WHICH = f"{_FILE} has a line that does not fit the declared columns"


def with_lines_set_aside(frame: DataFrame) -> DataFrame:
    """Turn each malformed line into a refused record whose value is the line.

    Args:
        frame: The columns of the sink, and the columns :data:`LINE` and :data:`FILE`.
    """
    line = F.col(LINE)
    made = {
        name: F.when(line.isNull(), F.col(name))
        for name in set(frame.columns) & _OF_A_ROW
    }
    made["value"] = F.coalesce(line.cast("binary"), F.col("value").cast("binary"))
    reason = F.lit(str(Reason.MALFORMED)).alias("reason")
    why = F.struct(reason, F.col(FILE).alias("source"))
    return frame.withColumns({**made, REFUSED: F.when(line.isNotNull(), why)})


def failing_at_lines(frame: DataFrame, topic: str | None) -> DataFrame:
    """Let each column that the sink's checks may read first fail at a malformed line.

    Args:
        frame: As for :func:`with_lines_set_aside`.
        topic: The topic of the records; None: a column names it.
    """
    text = F.lit(as_text(record_error(Reason.MALFORMED, topic, _WHICH)))
    failed = F.raise_error(F.replace(text, F.lit(_FILE), F.col(FILE)))
    return frame.withColumns(
        {
            name: F.when(F.col(LINE).isNotNull(), failed).otherwise(F.col(name))
            for name in frame.columns
            if name in ("key", "value", "topic")
        }
    )
