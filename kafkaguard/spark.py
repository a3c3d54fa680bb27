"""Guarded writes from Spark to Kafka; needs the extra ``spark``.

>>> import kafkaguard.spark  # doctest: +SKIP
>>> kafkaguard.spark.write(df, "flights", bootstrap_servers="localhost:9092",
...                        policy="spark-sink")  # doctest: +SKIP
WriteReport(topic='flights', read=336776, delivered=334264, ...)
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kafkaguard._common.extras import SPARK, require
from kafkaguard._common.public import exports

if TYPE_CHECKING:
    from kafkaguard_adapters.spark.driver.data_source import register as register
    from kafkaguard_adapters.spark.driver.foreach_batch import (
        foreach_batch as foreach_batch,
    )
    from kafkaguard_adapters.spark.driver.guard_sink import guard_sink as guard_sink
    from kafkaguard_adapters.spark.driver.telling import (
        ReportListener as ReportListener,
    )
    from kafkaguard_adapters.spark.driver.write import write as write
    from kafkaguard_adapters.spark.marker import error_from as error_from
    from kafkaguard_adapters.spark.report import WriteReport as WriteReport

require("kafkaguard.spark", "spark", *SPARK)

exports(
    __name__,
    {
        "kafkaguard_adapters.spark.driver.data_source": "register",
        "kafkaguard_adapters.spark.driver.foreach_batch": "foreach_batch",
        "kafkaguard_adapters.spark.driver.guard_sink": "guard_sink",
        "kafkaguard_adapters.spark.driver.telling": "ReportListener",
        "kafkaguard_adapters.spark.driver.write": "write",
        "kafkaguard_adapters.spark.marker": "error_from",
        "kafkaguard_adapters.spark.report": "WriteReport",
    },
)
