"""Commits of the guarded KafkaConsumer, around a client that answers as a test says."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
from kafka import TopicPartition
from kafka import errors as theirs
from kafka.structs import OffsetAndMetadata

from kafkaguard import Action, errors, load_policy
from kafkaguard_adapters.kafka_python import consumer as guarded_consumer
from kafkaguard_adapters.kafka_python._private.consuming.committing import Committing
from kafkaguard_adapters.kafka_python.consumer import GuardedConsumer

A, B = TopicPartition("t", 0), TopicPartition("t", 1)


def at(*numbers):
    """Return offsets to commit, for the first partitions."""
    return {
        place: OffsetAndMetadata(number, "", -1)
        for place, number in zip((A, B), numbers, strict=False)
    }


def answer(*codes):
    """Return the answer to a commit: a code for each partition."""
    return SimpleNamespace(topics=[("t", list(enumerate(codes)))])


class Client:
    """A consumer whose commits are answered as a test says.

    Attributes:
        answers: The answers that come next; an exception is raised instead.
        limits: The time limit of each commit that was waited for, in milliseconds.
    """

    def __init__(self):
        self.answers, self.limits, self.heard = [], [], []
        self._subscription = SimpleNamespace(
            partitions_auto_assigned=lambda: False, all_consumed_offsets=lambda: at(7)
        )
        self._coordinator = SimpleNamespace(
            _handle_offset_commit_response=self._raise_first,
            config={"default_offset_commit_callback": self.note},
        )
        self.config = {"group_id": "g", "request_timeout_ms": 30_000}

    def note(self, offsets, outcome):
        """Remember what a callback was told."""
        self.heard.append(outcome)

    def _raise_first(self, offsets, _, response):
        for _, parts in response.topics:
            for _, code in parts:
                if code:
                    raise theirs.for_code(code)

    def commit(self, offsets, timeout_ms):
        """Commit, and wait for one answer."""
        self.limits.append(timeout_ms)
        self.offsets = offsets
        found = self.answers.pop(0)
        if isinstance(found, Exception):
            raise found
        self._coordinator._handle_offset_commit_response(offsets, 0, found)

    def commit_async(self, offsets, callback):
        """Commit; the answer is there at once."""
        self._end(offsets, callback)

    def commit_by_itself(self, offsets):
        """Commit as the client does from time to time."""
        self._end(offsets, self._coordinator.config["default_offset_commit_callback"])

    def _end(self, offsets, callback):
        found = self.answers.pop(0)
        try:
            if isinstance(found, Exception):
                raise found
            self._coordinator._handle_offset_commit_response(offsets, 0, found)
        except theirs.KafkaError as error:
            callback(offsets, error)
        else:
            callback(offsets, True)


class World:
    """The parts of a guarded consumer that commit, and what they report."""

    def __init__(self, monkeypatch, **policy):
        self.client, self.events, self.now = Client(), [], 0.0
        consumer = self.consumer = GuardedConsumer.__new__(GuardedConsumer)
        consumer.client, consumer._policy = (
            self.client,
            load_policy(policy or "default"),
        )
        consumer._committing = Committing(self.client, consumer._note_commit)
        consumer._driver = SimpleNamespace(note=self.note, tell=lambda: None)
        monkeypatch.setattr(
            guarded_consumer, "time", SimpleNamespace(monotonic=lambda: self.now)
        )
        monkeypatch.setattr(
            guarded_consumer.commits.commit,
            "__defaults__",
            (lambda: self.now, self.sleep),
        )

    def note(self, event):
        """Keep an event."""
        self.events += [] if event is None else [event]

    def sleep(self, seconds):
        """Let time pass."""
        self.now += seconds


@pytest.fixture
def world(monkeypatch):
    """A world with one policy for all."""
    backoff = {"base": 1.0, "factor": 1, "jitter": "none"}
    return World(monkeypatch, deadline=10, backoff=backoff, max_attempts=20)


def test_the_client_has_the_time_that_is_left_in_its_own_unit(world):
    """The caller's, or the policy's if that is shorter; each try has less of it."""
    world.client.answers = [answer(14), answer(14), answer(0)]
    world.consumer.commit(at(3), timeout_ms=5_000)
    assert world.client.limits == [5_000, 4_000, 3_000]
    world.client.limits.clear()
    world.client.answers = [answer(0)]
    world.consumer.commit(at(3))
    assert world.client.limits == [10_000]
    assert world.events == []


def test_a_broker_s_refusal_is_told_where_a_later_try_has_no_answer(world):
    """Two commits in a row: the second one does not know the first one's refusal."""
    late = theirs.KafkaTimeoutError("no answer")
    world.client.answers = [answer(14), late]
    with pytest.raises(theirs.KafkaTimeoutError) as caught:
        world.consumer.commit(at(3), timeout_ms=1_500)
    assert caught.value.code == 14
    world.client.answers = [late]
    with pytest.raises(theirs.KafkaTimeoutError) as caught:
        world.consumer.commit(at(3), timeout_ms=500)
    assert caught.value.code is None
    assert [each.error.code for each in world.events] == [14, None]


@pytest.mark.parametrize(
    "error",
    [
        theirs.RebalanceInProgressError("it rejoins"),
        theirs.CommitFailedError("kicked out"),
        theirs.IllegalStateError("not now"),
    ],
)
def test_what_the_client_raises_keeps_its_class(world, error):
    """It has asked no broker, and is not asked again."""
    world.client.answers = [error]
    with pytest.raises(type(error)) as caught:
        world.consumer.commit(at(3, 4))
    assert isinstance(caught.value, errors.KafkaGuardError)
    assert len(world.client.limits) == 1


@pytest.mark.parametrize("code", [22, 25, 27])
def test_what_a_broker_says_of_the_group_has_the_client_s_class(world, code):
    """The client turns these answers into `CommitFailedError`."""
    world.client.answers = [answer(code)]
    with pytest.raises(theirs.CommitFailedError) as caught:
        world.consumer.commit(at(3))
    assert (caught.value.code, caught.value.verdict.action) == (code, Action.REJOIN)


def test_the_gravest_refusal_is_raised_and_the_rest_noted(world):
    """The most severe refusal of a commit is raised, whatever the order of the answer."""
    for codes in ((3, 29), (29, 3)):
        world.client.answers = [answer(*codes), answer(*codes)] * 20
        with pytest.raises(errors.TopicAuthorizationFailedError) as caught:
            world.consumer.commit(at(3, 4), timeout_ms=500)
        assert "UNKNOWN_TOPIC_OR_PARTITION" in caught.value.__notes__[0]


def test_each_failure_says_who_has_committed(world):
    """Also if the same offsets are committed by the user and then by the client."""
    offsets, heard = at(3), []
    for refusal in (answer(22), theirs.KafkaTimeoutError("no answer")):
        for _ in range(2):
            world.events.clear()
            world.client.answers = [refusal] * 2
            world.consumer.commit_async(offsets, lambda *told: heard.append(told))
            world.client.commit_by_itself(offsets)
            assert [each.kind for each in world.events] == ["async", "auto"]
    assert all(isinstance(each, errors.KafkaGuardError) for _, each in heard)
    assert all(isinstance(each, errors.KafkaGuardError) for each in world.client.heard)


def test_an_answer_that_comes_too_late_is_told_by_an_event(world):
    """Nobody waits for it any more; the client's own handling goes on."""
    for count in (1, 2):
        world.client.answers = [theirs.KafkaTimeoutError("no answer")]
        with pytest.raises(theirs.KafkaTimeoutError):
            world.consumer.commit(at(3), timeout_ms=500)
        read = world.client._coordinator._handle_offset_commit_response
        with pytest.raises(theirs.UnknownMemberIdError):
            read(world.client.offsets, 0, answer(25))
        assert [each.error.code for each in world.events] == [None, 25] * count


def test_a_commit_in_the_background_is_not_taken_for_the_one_that_is_over(world):
    """The same offsets, first waited for, and then committed by the client."""
    offsets = at(3)
    for _ in range(2):
        world.events.clear()
        world.client.answers = [answer(22)]
        with pytest.raises(theirs.CommitFailedError):
            world.consumer.commit(offsets)
        world.client.answers = [answer(22)]
        world.client.commit_by_itself(offsets)
        assert [each.kind for each in world.events] == ["sync", "auto"]
