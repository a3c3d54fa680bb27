"""Commits of the guarded AIOKafkaConsumer, around a client that answers as a test says."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace

import pytest
from aiokafka.protocol.commit import OffsetCommitRequest
from aiokafka.structs import OffsetAndMetadata

from aiokafka import TopicPartition
from aiokafka import errors as theirs
from kafkaguard import Action, errors, load_policy
from kafkaguard_adapters.aiokafka._private.consuming.committing import Committing
from kafkaguard_adapters.aiokafka.consumer import GuardedConsumer

A, B = TopicPartition("t", 0), TopicPartition("t", 1)


def answer(*codes):
    """Return the answer to a commit: a code for each partition."""
    return SimpleNamespace(topics=[("t", list(enumerate(codes)))])


class Client:
    """A consumer whose commits are answered as a test says.

    Attributes:
        answers: The answers that come next; an exception is raised instead, and None
            is no answer.
        asked: The offsets of each request.
    """

    def __init__(self):
        self.answers, self.asked, self.assigned = [], [], {A, B}
        self.is_asked = asyncio.Event()
        self._subscription = SimpleNamespace(
            assigned_partitions=lambda: self.assigned,
            partitions_auto_assigned=lambda: True,
        )
        self._coordinator = SimpleNamespace(
            _do_commit_offsets=self._do, _send_req=self._answer
        )

    async def commit(self, offsets):
        """Commit in a task of its own, as the client does."""
        await asyncio.shield(self._coordinator._do_commit_offsets(None, offsets))

    async def _do(self, _, offsets):
        self.asked.append(offsets)
        self.is_asked.set()
        request = OffsetCommitRequest("g", 1, "m", -1, [])
        response = await self._coordinator._send_req(request)
        for _, parts in response.topics:
            for _, code in parts:
                if code:
                    raise theirs.for_code(code)

    async def _answer(self, _):
        found = self.answers.pop(0)
        if found is None:
            await asyncio.sleep(3600)
        if isinstance(found, Exception):
            raise found
        return found


class World:
    """The parts of a guarded consumer that commit, and what they report."""

    def __init__(self, **policy):
        self.client, self.events, self.refused = Client(), [], []
        consumer = self.consumer = GuardedConsumer.__new__(GuardedConsumer)
        consumer.client = self.client
        consumer._policy = load_policy(
            {"backoff": {"base": 0.1, "factor": 1, "jitter": "none"}, **policy}
        )
        consumer._seconds = 30.0
        consumer._check = lambda: None
        consumer._committing = Committing(self.client, self.refused.append)
        consumer._driver = SimpleNamespace(
            note=lambda each: self.events.extend([each] if each else []),
            tell=lambda: None,
        )

    async def background(self, *codes):
        """Commit as the client does from time to time; return what it raises."""
        self.client.answers = [answer(*codes)]
        try:
            await self.client._coordinator._do_commit_offsets(None, {A: 1, B: 2})
        except theirs.KafkaError as error:
            return error
        return None


async def test_a_broker_s_refusal_is_told_where_a_later_try_has_no_answer():
    """Two commits in a row: the second one does not know the first one's refusal."""
    world = World(deadline=0.4, max_attempts=20)
    for answers, code in (([answer(14), None], 14), ([None], None)):
        world.client.answers = answers
        with pytest.raises(errors.KafkaGuardError) as caught:
            await world.consumer.commit({A: 3})
        assert caught.value.code == code
    assert [each.error.code for each in world.events] == [14, None]


async def test_only_what_is_refused_is_committed_again():
    """Twice in a row; the second answer counts for what it is about."""
    world = World()
    for _ in range(2):
        world.client.asked.clear()
        world.client.answers = [
            answer(0, 14),
            SimpleNamespace(topics=[("t", [(1, 0)])]),
        ]
        await world.consumer.commit({A: 3, B: 4})
        assert world.client.asked == [{A: 3, B: 4}, {B: 4}]
    assert world.events == []


async def test_an_answer_counts_more_than_the_error_that_the_client_makes_of_it():
    """The client has one error for all; the answer says which partition it is about."""
    world = World()
    world.client.answers = [answer(0, 29)]
    with pytest.raises(theirs.TopicAuthorizationFailedError) as caught:
        await world.consumer.commit({A: 3, B: 4})
    assert (caught.value.topic, caught.value.partition) == ("t", 1)
    (event,) = world.events
    assert list(event.errors) == [B]


@pytest.mark.parametrize(
    "error",
    [
        theirs.IllegalStateError("not assigned"),
        theirs.CommitFailedError("kicked out"),
        theirs.UnknownMemberIdError("gone"),
    ],
)
async def test_what_the_client_raises_keeps_its_class(error):
    """It has no answer, and is not asked again."""
    world = World()
    world.client.answers = [error]
    with pytest.raises(type(error)) as caught:
        await world.consumer.commit({A: 3})
    assert isinstance(caught.value, errors.KafkaGuardError)
    assert len(world.client.asked) == 1


@pytest.mark.parametrize("code", [22, 25, 27])
async def test_what_a_broker_says_of_the_group_has_the_client_s_class(code):
    """The client turns these answers into `CommitFailedError`."""
    world = World()
    world.client.answers = [answer(code)]
    with pytest.raises(theirs.CommitFailedError) as caught:
        await world.consumer.commit({A: 3})
    assert (caught.value.code, caught.value.verdict.action) == (code, Action.REJOIN)


async def test_a_commit_that_is_cancelled_leaves_nothing_behind():
    """The next one has its own answer, and a commit of the client is not the user's."""
    world = World()
    world.client.answers = [None]
    task = asyncio.ensure_future(world.consumer.commit({A: 3}))
    await asyncio.wait_for(world.client.is_asked.wait(), 10)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    world.client.answers = [answer(0)]
    await world.consumer.commit({A: OffsetAndMetadata(3, "")})
    assert await world.background(29, 0) is None
    assert [list(each) for each in world.refused] == [[A]]
    assert world.events == []


async def test_only_an_error_that_the_client_must_see_is_raised_in_the_background():
    """It joins again or stops; what only a human can correct must not end it. Twice."""
    world = World()
    for count in (1, 2):
        assert await world.background(0, 29) is None
        assert isinstance(await world.background(25, 25), theirs.UnknownMemberIdError)
        assert isinstance(await world.background(0, 14), theirs.KafkaError)
        assert await world.background(0, 0) is None
        assert len(world.refused) == 3 * count
