"""Long runs: ``python -m tests.soak outages --minutes 10``, ``... kills --runs 20``."""

from __future__ import annotations

import argparse
import sys

from tests.soak import kills, outages


def main():
    """Run what is asked for; the exit code says whether all was right."""
    parser = argparse.ArgumentParser(prog="python -m tests.soak", description=__doc__)
    parser.add_argument("--seed", type=int, default=1, help="what is drawn at random")
    which = parser.add_subparsers(dest="which", required=True)
    away = which.add_parser("outages", help="a stream whose broker goes away")
    away.add_argument("--minutes", type=float, default=10)
    away.add_argument("--away", type=float, nargs="+", default=outages.OUTAGES_S)
    killed = which.add_parser("kills", help="drivers, executors and workers killed")
    killed.add_argument("--runs", type=int, default=20)
    given = parser.parse_args()
    if given.which == "outages":
        wrong = outages.run(given.minutes, given.away, given.seed)
    else:
        wrong = kills.run(given.runs, given.seed)
    print("\n".join(wrong) or "nothing was lost, and the reports are true")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
