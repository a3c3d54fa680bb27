"""librdkafka's log lines: the guard reads them, and passes each on as usual."""

from __future__ import annotations

import logging
import math
import sys
import time
from typing import Any, Final

LOGGER: Final = "logger"
LEVEL: Final = "log_level"
#: syslog's number for each level that confluent-kafka translates into Python's.
_SYSLOG: Final = {
    logging.CRITICAL: 2,
    logging.ERROR: 3,
    logging.WARNING: 4,
    logging.INFO: 6,
    logging.DEBUG: 7,
}


class ClientLog:
    """librdkafka's logger: reads each line, and passes it on.

    The client calls ``log`` with each line, which each class has as a slot of its own.
    The client may log while an exception is set that its call is about to raise: a
    look into a base class would clear the exception, and Python code that ran then
    would end the call in a SystemError or an AttributeError. A cache of the interpreter
    calls nothing in this case: the line is lost, and the client raises its exception.

    Args:
        own: The user's logger; None: the lines go to stderr, as librdkafka's do.

    Attributes:
        own: See above.
        most: The user's ``log_level``; lines with a higher number are not passed on.
    """

    def __init__(self, own: Any) -> None:
        self.own = own
        self.most = math.inf

    def pass_on(
        self, level: int, text: str, facility: str, name: str, line: str
    ) -> None:
        """Log a line where it would go without the guard."""
        number = _SYSLOG.get(level, level)
        if number > self.most:
            self.hide()
        elif self.own is not None:
            self.own.log(level, text, facility, name, line)
        else:
            self.hide()
            sys.stderr.write(f"%{number}|{time.time():.3f}|{facility}|{name}| {line}\n")

    def read(self, facility: str, line: str) -> None:
        """Read a line; an exception in here would end the poll.

        Args:
            facility: librdkafka's short name of what the line is about.
            line: The line.
        """

    def hide(self) -> None:
        """Note a line for which the client alone would have called nothing."""
