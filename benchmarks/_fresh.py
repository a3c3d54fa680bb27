"""Measure in fresh processes.

The memory layout of a process and the state of its compilers matter more than some of
the measured differences. So the result is the median of several processes.
"""

from __future__ import annotations

from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context

RUNS = 5


def in_fresh_processes(function, *args, runs=RUNS):
    """Call a function in several processes in turn; return all results."""
    spawn = get_context("spawn")
    with ProcessPoolExecutor(1, spawn, max_tasks_per_child=1) as pool:
        return [pool.submit(function, *args).result() for _ in range(runs)]
