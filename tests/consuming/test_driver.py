"""The driver: commands are carried out, answers come back on the thread that polls."""

from __future__ import annotations

import asyncio
import logging
from concurrent.futures import Future

import pytest

from kafkaguard import RetryPolicy, TopicFacts, errors
from kafkaguard._cluster.reports import TopicPartition, make
from kafkaguard._consuming import events as ev
from kafkaguard._consuming.machine import ConsumerMachine, ReadRefusal
from kafkaguard._consuming.standing import Reader
from kafkaguard_adapters.asking import cluster_view
from kafkaguard_adapters.asking.cluster_view import ClusterView
from kafkaguard_adapters.consuming import questions
from kafkaguard_adapters.consuming.driver import Driver

A, B = TopicPartition("t", 0), TopicPartition("t", 1)


class Shell:
    """A client that remembers what it was told."""

    def __init__(self):
        self.held, self.resettable, self.failures = set(), set(), []
        self.ended = []
        self.restarted = set()
        self.assigned = {A, B}
        self.at = {}

    def assignment(self):
        """Return what is assigned."""
        return self.assigned

    def hold(self, place):
        """Hold."""
        self.held.add(place)

    def free(self, place):
        """Free."""
        self.held.discard(place)

    def let_reset(self, place):
        """Let the client reset."""
        self.resettable.add(place)

    def restart(self, places):
        """Look up again where to begin."""
        self.restarted |= places

    def fail(self, place, error):
        """Raise an error from the next poll."""
        self.failures.append(error)

    def end(self, error):
        """Raise an error from each poll."""
        self.ended.append(error)

    def readers(self):
        """Return where the readers are."""
        return self.at

    def wake(self):
        """Nothing to wake."""


class World:
    """A driver with a clock to turn and questions that are answered when told to."""

    def __init__(self, **policy):
        self.now, self.events, self.open = 0.0, [], []
        self.shell = Shell()
        self.view = ClusterView(lambda: None, make)
        machine = ConsumerMachine(
            RetryPolicy(**policy), make, lambda: 0.5, client="test"
        )
        self.driver = Driver(
            machine,
            self.shell,
            self.view,
            self.launch,
            self.events.append,
            clock=lambda: self.now,
        )

    def launch(self, coroutine):
        """Start a question: it runs when `answer` is called."""
        future = Future()
        self.open.append((coroutine, future))
        return future

    def answer(self):
        """Run the questions that are open, elsewhere as it were."""
        questions, self.open = self.open, []
        for coroutine, future in questions:
            try:
                future.set_result(asyncio.run(coroutine))
            except Exception as error:
                future.set_exception(error)

    def later(self, seconds):
        """Let time pass, and come by."""
        self.now += seconds
        self.driver.tick()


@pytest.fixture
def cluster(monkeypatch):
    """Answers to the questions of a driver; an exception is raised."""
    answers = {}

    def stub(name):
        async def question(*_):
            if isinstance(answers[name], Exception):
                raise answers[name]
            return answers[name]

        return question

    for name in ("ask_facts", "ask_range", "ask_probe"):
        monkeypatch.setattr(questions, name, stub(name))
    return answers


def test_a_partition_is_held_told_shown_and_freed():
    """From the refusal to the read that succeeds, with one event for each end."""
    world = World()
    world.driver.refused(A, ReadRefusal(6, position=3))
    assert {A} == world.shell.held
    assert list(world.view.read_errors) == [A]
    world.later(0.01)
    world.later(0.2)
    assert set() == world.shell.held
    world.driver.answered(A, 3)
    assert world.view.read_errors == {}
    world.later(0.0)
    kinds = [ev.PartitionWaitsEvent, ev.PartitionResumesEvent]
    assert kinds == [type(each) for each in world.events]


def test_answers_are_taken_in_when_the_polling_thread_comes_by(cluster):
    """A question's answer changes nothing before that."""
    cluster["ask_facts"] = TopicFacts(tiered=True)
    world = World()
    world.driver.refused(A, ReadRefusal(9))
    world.answer()
    assert world.events == []
    world.later(0.0)
    (event,) = world.events
    assert isinstance(event.error, errors.RemoteStorageNotReadyError)


def test_settings_that_cannot_be_had_leave_the_code_as_it_is(cluster):
    """If topic settings cannot be looked up, the error keeps its code."""
    cluster["ask_facts"] = errors.ClientTimeoutError("silent")
    world = World()
    world.driver.refused(A, ReadRefusal(9))
    world.answer()
    world.later(0.0)
    assert world.events[0].error.code == 9


@pytest.mark.parametrize("bug", [ValueError("a bug"), KeyError("t")])
def test_a_bug_of_ours_leaves_the_reset_to_the_client(cluster, caplog, bug):
    """It is logged, and never raised by a poll."""
    cluster["ask_range"] = bug
    world = World()
    world.driver.refused(A, ReadRefusal(1, position=5))
    assert {A} == world.shell.held
    world.answer()
    with caplog.at_level(logging.ERROR, "kafkaguard.consumer"):
        world.later(0.0)
    assert ({A}, set()) == (world.shell.resettable, world.shell.held)
    assert "cannot be looked up" in caplog.text


def test_a_fenced_member_ends_once_and_is_told_once():
    """A later report, such as that of a commit, changes nothing."""
    world, error = World(), make(82)
    world.driver.fenced(error)
    world.driver.fenced(make(82))
    world.later(1.0)
    assert world.shell.ended == [error]
    assert [each.error for each in world.events] == [error]


def test_what_is_revoked_is_forgotten_at_the_next_tick():
    """The assignment is looked at while something waits."""
    world = World()
    world.driver.refused(A, ReadRefusal(6))
    world.driver.refused(B, ReadRefusal(6))
    world.shell.assigned = {B}
    world.later(0.0)
    assert {B} == world.shell.held
    assert list(world.view.read_errors) == [B]


def test_a_client_that_shows_nothing_is_probed(cluster):
    """It is held until a probe succeeds."""
    cluster["ask_probe"] = ReadRefusal(5, position=1)
    world = World()
    world.shell.at = {A: Reader(1, 9), B: Reader(9, 9)}
    world.driver.check_positions()
    world.now = 1.0
    world.driver.check_positions()
    world.answer()
    world.later(0.0)
    assert {A} == world.shell.held
    cluster["ask_probe"] = None
    world.later(0.2)
    world.answer()
    world.later(0.0)
    assert set() == world.shell.held


def test_where_the_cluster_cannot_be_asked_that_is_said_once(cluster, caplog):
    """Without settings no partition is held, and no poll fails."""
    cluster["ask_probe"] = errors.ClientConfigurationError("no settings")
    world = World()
    world.shell.at = {A: Reader(1, 9)}
    with caplog.at_level(logging.WARNING, "kafkaguard.consumer"):
        for _ in range(9):
            world.driver.check_positions()
            world.answer()
            world.later(1.0)
    assert caplog.text.count("cannot check partitions without progress") == 1
    assert set() == world.shell.held


@pytest.mark.parametrize("has_read", [False, True])
def test_wrong_setting_is_raised_only_before_the_first_answer(monkeypatch, has_read):
    """Later it is no setting that keeps the client out; it is asked once at a time."""
    wrong = errors.ClientConfigurationError("another security protocol")

    async def find_wrong_setting(*_):
        return wrong

    monkeypatch.setattr(cluster_view, "find_wrong_setting", find_wrong_setting)
    world = World()
    world.shell.at = {A: Reader(1, 9 if has_read else None)}
    world.driver.check_positions()
    world.driver.unconnected()
    world.driver.unconnected()
    assert len(world.open) == (not has_read)
    world.answer()
    world.later(0.0)
    assert world.shell.failures == ([] if has_read else [wrong])
    world.driver.unconnected()
    assert len(world.open) == (not has_read)
    for coroutine, _ in world.open:
        coroutine.close()


def test_outage_raises_nothing(monkeypatch):
    """Brokers that cannot be reached may come back."""

    async def find_wrong_setting(*_):
        return None

    monkeypatch.setattr(cluster_view, "find_wrong_setting", find_wrong_setting)
    world = World()
    world.driver.unconnected()
    world.answer()
    world.later(0.0)
    assert world.shell.failures == []


def test_a_client_without_a_start_looks_it_up_again(cluster):
    """Also where the cluster cannot be asked, because no settings are known."""
    world = World()
    world.driver.stop_probing()
    world.shell.at = {A: Reader(None, needs_commit=True), B: Reader(4)}
    world.driver.starts_unknown(make(16, api="OffsetFetch"))
    assert list(world.view.read_errors) == [A]
    world.later(0.0)
    assert set() == world.shell.restarted
    world.later(1.0)
    assert {A} == world.shell.restarted
    world.shell.at = {A: Reader(2), B: Reader(4)}
    world.driver.check_positions()
    world.later(0.0)
    assert world.view.read_errors == {}
    kinds = [ev.PartitionWaitsEvent, ev.PartitionResumesEvent]
    assert kinds == [type(each) for each in world.events]


def test_a_hook_that_raises_changes_nothing(caplog):
    """It is logged; the partition is held as ever."""
    world = World()
    world.driver._hooks = (lambda _: 1 / 0,)
    world.driver.refused(A, ReadRefusal(6))
    with caplog.at_level(logging.ERROR, "kafkaguard.events"):
        world.later(0.0)
    assert "ZeroDivisionError" in caplog.text
    assert {A} == world.shell.held


@pytest.mark.parametrize(
    ("refusal", "answer", "asked"),
    [(ReadRefusal(1, position=5), (0, 9), 1), (ReadRefusal(9), TopicFacts(), 0)],
    ids=["range", "facts"],
)
def test_a_question_that_was_cancelled_is_no_end(cluster, refusal, answer, asked):
    """Twice in a row the partition is tried again, and at last its question answered."""
    cluster["ask_range"] = cluster["ask_facts"] = answer
    world = World(on_offset_reset="raise")
    world.driver.refused(A, refusal)
    for _ in range(2):
        for coroutine, future in world.open:
            coroutine.close()
            future.cancel()
        world.open.clear()
        world.later(0.0)
        assert {A} == world.shell.held
        world.later(30.0)
        assert set() == world.shell.held
        world.driver.refused(A, refusal)
        assert len(world.open) == asked
    world.answer()
    world.later(30.0)
    world.driver.answered(A, 5)
    assert (world.view.read_errors, world.shell.failures) == ({}, [])


def test_a_probe_that_was_cancelled_is_made_again(cluster, caplog):
    """It says nothing about the partition, and probing goes on."""
    cluster["ask_probe"] = ReadRefusal(5, position=1)
    world = World()
    world.shell.at = {A: Reader(1, 9)}
    world.driver.check_positions()
    world.now = 1.0
    world.driver.check_positions()
    ((coroutine, future),) = world.open
    coroutine.close()
    future.cancel()
    world.open.clear()
    for _ in range(20):
        world.later(1.0)
        world.driver.check_positions()
        world.answer()
    world.later(0.0)
    assert list(world.view.read_errors) == [A]
    assert caplog.text == ""


def test_a_search_for_a_wrong_setting_that_was_cancelled_is_made_again(monkeypatch):
    """It tells nothing; the next report of the client asks again."""
    wrong = errors.ClientConfigurationError("another security protocol")

    async def find_wrong_setting(*_):
        return wrong

    monkeypatch.setattr(cluster_view, "find_wrong_setting", find_wrong_setting)
    world = World()
    world.driver.unconnected()
    ((coroutine, future),) = world.open
    coroutine.close()
    future.cancel()
    world.open.clear()
    world.later(0.0)
    assert (world.events, world.shell.failures) == ([], [])
    world.driver.unconnected()
    world.answer()
    world.later(0.0)
    assert world.shell.failures == [wrong]


def test_an_answer_after_a_rebalance_is_about_nobody(cluster):
    """A probe of a partition that went away meanwhile holds and raises nothing."""
    cluster["ask_probe"] = make(29, topic="t")
    cluster["ask_probe"] = ReadRefusal(29, position=1)
    world = World()
    world.shell.at = {A: Reader(1, 9)}
    world.driver.check_positions()
    world.now = 1.0
    world.driver.check_positions()
    world.shell.assigned = {B}
    world.answer()
    world.later(0.0)
    assert (world.shell.held, world.shell.failures, world.events) == (set(), [], [])


def test_what_waits_is_followed_through_two_rebalances():
    """A partition that comes back has no old error, and may wait anew."""
    world = World()
    for _ in range(2):
        world.driver.refused(A, ReadRefusal(6))
        assert {A} == world.shell.held
        world.shell.assigned = {B}
        world.later(0.0)
        assert (world.shell.held, world.view.read_errors) == (set(), {})
        world.shell.assigned = {A, B}
        world.later(0.0)
        assert set() == world.shell.held


def test_a_partition_that_the_client_resets_is_forgotten_when_it_goes_away(cluster):
    """Nothing is due then, and it is not shown as one that cannot be read for ever."""
    cluster["ask_range"] = 9, 12
    world = World()
    world.driver.refused(A, ReadRefusal(1, position=5))
    world.answer()
    world.later(0.0)
    assert ({A}, [A]) == (world.shell.resettable, list(world.view.read_errors))
    world.shell.assigned = {B}
    world.later(0.0)
    assert world.view.read_errors == {}


def test_what_is_queued_is_due_at_once(cluster):
    """An answer, or an event of another thread, does not wait for the next step."""
    cluster["ask_range"] = 0, 9
    world = World()
    assert world.driver.seconds_left() == float("inf")
    world.driver.refused(A, ReadRefusal(1, position=5))
    assert world.driver.seconds_left() == float("inf")
    world.answer()
    assert world.driver.seconds_left() == 0
    world.later(0.0)
    assert 0 < world.driver.seconds_left() < float("inf")
    world.driver.note(ev.PartitionResumesEvent)
    assert world.driver.seconds_left() == 0


def test_a_question_that_was_answered_is_let_go(cluster):
    """Nothing grows with the number of questions."""
    cluster["ask_facts"] = TopicFacts()
    world = World()
    for _ in range(3):
        world.driver.refused(A, ReadRefusal(9))
        assert len(world.driver._running) == 1
        world.answer()
        assert world.driver._running == set()
        world.later(30.0)
        world.driver.answered(A, 1)


def test_closing_gives_up_what_is_asked(cluster):
    """What was told already reaches the hook."""
    world = World()
    world.driver.refused(A, ReadRefusal(9))
    world.driver.refused(B, ReadRefusal(6))
    world.driver.close()
    assert [ev.PartitionWaitsEvent] == [type(each) for each in world.events]
    coroutine, future = world.open.pop()
    assert future.cancelled()
    assert world.driver.seconds_left() > 0
    coroutine.close()
