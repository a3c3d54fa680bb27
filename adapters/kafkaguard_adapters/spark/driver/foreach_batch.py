"""``foreach_batch``: the guarded write for ``writeStream.foreachBatch``."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from kafkaguard._common.arguments import hook
from kafkaguard._common.logs import Log
from kafkaguard._errors import KafkaGuardError
from kafkaguard_adapters.spark.driver.batch_notes import (
    Notes,
    checkpoint_of,
    is_temporary,
)
from kafkaguard_adapters.spark.driver.counting import Growth
from kafkaguard_adapters.spark.driver.frame import (
    as_order,
    check_frame,
    check_order,
)
from kafkaguard_adapters.spark.driver.once import read_once, write_once
from kafkaguard_adapters.spark.driver.write import write_frame
from kafkaguard_adapters.spark.marker import task_failed
from kafkaguard_adapters.spark.setting_errors import setting_error
from kafkaguard_adapters.spark.settings import check_number, check_type, make_settings
from kafkaguard_adapters.spark.topics import KEEP_S, cache_for, look_up

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from pathlib import Path

    from pyspark.sql import Column, DataFrame

    from kafkaguard_adapters.spark.driver.once import Once
    from kafkaguard_adapters.spark.report import WriteReport
    from kafkaguard_adapters.spark.settings import SinkSettings
    from kafkaguard_policies.retry_policy import RetryPolicy

    OnReport = Callable[[WriteReport, int], object]

_NO_CHECKPOINT = (
    "the query's checkpoint is not known here (Spark Connect does not expose it), so "
    "how many records are new is unknown: give foreach_batch its checkpoint"
)
_log = Log("spark")


@dataclass(frozen=True)
class ForeachBatch:
    """Writes each micro-batch as :func:`kafkaguard.spark.write` does.

    It has plain values only, so it can be pickled: Connect sends it to the server.
    """

    settings: SinkSettings
    partitions: int | None = None
    order_by: tuple[str | Column, ...] = ()
    checkpoint: str | None = None
    on_report: OnReport | None = None
    once: Once | None = None

    def __call__(self, batch: DataFrame, batch_id: int) -> None:
        """Write a micro-batch: one action, nothing cached."""
        try:
            report = self._write(batch, batch_id)
        except KafkaGuardError as error:
            raise task_failed(error) from error
        _log.info(
            "batch_written",
            "batch %d: %s",
            batch_id,
            report,
            batch=batch_id,
            topic=report.topic,
        )
        if self.on_report is not None:
            self._hand_over(self.on_report, report, batch_id)

    def _write(self, batch: DataFrame, batch_id: int) -> WriteReport:
        """Write with cached topic facts, and drop them if a broker contradicts them.

        Facts that refused a record may have changed, so they are looked up again, too.
        """
        check_frame(batch)
        order = check_order(batch, self.order_by)
        cache = cache_for(self.settings.client)
        try:
            topics = look_up(self.settings, KEEP_S)
            if self.once is None:
                report = write_frame(
                    batch,
                    self.settings,
                    topics,
                    self._begin_growth(batch, batch_id),
                    partitions=self.partitions,
                    order_by=order,
                )
            else:
                report = write_once(
                    batch,
                    self.settings,
                    topics,
                    self.once,
                    batch_id,
                    partitions=self.partitions,
                    order_by=order,
                    checkpoint=self._find_checkpoint(batch),
                )
        except KafkaGuardError:
            cache.forget(self.settings.topics)
            raise
        if report.dead_lettered:
            cache.forget(self.settings.topics)
        return report

    def _find_checkpoint(self, batch: DataFrame) -> str:
        checkpoint = self.checkpoint or checkpoint_of(batch)
        if checkpoint is None:
            raise setting_error(f"exactly_once: {_NO_CHECKPOINT}", setting="checkpoint")
        return checkpoint

    def _begin_growth(self, batch: DataFrame, batch_id: int) -> Growth:
        """Return the end offsets from before this micro-batch was first tried."""
        growth = Growth.begin(self.settings)
        checkpoint = self.checkpoint or checkpoint_of(batch)
        if checkpoint is None:
            return replace(growth, before=None, remark=_NO_CHECKPOINT)
        if is_temporary(checkpoint):
            return growth
        before, remark = Notes(checkpoint).begin(batch_id, growth.before)
        return replace(growth, before=before, remark=remark)

    def _hand_over(
        self, on_report: OnReport, report: WriteReport, batch_id: int
    ) -> None:
        """Call a hook with the report; its exceptions do not break the stream."""
        try:
            on_report(report, batch_id)
        except Exception:  # noqa: BLE001 - a hook may raise anything
            _log.exception(
                "on_report_raised",
                "on_report raised an exception for batch %d; the batch "
                "itself succeeded",
                batch_id,
                batch=batch_id,
            )


def foreach_batch(  # noqa: PLR0913 - one for each setting
    topic: str | None = None,
    *,
    bootstrap_servers: str,
    policy: RetryPolicy | Mapping[str, Any] | str | Path | None = None,
    compacted: bool | None = None,
    max_record_bytes: int | None = None,
    partitions: int | None = None,
    order_by: str | Column | Sequence[str | Column] = (),
    config: Mapping[str, str] | None = None,
    checkpoint: str | None = None,
    on_report: OnReport | None = None,
    exactly_once: str | Mapping[str, Any] | None = None,
) -> Callable[[DataFrame, int], None]:
    """Return the function for ``df.writeStream.foreachBatch(...)``.

    A stream continues after outages: topic facts are cached for 60 s, or as long as no
    broker answers, and dropped when a record or a batch is refused. The first batch of
    a stream waits for an answer for the policy's ``deadline``, at most an hour, or 300
    s without a policy.

    Args:
        topic: As for :func:`kafkaguard.spark.write`, as all arguments up to ``config``.
        bootstrap_servers: The brokers' addresses.
        policy: The retry policy.
        compacted: Whether the topic is compacted.
        max_record_bytes: The largest record.
        partitions: The number of writing tasks.
        order_by: The order of the records of a key.
        config: Client settings.
        checkpoint: The query's ``checkpointLocation``. A file next to it lets the
            report count duplicates of a micro-batch that is repeated after the driver
            was killed. Default: the query's. Connect does not expose it, so there
            ``maybe_twice`` is None unless you give it.
        on_report: Called with the report and the id of each batch, where the function
            runs. In Connect that is a process on the server: it must be picklable and
            must store its results where the client can read them.
        exactly_once: As for :func:`kafkaguard.spark.write`; the batch is the
            micro-batch. In Connect it needs ``checkpoint``.

    Returns:
        A function of a batch and its id. Its errors reach the driver as text;
        :func:`kafkaguard.spark.error_from` converts them to a KafkaGuardError.

    Raises:
        ClientConfigurationError: An argument is not valid.
        TypeError: ``on_report`` cannot be called.
    """
    hook("foreach_batch(on_report)", on_report)
    check_type("checkpoint", checkpoint, str | None, "a path")
    check_number("partitions", partitions, "a number of tasks")
    settings = make_settings(
        bootstrap_servers,
        topic=topic,
        policy=policy,
        compacted=compacted,
        max_record_bytes=max_record_bytes,
        config=config,
    )
    order = as_order(order_by)
    once = read_once(exactly_once, topic)
    return ForeachBatch(
        settings.of_stream(), partitions, order, checkpoint, on_report, once
    )
