"""``make mutate``: make small wrong changes, and run the tests that must notice them.

A sample of changes is tried; another seed chooses another sample: ``make mutate
MUTATE="--seed 7"``. ``--all`` tries all changes, which takes hours. The report has a
score for each package ("room"), and each change that no test noticed. Changes that need
not be noticed are in ``accepted.txt``, with the reason, and do not count. Exit code 1:
too few were noticed, in the sample, or with ``--all`` in a room.

The rooms are the pure packages, of which 92 % must be noticed, or with ``--adapters``
the adapters, of which 75 % must be. Tests of pure rooms need no broker, and a change is
made in a forked process, or in the live function (``session.py``). Tests of adapters
need one, so each change is tried in a copy (``copies.py``), with the tests that reach
it (``reach.py``). What was not begun in 17 minutes is left out of the sample.

mutmut changes only the bodies of undecorated functions, but most decisions of
kafkaguard are data: rules, tables, fields of models. cosmic-ray writes its changes into
the checkout, and runs the same tests for each: it cannot choose those that reach it.
"""

from __future__ import annotations

import argparse
import importlib
import json
import random
import sys
import tempfile
import time
from collections import Counter, defaultdict
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import copies
import forks
import reach
import session
from changes import Change, Module
from rooms import ADAPTERS, ROOMS, ROOT, Room

if TYPE_CHECKING:
    from collections.abc import Iterable

ACCEPTED = Path(__file__).parent / "accepted.txt"
#: The number of changes of pure rooms that take less than five minutes on two
#: processors.
SAMPLE = 80
#: The same for adapters and 20 minutes.
SAMPLE_OF_ADAPTERS = 60
#: No change of an adapter is begun after so many seconds.
ADAPTERS_S = 1000
#: Packages to import once, before the forks; none of them is kafkaguard's.
_WARM = (
    *("aiokafka", "confluent_kafka", "kafka", "pydantic", "yaml"),
    *("hypothesis.stateful", "kio.schema", "tenacity", "click"),
    *("rich.console", "rich.table", "sqlite3", "concurrent.futures.process"),
)


class Work(NamedTuple):
    """A change to try."""

    room: Room
    module: Module
    change: Change


def main() -> int:
    """Try changes, and print the report."""
    options = _options()
    rooms = _rooms(options)
    if options.tests:
        rooms = [replace(room, tests=tuple(options.tests)) for room in rooms]
    work = _all_work(rooms, options.modules)
    work = [w for w in work if w.change.code_of or not options.inside]
    is_pure = rooms[0].is_pure
    if not options.all:
        usual = SAMPLE if is_pure else SAMPLE_OF_ADAPTERS
        work = _chosen(work, options.sample or usual, options.seed)
    with tempfile.TemporaryDirectory() as folder:
        if is_pure:
            for name in _WARM:
                importlib.import_module(name)
            outcomes = _outcomes(work, rooms, Path(folder), options.workers)
        else:
            outcomes = _outcomes_of_adapters(work, rooms, Path(folder), options)
            work = [w for w in work if w.change.identity in outcomes]
    is_complete = options.all and not (
        options.modules or options.inside or options.tests
    )
    return _report(work, outcomes, is_all=options.all, is_complete=is_complete)


def _rooms(options: argparse.Namespace) -> list[Room]:
    """Return the rooms that were asked for, which are all pure or all adapters."""
    if not options.rooms:
        return [*ADAPTERS] if options.adapters else [*ROOMS]
    rooms = [r for r in (*ROOMS, *ADAPTERS) if r.name in options.rooms]
    if len({room.is_pure for room in rooms}) > 1:
        sys.exit("name pure rooms or adapters: they are tried in different ways")
    return rooms


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    add = parser.add_argument
    add("--all", action="store_true", help="try every change, for hours")
    add("--adapters", action="store_true", help="the adapters, not the pure rooms")
    words = f"try N changes (default: {SAMPLE}, of adapters {SAMPLE_OF_ADAPTERS})"
    add("--sample", type=int, metavar="N", help=words)
    add("--seed", type=int, default=0, help="which N (default: 0)")
    names = [room.name for room in (*ROOMS, *ADAPTERS)]
    add("--room", action="append", dest="rooms", choices=names)
    add("--module", action="append", dest="modules", help="only paths that end so")
    add("--tests", action="append", help="only these, in place of the rooms' own")
    add("--inside", action="store_true", help="only inside functions, which is fast")
    add("--workers", type=int, default=2, help="processes (default: 2)")
    return parser.parse_args()


def _all_work(rooms: Iterable[Room], modules: list[str] | None) -> list[Work]:
    found = []
    for room in rooms:
        for path in room.modules():
            if not modules or path.endswith(tuple(modules)):
                module = Module(ROOT, path)
                found += [Work(room, module, change) for change in module.changes]
    return found


def _chosen(work: list[Work], sample: int, seed: int) -> list[Work]:
    if sample >= len(work):
        return work
    return random.Random(seed).sample(work, sample)  # noqa: S311 - a choice of tests


def _outcomes(
    work: list[Work], rooms: list[Room], folder: Path, workers: int
) -> dict[str, int]:
    """Try all changes in some processes, and collect their outcomes."""
    tests = tuple(sorted({test for room in rooms for test in room.tests}))
    results = folder / "results"
    _tell(f"{len(work)} changes; first the tests without a change")
    files = session.files_of(tests)
    parts = {folder / f"baseline{n}": files[n::workers] for n in range(workers)}
    if any(forks.side_by_side([partial(_measure, *each) for each in parts.items()])):
        sys.exit("the tests fail without a change: see above")
    baseline = session.Baseline.load(parts)
    shares = (work[number::workers] for number in range(workers))
    forks.side_by_side([partial(_try_all, w, tests, baseline, results) for w in shares])
    lines = results.read_text().splitlines() if results.exists() else []
    outcomes = dict(json.loads(line) for line in lines)
    if missing := len(work) - len(outcomes):
        sys.exit(f"{missing} changes were not tried: a process ended early")
    return outcomes


def _outcomes_of_adapters(
    work: list[Work], rooms: list[Room], folder: Path, options: argparse.Namespace
) -> dict[str, int]:
    """Try changes of adapters, as many as the time allows."""
    tests = sorted({test for room in rooms for test in room.tests})
    files = [
        Path(file).relative_to(ROOT).as_posix() for file in session.files_of(tests)
    ]
    known = reach.measured(files)
    deadline = time.monotonic() + (float("inf") if options.all else ADAPTERS_S)
    outcomes = copies.try_all(
        work, known, folder, workers=options.workers, deadline=deadline, tell=_tell
    )
    if left := len(work) - len(outcomes):
        _tell(f"{left} of {len(work)} changes were not tried: the time is over")
    return outcomes


def _measure(file: Path, tests: list[str]) -> int:
    """Run tests without a change; return 0 if they pass."""

    def run() -> int:
        forks.silence(errors=False)
        measure = session.Measure()
        code = session.run_pytest(tests, measure)
        for report in measure.failed:
            _tell(f"fails without a change: {report.nodeid}\n{report.longreprtext}")
        measure.baseline.save(file)
        return 1 if code or measure.failed else 0

    return forks.forked(run, cpu_s=900, idle_s=60)


def _try_all(
    work: list[Work],
    tests: tuple[str, ...],
    baseline: session.Baseline,
    results: Path,
) -> int:
    """Try changes inside functions first, then changes that need fresh modules."""
    forks.silence(errors=False)
    not_applied: list[str] = []
    began, done = time.monotonic(), 0

    def tell(change: Change, outcome: int) -> None:
        nonlocal done
        with results.open("a") as file:
            file.write(json.dumps([change.identity, outcome]) + "\n")
        if outcome == forks.NOT_APPLIED:
            return
        done += 1
        if done % 50 == 0:
            _tell(f"{done} of {len(work)} after {time.monotonic() - began:.0f} s")

    inside = [(w.module, w.change) for w in work if w.change.code_of]
    if inside:
        plugin = session.TryInside(inside, baseline, tell)
        run = partial(session.run_pytest, tests, plugin)
        forks.forked(run, cpu_s=1e6, idle_s=1e6)
        lines = results.read_text().splitlines() if results.exists() else []
        told = (json.loads(line) for line in lines)
        not_applied = [name for name, code in told if code == forks.NOT_APPLIED]
        done = len(inside) - len(not_applied)
    for room, module, change in work:
        if change.code_of is None or change.identity in not_applied:
            tell(change, session.try_import(module, change, room.tests, baseline))
    return 0


def _report(
    work: list[Work], outcomes: dict[str, int], *, is_all: bool, is_complete: bool
) -> int:
    """Print scores and survivors; return the exit code."""
    accepted = _accepted()
    total, noticed, fresh_ones = Counter[str](), Counter[str](), Counter[str]()
    survivors = defaultdict(list)
    for room, _, change in work:
        total[room.name] += 1
        if outcomes[change.identity] == forks.SURVIVED:
            survivors[room.name].append(change)
        else:
            noticed[room.name] += 1
    for name, changes in survivors.items():
        fresh = [change for change in changes if change.identity not in accepted]
        fresh_ones[name] = len(fresh)
        for change in sorted(fresh, key=lambda c: (c.path, c.line)):
            where = f"{change.path}:{change.line} {change.function}"
            print(f"not noticed ({name}): {where}: {change.words}")
    if is_complete:
        rooms = {path for room in ROOMS for path in room.modules()}
        known = {change.identity for _, _, change in work}
        for identity in accepted:
            if identity not in known and identity.partition(" | ")[0] in rooms:
                print(f"accepted.txt names a change that is gone: {identity}")
    print(f"{'room':20}{'changes':>9}{'noticed':>9}{'accepted':>10}{'score':>8}")
    for name in total:
        known_ones = sum(c.identity in accepted for c in survivors[name])
        score = noticed[name] / total[name]
        print(f"{name:20}{total[name]:9}{noticed[name]:9}{known_ones:10}{score:8.1%}")
    least = {room.name: room.least for room, _, _ in work}
    if not is_all:
        share = fresh_ones.total() / max(1, total.total())
        return int(share > 1 - min(least.values(), default=0.0))
    return int(any(fresh_ones[n] / total[n] > 1 - least[n] for n in total))


def _accepted() -> dict[str, str]:
    """Read the changes that need not be noticed, with the reasons."""
    lines = ACCEPTED.read_text().splitlines() if ACCEPTED.exists() else []
    entries = (line.rpartition("  # ") for line in lines if not line.startswith("#"))
    return {identity: reason for identity, _, reason in entries if identity}


def _tell(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main())
