"""Settings that must be given when a consumer is built: callbacks and a logger.

librdkafka itself resets a position that is out of range. The only sign is a line in its
log. The line is logged during a poll, before any record after the reset.
"""

from __future__ import annotations

import logging
import math
import re
import sys
import time
from typing import TYPE_CHECKING, Any, Final

from kafkaguard._cluster.reports import TopicPartition
from kafkaguard_adapters.confluent.callbacks import Chained

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

_log = logging.getLogger("kafkaguard.consumer")

CALLBACKS: Final = ("error_cb", "on_commit")
LOGGER: Final = "logger"
_OFFSETS: Final = "OFFSET"
_RESET: Final = re.compile(
    r"(?P<topic>\S+) \[(?P<partition>\d+)\]: offset reset \(at offset (?P<at>\d+)\b"
)
#: The setting, and the least value of it with which librdkafka logs a reset.
_LEVEL: Final = "log_level"
_WARNING: Final = 4
#: syslog's number for each level that confluent-kafka translates into Python's.
_SYSLOG: Final = {
    logging.CRITICAL: 2,
    logging.ERROR: 3,
    logging.WARNING: 4,
    logging.INFO: 6,
    logging.DEBUG: 7,
}


class ResetLog:
    """librdkafka's logger: finds resets, and passes each line on as usual.

    Args:
        own: The user's logger; None: the lines go to stderr, as librdkafka's do.

    Attributes:
        most: The user's ``log_level``; lines with a higher number are not passed on.
    """

    def __init__(self, own: logging.Logger | None) -> None:
        self.own = own
        self.most = math.inf
        self.hear: Callable[[TopicPartition, int], object] | None = None

    def log(self, level: int, text: str, facility: str, name: str, line: str) -> None:
        """Read a line and pass it on; an exception in here would end the poll."""
        found = _RESET.search(line) if facility == _OFFSETS else None
        if found is not None and self.hear is not None:
            place = TopicPartition(found["topic"], int(found["partition"]))
            try:
                self.hear(place, int(found["at"]))
            except Exception:  # noqa: BLE001 - see above
                _log.exception(
                    "the guard failed (a bug in kafkaguard); the client "
                    "resets the offset"
                )
        number = _SYSLOG.get(level, level)
        if number > self.most:
            return
        if self.own is not None:
            self.own.log(level, text, facility, name, line)
        else:
            sys.stderr.write(f"%{number}|{time.time():.3f}|{facility}|{name}| {line}\n")


def prepare(config: Mapping[str, Any]) -> dict[str, Any]:
    """Return settings with the guard's callbacks and logger, to build a consumer.

    A ``log_level`` with which librdkafka would not log a reset is raised; the user's
    logger gets no more lines for that.
    """
    chained = {name: Chained(config.get(name)) for name in CALLBACKS}
    log = ResetLog(config.get(LOGGER))
    prepared = {**config, **chained, LOGGER: log}
    level = str(config.get(_LEVEL))
    if level.isdecimal() and int(level) < _WARNING:
        prepared[_LEVEL], log.most = _WARNING, int(level)
    return prepared
