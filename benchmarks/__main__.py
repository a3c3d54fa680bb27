"""Run the named benchmarks, or all.

Compare only ratios of one run, because two runs on a busy machine differ. A benchmark
fails if it misses its limit.
"""

from __future__ import annotations

import importlib
import pkgutil
import sys

import benchmarks


def main() -> int:
    """Run the benchmarks; return 1 if one of them missed its limit."""
    there = sorted(
        module.name
        for module in pkgutil.iter_modules(benchmarks.__path__)
        if not module.name.startswith("_")
    )
    wanted = sys.argv[1:] or there
    if unknown := set(wanted) - set(there):
        print(f"no benchmark {sorted(unknown)}; there are {', '.join(there)}")
        return 2
    missed = []
    for name in wanted:
        print(f"== {name}")
        if importlib.import_module(f"benchmarks.{name}").main():
            missed.append(name)
    if missed:
        print(f"missed their limits: {', '.join(missed)}")
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
