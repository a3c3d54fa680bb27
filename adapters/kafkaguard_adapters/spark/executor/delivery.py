"""Send the records of one task, window by window.

Records are given to the producer until the window is full. Then a flush waits for the
outcome of each record (the client reports failures only). The delivery machine decides
about the records that failed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kafkaguard._delivery.dead_letters import Reason
from kafkaguard_adapters.spark.executor.arrow import Columns, SinkRecord
from kafkaguard_adapters.spark.executor.checks import find_refused
from kafkaguard_adapters.spark.executor.driver import WindowDriver
from kafkaguard_adapters.spark.executor.known_topics import KnownTopics
from kafkaguard_adapters.spark.executor.sender import borrow
from kafkaguard_adapters.spark.executor.size_limits import describe_exceeded
from kafkaguard_adapters.spark.verdicts import record_error

if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Self

    from kafkaguard._errors import KafkaGuardError
    from kafkaguard_adapters.spark.executor.sender import Sender
    from kafkaguard_adapters.spark.settings import SinkSettings
    from kafkaguard_adapters.spark.topics import SinkTopic

#: A window ends at so many records or bytes; they are kept in memory until then.
WINDOW_RECORDS = 500_000
WINDOW_BYTES = 64 * 1024 * 1024


class Delivery:
    """Checks and sends the records of one task.

    Args:
        settings: The settings of the write.
        topics: The facts about topics that the driver has looked up.
        window_size: The most records between two flushes.
        sender: The producer. Default: that of the last task, or a new one.

    Attributes:
        counts: The outcomes of the records.
    """

    def __init__(
        self,
        settings: SinkSettings,
        topics: dict[str, SinkTopic],
        window_size: int = WINDOW_RECORDS,
        sender: Sender | None = None,
    ) -> None:
        self._settings = settings
        self._known = KnownTopics(settings, topics)
        self._window_size = window_size
        self._sent: list[Columns] = []
        self._open = 0
        self._open_bytes = 0
        config = self._known.producer_config()
        self._sender = sender or borrow(config)
        self._driver = WindowDriver(settings, self._known, self._sender, config)
        self.counts = self._driver.counts

    def __enter__(self) -> Self:
        """Return the delivery."""
        return self

    def __exit__(self, kind: object, error: object, traceback: object) -> None:
        """Keep the producer for the next task; if the task fails, drop its queue."""
        if error is None:
            self._sender.keep()
        else:
            self._sender.discard()

    def send(self, batch: Any) -> None:
        """Check the records of an Arrow batch, then send those that pass.

        Raises:
            KafkaGuardError: A record fails the job.
        """
        columns = Columns(batch, self._settings.topic)
        self.counts.read += len(columns)
        self.counts.collapsed_keys += columns.collapsed_keys()
        refused = self._find_refused(columns)
        if refused:
            self._refuse(columns, refused)
            columns = columns.without(refused)
        if not self._sent:
            self._driver.open_window()
        self._sent.append(columns)
        if columns.are_plain:
            self._sender.produce_plain(columns.plain())
        else:
            self._sender.produce(columns.records())
        if not refused:
            self._driver.assume_delivered(len(columns))
        self._open += len(columns)
        self._open_bytes += batch.nbytes
        full = self._open >= self._window_size or self._open_bytes >= WINDOW_BYTES
        if self._sender.has_failed or full:
            self.end_window()

    def _find_refused(self, columns: Columns) -> Mapping[int, str]:
        """Return the rows that no broker would accept, with the reason of each."""
        refused = find_refused(columns, self._known)
        if refused and self._known.renew():
            refused = find_refused(columns, self._known)
        return refused

    def _refuse(self, columns: Columns, refused: Mapping[int, str]) -> None:
        """Give refused rows to the driver, and count the rows between them as sent."""
        previous = -1
        for row in sorted(refused):
            self._driver.assume_delivered(row - previous - 1)
            previous = row
            record, reason = columns.record(row), refused[row]
            error = self._make_error(record, reason)
            self._driver.refused_at_once(record, reason, error)
        self._driver.assume_delivered(len(columns) - previous - 1)

    def _make_error(self, record: SinkRecord, reason: str) -> KafkaGuardError:
        text = None
        if reason == Reason.TOO_LARGE and record.topic is not None:
            text = describe_exceeded(self._known.limits(record.topic), record.sizes)
        return record_error(Reason(reason), record.topic, text)

    def end_window(self) -> None:
        """Wait for the outcome of every record that was sent, and handle failures.

        Raises:
            KafkaGuardError: A record fails the job.
        """
        self._sender.flush()
        sent, self._sent = self._sent, []
        count, self._open, self._open_bytes = self._open, 0, 0
        self._driver.end_window(count, sent)
