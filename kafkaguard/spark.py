"""Guarded writes from Spark to Kafka; needs the extra ``spark``.

>>> import kafkaguard.spark  # doctest: +SKIP
>>> kafkaguard.spark.write(df, "flights", bootstrap_servers="localhost:9092",
...                        policy="spark-sink")  # doctest: +SKIP
WriteReport(topic='flights', read=336776, delivered=334264, ...)
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kafkaguard._common.extras import SPARK, require

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

require("kafkaguard.spark", "spark", *SPARK)

# They need those packages.
from kafkaguard_adapters.spark.driver.data_source import KafkaGuardSource  # noqa: E402 - see above
from kafkaguard_adapters.spark.driver.foreach_batch import foreach_batch  # noqa: E402 - see above
from kafkaguard_adapters.spark.driver.guard_sink import guard_sink  # noqa: E402 - see above
from kafkaguard_adapters.spark.driver.telling import (  # noqa: E402 - see above
    ReportListener,
    otel_reports,
    prometheus_reports,
)
from kafkaguard_adapters.spark.driver.write import write  # noqa: E402 - see above
from kafkaguard_adapters.spark.marker import error_from  # noqa: E402 - see above
from kafkaguard_adapters.spark.report import WriteReport  # noqa: E402 - see above

__all__ = [
    "ReportListener",
    "WriteReport",
    "error_from",
    "foreach_batch",
    "guard_sink",
    "otel_reports",
    "prometheus_reports",
    "register",
    "write",
]


def register(spark: SparkSession) -> None:
    """Make the sink known to a session: ``df.write.format("kafkaguard")``.

    Spark wraps the sink's errors, and puts a Python traceback before them. To read one:

    >>> try:  # doctest: +SKIP
    ...     df.write.format("kafkaguard").mode("append").option("topc", "t").save()
    ... except Exception as exception:
    ...     print(error_from(exception))
    CLIENT_CONFIGURATION ...: there is no option topc; did you mean 'topic'? ...

    ``spark.sql.execution.pyspark.udf.hideTraceback.enabled`` leaves the traceback out.

    Args:
        spark: A session, classic or Connect. Its executors need kafkaguard installed.
    """
    spark.dataSource.register(KafkaGuardSource)
