"""The two ways to try a change with pytest, both in a child process of its own.

A change inside a function is made in the live function, after pytest has collected all
tests, and costs only the tests that call the function. A change that takes effect at
import needs fresh modules, so its child process imports and collects again.
"""

from __future__ import annotations

import functools
import gc
import importlib.machinery
import importlib.util
import json
import os
import sys
import threading
import time
from collections import defaultdict
from dataclasses import dataclass, field
from types import CodeType, FunctionType
from typing import TYPE_CHECKING, Any

import pytest
from forks import NOT_APPLIED, NOTICED, SURVIVED, forked, silence
from rooms import ROOT, module_name

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from pathlib import Path

    from changes import Change, Module

#: The limit of a child's CPU time: this multiple of its tests' time, plus seconds.
_FACTOR, _MORE_S = 2, 5
_OPTIONS = (
    *("-q", "-x", "--capture=no", "--no-header", "--tb=short", "-o", "timeout=0"),
    *("-W", "ignore::pytest.PytestAssertRewriteWarning"),  # for imported modules
    *("-p", "no:randomly", "-p", "no:cacheprovider", "--no-java"),
    "--assert=plain",  # otherwise its import hook comes before this program's
)
_Cached = type(functools.lru_cache(len))
_OURS = "kafkaguard"
#: The place of a function: file, qualified name, first line.
Place = tuple[str, str, int]


@dataclass
class Baseline:
    """The behaviour of the tests without a change.

    Attributes:
        seconds: CPU time of each test.
        calls: The tests that call a function, by its place.
        at_import: The functions that are called before the first test. Changes in the
            live function come too late for them.
    """

    seconds: dict[str, float] = field(default_factory=dict)
    calls: dict[Place, list[str]] = field(default_factory=dict)
    at_import: set[Place] = field(default_factory=set)

    def save(self, file: Path) -> None:
        """Write the baseline for the processes that try the changes."""
        calls, at_import = list(self.calls.items()), list(self.at_import)
        file.write_text(json.dumps([self.seconds, calls, at_import]))

    @classmethod
    def load(cls, files: Iterable[Path]) -> Baseline:
        """Read the files of several processes as one baseline."""
        whole = cls(calls=defaultdict(list))
        for file in files:
            seconds, calls, at_import = json.loads(file.read_text())
            whole.seconds |= seconds
            whole.at_import |= set(map(tuple, at_import))
            for place, tests in calls:
                whole.calls[tuple(place)] += tests
        return whole


def files_of(tests: Iterable[str]) -> list[str]:
    """Return the test files in these places, sorted, so that slices split folders."""
    found: set[Path] = set()
    for place in tests:
        path = ROOT / place
        found |= set(path.rglob("test_*.py")) if path.is_dir() else {path}
    return [str(path) for path in sorted(found)]


def run_pytest(tests: Iterable[str], *plugins: Any) -> int:
    """Run pytest in this process on tests that need no Java."""
    os.environ["HYPOTHESIS_PROFILE"] = "mutation"
    os.chdir(ROOT)
    return int(pytest.main([*_OPTIONS, *tests], plugins=list(plugins)))


class Measure:
    """A plugin that records for each test its calls and its time.

    Calls before all tests are collected are recorded too.
    """

    def __init__(self) -> None:
        self.baseline = Baseline()
        self.failed: list[pytest.TestReport | pytest.CollectReport] = []
        self._codes: set[CodeType] = set()
        self._calls: dict[Place, list[str]] = defaultdict(list)
        self._root = f"{ROOT}/"
        self._caches: list[Any] = []
        sys.setprofile(self._note)

    def pytest_collection_finish(self) -> None:
        """Record the calls so far."""
        sys.setprofile(None)
        self.baseline.at_import = set(map(place_of, self._ours()))
        self._caches = _our_caches()

    def _ours(self) -> list[CodeType]:
        return [c for c in self._codes if c.co_filename.startswith(self._root)]

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item: Any) -> Any:
        """Watch one test, with caches cleared so that all its calls are seen."""
        for cache in self._caches:
            cache.cache_clear()
        self._codes.clear()
        began = time.process_time()
        threading.setprofile(self._note)
        sys.setprofile(self._note)
        try:
            return (yield)
        finally:
            sys.setprofile(None)
            threading.setprofile(None)  # type: ignore[arg-type]  # None ends it
            self.baseline.seconds[item.nodeid] = time.process_time() - began
            for code in self._ours():
                self._calls[place_of(code)].append(item.nodeid)

    def _note(self, frame: Any, event: str, _: Any) -> None:
        if event == "call":
            self._codes.add(frame.f_code)

    def pytest_runtest_logreport(self, report: Any) -> None:
        """Record a failure."""
        if report.failed:
            self.failed.append(report)

    pytest_collectreport = pytest_runtest_logreport

    def pytest_sessionfinish(self) -> None:
        """Save the records."""
        self.baseline.calls = dict(self._calls)


def place_of(code: CodeType) -> Place:
    """Return the place of a function."""
    return code.co_filename, code.co_qualname, code.co_firstlineno


class TryInside:
    """A plugin that tries changes inside functions instead of running the tests."""

    def __init__(
        self,
        work: list[tuple[Module, Change]],
        baseline: Baseline,
        tell: Callable[[Change, int], None],
    ) -> None:
        self._work = work
        self._baseline = baseline
        self._tell = tell
        self._failed = False

    def pytest_runtest_logreport(self, report: Any) -> None:
        """Record that a test has noticed the change."""
        self._failed = self._failed or report.failed

    def pytest_runtestloop(self, session: Any) -> bool:
        """Try one change after the other."""
        items = {item.nodeid: item for item in session.items}
        live = _live_functions()
        for module, change in self._work:
            assert change.code_of is not None
            place = (str(module.file), *change.code_of)
            tests = [t for t in self._baseline.calls.get(place, ()) if t in items]
            tests.sort(key=self._baseline.seconds.__getitem__)
            seconds = sum(self._baseline.seconds[t] for t in tests)
            outcome = forked(
                functools.partial(
                    self._try, module, change, live, [items[t] for t in tests]
                ),
                cpu_s=seconds * _FACTOR + _MORE_S,
            )
            if outcome == SURVIVED and place in self._baseline.at_import:
                outcome = NOT_APPLIED
            self._tell(change, outcome)
        return True

    def _try(
        self,
        module: Module,
        change: Change,
        live: dict[Place, list[FunctionType]],
        items: list[Any],
    ) -> int:
        assert change.code_of is not None
        place = (str(module.file), *change.code_of)
        code = _find_code(module.changed(change), place)
        if code is None or not items or place not in live:
            return NOT_APPLIED
        try:
            for function in live[place]:
                function.__code__ = code
        except ValueError:  # the changed code has other closure variables
            return NOT_APPLIED
        silence()
        for item, after in zip(items, [*items[1:], None], strict=True):
            item.config.hook.pytest_runtest_protocol(item=item, nextitem=after)
            if self._failed:
                return NOTICED
        return SURVIVED


def _live_functions() -> dict[Place, list[FunctionType]]:
    """Return kafkaguard's functions, and clear the caches around them."""
    live = defaultdict(list)
    for thing in gc.get_objects():
        if isinstance(thing, FunctionType):
            live[place_of(thing.__code__)].append(thing)
    for cache in _our_caches():
        cache.cache_clear()
    return live


def _our_caches() -> list[Any]:
    found = (thing for thing in gc.get_objects() if isinstance(thing, _Cached))
    return [cache for cache in found if str(cache.__module__).startswith(_OURS)]


def _find_code(code: CodeType, place: Place) -> CodeType | None:
    if place_of(code) == place:
        return code
    inner = (c for c in code.co_consts if isinstance(c, CodeType))
    return next(filter(None, (_find_code(c, place) for c in inner)), None)


def try_import(
    module: Module, change: Change, tests: tuple[str, ...], baseline: Baseline
) -> int:
    """Try a change that takes effect when its module is imported."""
    seconds = sum(s for t, s in baseline.seconds.items() if t.startswith(tests))
    cpu_s = seconds * _FACTOR + _MORE_S

    def work() -> int:
        silence()
        _ChangedImport(module, change).install()
        order = _FastFirst(baseline)
        return NOTICED if run_pytest(tests, order) else SURVIVED

    return forked(work, cpu_s=cpu_s)


class _FastFirst:
    """A plugin that runs the fastest tests first."""

    def __init__(self, baseline: Baseline) -> None:
        self._seconds = baseline.seconds

    @pytest.hookimpl(trylast=True)
    def pytest_collection_modifyitems(self, items: list[Any]) -> None:
        """Sort the tests by their time."""
        items.sort(key=lambda item: self._seconds.get(item.nodeid, 1.0))


class _ChangedImport(importlib.machinery.SourceFileLoader):
    """Imports one module with a change, and all others unchanged."""

    def __init__(self, module: Module, change: Change) -> None:
        super().__init__(module_name(module.path), str(module.file))
        self._code = module.changed(change)

    def install(self) -> None:
        """Install this finder before the finders of Python."""
        sys.meta_path.insert(0, self)  # type: ignore[arg-type]  # finds by one method only

    def find_spec(self, name: str, *_: Any) -> Any:
        """Find the changed module."""
        if name != self.name:
            return None
        return importlib.util.spec_from_file_location(name, self.path, loader=self)

    def get_code(self, fullname: str) -> CodeType:  # noqa: ARG002 - as importlib calls it
        """Return the changed code."""
        return self._code
