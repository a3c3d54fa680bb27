"""Plays many seeded schedules against the processing machine.

``python -m tests.processing.simulate --schedules 10000 --seed 0 --jobs 2``; a failure
prints its seed, and ``--replay SEED`` prints what happened in it, line by line.
"""

from __future__ import annotations

import sys

from tests.processing.world import World
from tests.simulating import run

if __name__ == "__main__":
    sys.exit(run(__doc__, {"": World}))
