"""The watchdog of coroutines, with a loop and tasks that are played."""

from __future__ import annotations

import pytest

from kafkaguard_policies.running.watchdog import (
    PERIOD,
    Watchdog,
    Watched,
    leave,
    undo_cancellation,
    watch,
)


class Loop:
    """Notes who wants to be called, and calls when told."""

    def __init__(self):
        self.due = []

    def call_later(self, seconds, function):
        """Note it."""
        self.due.append((seconds, function))

    def tick(self):
        """Call what is due."""
        ((seconds, function),) = self.due
        assert seconds == PERIOD
        self.due.clear()
        function()


class Task:
    """Counts its cancellations, as asyncio's task does."""

    def __init__(self, cancelled=0):
        self.cancelled = cancelled

    def cancel(self):
        """Ask it to end."""
        self.cancelled += 1

    def uncancel(self):
        """Take one back."""
        self.cancelled -= 1
        return self.cancelled

    def cancelling(self):
        """Tell how many there are."""
        return self.cancelled


def watching(dog, periods, task=None):
    """Let a watchdog watch a played task."""
    watched = Watched()
    watched.dog, watched.task = dog, task or Task()
    watched.due = dog.ticks + periods
    dog.watched.add(watched)
    dog.begin()
    return watched


def test_it_ticks_while_it_watches_and_no_longer():
    """One timer, however many calls there are."""
    dog = Watchdog(Loop())
    one, other = watching(dog, 9), watching(dog, 9)
    assert len(dog.loop.due) == 1
    assert dog.ticking
    leave(one)
    dog.loop.tick()
    assert len(dog.loop.due) == 1
    leave(other)
    dog.loop.tick()
    assert (dog.loop.due, dog.ticking, dog.ticks) == ([], False, 2)
    watching(dog, 1)
    assert len(dog.loop.due) == 1


def test_a_call_is_cancelled_once_when_its_time_is_over():
    """After as many ticks as it has periods, and never at its first look."""
    dog = Watchdog(Loop())
    short, longer = watching(dog, 0.5), watching(dog, 2)
    dog.loop.tick()  # the first look at them
    assert (short.task.cancelled, longer.task.cancelled) == (0, 0)
    dog.loop.tick()
    assert (short.task.cancelled, longer.task.cancelled) == (1, 0)
    dog.loop.tick()
    assert (short.task.cancelled, longer.task.cancelled) == (1, 1)
    dog.loop.tick()
    assert (short.task.cancelled, longer.task.cancelled) == (1, 1)


def test_leaving_takes_back_the_watchdogs_cancellation_alone():
    """A call that went on in spite of it leaves its task as it was."""
    dog = Watchdog(Loop())
    fired, quiet = watching(dog, 0, Task(1)), watching(dog, 99, Task(1))
    dog.loop.tick()
    dog.loop.tick()
    assert (fired.task.cancelled, quiet.task.cancelled) == (2, 1)
    leave(fired)
    leave(quiet)
    assert (fired.task.cancelled, quiet.task.cancelled) == (1, 1)
    assert dog.watched == set()


def test_whose_cancellation_it_was_is_told_once():
    """The watchdog's alone: a timeout. Somebody else's, too: a cancellation."""
    dog = Watchdog(Loop())
    quiet = watching(dog, 99)
    assert not undo_cancellation(quiet)
    for before, others, ours in ((0, 0, True), (1, 0, True), (0, 1, False)):
        watched = watching(dog, 0, Task(before))
        dog.loop.tick()
        dog.loop.tick()
        watched.task.cancelled += others
        assert ours is undo_cancellation(watched)
        assert before + others == watched.task.cancelled
        assert not undo_cancellation(watched)


def test_outside_a_task_there_is_nothing_to_watch():
    """A retried coroutine outside a task raises an error that says what is needed."""
    import asyncio

    async def main():
        caught = []

        def outside():
            try:
                watch(1)
            except RuntimeError as error:
                caught.append(error)

        asyncio.get_running_loop().call_soon(outside)
        await asyncio.sleep(0)
        return caught

    (error,) = asyncio.run(main())
    with pytest.raises(RuntimeError, match="must be awaited in an asyncio task"):
        raise error
