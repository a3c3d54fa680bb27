"""Deadlines of coroutines without a timer each: one tick looks after all of a loop.

A timer costs more than the whole success path of a guarded call, so calls whose
deadline is far away share one that ticks while any of them runs. It ends a call as
``asyncio.timeout`` does: cancel the task, then turn that cancellation, and only that
one, into ``TimeoutError``.
"""

from __future__ import annotations

import asyncio
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
        self._ticks = 0
        self._scheduled = False
        self._watched: dict[Watched, None] = {}

    def enter(self, task: asyncio.Task[object], seconds: float) -> Watched:
        """Watch a task from now on, for ``seconds``."""
        watched = Watched()
        watched.dog = self
        watched.task = task
        watched.due = self._ticks + seconds / PERIOD
        self._watched[watched] = None
        if not self._scheduled:
            self._schedule()
        return watched

    def leave(self, watched: Watched) -> None:
        """Watch a call no longer; a cancellation that it swallowed is taken back."""
        del self._watched[watched]
        if watched.fired:
            watched.task.uncancel()

    def _schedule(self) -> None:
        self._scheduled = True
        self.loop.call_later(PERIOD, self._tick)

    def _tick(self) -> None:
        self._ticks += 1
        self._scheduled = False
        for watched in self._watched:
            self._look_at(watched)
        if self._watched:
            self._schedule()

    def _look_at(self, watched: Watched) -> None:
        if not watched.seen:
            watched.seen = True
            watched.cancelling = watched.task.cancelling()
        elif watched.due < self._ticks and not watched.fired:
            watched.fired = True
            watched.task.cancel()


def was_ours(watched: Watched) -> bool:
    """Tell, once, whether a cancellation was the watchdog's alone."""
    if not watched.fired:
        return False
    watched.fired = False
    return watched.task.uncancel() <= watched.cancelling


#: By thread, since asking asyncio for the running loop costs a system call (3.11).
_watchdogs: dict[int, Watchdog] = {}


def watch(seconds: float) -> Watched:
    """Watch the current task from now on, for ``seconds``; end it with ``leave``."""
    dog = _watchdogs.get(get_ident())
    task = None if dog is None else asyncio.current_task(dog.loop)
    if dog is None or task is None:  # the first in this thread, or a new loop
        dog = _watchdogs[get_ident()] = Watchdog(asyncio.get_running_loop())
        task = asyncio.current_task(dog.loop)
        if task is None:
            raise RuntimeError("a guarded coroutine must be awaited in an asyncio task")
    return dog.enter(task, seconds)
