"""Asks each client what it does with each answer, and compares that with the verdicts.

``python -m tests.atlas --state FILE`` goes on where an earlier run with that file
stopped. Cells that a busy machine has delayed do not count: they are played by the next
run. ``--write`` puts what is finished into the package (alone: ``--limit-seconds 0``).
The exit code is 1 if something that disagrees with the verdicts is not explained in
``explained.yaml``, or if a cell could not be played.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections import Counter
from pathlib import Path

from kafkaguard.testing.proxy.language import error_code
from tests.atlas import data, pool
from tests.atlas.cells import CLIENTS, CODES, all_cells
from tests.atlas.judge import Explained, disagreements

STATE = Path(__file__).parents[2] / ".atlas" / "cells.jsonl"


def _arguments():
    parser = argparse.ArgumentParser(prog="python -m tests.atlas", description=__doc__)
    add = parser.add_argument
    apis = {name.lower(): name for name in CODES}
    add("--only", action="append", metavar="REQUEST", type=lambda n: apis[n.lower()])
    add("--client", action="append", choices=CLIENTS)
    add("--code", action="append", type=_code, metavar="CODE")
    add("--jobs", type=int, default=2, help="processes; each plays eight cells")
    add("--limit-seconds", type=float, default=float("inf"))
    add("--state", type=Path, default=STATE, metavar="FILE")
    add("--again", action="store_true", help="play chosen cells also if finished")
    add("--write", action="store_true", help="write what is finished into the package")
    return parser.parse_args()


def _code(word):
    return error_code(int(word) if word.lstrip("-").isdecimal() else word)


def _read(file):
    if not file.exists():
        return {}
    lines = map(json.loads, file.read_text().splitlines())
    return {data.key(line): line for line in lines if data.is_sound(line)}


def _play(chosen, lines):
    cells = [
        cell
        for cell in all_cells()
        if cell.client in (chosen.client or CLIENTS)
        and cell.api in (chosen.only or CODES)
        and cell.code in (chosen.code or [cell.code])
        and (chosen.again or data.key(cell.as_json()) not in lines)
    ]
    if not cells or chosen.limit_seconds <= 0:
        return
    chosen.state.parent.mkdir(exist_ok=True)
    end = time.monotonic() + chosen.limit_seconds
    with pool.cluster() as cluster, chosen.state.open("a") as file:

        def tell(line):
            if data.is_sound(line):
                lines[data.key(line)] = line
            elif line["lag"] <= data.LAG_S:
                print("NOT PLAYED", *data.key(line), line["problem"], flush=True)
            file.write(json.dumps(line) + "\n")
            file.flush()
            return time.monotonic() < end

        pool.Pool(pool.addresses(cluster), chosen.jobs).play(cells, tell)


def _report(lines):
    """Print what disagrees; return how much of it is not explained."""
    explained, known, unknown = Explained(), Counter(), 0
    for line in lines:
        for kind in disagreements(line):
            if explained.why(kind, line) is None:
                unknown += 1
                shown = (
                    "error",
                    "raised",
                    "action",
                    "told",
                    "written",
                    "requests",
                    "again",
                )
                rest = {
                    name: line[name] for name in shown if line.get(name) is not None
                }
                print("DISAGREES", kind, *data.key(line), rest)
            else:
                known[kind] += 1
    for kind, count in sorted(known.items()):
        print(f"explained: {kind}: {count}")
    for entry in explained.unused():
        print("explains nothing:", entry)
    return known.total(), unknown


def main():
    """Play, report, and say whether all is explained."""
    chosen = _arguments()
    began = time.monotonic()
    lines = _read(chosen.state)
    try:
        _play(chosen, lines)
    except KeyboardInterrupt:
        print("interrupted: call again to go on")
        return 130
    if chosen.write:
        data.write(lines.values())
    known, unknown = _report(lines.values())
    print(
        f"VERDICT atlas: {len(lines)} of {len(all_cells())} cells, {known} disagreements "
        f"explained, {unknown} not, {time.monotonic() - began:.0f} s"
    )
    return int(unknown > 0)


if __name__ == "__main__":
    sys.exit(main())
