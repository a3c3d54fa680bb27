"""Long runs: ``python -m tests.soak steady``, ``outages``, ``kills``, ``once``."""

from __future__ import annotations

import argparse
import sys

from tests.soak import kills, once, outages, steady


def main():
    """Run what is asked for; the exit code says whether all was right."""
    parser = argparse.ArgumentParser(prog="python -m tests.soak", description=__doc__)
    seeded = argparse.ArgumentParser(add_help=False)
    seeded.add_argument("--seed", type=int, default=1, help="what is drawn at random")
    which = parser.add_subparsers(dest="which", required=True)

    def add(name, words):
        return which.add_parser(name, help=words, parents=[seeded])

    away = add("outages", "a stream whose broker goes away")
    away.add_argument("--minutes", type=float, default=10)
    away.add_argument("--away", type=float, nargs="+", default=outages.OUTAGES_S)
    killed = add("kills", "drivers, executors and workers killed")
    killed.add_argument("--runs", type=int, default=20)
    exactly = add("once", "jobs that write exactly once, killed")
    exactly.add_argument("--kills", type=int, default=200)
    exactly.add_argument("--rows", type=int, default=once.ROWS)
    exactly.add_argument("--state", help="a file; a second call goes on after it")
    exactly.add_argument("--plain", action="store_true", help="without the word")
    exactly.add_argument("--epochs", action="store_true", help="let an epoch roll over")
    flat = add("steady", "memory, descriptors, threads, sockets")
    flat.add_argument("--minutes", type=float, default=60)
    flat.add_argument("--state", help="a file; a second call goes on after it")
    flat.add_argument("--parts", nargs="+", choices=steady.PARTS, default=steady.PARTS)
    flat.add_argument("--leaking", choices=("lag",), help="let this part leak")
    words = "kafka-python under faults, guarded and bare, with all futures kept"
    flat.add_argument("--keep", action="store_true", help=words)
    given = parser.parse_args()
    if given.which == "outages":
        wrong = outages.run(given.minutes, given.away, given.seed)
    elif given.which == "steady" and given.keep:
        wrong = steady.keep(given.minutes, given.seed)
    elif given.which == "steady":
        wrong = steady.run(given.minutes, given.state, given.parts, given.leaking)
    elif given.which == "once" and given.plain:
        twice = once.compare(given.seed, given.rows)
        print(f"without the word: {twice} rows twice")
        wrong = [] if twice else ["the kills double nothing: they show nothing"]
    elif given.which == "once" and given.epochs:
        wrong = once.roll_over()
    elif given.which == "once":
        wrong = once.run(given.kills, given.seed, given.state, given.rows)
    else:
        wrong = kills.run(given.runs, given.seed)
    good = "nothing was lost, and the reports are true"
    if given.which == "once" and given.plain:
        good = "so the kills are where they hurt"
    if given.which == "steady":
        good = "verdict: all is flat"
    print("\n".join(wrong) or good)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
