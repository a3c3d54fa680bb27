"""Every form of a call of a KafkaConsumer ends as without the guard."""

from __future__ import annotations

import pytest
from kafka import KafkaConsumer, TopicPartition
from kafka.consumer.fetcher import ConsumerRecord
from kafka.errors import KafkaError
from kafka.structs import OffsetAndMetadata

from kafkaguard import errors, guard
from tests.contracts.consumer import fill


class Pair:
    """A bare and a guarded consumer that read the same partition."""

    def __init__(self, cluster):
        self.topic = cluster.create_topic(partitions=2)
        fill(cluster, self.topic, 9, partitions=[0, 1])
        self.place, self.other = (TopicPartition(self.topic, n) for n in (0, 1))
        bare, guarded = (
            KafkaConsumer(
                bootstrap_servers=cluster.bootstrap_servers,
                group_id=f"{self.topic}-{each}",
                enable_auto_commit=False,
                fetch_max_wait_ms=100,
            )
            for each in ("bare", "guarded")
        )
        self.consumers = bare, guard(guarded)

    def end(self, consumer, call):
        """Make a call; return its result or error, and what it has changed."""
        consumer.assign([self.place])
        consumer.resume(self.place)
        consumer.seek(self.place, 0)
        consumer.poll(20_000, max_records=1)
        try:
            outcome = plain(call(consumer, self))
        except Exception as error:
            outcome = error
        owned = consumer.assignment()
        return outcome, [
            owned,
            consumer.paused(),
            [consumer.position(each, timeout_ms=0) for each in owned],
            [consumer.committed(each) for each in (self.place, self.other)],
        ]


def plain(value):
    """Return what a result says, without what differs between two consumers."""
    if isinstance(value, dict):
        return {key: plain(each) for key, each in value.items()}
    if isinstance(value, list):
        return [plain(each) for each in value]
    if isinstance(value, ConsumerRecord):
        return value.partition, value.offset
    return value


@pytest.fixture(scope="module")
def pair(kafka_cluster):
    """Return the two consumers, and close them."""
    made = Pair(kafka_cluster)
    yield made
    for each in made.consumers:
        each.close(timeout_ms=5000)


def at(offset, metadata="", epoch=-1):
    """Return an offset to commit."""
    return OffsetAndMetadata(offset, metadata, epoch)


def later(consumer, *args):
    """Commit without waiting, and then wait for what the callback is told."""
    heard = []
    future = consumer.commit_async(*args, lambda *told: heard.append(told))
    for _ in range(100):
        if heard:
            break
        consumer.poll(100)
    (_, outcome), done = heard[0], future.is_done
    consumer.seek(next(iter(consumer.assignment())), 1)
    return type(outcome).__name__, done


CALLS = {
    "poll": lambda c, p: c.poll(20_000, 2),
    "poll by name": lambda c, p: c.poll(timeout_ms=20_000, max_records=2),
    "poll text": lambda c, p: c.poll("x"),
    "poll negative": lambda c, p: c.poll(-1),
    "poll too few": lambda c, p: c.poll(100, max_records=-1),
    "poll many text": lambda c, p: c.poll(100, max_records="x"),
    "commit": lambda c, p: c.commit(),
    "commit offsets": lambda c, p: c.commit({p.place: at(4)}),
    "commit in order": lambda c, p: c.commit({p.place: at(4)}, 20_000),
    "commit metadata": lambda c, p: c.commit({p.place: at(4, "said", 0)}),
    "commit unassigned": lambda c, p: c.commit({p.other: at(6)}),
    "commit empty": lambda c, p: c.commit({}),
    "commit text": lambda c, p: c.commit("x"),
    "commit no text": lambda c, p: c.commit(""),
    "commit list": lambda c, p: c.commit([p.place]),
    "commit number": lambda c, p: c.commit(5),
    "commit zero": lambda c, p: c.commit(0),
    "commit of number": lambda c, p: c.commit({5: 5}),
    "commit of text": lambda c, p: c.commit({p.place: "x"}),
    "commit of int": lambda c, p: c.commit({p.place: 4}),
    "commit of negative": lambda c, p: c.commit({p.place: at(-5)}),
    "commit of a wrong offset": lambda c, p: c.commit({p.place: at("x")}),
    "commit timeout text": lambda c, p: c.commit({p.place: at(4)}, "x"),
    "commit later": lambda c, p: later(c, {p.place: at(5)}),
    "commit all later": lambda c, p: later(c, None),
    "commit text later": lambda c, p: c.commit_async("x"),
    "commit list later": lambda c, p: c.commit_async([p.place]),
    "commit of number later": lambda c, p: c.commit_async({5: 5}),
    "seek": lambda c, p: (c.seek(p.place, 6), c.poll(20_000, 1))[1],
    "seek by name": lambda c, p: c.seek(partition=p.place, offset=6),
    "seek unassigned": lambda c, p: c.seek(p.other, 6),
    "seek number": lambda c, p: c.seek(5, 5),
    "seek negative": lambda c, p: c.seek(p.place, -3),
    "seek text": lambda c, p: c.seek(p.place, "x"),
    "seek nothing": lambda c, p: c.seek(5),
    "seek start": lambda c, p: (c.seek_to_beginning(p.place), c.poll(20_000, 1))[1],
    "seek start unassigned": lambda c, p: c.seek_to_beginning(p.other),
    "seek end number": lambda c, p: c.seek_to_end(5),
    "pause": lambda c, p: (c.pause(p.place), c.poll(100))[1],
    "pause unassigned": lambda c, p: c.pause(p.other),
    "pause number": lambda c, p: c.pause(5),
    "resume unassigned": lambda c, p: c.resume(p.other),
    "assign none": lambda c, p: c.assign([]),
    "assign number": lambda c, p: c.assign(5),
    "subscribe as well": lambda c, p: not c.subscribe([p.topic]),
    "subscribe text": lambda c, p: c.subscribe("x"),
    "subscribe nothing": lambda c, p: c.subscribe(),
    "subscribe both": lambda c, p: c.subscribe(["x"], pattern="y"),
    "subscribe wrong listener": lambda c, p: c.subscribe([p.topic], listener=5),
    "position": lambda c, p: c.position(p.place),
    "position unassigned": lambda c, p: c.position(p.other),
    "position number": lambda c, p: c.position(5),
    "committed number": lambda c, p: c.committed(5),
    "starts": lambda c, p: c.beginning_offsets([p.place, p.other]),
    "starts by name": lambda c, p: c.beginning_offsets(partitions=[p.place]),
    "starts none": lambda c, p: c.beginning_offsets([]),
    "starts number": lambda c, p: c.beginning_offsets(5),
    "starts numbers": lambda c, p: c.beginning_offsets([5]),
    "starts text": lambda c, p: c.beginning_offsets("x"),
    "starts timeout text": lambda c, p: c.beginning_offsets([p.place], "x"),
    "ends": lambda c, p: c.end_offsets([p.place, p.other]),
    "ends numbers": lambda c, p: c.end_offsets([5]),
    "times": lambda c, p: plain(c.offsets_for_times({p.place: 0})),
    "times after the end": lambda c, p: c.offsets_for_times({p.place: 2**50}),
    "times none": lambda c, p: c.offsets_for_times({}),
    "times negative": lambda c, p: c.offsets_for_times({p.place: -1}),
    "times number": lambda c, p: c.offsets_for_times(5),
    "times list": lambda c, p: c.offsets_for_times([p.place]),
    "times of number": lambda c, p: c.offsets_for_times({5: 5}),
    "times text": lambda c, p: c.offsets_for_times({p.place: "x"}),
    "times number text": lambda c, p: c.offsets_for_times({p.place: "5"}),
}


@pytest.mark.parametrize("name", CALLS)
def test_a_call_ends_as_without_the_guard(pair, name):
    """The same result, or an error of the client's class; and the same effect."""
    bare, guarded = (pair.end(each, CALLS[name]) for each in pair.consumers)
    assert bare[1] == guarded[1]
    if not isinstance(bare[0], Exception):
        assert bare[0] == guarded[0]
        return
    assert isinstance(guarded[0], type(bare[0])), guarded
    if isinstance(bare[0], KafkaError) and "commit" in name:
        assert isinstance(guarded[0], errors.KafkaGuardError)
