"""Call code of the application: hooks, callbacks, logging handlers.

This code is called without any lock of the guard, and never recursively: what happens
while a hook runs is queued. Nothing waits for a hook while sends are held, so a hook
may send records itself.
"""

from __future__ import annotations

import logging
from functools import partial
from typing import TYPE_CHECKING

from kafkaguard._retries.events import emit
from kafkaguard_adapters.producing.lanes import Lane

if TYPE_CHECKING:
    from collections.abc import Callable

    from kafkaguard._retries.events import Event

_log = logging.getLogger("kafkaguard.producer")


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

    def warn(self, text: str) -> None:
        """Queue a warning for the log."""
        self.put(partial(_log.warning, "%s", text))

    def failed(self, what: str, error: BaseException) -> None:
        """Queue an error for the log, such as a bug of the guard."""
        self.put(
            partial(_log.error, "%s; the producer continues", what, exc_info=error)
        )


def _failed(error: BaseException) -> None:
    _log.error("a hook or a logging handler raised an exception", exc_info=error)
