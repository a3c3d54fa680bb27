"""The guarded Consumer around a client that does what a test tells it: which error wins.

What the client has returned is handed out; an error is raised once, in its turn.
"""

from __future__ import annotations

import time
from collections import deque
from unittest import mock

import pytest
from confluent_kafka import KafkaError, KafkaException, Message, TopicPartition
from confluent_kafka.error import ConsumeError

from kafkaguard import errors, load_policy
from kafkaguard._consuming import events as ev
from kafkaguard._delivery.facts import Raw
from kafkaguard_adapters.asking.cluster_view import ClusterView
from kafkaguard_adapters.building import Wish
from kafkaguard_adapters.confluent.consumer import GuardedConsumer, prepare
from kafkaguard_adapters.confluent.errors import errors as made
from kafkaguard_adapters.confluent.processing import ConfluentProcessShell
from kafkaguard_adapters.processing.arguments import Arguments

LOGIN = KafkaError(KafkaError._AUTHENTICATION, "refused")
DENIED = KafkaError(KafkaError.TOPIC_AUTHORIZATION_FAILED)
END = KafkaError(KafkaError._PARTITION_EOF)


class Client:
    """A consumer whose calls end as a script says.

    Attributes:
        script: What the next calls return, or raise. A function is called first.
        commits: What the next commits return or raise.
        owned: The numbers of the assigned partitions.
        asked: How often the client was asked for them.
    """

    def __init__(self):
        self.script, self.commits, self.committed = deque(), deque(), []
        self.owned, self.asked = [0, 1], 0
        self.paused = set()

    def poll(self, _):
        """Return one message."""
        return self._next(None)

    def consume(self, *_):
        """Return several."""
        return self._next([])

    def _next(self, nothing):
        found = self.script.popleft() if self.script else nothing
        if callable(found):
            found = found()
        if isinstance(found, Exception):
            raise found
        return found

    def commit(self, *, asynchronous, **arguments):
        """Commit."""
        self.committed.append(arguments)
        found = self.commits.popleft()
        if isinstance(found, Exception):
            raise found
        return found

    def assignment(self):
        """Return the assigned partitions."""
        self.asked += 1
        return [TopicPartition("t", each) for each in self.owned]

    def subscribe(self, topics, on_assign, on_revoke, on_lost):
        """Keep the listeners, and call them as the client does: before it revokes."""
        self.on_assign, self.on_revoke = on_assign, on_revoke
        self.on_lost = on_lost

    def revoke(self, number):
        """Take a partition away; a step of the script."""
        self.on_revoke(self, [TopicPartition("t", number)])
        self.owned.remove(number)

    def incremental_unassign(self, partitions):
        """Take partitions away."""
        for each in partitions:
            self.owned.remove(each.partition)

    def position(self, places):
        """Return no position."""
        return [TopicPartition(each.topic, each.partition) for each in places]

    def get_watermark_offsets(self, _, cached):
        """Return nothing known."""
        assert cached

    def pause(self, places):
        """Pause partitions."""
        self.paused.update(each.partition for each in places)

    def resume(self, places):
        """Resume partitions, also such as are not assigned."""
        self.paused.difference_update(each.partition for each in places)


class World:
    """A guarded client, with the callbacks that it was built with."""

    def __init__(self):
        self.events, self.client = [], Client()
        self.config = prepare({"group.id": "g", "enable.auto.commit": False})
        view = ClusterView(lambda: None, made.make)
        policy = load_policy("default")
        wish = Wish(policy, config=self.config, on_event=self.events.append)
        self.consumer = GuardedConsumer(self.client, view, wish)
        self.consumer._driver.stop_probing()

    def beside(self, found, *reported):
        """Return a step that reports errors while the client returns something."""

        def step():
            for each in reported or (LOGIN,):
                self.config["error_cb"](each)
            return found

        return step


@pytest.fixture
def world():
    """A world."""
    return World()


def record(offset, error=None):
    """Return a record, or an error in place of one."""
    return Message(topic="t", partition=0, offset=offset, value=b"", error=error)


def offsets(found):
    """Return the offsets of what a call has returned."""
    messages = found if isinstance(found, list) else [found]
    return [each.offset() for each in messages]


CALLS = {
    "poll": (lambda c: c.poll(5), lambda *found: found[0]),
    "consume": (lambda c: c.consume(3, 5), lambda *found: list(found)),
}


@pytest.mark.parametrize("call", CALLS)
def test_a_report_beside_records_is_raised_by_the_next_call(world, call):
    """Also while calls go straight to the client, and for the second report."""
    read, shape = CALLS[call]
    for offset in (0, 10, 20):
        world.client.script.extend(
            (
                shape(record(offset)),
                shape(record(offset + 1)),
                world.beside(shape(record(offset + 2))),
                shape(record(offset + 3)),
            )
        )
        for n in range(3):
            assert offsets(read(world.consumer)) == [offset + n]
        with pytest.raises(errors.AuthenticationError):
            read(world.consumer)
        assert offsets(read(world.consumer)) == [offset + 3]
    assert [each.raised for each in world.events] == [True] * 3


@pytest.mark.parametrize("call", CALLS)
def test_two_reports_are_raised_in_their_order(world, call):
    """By two calls; records that are there come after them."""
    read, shape = CALLS[call]
    world.client.script.extend(
        (world.beside(shape(record(1)), DENIED, LOGIN), shape(record(2)))
    )
    assert offsets(read(world.consumer)) == [1]
    for kind in (errors.TopicAuthorizationFailedError, errors.AuthenticationError):
        with pytest.raises(kind):
            read(world.consumer)
    assert offsets(read(world.consumer)) == [2]


@pytest.mark.parametrize("before", [[], [8, 9]], ids=["first", "while calls are quick"])
def test_an_error_among_records_is_returned_in_its_place(world, before):
    """The list has it, and the next call raises it; alone, it is raised at once."""
    for offset in before:
        world.client.script.append([record(offset)])
        assert offsets(world.consumer.consume(3, 5)) == [offset]
    mixed = [record(0), record(1, DENIED), record(2)]
    alone = [record(3, DENIED)]
    world.client.script.extend((mixed, alone, [record(4)]))
    assert offsets(world.consumer.consume(3, 5)) == [0, 1, 2]
    for _ in range(2):
        with pytest.raises(errors.TopicAuthorizationFailedError):
            world.consumer.consume(3, 5)
    assert offsets(world.consumer.consume(3, 5)) == [4]


@pytest.mark.parametrize("call", CALLS)
def test_a_notice_is_returned_though_a_report_waits(world, call):
    """The end of a partition is an error that polling never raises."""
    read, shape = CALLS[call]
    world.client.script.extend((world.beside(shape(record(7, END))), shape(record(8))))
    assert offsets(read(world.consumer)) == [7]
    with pytest.raises(errors.AuthenticationError):
        read(world.consumer)
    assert offsets(read(world.consumer)) == [8]


def test_what_the_client_raises_comes_before_what_it_reports(world):
    """The error of a message, which a DeserializingConsumer raises, is not exchanged."""
    raised = ConsumeError(DENIED, kafka_message=record(3, DENIED))
    for _ in range(2):
        world.client.script.extend((world.beside(raised), record(4)))
        with pytest.raises(errors.TopicAuthorizationFailedError):
            world.consumer.poll(5)
        with pytest.raises(errors.AuthenticationError):
            world.consumer.poll(5)
        assert world.consumer.poll(5).offset() == 4


def test_a_call_without_a_record_raises_within_its_slice(world):
    """It does not wait for the end of its own time."""
    world.client.script.append(world.beside(None))
    began = time.monotonic()
    with pytest.raises(errors.AuthenticationError):
        world.consumer.poll(60)
    assert time.monotonic() - began < 30


def places(*offsets, error=None):
    """Return the answer to a commit: partition 0, 1 ..., the first with an error."""
    found = [TopicPartition("t", n, at) for n, at in enumerate(offsets)]
    if error is not None:
        found[0] = Refused(found[0], error)
    return found


class Refused:
    """A partition of an answer with an error, which Python cannot set in the client's."""

    def __init__(self, place, error):
        self.topic, self.partition, self.offset = (
            place.topic,
            place.partition,
            place.offset,
        )
        self.error = KafkaError(error)


def test_a_commit_in_the_background_is_told_after_one_that_was_waited_for(world):
    """Also if that has failed: each failure is one event, of its own kind."""
    heard = world.config["on_commit"]
    for outcome in (KafkaException(KafkaError(25)), places(3, 4)):
        world.client.commits.append(outcome)
        try:
            world.consumer.commit(offsets=places(3, 4), asynchronous=False)
        except KafkaException as error:
            assert isinstance(error, errors.KafkaGuardError)
        world.events.clear()
        heard(KafkaError(22), places(3, error=22))
        world.consumer.poll(0)
        assert [each.kind for each in world.events] == ["async"]
        assert isinstance(world.events[0], ev.CommitFailedEvent)


def test_a_commit_that_is_waited_for_is_told_once(world):
    """The client calls `on_commit` for it too, before the call returns."""
    heard = world.config["on_commit"]

    def commit(**_):
        heard(KafkaError(25), places(3, error=25))
        raise KafkaException(KafkaError(25))

    world.client.commit = commit
    for count in (1, 2):
        with pytest.raises(errors.UnknownMemberIdError):
            world.consumer.commit(offsets=places(3), asynchronous=False)
        assert [each.kind for each in world.events] == ["sync"] * count


def test_only_what_is_refused_is_committed_again(world):
    """Twice in a row; the first request is the caller's own."""
    given = places(3, 4)
    for _ in range(2):
        world.client.committed.clear()
        world.client.commits.extend((places(3, 4, error=14), places(3)))
        found = world.consumer.commit(offsets=given, asynchronous=False)
        assert [(each.partition, each.error) for each in found] == [
            (0, None),
            (1, None),
        ]
        first, second = world.client.committed
        assert first == {"offsets": given}
        assert [each.partition for each in second["offsets"]] == [0]
    assert world.events == []


def test_a_message_is_committed_by_the_client_itself_again_and_again(world):
    """Only the client knows its leader epoch."""
    message = record(5)
    refusal = KafkaException(KafkaError(14))
    world.client.commits.extend((refusal, refusal, places(6)))
    (found,) = world.consumer.commit(message, asynchronous=False)
    assert found.offset == 6
    assert world.client.committed == [{"message": message}] * 3


def commit_of(world, number):
    """Commit for a partition, without waiting for it."""
    world.client.commits.append(None)
    try:
        world.consumer.commit(offsets=[TopicPartition("t", number, 5)])
    finally:
        world.client.commits.clear()


def test_commits_do_not_ask_the_client_for_its_assignment_each_time(world):
    """The answer needs another thread of librdkafka, which takes longer than a commit."""
    world.consumer.subscribe(["t"])
    world.consumer.poll(0)
    world.client.asked = 0
    for number in (0, 1) * 10:
        commit_of(world, number)
    assert world.client.asked == 1


@pytest.mark.parametrize("is_given", [True, False], ids=["listener", "no listener"])
def test_a_commit_for_a_partition_that_was_just_revoked_is_refused(world, is_given):
    """Commits during the listener are allowed; they do not hide that it is gone then."""

    def commit_last(_, partitions):
        for each in partitions:
            commit_of(world, each.partition)

    world.consumer.subscribe(["t"], on_revoke=commit_last if is_given else None)
    world.consumer.poll(0)
    commit_of(world, 1)
    world.client.script.append(lambda: world.client.revoke(1))
    world.consumer.poll(0)
    commit_of(world, 0)
    with pytest.raises(errors.ClientStateError, match="does not own t-1"):
        commit_of(world, 1)
    world.consumer.poll(0)
    with pytest.raises(errors.ClientStateError, match="does not own t-1"):
        commit_of(world, 1)


def test_a_commit_for_a_partition_that_the_application_gave_up_is_refused(world):
    """At once: no poll is needed."""
    world.consumer.subscribe(["t"])
    world.consumer.poll(0)
    commit_of(world, 1)
    world.consumer.incremental_unassign([TopicPartition("t", 1)])
    with pytest.raises(errors.ClientStateError, match="does not own t-1"):
        commit_of(world, 1)


def test_before_a_commit_is_refused_the_client_is_asked_again(world):
    """A partition may have come without a call of the listener."""
    world.client.owned = [0]
    world.consumer.subscribe(["t"])
    world.consumer.poll(0)
    commit_of(world, 0)
    world.client.owned = [0, 1]
    commit_of(world, 1)


def shell_of(world, *, on_reject="raise", producer=None, protocol="classic"):
    """Return the shell of a run of ``process()``."""
    policy = load_policy("default").replace(on_reject=on_reject)
    wish = Wish(policy, config={**world.config, "group.protocol": protocol})
    arguments = Arguments(len, dead_letter_producer=producer)
    return ConfluentProcessShell(world.consumer, arguments, wish)


def test_each_commit_of_a_run_is_answered_also_if_two_have_the_same_offsets(world):
    """At a revocation, before the last one is answered; then no other would be made."""
    places, answers = [TopicPartition("t", 0, 5)], []
    for number in (1, 2):
        world.client.commits.append(None)
        world.consumer.commit_quietly(places, lambda _, n=number: answers.append(n))
    for _ in range(3):
        world.config["on_commit"](None, places)
    assert answers == [1, 2]


def test_pauses_of_a_run_and_of_the_application_are_apart(world):
    """The client keeps those of partitions that come back, too."""
    shell, places = shell_of(world), [("t", 0), ("t", 1)]
    shell.listen(mock.Mock())
    shell.pause(places)
    world.consumer.pause([TopicPartition("t", 0)])
    world.consumer.resume([TopicPartition("t", 1)])
    assert world.client.paused == {0, 1}
    shell.resume(places)
    assert world.client.paused == {0}
    shell.pause(places)
    world.client.owned.clear()
    world.consumer.rebalances.on_assign([TopicPartition(*each) for each in places])
    assert world.client.paused == {0}


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_a_round_goes_on_if_partitions_are_added_with_the_new_protocol(world, protocol):
    """In a classic group all of them get another generation."""
    listener = mock.Mock()
    shell_of(world, protocol=protocol).listen(listener)
    world.consumer.rebalances.on_assign([TopicPartition("t", 1)])
    listener.assigned.assert_called_once_with(
        [("t", 1)], keeps_round=protocol == "consumer"
    )


def test_a_producer_of_letters_is_asked_for_where_no_brokers_are_known(world):
    """At the call; one that is given is used."""
    with pytest.raises(errors.ClientConfigurationError, match="dead_letter_producer="):
        shell_of(world, on_reject="dead_letter")
    sent = []

    class Letters:
        def produce(self, topic, *, on_delivery, **_):
            sent.append(topic)
            on_delivery(None, None)

        def flush(self, _):
            pass

    shell = shell_of(world, on_reject="dead_letter", producer=Letters())
    assert shell.send_letters([("t.dlq", Raw(b"k", b"v"))], 1.0) == [None]
    assert sent == ["t.dlq"]
