"""Shells whose client shows its answers: when a reset is the client's own."""

from __future__ import annotations

import pytest

from kafkaguard._consuming.machine import ReadRefusal
from kafkaguard_adapters.consuming import questions
from kafkaguard_adapters.consuming.answers_shell import AnswersShell
from tests.consuming.test_driver import A, B, World

OUT_OF_RANGE = ReadRefusal(1, position=5)


class Answering(AnswersShell):
    """A shell with an assignment and nothing else."""

    def __init__(self, *, reads_followers=False):
        super().__init__(reads_followers=reads_followers)
        self.assigned = {A, B}

    def assignment(self):
        """Return what is assigned."""
        return self.assigned

    def wake(self):
        """Nothing to wake."""


@pytest.fixture
def world(monkeypatch):
    """A driver with such a shell, on a log that has lost the position 5."""

    async def ask_range(*_):
        return 9, 12

    monkeypatch.setattr(questions, "ask_range", ask_range)
    made = World()
    made.driver._shell = made.shell = Answering()
    made.shell.driver = made.driver
    return made


def is_reported(world, place=A):
    """Give an answer "out of range", as a client; return whether the guard takes it."""
    if world.shell.lets_client_reset(place):
        return False
    world.driver.refused(place, OUT_OF_RANGE)
    world.answer()
    world.later(0.0)
    return True


def test_each_reset_is_judged_and_left_to_the_client_once(world):
    """Two positions that are lost one after the other are two resets, each told."""
    for count in (1, 2):
        assert is_reported(world)
        assert not is_reported(world)
        world.shell.read_again(A, 9)
        world.later(0.0)
        assert [each.lost for each in world.events if hasattr(each, "lost")] == (
            [4] * count
        )


def test_a_permit_counts_for_one_answer(world):
    """The start of the log may have moved on before the client has read there."""
    for _ in range(2):
        assert is_reported(world)
        assert not is_reported(world)
    assert len(world.events) == 2


def test_a_permit_ends_with_the_next_read(world):
    """The user has sought another offset, so the client never asked for the old one."""
    assert is_reported(world)
    world.shell.read_again(A, 40)
    world.driver.refused(A, ReadRefusal(6))
    assert is_reported(world)


def test_a_permit_does_not_come_back_with_the_partition(world):
    """It went away before the client has used it."""
    assert is_reported(world)
    world.shell.assigned = {B}
    world.later(0.0)
    world.shell.assigned = {A, B}
    world.later(0.0)
    assert is_reported(world)


def test_a_permit_is_for_one_partition(world):
    """Another one that is lost at the same time is judged by itself."""
    assert is_reported(world)
    assert is_reported(world, B)
    assert not is_reported(world, B)
    assert not is_reported(world)


def test_a_client_that_reads_followers_asks_the_leader_itself(world):
    """A follower may be behind its leader."""
    world.shell._reads_followers = True
    assert not is_reported(world)
    assert not is_reported(world)
    assert world.events == []
