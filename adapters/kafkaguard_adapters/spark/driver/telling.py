"""Reports of micro-batches for OpenTelemetry, Prometheus and listeners.

``foreach_batch`` calls ``on_report`` with its reports. The data source writes them to a
file, in a process next to the driver, and a listener reads the file.
"""

from __future__ import annotations

import json
import logging
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from pyspark.sql.streaming.listener import StreamingQueryListener

from kafkaguard._common.extras import require
from kafkaguard_adapters.spark.report import WriteReport

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    OnReport = Callable[[WriteReport, int], object]

RECORDS: Final = "kafkaguard.spark.records"
SECONDS: Final = "kafkaguard.spark.batch.duration"
_RECORDS_SAID = "Records of micro-batches, by outcome"
_SECONDS_SAID = "Seconds that a micro-batch took to write"
_log = logging.getLogger("kafkaguard.spark")


def _counts(report: WriteReport) -> Iterator[tuple[dict[str, str], int]]:
    """Return a report's counts, each with its labels."""
    topic = report.topic or ""
    yield {"topic": topic, "outcome": "delivered", "reason": ""}, report.delivered
    for outcome, reasons in (
        ("dead_lettered", report.dead_lettered),
        ("dropped", report.dropped),
        ("in_doubt", report.in_doubt),
    ):
        for reason, count in reasons.items():
            yield {"topic": topic, "outcome": outcome, "reason": reason}, count


def otel_reports(meter: Any) -> OnReport:
    """Make an ``on_report`` that exports to OpenTelemetry.

    Args:
        meter: An ``opentelemetry.metrics.Meter``.

    Returns:
        A function of a report and its batch id: a counter of records with the
        attributes ``topic``, ``outcome`` and ``reason``, a histogram of seconds.
    """
    records = meter.create_counter(RECORDS, unit="{record}", description=_RECORDS_SAID)
    seconds = meter.create_histogram(SECONDS, unit="s", description=_SECONDS_SAID)

    def tell(report: WriteReport, _batch_id: int) -> None:
        for labels, count in _counts(report):
            records.add(count, labels)
        seconds.record(report.seconds, {"topic": report.topic or ""})

    return tell


def prometheus_reports(registry: Any = None) -> OnReport:
    """Make an ``on_report`` that exports to Prometheus.

    Args:
        registry: A ``CollectorRegistry``. Default: the one of ``prometheus_client``.

    Returns:
        A function of a report and its batch id: the counter
        ``kafkaguard_spark_records_total`` with the labels ``topic``, ``outcome`` and
        ``reason``, the histogram ``kafkaguard_spark_batch_duration_seconds``.
    """
    require("prometheus_reports", "prometheus", "prometheus_client")
    from prometheus_client import REGISTRY, Counter, Histogram

    place = registry or REGISTRY
    labels = ["topic", "outcome", "reason"]
    name = RECORDS.replace(".", "_")
    records = Counter(name, _RECORDS_SAID, labels, registry=place)
    name = SECONDS.replace(".", "_")
    seconds = Histogram(f"{name}_seconds", _SECONDS_SAID, ["topic"], registry=place)

    def tell(report: WriteReport, _batch_id: int) -> None:
        for own, count in _counts(report):
            records.labels(**own).inc(count)
        seconds.labels(topic=report.topic or "").observe(report.seconds)

    return tell


class ReportListener(StreamingQueryListener):
    """Calls ``on_report`` with the reports of a stream's data source.

    ``spark.streams.addListener(ReportListener("report.jsonl", on_report))``, where
    ``report.jsonl`` is the stream's option ``report``, on the same machine.

    Args:
        report: The file. Existing lines are skipped.
        on_report: Called with each report and its batch id.
    """

    def __init__(self, report: str, on_report: OnReport) -> None:
        self._file = Path(report)
        self._on_report = on_report
        self._read = self._file.stat().st_size if self._file.exists() else 0

    def onQueryStarted(self, event: Any) -> None:  # noqa: N802 - Spark's name
        """Do nothing."""

    def onQueryIdle(self, event: Any) -> None:  # noqa: N802 - Spark's name
        """Do nothing."""

    def onQueryProgress(self, event: Any) -> None:  # noqa: ARG002, N802 - Spark's name
        """Report the new lines."""
        self._tell()

    def onQueryTerminated(self, event: Any) -> None:  # noqa: ARG002, N802 - Spark's name
        """Report the new lines."""
        self._tell()

    def _tell(self) -> None:
        """Call the hook with the new reports; its exceptions are logged."""
        for line in self._lines():
            content = json.loads(line)
            batch_id = content.pop("batch_id", -1)
            try:
                self._on_report(WriteReport.from_dict(content), batch_id)
            except Exception:  # noqa: BLE001 - a hook may raise anything
                _log.exception("on_report raised an exception for batch %d", batch_id)

    def _lines(self) -> list[bytes]:
        """Read complete lines; the last line may be incomplete."""
        if not self._file.exists():
            return []
        with self._file.open("rb") as file:
            file.seek(self._read)
            whole, end, _ = file.read().rpartition(b"\n")
        self._read += len(whole) + len(end)
        return whole.splitlines()
