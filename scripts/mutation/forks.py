"""Run functions in forked child processes with time limits."""

from __future__ import annotations

import ctypes
import os
import resource
import signal
import sys
import time
import traceback
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

if TYPE_CHECKING:
    from collections.abc import Callable

#: How a child process ended.
SURVIVED, NOTICED, NOT_APPLIED, TIMED_OUT = 0, 1, 3, 4
_CRASHED = 5
#: A child that has used no CPU time for so many seconds hangs.
_IDLE_S = 6.0
_PR_SET_PDEATHSIG = 1


def forked(work: Callable[[], int], *, cpu_s: float, idle_s: float = _IDLE_S) -> int:
    """Run ``work`` in a child and return what it returned.

    A child that uses more CPU time than allowed, or none for ``idle_s`` seconds, is
    ended together with its own children, and counts as TIMED_OUT. A child that dies
    counts as NOTICED.
    """
    child = os.fork()
    if child == 0:
        _in_child(work, cpu_s)
    used, since = "", time.monotonic()
    pause = 0.001
    while True:
        ended, status = os.waitpid(child, os.WNOHANG)
        if ended:
            return _outcome(status)
        if (now := _cpu_time(child)) != used:
            used, since = now, time.monotonic()
        elif time.monotonic() > since + idle_s:
            os.killpg(child, signal.SIGKILL)
            os.waitpid(child, 0)
            return TIMED_OUT
        time.sleep(pause)
        pause = min(pause * 1.5, 0.05)


def side_by_side(works: list[Callable[[], int]]) -> list[int]:
    """Run several functions, each in its own process; return their results."""
    children = []
    for work in works:
        child = os.fork()
        if child == 0:
            code = _CRASHED
            try:
                code = work()
            finally:
                os._exit(code)
        children.append(child)
    return [os.waitstatus_to_exitcode(os.waitpid(each, 0)[1]) for each in children]


def _cpu_time(process: int) -> str:
    """Return the CPU time of a process; if that is unknown, the current time."""
    try:
        return " ".join(Path(f"/proc/{process}/stat").read_text().split()[13:17])
    except OSError:
        return str(time.monotonic())


def _in_child(work: Callable[[], int], cpu_s: float) -> NoReturn:
    code = _CRASHED
    try:
        os.setsid()
        if sys.platform == "linux":  # the child ends with its parent
            ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
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
    """Discard the output of this process, and by default its errors."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, 1)
    if errors:
        os.dup2(nowhere, 2)
