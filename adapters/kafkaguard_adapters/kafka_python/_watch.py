"""Sees to it that no record waits longer than its time.

kafka-python keeps ``delivery_timeout_ms`` only as long as its thread comes around: it
does not while it waits for an id or a connection. One thread sleeps until the oldest
record is due; it ends when nothing is on its way, so that a quiet producer has none.
"""

from __future__ import annotations

import logging
import threading
import time
import weakref
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

_log = logging.getLogger("kafkaguard.producer")

#: Seconds until it looks again after its own work failed.
_REST_S = 1.0


class Watch:
    """A thread that is there while records are on their way.

    Args:
        next_due: A method that says when the next record is due, in monotonic seconds;
            None: there is none.
        on_due: A method of the same object that settles what is due.
    """

    def __init__(
        self, next_due: Callable[[], float | None], on_due: Callable[[], None]
    ) -> None:
        self._lock = threading.Lock()
        self._stopped = stopped = threading.Event()
        # The thread must not keep a producer alive that nobody uses any more.
        self._next_due = weakref.WeakMethod(next_due, lambda _: stopped.set())
        self._on_due = weakref.WeakMethod(on_due)
        #: Read without the lock: whoever begins has made the record known before.
        self._running = False

    def begin(self) -> None:
        """Take note that a record is on its way."""
        if not self._running and self._may_run():
            threading.Thread(
                target=self._run, name="kafkaguard-watch", daemon=True
            ).start()

    def stop(self) -> None:
        """End the thread; nothing is watched any more."""
        self._stopped.set()

    def _run(self) -> None:
        while self._is_needed():
            try:
                self._look()
            except Exception:  # noqa: BLE001 - a watch that ends lets records wait
                _log.exception("records could not be checked for their time; going on")
                self._stopped.wait(_REST_S)

    def _may_run(self) -> bool:
        """Take the place of the one thread, if it is free."""
        with self._lock:
            if self._running or self._stopped.is_set():
                return False
            self._running = True
            return True

    def _is_needed(self) -> bool:
        """Tell whether anything is on its way; if not, the thread ends."""
        if self._stopped.is_set():
            return False
        if self._due() is not None:
            return True
        self._running = False
        # What came before that found the thread still there.
        return self._due() is not None and self._may_run()

    def _due(self) -> float | None:
        next_due = self._next_due()
        return None if next_due is None else next_due()

    def _look(self) -> None:
        due = self._due()
        if due is None:
            return
        left = due - time.monotonic()
        if left > 0:
            self._stopped.wait(left)
        elif (on_due := self._on_due()) is not None:
            on_due()
