"""The application's callbacks of records that a dying producer took down with it.

They run on a thread of their own: one that sends has to wait for the successor, which
neither the dying producer's thread nor the one that repairs can do.
"""

from __future__ import annotations

import threading
from collections import deque
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from kafkaguard_adapters.kafka_python._fate import Fate


class Callbacks:
    """Runs callbacks in the order in which their records failed.

    Args:
        before: Called first, each time that there is something to run.
    """

    def __init__(self, before: Callable[[], None]) -> None:
        self._before = before
        self._changed = threading.Condition()
        self._waiting: deque[Fate] = deque()
        self._thread: threading.Thread | None = None

    def add(self, fates: Iterable[Fate]) -> None:
        """Run the callbacks of these fates soon."""
        with self._changed:
            self._waiting.extend(fates)
            if self._waiting and self._thread is None:
                self._thread = threading.Thread(
                    target=self._run, name="kafkaguard-callbacks", daemon=True
                )
                self._thread.start()

    def wait(self, timeout: float) -> bool:
        """Wait until all have run; tell whether that is so."""
        if threading.current_thread() is self._thread:
            return True
        with self._changed:
            return self._changed.wait_for(lambda: self._thread is None, timeout)

    def _run(self) -> None:
        while (fate := self._next()) is not None:
            self._before()
            fate.fire()

    def _next(self) -> Fate | None:
        with self._changed:
            if self._waiting:
                return self._waiting.popleft()
            self._thread = None
            self._changed.notify_all()
            return None
