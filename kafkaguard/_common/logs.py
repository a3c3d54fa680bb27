"""Lines of the log, each with the name of its event and structured fields."""

from __future__ import annotations

import logging
import sys
from typing import Final

from kafkaguard._common.attributes import attribute

#: Frames between the caller of ``Log`` and the logger.
_DEPTH: Final = 3


class Log:
    """Writes lines to a logger; ``docs/logs.md`` has an entry for each event.

    The first argument of its methods names the event, and keyword arguments become
    fields of the record (``extra``) with the names that metrics have: ``topic=`` is
    ``messaging.destination.name``. Fields that are None are left out.

    Args:
        area: The last part of the logger's name.
    """

    def __init__(self, area: str) -> None:
        self.logger = logging.getLogger(f"kafkaguard.{area}")

    def debug(self, event: str, text: str, *args: object, **fields: object) -> None:
        """Write what only a search for a fault needs."""
        self._write(logging.DEBUG, event, text, args, fields)

    def info(self, event: str, text: str, *args: object, **fields: object) -> None:
        """Write what needs no action."""
        self._write(logging.INFO, event, text, args, fields)

    def warning(self, event: str, text: str, *args: object, **fields: object) -> None:
        """Write what a person should look at."""
        self._write(logging.WARNING, event, text, args, fields)

    def error(self, event: str, text: str, *args: object, **fields: object) -> None:
        """Write what a person must look at; with the traceback of ``error=``."""
        self._write(logging.ERROR, event, text, args, fields)

    def exception(self, event: str, text: str, *args: object, **fields: object) -> None:
        """Write an error, with the traceback of the exception that is handled."""
        fields["error"] = sys.exc_info()[1]
        self._write(logging.ERROR, event, text, args, fields)

    def _write(
        self,
        level: int,
        event: str,
        text: str,
        args: tuple[object, ...],
        fields: dict[str, object],
    ) -> None:
        if not self.logger.isEnabledFor(level):
            return
        error = fields.get("error")
        is_traced = level >= logging.ERROR and isinstance(error, BaseException)
        self.logger.log(
            level,
            text,
            *args,
            exc_info=error if is_traced else None,  # type: ignore[arg-type]  # one then
            stacklevel=_DEPTH,
            extra={attribute("event"): event}
            | {
                attribute(name): _plain(value)
                for name, value in fields.items()
                if value is not None
            },
        )


def _plain(value: object) -> str | int | float:
    """Return a field as a log's formatter can write it; of an error, its name."""
    if isinstance(value, BaseException):
        return str(getattr(value, "name", None) or type(value).__qualname__)
    return value if isinstance(value, int | float) else str(value)
