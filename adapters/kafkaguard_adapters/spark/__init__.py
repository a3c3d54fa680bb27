"""Spark's side of the guard: a sink, a write, and what they tell the driver."""

from __future__ import annotations

from kafkaguard_adapters.spark._counts import WriteReport
from kafkaguard_adapters.spark._foreach_batch import foreach_batch
from kafkaguard_adapters.spark._guard_sink import guard_sink
from kafkaguard_adapters.spark._marker import error_from
from kafkaguard_adapters.spark._source import KafkaGuardSource
from kafkaguard_adapters.spark._write import write

__all__ = [
    "KafkaGuardSource",
    "WriteReport",
    "error_from",
    "foreach_batch",
    "guard_sink",
    "write",
]
