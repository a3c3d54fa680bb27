"""Try changes in copies of the packages, each with pytest in a process of its own."""

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

from rooms import ROOT

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from pathlib import Path

    from changes import Change, Module
    from reach import Reach
    from rooms import Room

_PACKAGES = ("kafkaguard", "policies", "adapters")
#: Seconds of tests for one change of an adapter, as measured.
_TESTS_S = 45.0
#: Seconds for all tests of a pure room. What hangs counts as noticed.
_PURE_S = 300.0
#: A test of an adapter fails after this multiple of its time, plus seconds for a broker
#: and a Spark. The whole run is ended after the same of all its tests. On a busy
#: machine that is no hang: the tests that have passed by then have noticed nothing.
_FACTOR, _MORE_S = 3, 60
# -P: otherwise the packages in the checkout would hide the copies.
_PYTEST = (
    *("-P", "-m", "pytest", "-x", "-q", "-n", "0", "--tb=no", "--no-header"),
    *("-p", "no:randomly", "-p", "no:cacheprovider"),
)
_NO_TESTS = 5


class Copy:
    """A copy of the packages, in which one change is made at a time."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        for name in _PACKAGES:
            shutil.copytree(ROOT / name, folder / name)

    def notices(
        self, room: Room, module: Module, change: Change, reach: Reach | None
    ) -> bool:
        """Run the tests for a change; return whether one of them fails."""
        if reach is None:
            return self._fails(
                module, change, ("--no-java", *room.tests), _PURE_S, True
            )
        tests = _chosen(reach, room, module, change)
        if not tests:
            return False
        seconds = [reach.seconds[test] for test in tests]
        names = self._folder / "tests"
        names.write_text("\n".join(tests))
        limit = f"timeout={max(seconds) * _FACTOR + _MORE_S:.0f}"
        arguments = ("-o", limit, f"@{names}")
        total = sum(seconds) * _FACTOR + _MORE_S
        return self._fails(module, change, arguments, total, False)

    def _fails(
        self,
        module: Module,
        change: Change,
        arguments: Sequence[str],
        limit_s: float,
        at_limit: bool,
    ) -> bool:
        file = self._folder / module.path
        file.write_text(module.changed_text(change))
        try:
            code = self._run(arguments, limit_s)
        finally:
            shutil.copy2(module.file, file)
        return at_limit if code is None else code not in {0, _NO_TESTS}

    def _run(self, arguments: Sequence[str], limit_s: float) -> int | None:
        """Run pytest, in a process group that ends with it; None: the time is over."""
        roots = (self._folder, self._folder / "policies", self._folder / "adapters")
        own = {
            "PYTHONPATH": os.pathsep.join(map(str, roots)),
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
            return process.wait(limit_s)
        except subprocess.TimeoutExpired:
            return None
        finally:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()


def try_all(
    work: Iterable[tuple[Room, Module, Change]],
    reach: Reach | None,
    folder: Path,
    workers: int,
    deadline: float,
) -> dict[str, bool]:
    """Try changes until the deadline (of ``time.monotonic``).

    Returns:
        Whether a test has noticed each change, by its identity.
    """
    outcomes: dict[str, bool] = {}
    copies: SimpleQueue[Copy] = SimpleQueue()
    for number in range(workers):
        copies.put(Copy(folder / f"copy{number}"))

    def attempt(room: Room, module: Module, change: Change) -> None:
        if time.monotonic() > deadline:
            return
        copy, began = copies.get(), time.monotonic()
        is_noticed = copy.notices(room, module, change, reach)
        copies.put(copy)
        outcomes[change.identity] = is_noticed
        words = "noticed" if is_noticed else "not noticed"
        taken = f"{time.monotonic() - began:.0f} s"
        print(f"{words} ({taken}): {change.identity}", file=sys.stderr, flush=True)

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
