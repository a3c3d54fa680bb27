"""What a test leaves open: sockets, threads, and clients of librdkafka.

A test that leaves a client open slows down the next ones, or one of them is blamed for a
socket that the garbage collector finds. So each test is checked at its end. What waits
for the garbage collector is collected then, and a socket that was not closed is blamed
on the test that opened it.
"""

from __future__ import annotations

import gc
import os
import socket
import stat
import sys
import threading
import time
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

import pytest

#: Seconds for threads that were told to end.
PATIENCE_S = 5.0
#: A guard that was closed while it builds a new client of kafka-python cannot stop that,
#: and the client's time limit ends it. A socket that wakes a thread has no address.
_BUILDING, _UNNAMED = "kafkaguard-recovery", "''"
#: The guards' shared thread, which lives as long as the process, and those in which its
#: loop looks names up.
_SHARED = ("kafkaguard-io", "asyncio_", _BUILDING)
#: The address of a socket of kafka-python whose connection was refused: the client
#: leaves it to the garbage collector.
_NOWHERE = "0.0.0.0"
_TASKS = Path("/proc/self/task")


class Open(NamedTuple):
    """What is open at one time.

    Attributes:
        sockets: Sockets by the number of the file, which is not used again soon.
        threads: Threads of Python.
        tasks: The ids of all threads, with those of librdkafka (Linux).
    """

    sockets: dict[int, int]
    threads: frozenset[threading.Thread]
    tasks: frozenset[str]


def look() -> Open:
    """Look what is open, in a fraction of a millisecond."""
    sockets = {}
    for name in os.listdir("/dev/fd"):  # noqa: PTH208 - a third of the time
        with suppress(OSError):
            found = os.fstat(int(name))
            if stat.S_ISSOCK(found.st_mode):
                sockets[found.st_ino] = int(name)
    tasks = os.listdir(_TASKS) if _TASKS.exists() else ()  # noqa: PTH208 - as above
    return Open(sockets, frozenset(threading.enumerate()), frozenset(tasks))


def check(before: Open) -> None:
    """Fail if something was opened and not closed; wait for what is ending."""
    if not _new_since(before):
        return
    left = _collected()
    deadline = time.monotonic() + PATIENCE_S
    while (still := _new_since(before)) and time.monotonic() < deadline:
        time.sleep(0.05)
        left += _collected()  # what a thread has held until now
    if left := [*left, *still]:
        pytest.fail(f"the test leaves open: {', '.join(left)}", pytrace=False)


def _collected() -> list[str]:
    """Collect garbage; return the warnings of what it left open, where they are errors.

    pytest would blame the test after this one.
    """
    raised: list[str] = []
    hook = sys.unraisablehook
    sys.unraisablehook = lambda found: raised.append(str(found.exc_value))
    try:
        gc.collect()
    finally:
        sys.unraisablehook = hook
    return raised


def end_unbuilt_clients() -> None:
    """End the threads of kafka-python's clients that could not be built.

    The constructors of its consumer and admin start a thread before they look for a
    broker. If they find none they raise, and nobody can end the thread any more.
    """
    for thread in threading.enumerate():
        if thread.name.startswith("kafka-io-"):
            thread._target.__self__.close()
    gc.collect()


def _new_since(before: Open) -> list[str]:
    now = look()
    if now == before:
        return []
    threads = {each.name for each in now.threads - before.threads}
    ignored = [_NOWHERE, *([_UNNAMED] if _BUILDING in threads else [])]
    shared = _sockets_of_shared_thread()
    places = [
        _place(number)
        for file, number in now.sockets.items()
        if file not in before.sockets and number not in shared
    ]
    return [
        *(f"thread {each}" for each in threads if not each.startswith(_SHARED)),
        *(f"socket {each}" for each in places if not any(i in each for i in ignored)),
        *_clients(now.tasks - before.tasks),
    ]


def _sockets_of_shared_thread() -> set[int]:
    """Return the sockets with which the shared thread is woken."""
    module = sys.modules.get("kafkaguard_adapters.wire.io_thread")
    if module is None or module._running is None:
        return set()
    _, loop = module._running
    return {loop._ssock.fileno(), loop._csock.fileno()}


def _place(number: int) -> str:
    """Say which addresses a socket connects."""
    places = []
    with suppress(OSError), socket.socket(fileno=os.dup(number)) as copy:
        places.append(copy.getsockname())
        places.append(copy.getpeername())
    return f"{number} {places}"


def _clients(tasks: frozenset[str]) -> list[str]:
    """List the clients of librdkafka by their main threads.

    The threads for brokers may outlive a closed client for a while.
    """
    names = []
    for task in tasks:
        with suppress(OSError):
            names.append((_TASKS / task / "comm").read_text().strip())
    return ["client of librdkafka"] * names.count("rdk:main")
