"""Spark's side of the guard: a sink, a write, and what they tell the driver."""

from __future__ import annotations

from kafkaguard_adapters.spark.driver.data_source import KafkaGuardSource
from kafkaguard_adapters.spark.driver.foreach_batch import foreach_batch
from kafkaguard_adapters.spark.driver.guard_sink import guard_sink
from kafkaguard_adapters.spark.driver.telling import (
    ReportListener,
    otel_reports,
    prometheus_reports,
)
from kafkaguard_adapters.spark.driver.write import write
from kafkaguard_adapters.spark.marker import error_from
from kafkaguard_adapters.spark.report import WriteReport

__all__ = [
    "KafkaGuardSource",
    "ReportListener",
    "WriteReport",
    "error_from",
    "foreach_batch",
    "guard_sink",
    "otel_reports",
    "prometheus_reports",
    "write",
]
