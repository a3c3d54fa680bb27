"""Plays seeded schedules of a simulated world, in several processes."""

from __future__ import annotations

import argparse
import gc
import time
import traceback
from collections import Counter
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field
from functools import partial
from multiprocessing import get_context
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

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


def play_world(
    make: Callable[..., Any], seed: int, **options: object
) -> tuple[list[str], Counter[str]]:
    """Play one schedule; return what went wrong, and what was told."""
    world = make(seed, **options)
    try:
        problems = world.play()
    except Exception as error:
        where = traceback.extract_tb(error.__traceback__)[-1]
        problems = [f"{type(error).__name__}: {error} ({where.name}:{where.lineno})"]
    return problems, world.outcomes


def play_seeds(make: Callable[..., Any], first: int, count: int) -> Result:
    """Play schedules one after the other."""
    result, began = Result(), time.process_time()
    gc.disable()
    for seed in range(first, first + count):
        problems, outcomes = play_world(make, seed)
        result.outcomes.update(outcomes)
        if problems:
            result.failures[seed] = problems
            if len(result.failures) >= _MOST_FAILURES:
                break
        if not seed % 50:
            gc.collect()
    result.seconds = time.process_time() - began
    return result


def play_many(make: Callable[..., Any], schedules: int, seed: int, jobs: int) -> Result:
    """Play schedules in several processes."""
    whole = Result()
    starts = range(seed, seed + schedules, _CHUNK)
    counts = [min(_CHUNK, seed + schedules - start) for start in starts]
    # A fork would copy what the threads of other tests' clients are in the middle of.
    with ProcessPoolExecutor(jobs, get_context("spawn")) as pool:
        for part in pool.map(partial(play_seeds, make), starts, counts):
            whole.failures |= part.failures
            whole.outcomes.update(part.outcomes)
            whole.seconds += part.seconds
            if len(whole.failures) >= _MOST_FAILURES:
                pool.shutdown(cancel_futures=True)
                break
    return whole


def run(
    description: str | None,
    worlds: Mapping[str, Callable[..., Any]],
    arguments: list[str] | None = None,
) -> int:
    """Play, and print what came of it.

    Args:
        description: For ``--help``.
        worlds: The worlds, by the option that chooses them; "": without one.
        arguments: Those of the command line.
    """
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--schedules", type=int, default=10_000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--replay", type=int, metavar="SEED")
    for name in filter(None, worlds):
        parser.add_argument(
            f"--{name}", dest="world", action="store_const", const=name, default=""
        )
    given = parser.parse_args(arguments)
    make = worlds[getattr(given, "world", "")]
    if given.replay is not None:
        problems, _ = play_world(make, given.replay, trace=print)
        print(*problems or ["nothing went wrong"], sep="\n")
        return bool(problems)
    began = time.monotonic()
    result = play_many(make, given.schedules, given.seed, given.jobs)
    took = time.monotonic() - began
    for seed, problems in sorted(result.failures.items()):
        print(f"seed {seed}: {'; '.join(problems[:3])}")
    told = ", ".join(f"{name} {n}" for name, n in result.outcomes.most_common())
    print(f"{given.schedules} schedules in {took:.1f} s; records: {told}")
    if result.failures:
        print(f"{len(result.failures)} failed; see --replay SEED")
    return bool(result.failures)
