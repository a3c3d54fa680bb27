"""Try changes in adapters, each in a copy of the adapters and with tests on a broker.

The copy stands before the checkout on the import path, also of programs that the tests
start and of Spark's tasks.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from queue import SimpleQueue
from typing import TYPE_CHECKING

from forks import NOTICED, SURVIVED, TIMED_OUT
from rooms import ROOT

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from pathlib import Path

    from changes import Change, Module
    from reach import Reach
    from rooms import Room

#: Seconds of tests for one change, as measured.
_TESTS_S = 45.0
#: A test fails after this multiple of its time, plus seconds for a broker and a Spark.
#: The whole run is ended (TIMED_OUT) after the same of all its tests. On a busy machine
#: that is no hang: the tests that have passed by then have noticed nothing.
_FACTOR, _MORE_S = 3, 60
_PYTEST = (
    *("-m", "pytest", "-x", "-q", "-n", "0", "--tb=no", "--no-header"),
    *("-p", "no:randomly", "-p", "no:cacheprovider"),
)
_NO_TESTS = 5


class Copy:
    """A copy of the adapters, in which one change is made at a time."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        shutil.copytree(ROOT / "adapters", folder / "adapters")

    def attempt(
        self, module: Module, change: Change, tests: list[str], reach: Reach
    ) -> int:
        """Run tests with the change; return how it ended."""
        seconds = [reach.seconds[test] for test in tests]
        file = self._folder / module.path
        for compiled in file.parent.glob(f"__pycache__/{file.stem}.*"):
            compiled.unlink()
        file.write_text(module.changed_text(change))
        names = self._folder / "tests"
        names.write_text("\n".join(tests))
        try:
            return _run(
                ["-o", f"timeout={max(seconds) * _FACTOR + _MORE_S:.0f}", f"@{names}"],
                self._folder / "adapters",
                sum(seconds) * _FACTOR + _MORE_S,
            )
        finally:
            shutil.copy2(module.file, file)


def _run(arguments: list[str], adapters: Path, limit_s: float) -> int:
    """Run pytest with these adapters, in a process group that ends with it."""
    own = {
        "PYTHONPATH": str(adapters),
        "PYTHONDONTWRITEBYTECODE": "1",
        "HYPOTHESIS_PROFILE": "mutation",
    }
    process = subprocess.Popen(
        [sys.executable, *_PYTEST, *arguments],
        cwd=ROOT,
        env={**os.environ, **own},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    try:
        code = process.wait(limit_s)
    except subprocess.TimeoutExpired:
        return TIMED_OUT
    finally:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
    return SURVIVED if code in {0, _NO_TESTS} else NOTICED


def try_all(
    work: Iterable[tuple[Room, Module, Change]],
    reach: Reach,
    folder: Path,
    *,
    workers: int,
    deadline: float,
    tell: Callable[[str], None],
) -> dict[str, int]:
    """Try changes until the deadline (of ``time.monotonic``); return their outcomes."""
    outcomes: dict[str, int] = {}
    copies: SimpleQueue[Copy] = SimpleQueue()
    for number in range(workers):
        copies.put(Copy(folder / f"copy{number}"))

    def attempt(room: Room, module: Module, change: Change) -> None:
        if time.monotonic() > deadline:
            return
        copy, began = copies.get(), time.monotonic()
        tests = _chosen(reach, room, module, change)
        outcome = copy.attempt(module, change, tests, reach) if tests else SURVIVED
        copies.put(copy)
        outcomes[change.identity] = NOTICED if outcome == NOTICED else SURVIVED
        words = {SURVIVED: "not noticed", TIMED_OUT: "not noticed in time"}
        taken = f"{time.monotonic() - began:.0f} s, {len(tests)} tests"
        tell(f"{words.get(outcome, 'noticed')} ({taken}): {change.identity}")

    with ThreadPoolExecutor(workers) as pool:
        for each in [pool.submit(attempt, *each) for each in work]:
            each.result()
    return outcomes


def _chosen(reach: Reach, room: Room, module: Module, change: Change) -> list[str]:
    """Choose the fastest tests that reach the change.

    coverage sees no line that runs in a task of Spark, so the other tests of Spark
    follow.
    """
    tests = reach.tests_of(module, change)
    if room.name.endswith("spark"):
        own = reach.fastest(t for t in reach.seconds if t.startswith(room.tests))
        tests = list(dict.fromkeys([*tests, *own]))
    chosen, seconds = [], 0.0
    for test in tests:
        seconds += reach.seconds[test]
        if chosen and seconds > _TESTS_S:
            break
        chosen.append(test)
    return chosen
