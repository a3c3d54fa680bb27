"""Threads that exist only while they have work."""

from __future__ import annotations

import threading
import time
from collections import deque
from typing import TYPE_CHECKING

from kafkaguard._verdicts.bare_errors import met

if TYPE_CHECKING:
    from collections.abc import Callable


class Lane:
    """Does one thing after the other, in a thread that ends when nothing is left.

    Args:
        name: What it is for; the thread's name ends so.
        on_error: Told of whatever a task raises.
    """

    def __init__(self, name: str, on_error: Callable[[BaseException], object]) -> None:
        self._name = f"kafkaguard-{name}"
        self._on_error = on_error
        self._changed = threading.Condition()
        self._waiting: deque[Callable[[], object]] = deque()
        self._thread: threading.Thread | None = None
        self._added = self._done = 0
        #: Held by the thread that does something.
        self._busy = threading.Lock()

    @property
    def is_mine(self) -> bool:
        """Whether the caller is this lane's thread."""
        return threading.current_thread() is self._thread

    def put(self, task: Callable[[], object]) -> None:
        """Queue a task, for ``start`` or ``work_here``."""
        with self._changed:
            self._added += 1
            self._waiting.append(task)

    def start(self) -> None:
        """Have a thread do what is queued."""
        with self._changed:
            if self._waiting and self._thread is None:
                self._thread = threading.Thread(
                    target=self._run, name=self._name, daemon=True
                )
                self._thread.start()

    def work_here(self) -> None:
        """Do what is queued in the caller's thread, unless another one is at it."""
        for _ in range(len(self._waiting)):
            if not self._busy.acquire(blocking=False):
                break
            try:
                self._do_next()
            finally:
                self._busy.release()
        self.start()

    def wait(self, deadline: float) -> bool:
        """Wait until everything of this moment is done; tell whether it is.

        Args:
            deadline: In monotonic seconds.
        """
        if self.is_mine:
            return True
        with self._changed:
            goal = self._added
            return self._changed.wait_for(
                lambda: self._done >= goal, max(0.0, deadline - time.monotonic())
            )

    def _run(self) -> None:
        while self._has_more():
            with self._busy:
                self._do_next()

    def _has_more(self) -> bool:
        with self._changed:
            if not self._waiting:
                self._thread = None
            return self._thread is not None

    def _do_next(self) -> None:
        with self._changed:
            if not self._waiting:
                return
            task = self._waiting.popleft()
        try:
            task()
        except BaseException as error:  # noqa: BLE001 - SystemExit must end no thread
            self._on_error(error)
        except:  # noqa: E722 - a raised KafkaError is no exception
            self._on_error(met())
        del task
        with self._changed:
            self._done += 1
            self._changed.notify_all()
