"""An event loop in a thread, for clients whose users do not have one."""

from __future__ import annotations

import asyncio
import os
import threading
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    from collections.abc import Coroutine

T = TypeVar("T")

_lock = threading.Lock()
_running: tuple[int, asyncio.AbstractEventLoop] | None = None


def run(coroutine: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine to its end, and leave on Ctrl-C at once.

    The coroutine bounds itself by its own deadline.
    """
    future = asyncio.run_coroutine_threadsafe(coroutine, loop())
    try:
        return future.result()
    finally:
        future.cancel()


def loop() -> asyncio.AbstractEventLoop:
    """Return the loop of this process; a forked child gets one of its own."""
    global _running  # noqa: PLW0603 - one for the process, as threads are
    with _lock:
        if _running is None or _running[0] != os.getpid():
            _running = os.getpid(), _start()
        return _running[1]


def _start() -> asyncio.AbstractEventLoop:
    started = asyncio.new_event_loop()
    threading.Thread(
        target=started.run_forever, name="kafkaguard-io", daemon=True
    ).start()
    return started
