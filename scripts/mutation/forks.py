"""Work in child processes that are made by fork, each with a limit of time."""

from __future__ import annotations

import os
import resource
import signal
import sys
import time
import traceback
from typing import TYPE_CHECKING, NoReturn

if TYPE_CHECKING:
    from collections.abc import Callable

#: How a child process ended.
SURVIVED, NOTICED, NOT_APPLIED, TIMED_OUT = 0, 1, 3, 4
_CRASHED = 5


def forked(work: Callable[[], int], *, cpu_s: float, wall_s: float) -> int:
    """Run ``work`` in a child and return what it returned.

    A child that takes more CPU time or real time than allowed is ended together with
    what it started, and counts as TIMED_OUT; one that dies as NOTICED.
    """
    child = os.fork()
    if child == 0:
        _in_child(work, cpu_s)
    end = time.monotonic() + wall_s
    pause = 0.001
    while True:
        ended, status = os.waitpid(child, os.WNOHANG)
        if ended:
            return _outcome(status)
        if time.monotonic() > end:
            os.killpg(child, signal.SIGKILL)
            os.waitpid(child, 0)
            return TIMED_OUT
        time.sleep(pause)
        pause = min(pause * 1.5, 0.05)


def _in_child(work: Callable[[], int], cpu_s: float) -> NoReturn:
    code = _CRASHED
    try:
        os.setsid()
        used = sum(resource.getrusage(resource.RUSAGE_SELF)[:2])
        limit = int(used + cpu_s) + 1
        resource.setrlimit(resource.RLIMIT_CPU, (limit, limit + 2))
        code = work()
    except Exception:  # noqa: BLE001 - the parent learns of it by the exit code
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        os._exit(code)


def _outcome(status: int) -> int:
    code = os.waitstatus_to_exitcode(status)
    if code == -signal.SIGXCPU:
        return TIMED_OUT
    return code if code in {SURVIVED, NOTICED, NOT_APPLIED} else NOTICED


def silence(*, errors: bool = True) -> None:
    """Let what this process prints, and its errors, go nowhere."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, 1)
    if errors:
        os.dup2(nowhere, 2)
