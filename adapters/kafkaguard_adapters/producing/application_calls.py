"""Call code of the application: hooks, callbacks, logging handlers.

This code is called without any lock of the guard, and never recursively: what happens
while a hook runs is queued. Nothing waits for a hook while sends are held, so a hook
may send records itself.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from kafkaguard._common.logs import Log
from kafkaguard._retries.events import emit
from kafkaguard_adapters.producing.lanes import Lane

if TYPE_CHECKING:
    from collections.abc import Callable

    from kafkaguard._delivery.commands import Warn
    from kafkaguard._retries.events import Event

_log = Log("producer")


class ApplicationCalls(Lane):
    """Calls hooks, callbacks and logging handlers, one after the other.

    Args:
        hook: The hook for events, or None.
    """

    def __init__(self, hook: Callable[[Event], object] | None = None) -> None:
        super().__init__("callbacks", _failed)
        self._hooks = () if hook is None else (hook,)

    def event(self, event: Event) -> None:
        """Queue an event for the hook."""
        if self._hooks:
            self.put(partial(emit, self._hooks, event))

    def warn(self, warning: Warn) -> None:
        """Queue a warning for the log."""
        self.put(partial(write_warning, _log, warning))

    def failed(self, what: str, error: BaseException) -> None:
        """Queue an error for the log, such as a bug of the guard."""
        self.put(
            partial(
                _log.error,
                "producer_fault",
                "%s; the producer continues",
                what,
                error=error,
            )
        )


def write_warning(log: Log, warning: Warn) -> None:
    """Write a warning of the delivery machine."""
    log.warning(warning.event, "%s", warning.text, topic=warning.topic)


def _failed(error: BaseException) -> None:
    _log.error(
        "application_code_raised",
        "a hook or a logging handler raised an exception",
        error=error,
    )
