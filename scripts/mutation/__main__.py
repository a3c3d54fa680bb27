"""``make mutate``: make small wrong changes, and run the tests that must notice them.

A sample of changes is tried; another seed chooses another sample: ``make mutate
MUTATE="--seed 7"``. ``--all`` tries all changes, which takes days. The report has a
score for each package ("room"), and each change that no test noticed. Changes that need
not be noticed are in ``accepted.txt``, with the reason, and do not count. Exit code 1:
too few were noticed.

The rooms are the pure packages, of which 92 % must be noticed, or with ``--adapters``
the adapters, of which 75 % must be. Each change is tried in a copy (``copies.py``): in
a pure room with all tests of the room, which need no broker, in an adapter with the
tests that reach it (``reach.py``). What was not begun in time is left out.
"""

from __future__ import annotations

import argparse
import random
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import copies
import reach
from changes import Change, Module
from rooms import ADAPTERS, ROOMS, ROOT, Room

if TYPE_CHECKING:
    from collections.abc import Iterable

ACCEPTED = Path(__file__).parent / "accepted.txt"
#: How many changes are tried of pure rooms, and of adapters.
SAMPLE, SAMPLE_OF_ADAPTERS = 40, 60
#: No change is begun after so many seconds.
PURE_S, ADAPTERS_S = 300, 1000


class Work(NamedTuple):
    """A change to try."""

    room: Room
    module: Module
    change: Change


def main() -> int:
    """Try changes, and print the report."""
    options = _options()
    rooms = ADAPTERS if options.adapters else ROOMS
    work = [
        Work(room, module, change)
        for room in rooms
        if not options.rooms or room.name in options.rooms
        for path in room.modules()
        for module in [Module(ROOT, path)]
        for change in module.changes
    ]
    limit_s: float = ADAPTERS_S if options.adapters else PURE_S
    if options.all:
        limit_s = float("inf")
    else:
        usual = SAMPLE_OF_ADAPTERS if options.adapters else SAMPLE
        count = min(options.sample or usual, len(work))
        work = random.Random(options.seed).sample(work, count)  # noqa: S311 - a choice of tests
    known = reach.measured(_files(rooms)) if options.adapters else None
    with tempfile.TemporaryDirectory() as folder:
        outcomes = copies.try_all(
            work, known, Path(folder), options.workers, time.monotonic() + limit_s
        )
    if left := len(work) - len(outcomes):
        print(f"{left} of {len(work)} changes were not tried: the time is over")
    return _report(
        [each for each in work if each.change.identity in outcomes], outcomes
    )


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    add = parser.add_argument
    add("--all", action="store_true", help="try every change, for days")
    add("--adapters", action="store_true", help="the adapters, not the pure rooms")
    words = f"try N changes (default: {SAMPLE}, of adapters {SAMPLE_OF_ADAPTERS})"
    add("--sample", type=int, metavar="N", help=words)
    add("--seed", type=int, default=0, help="which N (default: 0)")
    add("--room", action="append", dest="rooms", help="only this room")
    add("--workers", type=int, default=2, help="processes (default: 2)")
    return parser.parse_args()


def _files(rooms: Iterable[Room]) -> list[str]:
    """Return the test files of rooms, relative to the checkout."""
    found: set[Path] = set()
    for place in {test for room in rooms for test in room.tests}:
        path = ROOT / place
        found |= set(path.rglob("test_*.py")) if path.is_dir() else {path}
    return sorted(path.relative_to(ROOT).as_posix() for path in found)


def _report(work: list[Work], outcomes: dict[str, bool]) -> int:
    """Print scores and survivors; return the exit code."""
    accepted = _accepted()
    total, noticed, allowed = Counter[str](), Counter[str](), Counter[str]()
    for room, _, change in sorted(work, key=lambda w: (w.change.path, w.change.line)):
        total[room.name] += 1
        noticed[room.name] += outcomes[change.identity]
        if outcomes[change.identity]:
            continue
        if change.identity in accepted:
            allowed[room.name] += 1
        else:
            where = f"{change.path}:{change.line} {change.function}"
            print(f"not noticed ({room.name}): {where}: {change.words}")
    print(f"{'room':20}{'changes':>9}{'noticed':>9}{'accepted':>10}{'score':>8}")
    for name in total:
        score = noticed[name] / total[name]
        numbers = f"{total[name]:9}{noticed[name]:9}{allowed[name]:10}"
        print(f"{name:20}{numbers}{score:8.1%}")
    least = min((room.least for room, _, _ in work), default=0.0)
    good = noticed.total() + allowed.total()
    return int(good < least * total.total())


def _accepted() -> dict[str, str]:
    """Read the changes that need not be noticed, with the reasons."""
    lines = ACCEPTED.read_text().splitlines()
    entries = (line.rpartition("  # ") for line in lines if not line.startswith("#"))
    return {identity: reason for identity, _, reason in entries if identity}


if __name__ == "__main__":
    sys.exit(main())
