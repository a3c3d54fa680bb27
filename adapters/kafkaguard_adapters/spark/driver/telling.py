"""Reports of micro-batches for telemetry and other listeners.

``foreach_batch`` calls ``on_report`` with its reports. The data source writes them to a
file, in a process next to the driver, and a listener reads the file.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pyspark.sql.streaming.listener import StreamingQueryListener

from kafkaguard._common.logs import Log
from kafkaguard_adapters.spark.report import WriteReport

if TYPE_CHECKING:
    from collections.abc import Callable

    OnReport = Callable[[WriteReport, int], object]

_log = Log("spark")


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
                _log.exception(
                    "on_report_raised",
                    "on_report raised an exception for batch %d",
                    batch_id,
                    batch=batch_id,
                )

    def _lines(self) -> list[bytes]:
        """Read complete lines; the last line may be incomplete."""
        if not self._file.exists():
            return []
        with self._file.open("rb") as file:
            file.seek(self._read)
            whole, end, _ = file.read().rpartition(b"\n")
        self._read += len(whole) + len(end)
        return whole.splitlines()
