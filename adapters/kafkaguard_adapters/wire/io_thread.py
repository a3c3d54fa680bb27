"""An event loop in a thread, for clients with blocking calls."""

from __future__ import annotations

import asyncio
import atexit
import os
import threading
from concurrent.futures import CancelledError
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
#: The process whose interpreter has begun to end.
_ended: int | None = None


def run(coroutine: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine to its end, and leave on Ctrl-C at once.

    The coroutine bounds itself by its own deadline. At the end of the interpreter a
    daemon thread waits here for its own end, which comes at any moment: what is raised
    in it would only be printed.
    """
    if _is_left_behind():
        coroutine.close()
        _wait_for_the_end()
    future = start(coroutine)
    try:
        return future.result()
    except CancelledError:
        if _is_left_behind():
            _wait_for_the_end()
        raise
    finally:
        future.cancel()


def _is_left_behind() -> bool:
    return _ended == os.getpid() and threading.current_thread().daemon


def _wait_for_the_end() -> None:
    threading.Event().wait()


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


def _forked() -> None:
    """Let no lock be held in a child by a thread that it does not have."""
    global _lock  # noqa: PLW0603 - one for the process, as threads are
    _lock = threading.Lock()


os.register_at_fork(after_in_child=_forked)


@atexit.register
def _end() -> None:
    """End what is running, else asyncio complains about it when all is torn down.

    The loop goes on: who registered for the exit before may still close a client.
    """
    global _ended  # noqa: PLW0603 - one for the process, as threads are
    _ended = os.getpid()
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
