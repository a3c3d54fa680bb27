"""Plays many seeded schedules against the delivery machine.

``python -m tests.delivery.simulate --schedules 10000 --seed 0 --jobs 2``; a failure
prints its seed, and ``--replay SEED`` prints what happened in it, line by line.
``--transactions`` plays schedules of transactional calls instead of sends.
"""

from __future__ import annotations

import argparse
import gc
import sys
import time
import traceback
from collections import Counter
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field
from functools import partial
from multiprocessing import get_context

from tests.delivery.world.transactions import TransactionWorld
from tests.delivery.world.world import World

_CHUNK = 2_000
_MOST_FAILURES = 20


@dataclass
class Result:
    """What came of some schedules.

    Attributes:
        failures: What went wrong, by seed.
        outcomes: How many records were told what.
        seconds: Processor time.
    """

    failures: dict[int, list[str]] = field(default_factory=dict)
    outcomes: Counter[str] = field(default_factory=Counter)
    seconds: float = 0.0


def play_transactions(seed: int, **options: object) -> tuple[list[str], Counter[str]]:
    """Play one schedule of transactions; return what went wrong, and what was told."""
    return _play(TransactionWorld(seed, **options))  # type: ignore[arg-type]  # handed on


def play(seed: int, **options: object) -> tuple[list[str], Counter[str]]:
    """Play one schedule; return what went wrong, and what was told."""
    return _play(World(seed, **options))  # type: ignore[arg-type]  # handed on


def _play(world: World | TransactionWorld) -> tuple[list[str], Counter[str]]:
    try:
        problems = world.play()
    except Exception as error:
        where = traceback.extract_tb(error.__traceback__)[-1]
        problems = [f"{type(error).__name__}: {error} ({where.name}:{where.lineno})"]
    return problems, world.outcomes


def play_range(first: int, count: int, *, transactions: bool = False) -> Result:
    """Play schedules one after the other."""
    play_one = play_transactions if transactions else play
    result, began = Result(), time.process_time()
    gc.disable()
    for seed in range(first, first + count):
        problems, outcomes = play_one(seed)
        result.outcomes.update(outcomes)
        if problems:
            result.failures[seed] = problems
            if len(result.failures) >= _MOST_FAILURES:
                break
        if not seed % 50:
            gc.collect()
    result.seconds = time.process_time() - began
    return result


def simulate(
    schedules: int, seed: int, jobs: int, *, transactions: bool = False
) -> Result:
    """Play schedules in several processes."""
    whole = Result()
    starts = range(seed, seed + schedules, _CHUNK)
    counts = [min(_CHUNK, seed + schedules - start) for start in starts]
    # A fork would copy what the threads of other tests' clients are in the middle of.
    with ProcessPoolExecutor(jobs, get_context("spawn")) as pool:
        play_part = partial(play_range, transactions=transactions)
        for part in pool.map(play_part, starts, counts):
            whole.failures |= part.failures
            whole.outcomes.update(part.outcomes)
            whole.seconds += part.seconds
            if len(whole.failures) >= _MOST_FAILURES:
                pool.shutdown(cancel_futures=True)
                break
    return whole


def main(arguments: list[str] | None = None) -> int:
    """Play, and print what came of it."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--schedules", type=int, default=10_000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--transactions", action="store_true")
    parser.add_argument("--replay", type=int, metavar="SEED")
    given = parser.parse_args(arguments)
    if given.replay is not None:
        play_one = play_transactions if given.transactions else play
        problems, _ = play_one(given.replay, trace=print)
        print(*problems or ["nothing went wrong"], sep="\n")
        return bool(problems)
    began = time.monotonic()
    result = simulate(
        given.schedules, given.seed, given.jobs, transactions=given.transactions
    )
    took = time.monotonic() - began
    for seed, problems in sorted(result.failures.items()):
        print(f"seed {seed}: {'; '.join(problems[:3])}")
    told = ", ".join(f"{name} {n}" for name, n in result.outcomes.most_common())
    print(f"{given.schedules} schedules in {took:.1f} s; records: {told}")
    if result.failures:
        print(f"{len(result.failures)} failed; see --replay SEED")
    return bool(result.failures)


if __name__ == "__main__":
    sys.exit(main())
