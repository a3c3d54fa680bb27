"""A process that stops the brokers if the test process dies.

It reads from a pipe that only its parent holds open. ``+PID`` announces a process that
must not outlive the parent, ``-PID`` a process that has ended. When the pipe ends, for
any reason (a normal end, SIGTERM, SIGKILL), the watchdog kills the announced processes
that have not ended, and removes the folder. This file is run by its path, so it imports
only the standard library.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

_LONGEST_REMOVAL_S = 10


def survivors(lines: Iterable[str]) -> set[int]:
    """Read all lines; return the announced processes that have not ended."""
    running: set[int] = set()
    for line in lines:
        change = running.add if line.startswith("+") else running.discard
        change(int(line[1:]))
    return running


def clean_up(pids: set[int], folder: Path) -> None:
    """Kill the processes and remove the folder, to which they may still write."""
    for pid in pids:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    deadline = time.monotonic() + _LONGEST_REMOVAL_S
    while folder.exists() and time.monotonic() < deadline:
        shutil.rmtree(folder, ignore_errors=True)
        time.sleep(0.02)


if __name__ == "__main__":
    clean_up(survivors(sys.stdin), Path(sys.argv[1]))
