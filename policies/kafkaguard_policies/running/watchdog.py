"""Deadlines of coroutines: one timer for all calls of an event loop.

A timer costs more than the whole success path of a retried call, so calls with a
distant deadline share one timer, which runs while any of them runs. It ends a call as
``asyncio.timeout`` does: it cancels the task, and then converts its own cancellation,
and no other, to ``TimeoutError``.
"""

from __future__ import annotations

import asyncio
from asyncio import current_task
from threading import get_ident

#: Seconds between two checks; a deadline may be exceeded by this time.
PERIOD = 0.1
#: A deadline below this gets its own timer.
SHORT = 1.0


class Watched:
    """A watched call. It has no ``__init__``, because it is made often."""

    dog: Watchdog
    task: asyncio.Task[object]
    due: float
    seen = False
    fired = False
    cancelling = 0


class Watchdog:
    """Ends the calls of one event loop at their deadlines."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self.loop = loop
        self.ticks = 0
        self.ticking = False
        self.watched: set[Watched] = set()

    def begin(self) -> None:
        """Start the timer, unless it runs."""
        if not self.ticking:
            self.ticking = True
            self.loop.call_later(PERIOD, self._tick)

    def _tick(self) -> None:
        self.ticks += 1
        self.ticking = False
        for watched in self.watched:
            if not watched.seen:
                watched.seen = True
                watched.cancelling = watched.task.cancelling()
            elif watched.due < self.ticks and not watched.fired:
                watched.fired = True
                watched.task.cancel()
        if self.watched:
            self.begin()


def leave(watched: Watched) -> None:
    """Stop watching a call; undo a cancellation that the call swallowed."""
    watched.dog.watched.remove(watched)
    if watched.fired:
        watched.task.uncancel()


def undo_cancellation(watched: Watched) -> bool:
    """Undo the watchdog's cancellation; return True if it was the only one."""
    if not watched.fired:
        return False
    watched.fired = False
    return watched.task.uncancel() <= watched.cancelling


#: By thread, because asyncio's look-up of the running loop is a system call (3.11).
_watchdogs: dict[int, Watchdog] = {}


def watch(periods: float) -> Watched:
    """Watch the current task for a number of periods, until ``leave``."""
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
