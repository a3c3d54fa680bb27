"""Which tests reach a line of the adapters, and how long each takes.

Tests of adapters run on a broker, so a changed line is tried with the tests that reach
it only. coverage finds them in one run of all these tests, which takes as long as the
tests do. Its results are kept for each file of tests, in the folder ``.mutation``. A
file is measured again after a change of itself or of a contract that it inherits. A
change of an adapter needs no new run: lines are found by what stands in them.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import subprocess
import sys
import tempfile
from collections import defaultdict
from difflib import SequenceMatcher
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from coverage import CoverageData
from rooms import ROOT

if TYPE_CHECKING:
    from collections.abc import Iterable

    from changes import Change, Module

FOLDER = ROOT / ".mutation"
_TEXTS = FOLDER / "texts"
_CONTRACT = re.compile(r"tests\.contracts\.(\w+)")
_DURATION = re.compile(r"^([\d.]+)s call +(tests/.+)$", re.MULTILINE)
_FAILED = re.compile(r"^(?:FAILED|ERROR) (tests/.+?)(?: - .*)?$", re.MULTILINE)
_PYTEST = (
    *("-m", "pytest", "-n", "2", "--dist", "loadgroup", "-q", "-vv", "-rfE"),
    *("--durations=0", "--durations-min=0.0", "-p", "no:cacheprovider"),
    *("--cov=adapters/kafkaguard_adapters", "--cov-context=test", "--cov-report="),
)


class _Lines(NamedTuple):
    """The tests that reach the lines of one version of a module."""

    text: str
    tests: dict[int, set[str]]


class Reach:
    """What was measured.

    Attributes:
        seconds: The time of each test that passed, by its id.
    """

    def __init__(self, files: Iterable[str]) -> None:
        self.seconds: dict[str, float] = {}
        self._lines: dict[str, list[_Lines]] = defaultdict(list)
        for file in files:
            told = json.loads(_place(file).read_text())
            self.seconds |= told["seconds"]
            name = told["names"].__getitem__
            for path, (text, lines) in told["lines"].items():
                tests = {
                    int(line): {*map(name, found)} for line, found in lines.items()
                }
                self._lines[path].append(_Lines(text, tests))

    def tests_of(self, module: Module, change: Change) -> list[str]:
        """List the tests that reach a change, the fastest first.

        A change that takes effect at import is reached by all that reach the module.
        """
        found: set[str] = set()
        for text, tests in self._lines[module.path]:
            if change.code_of is None:
                found |= set().union(*tests.values())
                continue
            known = _same_lines(text, module.source)
            # coverage knows a statement by its first line.
            for line in range(change.line, change.code_of[1], -1):
                if reached := tests.get(known.get(line, 0)):
                    found |= reached
                    break
        return self.fastest(found)

    def fastest(self, tests: Iterable[str]) -> list[str]:
        """Sort tests by their time, without those that failed when measured."""
        return sorted(set(tests) & set(self.seconds), key=self.seconds.__getitem__)


@cache
def _same_lines(version: str, source: str) -> dict[int, int]:
    """Return the lines of a measured version of a module by those of today."""
    then = (_TEXTS / version).read_text().splitlines()
    blocks = SequenceMatcher(None, source.splitlines(), then, autojunk=False)
    return {
        now + number + 1: old + number + 1
        for now, old, size in blocks.get_matching_blocks()
        for number in range(size)
    }


def measured(files: list[str]) -> Reach:
    """Return what these files of tests reach, and measure what is not known."""
    for folder in sorted({Path(file).parent for file in files}):
        stale = [f for f in files if Path(f).parent == folder and not _is_known(f)]
        if stale:
            print(f"measuring {len(stale)} files of {folder}", file=sys.stderr)
            _measure(stale)
    return Reach(files)


def _place(file: str) -> Path:
    return FOLDER / (file.removesuffix(".py").replace("/", ".") + ".json")


def _is_known(file: str) -> bool:
    place = _place(file)
    return place.exists() and json.loads(place.read_text())["key"] == _key(file)


def _key(file: str) -> str:
    """Return a digest of a file of tests and of the contracts that it inherits."""
    text = (ROOT / file).read_text()
    names = sorted(set(_CONTRACT.findall(text)))
    contracts = (ROOT / f"tests/contracts/{name}.py" for name in names)
    return _digest(text + "".join(each.read_text() for each in contracts))


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def _measure(files: list[str]) -> None:
    """Run files of tests under coverage, and keep what each has reached."""
    _TEXTS.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as folder:
        data = Path(folder) / "coverage"
        told = subprocess.run(
            [sys.executable, *_PYTEST, *files],
            cwd=ROOT,
            env={**os.environ, "COVERAGE_FILE": str(data)},
            capture_output=True,
            text=True,
            check=False,
        ).stdout
        coverage = CoverageData(str(data))
        coverage.read()
        seconds = {_plain(t): float(taken) for taken, t in _DURATION.findall(told)}
        if not seconds:
            sys.exit(f"no test was measured:\n{told[-3000:]}")
        for test in _FAILED.findall(told):
            print(f"fails without a change, so it is left out: {test}", file=sys.stderr)
            seconds.pop(_plain(test), None)
        for file in files:
            _keep(file, seconds, coverage)


def _plain(test: str) -> str:
    """Return a test's id without the group that pytest-xdist adds to it."""
    return re.sub(r"@[\w-]+$", "", test)


def _keep(file: str, seconds: dict[str, float], coverage: CoverageData) -> None:
    """Write what one file of tests has reached."""
    numbers: dict[str, int] = {}
    lines: dict[str, tuple[str, dict[int, list[int]]]] = {}
    for measured_path in sorted(coverage.measured_files()):
        path = Path(measured_path)
        reached = {}
        for line, contexts in coverage.contexts_by_lineno(measured_path).items():
            tests = {_plain(each.rpartition("|")[0]) for each in contexts}
            if own := sorted(test for test in tests if test.startswith(f"{file}::")):
                reached[line] = [numbers.setdefault(t, len(numbers)) for t in own]
        if reached:
            text = path.read_text()
            (_TEXTS / _digest(text)).write_text(text)
            lines[path.relative_to(ROOT).as_posix()] = _digest(text), reached
    own_seconds = {t: s for t, s in seconds.items() if t.startswith(f"{file}::")}
    content = {
        "key": _key(file),
        "seconds": own_seconds,
        "names": list(numbers),
        "lines": lines,
    }
    _place(file).write_text(json.dumps(content))
