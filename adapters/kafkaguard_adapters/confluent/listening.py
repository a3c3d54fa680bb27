"""Settings that must be given when a consumer is built: callbacks and a logger.

librdkafka itself resets a position that is out of range. The only sign is a line in its
log. The line is logged during a poll, before any record after the reset.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final

from kafkaguard._cluster.reports import TopicPartition
from kafkaguard._common.logs import Log
from kafkaguard_adapters.confluent.callbacks import Chained
from kafkaguard_adapters.confluent.client_log import LEVEL, LOGGER, ClientLog

if TYPE_CHECKING:
    import logging
    from collections.abc import Callable, Mapping

_log = Log("consumer")

CALLBACKS: Final = ("error_cb", "on_commit")
_OFFSETS: Final = "OFFSET"
_RESET: Final = re.compile(
    r"(?P<topic>\S+) \[(?P<partition>\d+)\]: offset reset \(at offset (?P<at>\d+)\b"
)
#: The least ``log_level`` with which librdkafka logs a reset.
_WARNING: Final = 4


class ResetLog(ClientLog):
    """librdkafka's logger: finds resets, and passes each line on as usual.

    Args:
        logger: The user's logger; None: the lines go to stderr, as librdkafka's do.

    Attributes:
        log: What the client calls with each line; another one for each line.
    """

    __slots__ = ("log",)

    def __init__(self, logger: logging.Logger | None) -> None:
        super().__init__(logger)
        self.hear: Callable[[TopicPartition, int], object] | None = None
        self.listen()

    def listen(self) -> None:
        """Get ready for the next line."""
        self.log = lru_cache(maxsize=None)(self._handle)

    def _handle(
        self, level: int, text: str, facility: str, name: str, line: str
    ) -> None:
        self.listen()
        self.read(facility, line)
        self.pass_on(level, text, facility, name, line)

    def read(self, facility: str, line: str) -> None:
        """Read a line; an exception in here would end the poll."""
        match = _RESET.search(line) if facility == _OFFSETS else None
        if match is not None and self.hear is not None:
            place = TopicPartition(match["topic"], int(match["partition"]))
            try:
                self.hear(place, int(match["at"]))
            except Exception:  # noqa: BLE001 - see above
                _log.exception(
                    "reset_not_judged",
                    "the guard failed (a bug in kafkaguard); the client "
                    "resets the offset",
                    topic=place.topic,
                    partition=place.partition,
                )


def prepare(config: Mapping[str, Any]) -> dict[str, Any]:
    """Return settings with the guard's callbacks and logger, to build a consumer.

    A ``log_level`` with which librdkafka would not log a reset is raised; the user's
    logger gets no more lines for that.
    """
    callbacks = {name: Chained(config.get(name)) for name in CALLBACKS}
    log = ResetLog(config.get(LOGGER))
    settings = {**config, **callbacks, LOGGER: log}
    level = str(config.get(LEVEL))
    if level.isdecimal() and int(level) < _WARNING:
        settings[LEVEL], log.most = _WARNING, int(level)
    return settings
