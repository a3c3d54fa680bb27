"""The machine in the simulated world; and that the world notices a broken machine."""

from __future__ import annotations

import math
from itertools import pairwise

import pytest

from kafkaguard._processing.intake import Intake
from kafkaguard._processing.judging import Decision, Judge
from kafkaguard._processing.lanes import Lanes
from kafkaguard._processing.partitions import Partitions
from kafkaguard._processing.rounds import Rounds
from kafkaguard._processing.slots import Slot
from tests.processing.world import World
from tests.simulating import play_many, play_seeds, play_world

SCHEDULES = 300
#: So many schedules must be enough to notice a fault.
ENOUGH = 4_000


@pytest.mark.parametrize("first", [0, 1_000_000])
def test_nothing_that_must_hold_is_broken(first):
    """In every schedule: order, commits, memory, the end."""
    assert play_seeds(World, first, SCHEDULES).failures == {}


@pytest.mark.parametrize("seed", [1048179, 4951, 6883])
def test_a_schedule_that_found_a_fault_is_played_again(seed):
    """A record that ended the run was handled again and again; a run ended too early."""
    assert play_world(World, seed)[0] == []


def test_schedules_are_played_in_several_processes():
    """With the same outcome."""
    result = play_many(World, 40, 0, 2)
    assert result.failures == {}
    assert result.outcomes == play_seeds(World, 0, 40).outcomes


def test_a_schedule_can_be_traced(capsys):
    """Line by line."""
    play_world(World, 3, trace=print)
    assert "assigned" in capsys.readouterr().out


class HalfHour(World):
    """One record takes half an hour; nothing else goes wrong."""

    def __init__(self, seed):
        super().__init__(seed)
        self.is_rough = False
        self.behaviour, self.outage = {}, (math.inf, math.inf)
        self.polls = [0.0]
        machine, poll = self.machine, self.machine.polled
        machine.polled = lambda now: (self.polls.append(now), poll(now))

    def _time(self, record):
        is_first = record is self.logs[0].records[0]
        return 1800.0 if is_first else super()._time(record)


def test_a_handler_of_half_an_hour_keeps_its_partitions():
    """The client is polled meanwhile, and each record is handled and committed once."""
    worlds = (HalfHour(seed) for seed in range(200))
    worlds = [
        world
        for world in worlds
        if world.ending != "stop" and not world.exactly_once and world.logs[0].records
    ]
    assert len(worlds) > 30
    assert {world.order for world in worlds} == {"partition", "key", "none"}
    for world in worlds:
        assert world.play() == []
        assert world.now >= 1800
        assert max(b - a for a, b in pairwise(world.polls)) < 5.1
        assert set(world.returned.values()) == {1}
        report = world.machine.report()
        records = sum(len(log.records) for log in world.logs)
        assert (report.processed, report.committed) == (records, records)
        assert (report.late, report.abandoned, report.redelivered) == (0, 0, 0)


def _commit_all(_self, _offset_of):
    return _self.next


def _never_waits(self, slot, lane):
    if lane.queue and not lane.is_ready and not lane.is_busy:
        lane.is_ready = True
        slot.ready.append(lane)
        self._queue(slot)


def _always_retries(self, error, topic):
    judgement = _judge(self, error, topic)
    if judgement.decision is Decision.WAIT:
        return judgement._replace(decision=Decision.REJECT)
    return judgement


_judge = Judge.judge
_take_from = Lanes._take_from


def _never_busy(self, slot, size, now):
    chunk = _take_from(self, slot, size, now)
    for lane in chunk.lanes if chunk else ():
        lane.is_busy = False
    return chunk


FAULTS = {
    "commits what is not done": (Slot, "position", _commit_all),
    "forgets what waits": (Lanes, "make_ready", _never_waits),
    "sets aside what waits for a dependency": (Judge, "judge", _always_retries),
    "never pauses": (Intake, "_update_pauses", lambda *_, **__: None),
    "gives a lane to two workers": (Lanes, "_take_from", _never_busy),
    "does not abort a round": (Rounds, "fail", lambda _: None),
    "does not end drains": (Partitions, "end_drains", lambda *_: None),
    "handles what is revoked": (Slot, "close", lambda *_: None),
    "forgets redone records": (Slot, "rewind", lambda _: None),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_a_broken_machine_is_noticed(monkeypatch, fault):
    """Each of these changes breaks a promise in some schedule."""
    owner, name, broken = FAULTS[fault]
    monkeypatch.setattr(owner, name, broken)
    for seed in range(ENOUGH):
        if play_world(World, seed)[0]:
            return
    pytest.fail(f"no schedule of {ENOUGH} notices it")
