"""What the guarded AIOKafkaConsumer reports of its fetcher, around one of a test."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace

import pytest
from aiokafka.errors import KafkaConnectionError, KafkaError, NotLeaderForPartitionError
from aiokafka.protocol.group import HeartbeatRequest, JoinGroupRequest

from aiokafka import TopicPartition
from kafkaguard import errors
from kafkaguard_adapters.aiokafka._private.consuming.fetching import (
    AIOKafkaConsumerShell,
)
from kafkaguard_adapters.aiokafka._private.consuming.membership import Membership
from kafkaguard_adapters.aiokafka._private.consuming.reading import Reading

A, B, OTHER = (TopicPartition("t", n) for n in range(3))


class Driver:
    """A driver that keeps what it is told."""

    def __init__(self):
        self.reads, self.left, self.denials = [], 9.0, []
        self.answers = []
        self.machine = SimpleNamespace(
            is_waiting=lambda place: place == A, waiting=dict
        )

    def refused(self, place, refusal):
        """Keep a refusal."""
        self.reads.append((place, refusal.code, refusal.position))

    def answered(self, place, position):
        """Keep an answer."""
        self.answers.append((place, position))

    def denied(self, topics):
        """Keep a denial."""
        self.denials.append(topics)

    def seconds_left(self):
        """Return the time until the next step."""
        return self.left

    def tick(self):
        """Do nothing."""


class Shell(AIOKafkaConsumerShell):
    """The shell, without a client; A is at 4 and B at 5."""

    def __init__(self):
        self._held, self._resettable, self._reads_followers = frozenset(), set(), False
        self.driver, self.notified = Driver(), []
        self.group_starts = SimpleNamespace(found=lambda starts: None)
        states = {
            A: SimpleNamespace(
                has_valid_position=True, position=4, awaiting_reset=False
            ),
            B: SimpleNamespace(
                has_valid_position=True, position=5, awaiting_reset=False
            ),
        }
        self.assignment_of_client = SimpleNamespace(
            tps=[A, B], state_value=states.__getitem__
        )
        self._subscription = SimpleNamespace(
            assigned_partitions=lambda: {A, B},
            subscription=SimpleNamespace(assignment=self.assignment_of_client),
        )
        self._client = SimpleNamespace(
            cluster=SimpleNamespace(unauthorized_topics=set())
        )
        self._fetcher = SimpleNamespace(
            _records={},
            _set_error=self._set_error,
            _fetch_waiters=["waiter"],
            _notify=self.notified.append,
        )
        self._choose = lambda assignment: (list(assignment.tps), [], 5.0, "more")

    def _set_error(self, place, error):
        self._fetcher._records[place] = error


@pytest.fixture
def shell():
    """A shell."""
    return Shell()


def request(*asked):
    """Return a Fetch of partitions at offsets."""
    return SimpleNamespace(topics=[("t", [(n, at, 1000) for n, at in asked])])


def test_starts_of_other_partitions_are_not_this_consumer_s(shell):
    """An answer to ListOffsets may belong to a look-up by the user."""
    response = SimpleNamespace(topics=[("t", [(0, 6), (1, 0), (2, 6)])])
    for count in (1, 2):
        shell.listed(response)
        assert shell.driver.reads == [(A, 6, None)] * count


def test_a_broken_fetch_is_told_for_positions_that_still_count(shell):
    """Not for a partition that was sought, or went away, meanwhile."""
    shell.broken(request((0, 4), (1, 3), (2, 0)), KafkaConnectionError("away"))
    assert shell.driver.reads == [(A, None, 4)]


def test_an_answer_that_the_guard_handles_is_taken_from_the_client(shell):
    """The rest stays in it: records, and errors about an old position."""
    parts = [(0, 6), (1, 0), (2, 6)]
    response = SimpleNamespace(topics=[("t", list(parts))])
    for count in (1, 2):
        response.topics = [("t", list(parts))]
        shell.fetched(request((0, 4), (1, 5), (2, 0)), response)
        assert response.topics == [("t", [(1, 0), (2, 6)])]
        assert shell.driver.reads == [(A, 6, 4)] * count
    response.topics = [("t", [(0, 6)])]
    shell.fetched(request((0, 3)), response)
    assert response.topics == [("t", [(0, 6)])]


def test_an_answer_to_a_partition_that_waits_is_told(shell):
    """To one that does not wait, nothing is."""
    shell.fetched(
        request((0, 4), (1, 5)), SimpleNamespace(topics=[("t", [(0, 0), (1, 0)])])
    )
    assert shell.driver.answers == [(A, 4)]


def test_an_error_does_not_replace_records_that_were_fetched(shell):
    """They are read first; the partition is asked again afterwards."""
    error = errors.ClientStateError("lost")
    shell._fetcher._records[A] = "records"
    shell.fail(A, error)
    assert (shell._fetcher._records[A], shell.notified) == ("records", [])
    shell.fail(B, error)
    assert (shell._fetcher._records[B], shell.notified) == (error, ["waiter"])


@pytest.mark.parametrize(
    ("left", "sleeps"), [(9.0, 5.0), (0.2, 0.2), (0.0, 0.001), (float("inf"), 5.0)]
)
def test_the_fetcher_sleeps_no_longer_than_to_the_next_step(shell, left, sleeps):
    """And never not at all, which would be a busy loop."""
    shell.driver.left = left
    assert shell._get_actions(shell.assignment_of_client)[1:] == ([], sleeps, "more")


def test_partitions_that_wait_are_not_fetched(shell):
    """The others are; when it is over, all are again."""
    for held, chosen in (((), [A, B]), ((A,), [B]), ((), [A, B])):
        shell._held = frozenset(held)
        assert shell._get_actions(shell.assignment_of_client)[0] == chosen


def test_topics_that_are_denied_are_the_consumer_s_own(shell):
    """Metadata of the client may have others."""
    shell._client.cluster.unauthorized_topics = {"t", "other"}
    shell._get_actions(shell.assignment_of_client)
    assert shell.driver.denials == [{"t"}]


class Coordinator:
    """A static member's coordinator, whose answers come from a test.

    Attributes:
        codes: The codes of the next answers; an exception is raised instead.
    """

    def __init__(self, *codes):
        self.codes, self.sent = list(codes), []
        self.generation, self.member_id, self.group_id = 3, "m", "g"
        self._group_instance_id, self._closing = "one", asyncio.Future()
        self.told, self.is_told = [], asyncio.Event()
        Membership(SimpleNamespace(_coordinator=self), self.tell)

    def tell(self, error):
        """Keep the error that ends the consumer."""
        self.told.append(error)
        self.is_told.set()

    async def _send_req(self, request):
        self.sent.append(request)
        code = self.codes.pop(0)
        if isinstance(code, Exception):
            raise code
        return SimpleNamespace(error_code=code)


HEARTBEAT = HeartbeatRequest("g", 3, "m")
JOIN = JoinGroupRequest.__new__(JoinGroupRequest)


@pytest.mark.parametrize(
    "unclear", [0, 25, KafkaConnectionError("away"), NotImplementedError()]
)
async def test_a_member_that_is_only_unknown_joins_again(unclear):
    """Its session may have timed out; it is asked anew each time."""
    coordinator = Coordinator(25, unclear, 25, unclear, 0)
    for code in (25, 25, 0):
        response = await coordinator._send_req(HEARTBEAT)
        assert response.error_code == code
    assert (coordinator.told, len(coordinator.sent)) == ([], 5)


@pytest.mark.parametrize("codes", [(82,), (25, 82)])
async def test_a_member_whose_place_is_taken_asks_nothing_more(codes):
    """It is told once; commits fail, and the client's tasks wait for the end."""
    coordinator = Coordinator(*codes)
    waiting = asyncio.ensure_future(coordinator._send_req(HEARTBEAT))
    await asyncio.wait_for(coordinator.is_told.wait(), 10)
    joining = asyncio.ensure_future(coordinator._send_req(JOIN))
    for _ in range(2):
        with pytest.raises(errors.FencedInstanceIdError):
            await coordinator._send_req("a commit")
    assert not (waiting.done())
    assert not (joining.done())
    coordinator._closing.set_result(None)
    for each in (waiting, joining):
        with pytest.raises(errors.FencedInstanceIdError):
            await each
    assert len(coordinator.told) == 1


def reading_of(check_errors):
    """Return the reading of a consumer, and its coordinator."""
    reading = Reading.__new__(Reading)
    reading.told, reading.aborted = [], []
    reading._coordinator = coordinator = SimpleNamespace()
    reading._check_errors, reading._tell = check_errors, lambda: None
    reading._abort = reading.aborted.append
    return reading, coordinator


def test_an_error_of_the_group_is_raised_until_it_has_gone():
    """Then reads are the client's own again; the same for a second error."""
    current = []

    def check_errors():
        if current:
            raise current[0]

    reading, coordinator = reading_of(check_errors)
    for error in (KafkaError("denied"), NotLeaderForPartitionError("moved")):
        current.append(error)
        reading._abort_waiters(error)
        for _ in range(2):
            with pytest.raises(type(error)) as caught:
                coordinator.check_errors()
            assert isinstance(caught.value, errors.KafkaGuardError)
        current.clear()
        coordinator.check_errors()
        assert not hasattr(coordinator, "check_errors")
    assert all(isinstance(e, errors.KafkaGuardError) for e in reading.aborted)
