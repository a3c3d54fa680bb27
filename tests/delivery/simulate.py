"""Plays many seeded schedules against the delivery machine.

``python -m tests.delivery.simulate --schedules 10000 --seed 0 --jobs 2``; a failure
prints its seed, and ``--replay SEED`` prints what happened in it, line by line.
``--transactions`` plays schedules of transactional calls instead of sends.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

from tests.delivery.world.transactions import TransactionWorld
from tests.delivery.world.world import World
from tests.simulating import Result, play_many, play_seeds, play_world, run

if TYPE_CHECKING:
    from collections import Counter


def play_transactions(seed: int, **options: object) -> tuple[list[str], Counter[str]]:
    """Play one schedule of transactions; return what went wrong, and what was told."""
    return play_world(TransactionWorld, seed, **options)


def play(seed: int, **options: object) -> tuple[list[str], Counter[str]]:
    """Play one schedule; return what went wrong, and what was told."""
    return play_world(World, seed, **options)


def _world(*, transactions: bool) -> Any:
    return TransactionWorld if transactions else World


def play_range(first: int, count: int, *, transactions: bool = False) -> Result:
    """Play schedules one after the other."""
    return play_seeds(_world(transactions=transactions), first, count)


def simulate(
    schedules: int, seed: int, jobs: int, *, transactions: bool = False
) -> Result:
    """Play schedules in several processes."""
    return play_many(_world(transactions=transactions), schedules, seed, jobs)


if __name__ == "__main__":
    sys.exit(run(__doc__, {"": World, "transactions": TransactionWorld}))
