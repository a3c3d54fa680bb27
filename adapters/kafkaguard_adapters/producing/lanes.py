"""Threads that exist only while they have work."""

from __future__ import annotations

import threading
import time
from collections import deque
from typing import TYPE_CHECKING

from kafkaguard._verdicts.bare_errors import current_error

if TYPE_CHECKING:
    from collections.abc import Callable


class Lane:
    """Runs one task after the other, in a thread that ends when no task is left.

    Args:
        name: The purpose; the thread's name is ``kafkaguard-`` and this name.
        on_error: Called with each exception that a task raises.
    """

    def __init__(self, name: str, on_error: Callable[[BaseException], object]) -> None:
        self._name = f"kafkaguard-{name}"
        self._on_error = on_error
        self._changed = threading.Condition()
        self._waiting: deque[Callable[[], object]] = deque()
        self._thread: threading.Thread | None = None
        self._added = self._done = 0
        #: Held by the thread that runs a task.
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
        """Start the thread, if tasks are queued and it does not run."""
        with self._changed:
            if self._waiting and self._thread is None:
                self._thread = threading.Thread(
                    target=self._run, name=self._name, daemon=True
                )
                self._thread.start()

    def work_here(self) -> None:
        """Run queued tasks in the caller's thread, unless another thread runs them."""
        for _ in range(len(self._waiting)):
            if not self._busy.acquire(blocking=False):
                break
            try:
                self._do_next()
            finally:
                self._busy.release()
        self.start()

    def wait(self, deadline: float) -> bool:
        """Wait until all tasks queued so far are done; return whether they are.

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
        except BaseException as error:  # noqa: BLE001 - SystemExit must not end the thread
            self._on_error(error)
        except:  # noqa: E722 - confluent-kafka's KafkaError is not a BaseException
            self._on_error(current_error())
        del task
        with self._changed:
            self._done += 1
            self._changed.notify_all()
