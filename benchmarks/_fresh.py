"""Measuring in fresh processes.

How a process happens to lie in memory, and what its compilers have seen so far, is
worth more than some differences that are measured here. So: the median of several.
"""

from __future__ import annotations

from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context

RUNS = 5


def in_fresh_processes(function, *args, runs=RUNS):
    """Call a function in one process after the other; return what each returned."""
    spawn = get_context("spawn")
    with ProcessPoolExecutor(1, spawn, max_tasks_per_child=1) as pool:
        return [pool.submit(function, *args).result() for _ in range(runs)]
