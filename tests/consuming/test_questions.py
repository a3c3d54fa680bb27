"""What a consumer's guard asks brokers: where it would read, and for how long."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace

import pytest

from kafkaguard import errors
from kafkaguard._cluster.offsets import EARLIEST, LATEST
from kafkaguard._cluster.reports import TopicPartition, make
from kafkaguard._consuming.machine import FETCH, LIST_OFFSETS
from kafkaguard_adapters.asking import tiered_offsets
from kafkaguard_adapters.asking.cluster_view import ClusterView
from kafkaguard_adapters.asking.tiered_offsets import TieredOffsets
from kafkaguard_adapters.consuming import questions
from kafkaguard_adapters.consuming.questions import Origin
from kafkaguard_adapters.wire.settings import Settings

A = TopicPartition("t", 0)
DENIED = make(29, topic="t", partition=0)


class Brokers:
    """Answers to the questions, in place of brokers.

    Attributes:
        limits: How long each question may take, in seconds.
        probed: Where the log was read.
    """

    def __init__(self, monkeypatch):
        self.leader, self.committed, self.refusal = 1, None, None
        self.starts = SimpleNamespace(offset=9, error=None)
        self.limits, self.probed = [], []
        monkeypatch.setattr(questions, "find_leaders", self._leaders)
        monkeypatch.setattr(questions, "_find_committed", self._committed)
        monkeypatch.setattr(questions, "probe", self._probe)
        monkeypatch.setattr(questions, "OffsetLister", self._lister)
        self.view = SimpleNamespace(cluster=lambda: None, facts=self)

    def _note(self, deadline):
        self.limits.append(deadline - asyncio.get_running_loop().time())

    async def get(self, _, topics, deadline):
        """Return facts about topics."""
        self._note(deadline)
        return dict.fromkeys(topics, "facts")

    async def _leaders(self, _, __, deadline):
        self._note(deadline)
        return SimpleNamespace(of=lambda _: self.leader)

    async def _committed(self, _, __, group):
        return None if group is None else self.committed

    async def _probe(self, _, __, ___, position, *, deadline, facts):
        self._note(deadline)
        self.probed.append(position)
        return self.refusal

    def _lister(self, _, __, deadline):
        self._note(deadline)
        answers = {
            EARLIEST: self.starts,
            LATEST: SimpleNamespace(offset=12, error=None),
        }

        async def list_offsets(wanted):
            return {place: answers[when] for place, when in wanted.items()}

        return SimpleNamespace(list=list_offsets)


@pytest.fixture
def brokers(monkeypatch):
    """Brokers that answer all questions."""
    return Brokers(monkeypatch)


@pytest.mark.parametrize(
    ("position", "committed", "origin", "at"),
    [
        (5, 7, Origin("g", is_earliest=True), [5]),
        (0, 7, Origin("g"), [0]),
        (None, 7, Origin("g"), [7]),
        (None, 0, Origin("g", is_earliest=True), [0]),
        (None, 7, Origin(None, is_earliest=True), [9]),
        (None, None, Origin("g", is_earliest=True), [9]),
        (None, None, Origin("g"), []),
    ],
    ids=["read", "read from 0", "committed", "at 0", "no group", "start", "end"],
)
async def test_a_probe_reads_where_the_consumer_would(
    brokers, position, committed, origin, at
):
    """At its position, else at the commit of its group, else where it begins."""
    brokers.committed = committed
    assert await questions.ask_probe(brokers.view, A, position, origin) is None
    assert brokers.probed == at
    brokers.refusal = DENIED
    refusal = await questions.ask_probe(brokers.view, A, position, origin)
    assert [refusal.position] * len(at) == at if at else refusal is None


async def test_a_probe_tells_the_first_thing_that_is_wrong(brokers):
    """No leader; or no start, also if the consumer begins at the end."""
    brokers.starts = SimpleNamespace(offset=None, error=DENIED)
    for is_earliest in (True, False):
        origin = Origin(is_earliest=is_earliest)
        refusal = await questions.ask_probe(brokers.view, A, None, origin)
        assert (refusal.code, refusal.api) == (29, LIST_OFFSETS)
    brokers.leader = make(5)
    refusal = await questions.ask_probe(brokers.view, A, 3, Origin())
    assert (refusal.code, refusal.api, refusal.position) == (5, FETCH, 3)
    assert brokers.probed == []


async def test_the_range_of_a_log_is_its_start_and_end(brokers):
    """An error of one of them is raised."""
    assert await questions.ask_range(brokers.view, A) == (9, 12)
    brokers.starts = SimpleNamespace(offset=None, error=DENIED)
    with pytest.raises(errors.TopicAuthorizationFailedError):
        await questions.ask_range(brokers.view, A)


async def test_each_question_may_take_seconds(brokers):
    """A broker that is busy answers late, and that is no failure."""
    await questions.ask_range(brokers.view, A)
    await questions.ask_facts(brokers.view, "t")
    await questions.ask_probe(brokers.view, A, None, Origin(is_earliest=True))
    assert len(brokers.limits) == 5
    assert all(4 < each <= 5 for each in brokers.limits)


async def test_the_look_up_whether_a_topic_is_tiered_may_take_seconds(brokers):
    """But no longer than the caller waits."""
    for given, least, most in ((60, 4, 5), (2, 1, 2)):
        brokers.limits.clear()

        async def get(_, topics, deadline):
            brokers._note(deadline)
            return {topic: SimpleNamespace(tiered=False) for topic in topics}

        view = SimpleNamespace(cluster=lambda: None, facts=SimpleNamespace(get=get))
        found = await TieredOffsets(view, "read_committed").find({A: LATEST}, given)
        assert found is None
        (limit,) = brokers.limits
        assert least < limit <= most


@pytest.mark.parametrize("times", [{A: "x"}, {A: None}, {A: -1}, {5: 5}, {A: [1]}])
async def test_what_the_client_refuses_is_not_asked(monkeypatch, times):
    """Its own error is raised, by its own call."""

    def nobody(*_):
        raise AssertionError("a broker was asked")

    monkeypatch.setattr(tiered_offsets, "OffsetLister", nobody)
    view = SimpleNamespace(cluster=nobody)
    assert await TieredOffsets(view, "read_committed").find_times(times, 5) is None


def test_connections_belong_to_the_event_loop_that_made_them():
    """A client of aiokafka may be used in one loop after the other."""
    view = ClusterView(lambda: Settings((("127.0.0.1", 1),)), make)

    async def twice():
        assert view.cluster() is view.cluster()
        return view.cluster()

    first, second = asyncio.run(twice()), asyncio.run(twice())
    assert first is not second
