"""Stop the Java process of PySpark at the end of a command.

PySpark makes the process known only after Java has reported back, which takes seconds.
After a Ctrl-C before that, nothing would stop the process: PySpark removes the folder
in which Java must report, Java fails to report, and stays.
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

#: Seconds that Java has to stop its jobs and remove its files.
_GRACE_S: Final = 10


@contextmanager
def java_ends() -> Iterator[None]:
    """End the Java that PySpark starts in the block: if the block fails, or at exit.

    The process gets SIGTERM, and is killed if it has not ended after 10 s. If PySpark
    already has a Java, it starts none, and the existing one stays.
    """
    from pyspark import SparkContext

    gateway: Any = import_module("pyspark.java_gateway")
    started: list[subprocess.Popen[bytes]] = []

    class Noted(subprocess.Popen[bytes]):
        """A process that is recorded before a Ctrl-C can interrupt."""

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
        if getattr(SparkContext._gateway, "proc", None) in started:  # noqa: SLF001 - PySpark has no public name for it
            SparkContext._gateway = SparkContext._jvm = None  # noqa: SLF001 - likewise
        raise
    finally:
        gateway.Popen = former
    for process in started:
        atexit.register(_end, process)


@contextmanager
def interrupts_wait() -> Iterator[None]:
    """Delay a Ctrl-C until the end of the block."""
    if threading.current_thread() is not threading.main_thread():
        yield  # Ctrl-C interrupts only the main thread
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
    finally:  # also after a second Ctrl-C, which ends the wait
        process.kill()
        process.wait()
        if process.stdin is not None:
            process.stdin.close()
