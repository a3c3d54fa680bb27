"""Stop the Java process of PySpark at the end of a command.

PySpark tells of the process once Java has reported back, which takes seconds. A Ctrl-C
before that leaves nobody who knows it: PySpark removes the folder to which Java is to
report, Java fails to, and stays.
"""

from __future__ import annotations

import atexit
import signal
import subprocess
import threading
from contextlib import contextmanager
from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Iterator

#: Seconds for Java to stop what it runs and remove its files.
_GRACE_S: Final = 10


@contextmanager
def java_ends() -> Iterator[None]:
    """End what PySpark starts in the block: with the block if it fails, else at exit.

    A process has 10 s after SIGTERM, and is killed then. If PySpark has a Java from
    before, it starts none, and that one stays.
    """
    from pyspark import SparkContext

    gateway: Any = import_module("pyspark.java_gateway")
    started: list[subprocess.Popen[bytes]] = []

    class Noted(subprocess.Popen[bytes]):
        """A process that is noted before anybody can interrupt."""

        def __init__(self, *args: Any, **kwargs: Any) -> None:
            with interrupts_wait():
                super().__init__(*args, **kwargs)
                started.append(self)

    former, gateway.Popen = gateway.Popen, Noted
    try:
        yield
    except BaseException:
        for process in started:
            _end(process)
        if getattr(SparkContext._gateway, "proc", None) in started:  # noqa: SLF001 - PySpark has no other word for it
            SparkContext._gateway = SparkContext._jvm = None  # noqa: SLF001 - likewise
        raise
    finally:
        gateway.Popen = former
    for process in started:
        atexit.register(_end, process)


@contextmanager
def interrupts_wait() -> Iterator[None]:
    """Let a Ctrl-C come after the block."""
    if threading.current_thread() is not threading.main_thread():
        yield  # Python interrupts the main thread only
        return
    came: list[int] = []
    former = signal.signal(signal.SIGINT, lambda number, _: came.append(number))
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, former)
        if came:
            signal.raise_signal(signal.SIGINT)


def _end(process: subprocess.Popen[bytes]) -> None:
    try:
        process.terminate()
        process.wait(_GRACE_S)
    except subprocess.TimeoutExpired:
        pass
    finally:  # also of a second Ctrl-C, which ends the wait
        process.kill()
        process.wait()
        if process.stdin is not None:
            process.stdin.close()
