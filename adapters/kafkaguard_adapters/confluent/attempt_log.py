"""Which requests of a producer librdkafka has repeated, as its log tells.

A delivery report has the last answer to a record only. Whether an earlier attempt had
no answer, or an answer that does not exclude that the record was written (7, 20), is in
no report, no callback and no statistic. But librdkafka logs it:

1. A request fails. librdkafka takes its records back into the queue of their partition,
   and puts a line into the queue of reports.
2. Later, the report of the last answer comes into the same queue, behind the line.
3. A poll brings both. With the line the client calls ``log``, which only keeps it (see
   `recorded_calls`); the report ends a window of records.
4. Before the window decides, the shell calls ``hear``, which reads the line. The window
   asks ``has_repeated``.
5. Behind the poll ``hear`` is called again, for lines without a report.

An idempotent producer logs it with ``debug=eos``, and nothing else while no request
fails, except when it gets its id and first uses a partition. Another producer needs
``debug=msg``, with two lines for each batch.
"""

from __future__ import annotations

import re
import threading
import time
from collections import deque
from typing import Any, Final

from confluent_kafka import KafkaError

from kafkaguard._common.logs import Log
from kafkaguard_adapters.confluent.client_log import ClientLog
from kafkaguard_adapters.confluent.recorded_calls import RecordedCalls

_log = Log("producer")
#: librdkafka's ``debug`` for these lines: of an idempotent producer, and of another.
IDEMPOTENT, OTHER = "eos", "msg"
_PLACE: Final = re.compile(r"(?P<topic>[\w.-]+) \[(?P<partition>\d+)\]:? (?P<text>.*)")
#: The facilities of lines about a partition.
_OF_PARTITIONS: Final = frozenset({"NEWPID", "ERRSEQ", "DRAIN", "MSGSET"})
#: librdkafka's words for a request that may have been written, and is repeated.
_UNSURE, _AGAIN = "MsgPossiblyPersisted", ("Retry", "Refresh")
#: The states in which librdkafka waits until it can number its records anew.
_RENEWS: Final = "-> Drain"
#: Lines that are counted until a poll or a flush ends.
_MOST_HIDDEN: Final = 1000
_FAILED: Final = "Failed to acquire PID: "
#: librdkafka's codes, of brokers and of its own, that a request for an id may get.
_CODES: Final = range(-200, 200)


class AttemptLog(ClientLog):
    """librdkafka's logger: finds repeated requests, and passes each line on.

    Args:
        own: The user's logger; None: the lines go to stderr, as librdkafka's do.

    Attributes:
        log: What the client calls with each line; no Python code runs in it.
        unread: The calls of ``log`` that nobody has read.
        hidden: One item for each line for which the client alone would have called
            nothing, so that a poll does not count it.
        is_heard: Whether the client logs what this class looks for.
        has_id: Whether an idempotent client has got a producer id; it sends no record
            before. Another client needs none.
        refused_id: Why it has got none so far, or None.
        renewed: The topics whose records on their way may be written twice, since the
            shell has asked last; None stands for all: an idempotent client numbers its
            records anew, and requests whose answers were lost are written again with
            their new numbers (librdkafka's issue 4953).
    """

    __slots__ = ("log",)

    def __init__(self, own: Any) -> None:
        super().__init__(own)
        self.hidden: deque[None] = deque(maxlen=_MOST_HIDDEN)
        self._calls = RecordedCalls()
        self.log = self._calls.record
        self.unread = self._calls.unread
        self._had_equal_lines = False  # among those that are being read
        self.forget()

    def hear(self) -> None:
        """Read the lines so far."""
        lines: list[tuple[Any, ...]] = []
        with self._reading:  # so that no thread decides before a line is read
            self._had_equal_lines = self._calls.had_equal_calls()
            for each in list(self.unread):
                self.read(each[2], each[4])
                lines.append(each)
                del self.unread[each]  # after it was read: Ctrl-C may strike before
        for each in lines:
            try:
                self.pass_on(*each)
            except Exception:  # noqa: BLE001 - a line must not stop the reports
                _log.exception(
                    "client_logger_raised",
                    "the logger in the settings of the client raised",
                )

    def forget(self) -> None:
        """Forget what is known: another client is in use from now on."""
        self._reading = threading.Lock()  # a new one, also in a forked child
        self.is_heard = self.has_id = False
        self.refused_id: KafkaError | None = None
        self.renewed: set[str | None] = set()
        #: The partitions that the client has used.
        self._used: set[tuple[str, int]] = set()
        #: Those with a request behind a refused one, until the sequence is new.
        self._gaps: set[tuple[str, int]] = set()
        #: When it was last heard that requests to a partition are repeated.
        self._repeated_at: dict[tuple[str, int], float] = {}

    def has_repeated(self, topic: str, partition: int, since: float) -> bool:
        """Return whether requests to a partition were repeated since a time.

        Args:
            topic: The topic.
            partition: The partition.
            since: When the client got the record, in monotonic seconds.
        """
        return self._repeated_at.get((topic, partition), -1.0) >= since

    def hide(self) -> None:
        """Note a line for which the client alone would have called nothing."""
        self.hidden.append(None)

    def read(self, facility: str, line: str) -> None:
        """Read a line."""
        if facility == "IDEMPSTATE":
            self.is_heard = True
            if _RENEWS in line:
                self.renewed.add(None)
        elif facility == "GETPID":
            self._read_about_id(line)
        elif facility in _OF_PARTITIONS and (match := _PLACE.search(line)):
            self._read_about_partition(
                facility, (match["topic"], int(match["partition"])), match["text"]
            )

    def _read_about_partition(
        self, facility: str, place: tuple[str, int], text: str
    ) -> None:
        if facility == "NEWPID":
            self._used.add(place)
            self._gaps.discard(place)
            return
        if facility == "ERRSEQ":
            self._gaps.add(place)
            return
        if facility == "MSGSET":
            self.is_heard = self.has_id = True
            is_repeated = _UNSURE in text and any(word in text for word in _AGAIN)
            if is_repeated:
                self.renewed.add(place[0])
        else:
            # It waits for the answers to its requests. It does so, too, when it gets a
            # leader; then failing requests to an old leader add no further line. But
            # behind a gap in the sequence the broker has written nothing.
            is_repeated = (
                "partition drain" in text
                and ("retrying" in text or place in self._used)
                and (place not in self._gaps or self._had_equal_lines)
            )
        if is_repeated:
            self._repeated_at[place] = time.monotonic()

    def _read_about_id(self, line: str) -> None:
        if "Acquired PID" in line:
            self.has_id, self.refused_id = True, None
        elif _FAILED in line:
            self.refused_id = _error_of(line.partition(_FAILED)[2])


def _error_of(text: str) -> KafkaError:
    """Return the client's error with this text, which is all that its log has."""
    errors = map(KafkaError, _CODES)
    known = (error for error in errors if error.str() == text)
    return next(known, None) or KafkaError(KafkaError._FAIL, text)  # noqa: SLF001 - a documented constant
