"""Deadlines of coroutines without a timer each: one tick looks after all of a loop.

A timer costs more than the whole success path of a guarded call, so calls whose
deadline is far away share one that ticks while any of them runs. It ends a call as
``asyncio.timeout`` does: cancel the task, then turn that cancellation, and only that
one, into ``TimeoutError``.
"""

from __future__ import annotations

import asyncio
from asyncio import current_task
from threading import get_ident

#: Seconds between two looks; a deadline may be missed by as much.
PERIOD = 0.1
#: Deadlines below this are worth a timer of their own.
SHORT = 1.0


class Watched:
    """A call that is being watched. Made often, so without an ``__init__``."""

    dog: Watchdog
    task: asyncio.Task[object]
    due: float
    seen = False
    fired = False
    cancelling = 0


class Watchdog:
    """Looks after the deadlines of the calls of one event loop."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self.loop = loop
        self.ticks = 0
        self.ticking = False
        self.watched: set[Watched] = set()

    def begin(self) -> None:
        """Begin to tick, unless it does."""
        if not self.ticking:
            self.ticking = True
            self.loop.call_later(PERIOD, self._tick)

    def _tick(self) -> None:
        self.ticks += 1
        self.ticking = False
        for watched in self.watched:
            self._look_at(watched)
        if self.watched:
            self.begin()

    def _look_at(self, watched: Watched) -> None:
        if not watched.seen:
            watched.seen = True
            watched.cancelling = watched.task.cancelling()
        elif watched.due < self.ticks and not watched.fired:
            watched.fired = True
            watched.task.cancel()


def leave(watched: Watched) -> None:
    """Watch a call no longer; a cancellation that it swallowed is taken back."""
    watched.dog.watched.remove(watched)
    if watched.fired:
        watched.task.uncancel()


def was_ours(watched: Watched) -> bool:
    """Tell, once, whether a cancellation was the watchdog's alone."""
    if not watched.fired:
        return False
    watched.fired = False
    return watched.task.uncancel() <= watched.cancelling


#: By thread, since asking asyncio for the running loop costs a system call (3.11).
_watchdogs: dict[int, Watchdog] = {}


def watch(periods: float) -> Watched:
    """Watch the current task from now on, for so many periods; end: ``leave``."""
    dog = _watchdogs.get(get_ident())
    task = None if dog is None else current_task(dog.loop)
    if dog is None or task is None:  # the first in this thread, or a new loop
        dog = _watchdogs[get_ident()] = Watchdog(asyncio.get_running_loop())
        task = current_task(dog.loop)
        if task is None:
            raise RuntimeError("a guarded coroutine must be awaited in an asyncio task")
    watched = Watched()
    watched.dog = dog
    watched.task = task
    watched.due = dog.ticks + periods
    dog.watched.add(watched)
    if not dog.ticking:
        dog.begin()
    return watched
