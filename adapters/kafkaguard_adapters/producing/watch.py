"""A thread that makes scheduled steps while records have no outcome."""

from __future__ import annotations

import threading
import time
import weakref
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable


class Watch:
    """A thread that runs while steps are scheduled.

    Args:
        next_due: A bound method that returns the time of the next step, in monotonic
            seconds, or None if there is none.
        on_due: A bound method of the same object that makes the step. It must not
            raise.
    """

    def __init__(
        self, next_due: Callable[[], float | None], on_due: Callable[[], None]
    ) -> None:
        self._lock = threading.Lock()
        self._sooner = sooner = threading.Event()
        self._is_stopped = False
        # Weak references: the thread must not keep alive a producer that is not used
        # any more.
        self._next_due = weakref.WeakMethod(next_due, lambda _: sooner.set())
        self._on_due = weakref.WeakMethod(on_due)
        #: Read without the lock: callers of begin() schedule their step before it, and
        #: the thread checks for steps again after it has cleared this.
        self._running = False

    def begin(self) -> None:
        """Start the thread if it does not run. The step is already scheduled."""
        if not self._running and self._may_run():
            threading.Thread(
                target=self._run, name="kafkaguard-watch", daemon=True
            ).start()

    def wake(self) -> None:
        """Wake the thread, because the next step may be sooner than before."""
        self._sooner.set()
        self.begin()

    def stop(self) -> None:
        """End the thread. No more steps are made."""
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
        """Return True, and set ``_running``, if no other thread runs."""
        with self._lock:
            if self._running or self._is_stopped:
                return False
            self._running = True
            return True

    def _due_or_end(self) -> float | None:
        """Return the time of the next step; None if the thread must end."""
        if self._is_stopped:
            return None
        if (due := self._due()) is None:
            self._running = False
            # A step that was scheduled before _running was cleared found the thread
            # still running and started none. So look for it once more.
            if (due := self._due()) is not None and not self._may_run():
                return None
        return due

    def _due(self) -> float | None:
        next_due = self._next_due()
        return None if next_due is None else next_due()
