"""A thread that wakes up when something is due, while records have no outcome."""

from __future__ import annotations

import threading
import time
import weakref
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable


class Watch:
    """A thread that is there while something is due.

    Args:
        next_due: A method that says when, in monotonic seconds; None: nothing is.
        on_due: A method of the same object that does what is due; it raises nothing.
    """

    def __init__(
        self, next_due: Callable[[], float | None], on_due: Callable[[], None]
    ) -> None:
        self._lock = threading.Lock()
        self._sooner = sooner = threading.Event()
        self._is_stopped = False
        # The thread must not keep a producer alive that nobody uses any more.
        self._next_due = weakref.WeakMethod(next_due, lambda _: sooner.set())
        self._on_due = weakref.WeakMethod(on_due)
        #: Read without the lock: whoever begins has made known before what is due.
        self._running = False

    def begin(self) -> None:
        """Record that something is due some time."""
        if not self._running and self._may_run():
            threading.Thread(
                target=self._run, name="kafkaguard-watch", daemon=True
            ).start()

    def look(self) -> None:
        """Record that something may be due sooner than before."""
        self._sooner.set()
        self.begin()

    def stop(self) -> None:
        """End the thread; nothing is watched any more."""
        self._is_stopped = True
        self._sooner.set()

    def _run(self) -> None:
        while (due := self._due_or_end()) is not None:
            left = due - time.monotonic()
            if left > 0:
                self._sooner.wait(min(left, threading.TIMEOUT_MAX))
                self._sooner.clear()
            elif (on_due := self._on_due()) is not None:
                on_due()
                del on_due

    def _may_run(self) -> bool:
        """Take the place of the one thread, if it is free."""
        with self._lock:
            if self._running or self._is_stopped:
                return False
            self._running = True
            return True

    def _due_or_end(self) -> float | None:
        """Return when to do something; None: the thread ends."""
        if self._is_stopped:
            return None
        if (due := self._due()) is None:
            self._running = False
            # What came before that found the thread still there.
            if (due := self._due()) is not None and not self._may_run():
                return None
        return due

    def _due(self) -> float | None:
        next_due = self._next_due()
        return None if next_due is None else next_due()
