"""``foreach_batch``: the guarded write for ``writeStream.foreachBatch``."""

from __future__ import annotations

import logging
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from kafkaguard._common.arguments import hook
from kafkaguard.errors import KafkaGuardError
from kafkaguard_adapters.spark.driver.addresses import check_servers
from kafkaguard_adapters.spark.driver.write import write
from kafkaguard_adapters.spark.marker import task_failed

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyspark.sql import DataFrame

    from kafkaguard_adapters.spark.report import WriteReport

    OnReport = Callable[[WriteReport, int], object]

_log = logging.getLogger("kafkaguard.spark")


@dataclass(frozen=True)
class ForeachBatch:
    """Writes each micro-batch with :func:`kafkaguard.spark.write`.

    Holds plain values only, so it pickles: Connect sends it to the server.
    """

    arguments: dict[str, Any] = field(repr=False)
    on_report: OnReport | None = None

    def __call__(self, batch: DataFrame, batch_id: int) -> None:
        """Write a micro-batch: one action, nothing cached."""
        try:
            report = write(batch, **self.arguments)
        except KafkaGuardError as error:
            raise task_failed(error) from error
        _log.info("batch %d: %s", batch_id, report)
        if self.on_report is not None:
            self._hand_over(self.on_report, report, batch_id)

    def _hand_over(
        self, on_report: OnReport, report: WriteReport, batch_id: int
    ) -> None:
        """Let a hook see the report; its bugs do not break the stream."""
        try:
            on_report(report, batch_id)
        except Exception:  # noqa: BLE001 - a hook may raise anything
            _log.exception("on_report failed for batch %d; the batch is done", batch_id)


def foreach_batch(
    topic: str | None = None, *, on_report: OnReport | None = None, **arguments: Any
) -> ForeachBatch:
    """Make the function for ``df.writeStream.foreachBatch(...)``.

    Args:
        topic: Where the records go. Default: as the column ``topic`` says.
        on_report: Called with each batch's report and id, where the function runs: in
            Connect that is a process on the server, so it must pickle and must bring
            what it learns to a place that both can see.
        arguments: As for :func:`kafkaguard.spark.write`.

    Returns:
        A function of a batch and its id. Its errors reach the driver as text;
        :func:`kafkaguard.spark.error_from` makes a KafkaGuardError of them again.

    Raises:
        ClientConfigurationError: An address cannot be parsed.
        TypeError: ``on_report`` cannot be called.
    """
    check_servers(arguments.get("bootstrap_servers"))
    hook("foreach_batch(on_report)", on_report)
    return ForeachBatch({"topic": topic, **arguments}, on_report)
