"""What a forked child does with the producer of its parent; without a fork."""

from __future__ import annotations

import threading

import pytest

from kafkaguard._delivery.report import ForkedProducerError
from kafkaguard_adapters.producing.forks import ForkGuard
from tests.delivery.world.words import PlainErrors

LONG_S = 30.0


class Guarded:
    """A guarded producer.

    Attributes:
        failures: What building a client raises, in turn.
        built: How many clients were built.
    """

    def __init__(self, *failures, can_build=True):
        self.failures, self.built = [*failures], 0
        self.can_build = can_build
        self.may_build = threading.Event()
        self.may_build.set()

    def leave_to_parent(self):
        """Return the client of the parent."""
        return "client"

    def can_begin_again(self):
        """As a test says."""
        return self.can_build

    def begin_again(self):
        """Build a client."""
        self.may_build.wait(LONG_S)
        if self.failures:
            raise self.failures.pop(0)
        self.built += 1


def test_a_client_that_could_not_be_built_in_a_child_is_built_by_the_next_call():
    """Each call fails until one has built it; no call uses the parent's client."""
    guarded = Guarded(ConnectionError("away"), ConnectionError("still away"))
    forks = ForkGuard(guarded, PlainErrors(), "Producer")
    forks.ensure_client()
    assert forks.after_fork() == "client"
    for _ in range(2):
        with pytest.raises(ConnectionError):
            forks.ensure_client()
        assert forks.is_forked
    forks.ensure_client()
    forks.ensure_client()
    assert (forks.is_forked, guarded.built) == (False, 1)


def test_a_child_of_a_child_builds_a_client_of_its_own():
    """The second fork is as the first one."""
    guarded = Guarded()
    forks = ForkGuard(guarded, PlainErrors(), "Producer")
    for _ in range(2):
        forks.after_fork()
        forks.ensure_client()
    assert guarded.built == 2


def test_threads_of_a_child_build_one_client():
    """The second thread waits for the first one's client."""
    guarded = Guarded()
    guarded.may_build.clear()
    forks = ForkGuard(guarded, PlainErrors(), "Producer")
    forks.after_fork()
    threads = [threading.Thread(target=forks.in_child) for _ in range(3)]
    for thread in threads:
        thread.start()
    guarded.may_build.set()
    for thread in threads:
        thread.join(LONG_S)
    assert (guarded.built, forks.is_forked) == (1, False)


def test_a_lock_that_the_parent_held_at_the_fork_does_not_hold_up_the_child():
    """The thread that held it is not in the child."""
    guarded = Guarded()
    forks = ForkGuard(guarded, PlainErrors(), "Producer")
    forks._lock.acquire()
    forks.after_fork()
    builds = threading.Thread(target=forks.ensure_client, daemon=True)
    builds.start()
    builds.join(LONG_S)
    assert guarded.built == 1


def test_a_child_without_a_factory_is_told_so_at_each_call():
    """Nothing was built, and the producer stays the parent's."""
    guarded = Guarded(can_build=False)
    forks = ForkGuard(guarded, PlainErrors(), "Producer")
    forks.after_fork()
    for _ in range(2):
        with pytest.raises(ForkedProducerError, match="factory=Producer"):
            forks.ensure_client()
    assert forks.is_forked
