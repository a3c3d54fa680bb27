"""An event loop in a thread, for clients whose users do not have one."""

from __future__ import annotations

import asyncio
import atexit
import os
import threading
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final, TypeVar

if TYPE_CHECKING:
    from collections.abc import Coroutine
    from concurrent.futures import Future

T = TypeVar("T")

#: Seconds that the end of the interpreter waits for connections to be closed.
_END_S: Final = 1.0

_lock = threading.Lock()
_running: tuple[int, asyncio.AbstractEventLoop] | None = None


def run(coroutine: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine to its end, and leave on Ctrl-C at once.

    The coroutine bounds itself by its own deadline.
    """
    future = start(coroutine)
    try:
        return future.result()
    finally:
        future.cancel()


def start(coroutine: Coroutine[Any, Any, T]) -> Future[T]:
    """Start a coroutine, which bounds itself, and return at once."""
    return asyncio.run_coroutine_threadsafe(coroutine, loop())


def loop() -> asyncio.AbstractEventLoop:
    """Return the loop of this process; a forked child gets one of its own."""
    global _running  # noqa: PLW0603 - one for the process, as threads are
    with _lock:
        if _running is None or _running[0] != os.getpid():
            _running = os.getpid(), _start()
        return _running[1]


def _start() -> asyncio.AbstractEventLoop:
    new = asyncio.new_event_loop()
    threading.Thread(target=new.run_forever, name="kafkaguard-io", daemon=True).start()
    return new


@atexit.register
def _end() -> None:
    """End what is under way, else asyncio complains about it when all is torn down.

    The loop goes on: who registered for the exit before may still close a client.
    """
    if _running is None or _running[0] != os.getpid():
        return
    with suppress(TimeoutError):
        asyncio.run_coroutine_threadsafe(_cancel_all(), _running[1]).result(_END_S)


async def _cancel_all() -> None:
    tasks = asyncio.all_tasks() - {asyncio.current_task()}
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    await asyncio.sleep(0)  # closed transports take their leave in the loop
