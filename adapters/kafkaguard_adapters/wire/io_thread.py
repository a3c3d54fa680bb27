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

#: Seconds that the exit of the interpreter waits for connections to be closed.
_END_S: Final = 1.0

_lock = threading.Lock()
_running: tuple[int, asyncio.AbstractEventLoop] | None = None
#: The id of the process whose interpreter has begun to exit.
_ended: int | None = None


def run(coroutine: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine to its end, and return at once on Ctrl-C.

    The coroutine has its own deadline. When the interpreter exits, a daemon thread
    blocks here until it is killed: an exception in it would only be printed.
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
    """Start a coroutine, which has its own deadline, and return at once."""
    return asyncio.run_coroutine_threadsafe(coroutine, loop())


def loop() -> asyncio.AbstractEventLoop:
    """Return the event loop of this process; a forked child gets its own loop."""
    global _running  # noqa: PLW0603 - one for each process
    with _lock:
        if _running is None or _running[0] != os.getpid():
            _running = os.getpid(), _start()
        return _running[1]


def _start() -> asyncio.AbstractEventLoop:
    event_loop = asyncio.new_event_loop()
    threading.Thread(
        target=event_loop.run_forever, name="kafkaguard-io", daemon=True
    ).start()
    return event_loop


def _replace_lock() -> None:
    """Replace the lock in a child: a thread that is not there may have held it."""
    global _lock  # noqa: PLW0603 - one for each process
    _lock = threading.Lock()


os.register_at_fork(after_in_child=_replace_lock)


@atexit.register
def _end() -> None:
    """Cancel all tasks, because asyncio warns about tasks that run at the exit.

    The loop keeps running: exit handlers that were registered earlier run later, and
    may still close a client.
    """
    global _ended  # noqa: PLW0603 - one for each process
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
    await asyncio.sleep(0)  # the loop removes closed transports in its next round
