"""What the guarded KafkaConsumer reports of its fetcher, around a fetcher of a test."""

from __future__ import annotations

from collections import deque
from types import SimpleNamespace

import pytest
from kafka import TopicPartition
from kafka.errors import Cancelled, KafkaConnectionError

from kafkaguard import errors
from kafkaguard._consuming.machine import LIST_OFFSETS
from kafkaguard_adapters.kafka_python._private.consuming.fetching import (
    KafkaPythonConsumerShell,
)

A, B, C = (TopicPartition("t", n) for n in range(3))


def state(offset=None, *, awaiting_reset=False, retry_at=None):
    """Return the state of a partition in the client."""
    return SimpleNamespace(
        position=None if offset is None else SimpleNamespace(offset=offset),
        awaiting_reset=awaiting_reset,
        next_allowed_retry_time=retry_at,
    )


class Driver:
    """A driver that keeps what it is told."""

    def __init__(self):
        self.queued, self.reads, self.left, self.told = [], [], float("inf"), 0
        self.machine = SimpleNamespace(is_waiting=lambda place: place == A)

    def later(self, turn):
        """Queue a fact."""
        self.queued.append(turn)

    def refused(self, place, refusal):
        """Keep a refusal."""
        self.reads.append((place, refusal))

    def seconds_left(self):
        """Return the time until the next step."""
        return self.left

    def tick(self):
        """Do nothing."""

    def tell(self):
        """Count."""
        self.told += 1


class Shell(KafkaPythonConsumerShell):
    """The shell, without a client."""

    def __init__(self):
        self._held, self._resettable, self._reads_followers = frozenset(), set(), False
        self._failures, self._ended, self._starts = deque(), None, deque()
        self.driver, self.handled, self.limits = Driver(), [], []
        self.records = {}
        self._subscription = SimpleNamespace(
            assignment={A: state(4), B: state(5), C: state()},
            is_fetchable=lambda _: True,
            partitions_needing_reset=set,
            subscription={"t"},
        )
        self._cluster = SimpleNamespace(
            leader_for_partition={A: 1, B: 2, C: 1}.get, unauthorized_topics=set()
        )
        self._coordinator = SimpleNamespace(_join_task=None)
        self._handle_error = lambda *told: self.handled.append(told)
        self._fetch_records = self._note_limit
        self._read_starts = lambda _: None

    def _note_limit(self, _, __, timeout_ms):
        self.limits.append(timeout_ms)
        return self.records

    def run_queued(self):
        """Do what was queued for the thread that polls."""
        queued, self.driver.queued = self.driver.queued, []
        for turn in queued:
            turn(None, 0.0)


@pytest.fixture
def shell():
    """A shell."""
    return Shell()


def test_a_broker_that_is_away_is_told_for_the_partitions_it_leads(shell):
    """Each time, with the position; those that wait already are left alone."""
    for held, expected in (((), [(A, 4), (C, None)]), ((C,), [(A, 4)])):
        shell._held = frozenset(held)
        shell.driver.reads.clear()
        shell._note_error(1, KafkaConnectionError("away"))
        assert shell.driver.reads == []
        shell.run_queued()
        assert expected == [(p, r.position) for p, r in shell.driver.reads]
    assert len(shell.handled) == 2


def test_a_fetch_that_was_cancelled_says_nothing_of_the_broker(shell):
    """The client cancels them when it closes, or assigns other partitions."""
    for _ in range(2):
        shell._note_error(1, Cancelled("closing"))
    assert (shell.driver.queued, len(shell.handled)) == ([], 2)


def test_an_answer_about_another_position_is_left_to_the_client(shell):
    """The user has sought another offset meanwhile, or there is none yet."""

    def is_clients(place, offset, code=6):
        data = SimpleNamespace(error_code=code)
        return shell._is_left_to_client(
            place, SimpleNamespace(fetched_offset=offset, partition_data=data)
        )

    assert [is_clients(A, 4), is_clients(A, 3), is_clients(C, 0)] == [False, True, True]
    shell._subscription.is_fetchable = lambda _: False
    assert is_clients(A, 4)


def test_only_a_partition_without_a_start_lacks_its_start(shell):
    """An answer to ListOffsets may belong to a look-up by the user."""
    shell._subscription.assignment[C] = state(awaiting_reset=True)
    parts = [SimpleNamespace(partition_index=n, error_code=6) for n in range(3)]
    response = SimpleNamespace(topics=[SimpleNamespace(name="t", partitions=parts)])
    for held, expected in (((), [C]), ((C,), [])):
        shell._held = frozenset(held)
        shell.driver.reads.clear()
        shell._note_starts(response)
        assert shell.driver.reads == []
        shell.run_queued()
        assert expected == [place for place, _ in shell.driver.reads]
        assert {LIST_OFFSETS} >= {refusal.api for _, refusal in shell.driver.reads}


def test_starts_are_looked_up_for_those_that_do_not_wait(shell):
    """The next look-up is that of the first of them."""
    shell._subscription.assignment = {
        A: state(awaiting_reset=True, retry_at=7.0),
        B: state(awaiting_reset=True, retry_at=9.0),
        C: state(3, retry_at=1.0),
    }
    shell._startless = lambda: {A, B}
    assert (shell._choose_startless(), shell._next_look_up()) == ({A, B}, 7.0)
    shell._held = frozenset([A])
    assert (shell._choose_startless(), shell._next_look_up()) == ({B}, 9.0)
    shell._held = frozenset([A, B])
    assert (shell._choose_startless(), shell._next_look_up()) == (set(), None)


def test_partitions_that_wait_are_not_fetched(shell):
    """The others are; when it is over, all are again."""
    shell._fetchable = lambda: [A, B, C]
    for held, chosen in (((), [A, B, C]), ((B,), [A, C]), ((), [A, B, C])):
        shell._held = frozenset(held)
        assert shell._choose() == chosen


@pytest.mark.parametrize(
    ("held", "left", "given", "limit"),
    [
        ((), 0.2, 5_000, 5_000),
        ((A,), 0.2, 5_000, 200),
        ((A,), 60.0, 5_000, 5_000),
        ((A,), 0.2, None, None),
    ],
)
def test_a_fetch_ends_in_time_for_the_next_step(shell, held, left, given, limit):
    """In milliseconds; only while a partition waits."""
    shell._held, shell.driver.left = frozenset(held), left
    assert shell._fetch(timeout_ms=given) is shell.records
    assert shell.limits == [limit]
    assert shell.driver.told == 1


def test_errors_are_raised_in_their_order_and_the_end_is_the_last(shell):
    """One by each poll; the end by every later one."""
    first, second, end = (errors.ClientStateError(each) for each in "123")
    shell.fail(A, first)
    shell.fail(B, second)
    shell.end(end)
    for expected in (first, second, end, end):
        with pytest.raises(errors.ClientStateError) as caught:
            shell._fetch(timeout_ms=5)
        assert caught.value is expected
    assert shell.limits == []
    with pytest.raises(errors.ClientStateError) as caught:
        shell._coordinator.poll(timeout_ms=5)
    assert caught.value is end


def test_topics_that_are_denied_are_the_consumer_s_own(shell):
    """Metadata of the client may have others."""
    shell.driver.denied = shell.driver.queued.append
    shell._cluster.unauthorized_topics = {"t", "other"}
    shell._fetch(timeout_ms=5)
    assert shell.driver.queued == [{"t"}]
