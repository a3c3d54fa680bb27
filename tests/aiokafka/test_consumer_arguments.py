"""Every form of a call of an AIOKafkaConsumer ends as without the guard."""

from __future__ import annotations

import asyncio
from inspect import isawaitable

import pytest
from aiokafka.errors import KafkaError
from aiokafka.structs import ConsumerRecord, OffsetAndMetadata

from aiokafka import AIOKafkaConsumer, TopicPartition
from kafkaguard import errors, guard
from tests.contracts.consumer import fill


class Pair:
    """A bare and a guarded consumer that read the same partition."""

    def __init__(self, cluster, runner):
        self.run = runner.run
        self.topic = cluster.create_topic(partitions=2)
        fill(cluster, self.topic, 9, partitions=[0, 1])
        self.place, self.other = (TopicPartition(self.topic, n) for n in (0, 1))
        self.consumers = self.run(self.started(cluster.bootstrap_servers))

    async def started(self, servers):
        """Build and start the consumers."""
        bare, guarded = (
            AIOKafkaConsumer(
                bootstrap_servers=servers,
                group_id=f"{self.topic}-{each}",
                enable_auto_commit=False,
                fetch_max_wait_ms=100,
            )
            for each in ("bare", "guarded")
        )
        consumers = bare, guard(guarded)
        for each in consumers:
            await each.start()
        return consumers

    async def end(self, consumer, call):
        """Make a call; return its result or error, and what it has changed."""
        consumer.unsubscribe()
        consumer.assign([self.place])
        consumer.seek(self.place, 0)
        await consumer.getmany(timeout_ms=20_000, max_records=1)
        try:
            outcome = call(consumer, self)
            outcome = plain(await outcome if isawaitable(outcome) else outcome)
        except Exception as error:
            outcome = error
        owned = consumer.assignment()
        return outcome, [
            owned,
            consumer.paused(),
            [await consumer.position(each) for each in owned],
            [await consumer.committed(each) for each in (self.place, self.other)],
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
    """Return the two consumers, and stop them."""
    with asyncio.Runner() as runner:
        made = Pair(kafka_cluster, runner)
        yield made
        for each in made.consumers:
            runner.run(each.stop())


async def after(first, then):
    """Await the second of two calls."""
    if isawaitable(first):
        await first
    return await then()


def many(consumer, count=1):
    """Read some records."""
    return consumer.getmany(timeout_ms=20_000, max_records=count)


CALLS = {
    "getmany": lambda c, p: many(c, 2),
    "getmany of one": lambda c, p: c.getmany(p.place, timeout_ms=20_000, max_records=2),
    "getmany of another": lambda c, p: c.getmany(p.other, timeout_ms=100),
    "getmany of number": lambda c, p: c.getmany(5),
    "getmany text": lambda c, p: c.getmany(timeout_ms="x"),
    "getmany negative": lambda c, p: c.getmany(max_records=-1),
    "getmany many text": lambda c, p: c.getmany(max_records="x"),
    "getmany unknown": lambda c, p: c.getmany(wrong=1),
    "getone": lambda c, p: c.getone(),
    "getone of one": lambda c, p: c.getone(p.place),
    "getone of number": lambda c, p: c.getone(5),
    "commit": lambda c, p: c.commit(),
    "commit offsets": lambda c, p: c.commit({p.place: 4}),
    "commit by name": lambda c, p: c.commit(offsets={p.place: 4}),
    "commit pair": lambda c, p: c.commit({p.place: (4, "said")}),
    "commit structure": lambda c, p: c.commit({p.place: OffsetAndMetadata(5, "x")}),
    "commit unassigned": lambda c, p: c.commit({p.other: 6}),
    "commit own and others": lambda c, p: c.commit({p.place: 7, p.other: 6}),
    "commit nowhere": lambda c, p: c.commit({TopicPartition("no-such", 0): 6}),
    "commit empty": lambda c, p: c.commit({}),
    "commit text": lambda c, p: c.commit("x"),
    "commit list": lambda c, p: c.commit([p.place]),
    "commit number": lambda c, p: c.commit(5),
    "commit of number": lambda c, p: c.commit({5: 5}),
    "commit of text": lambda c, p: c.commit({p.place: "x"}),
    "commit of long text": lambda c, p: c.commit({p.place: "xyz"}),
    "commit of bytes": lambda c, p: c.commit({p.place: (4, b"x")}),
    "commit of negative": lambda c, p: c.commit({p.place: -5}),
    "commit two arguments": lambda c, p: c.commit({p.place: 4}, 5),
    "seek": lambda c, p: after(c.seek(p.place, 6), lambda: many(c)),
    "seek by name": lambda c, p: c.seek(partition=p.place, offset=6),
    "seek unassigned": lambda c, p: c.seek(p.other, 6),
    "seek number": lambda c, p: c.seek(5, 5),
    "seek nothing": lambda c, p: c.seek(5),
    "seek negative": lambda c, p: c.seek(p.place, -3),
    "seek text": lambda c, p: c.seek(p.place, "x"),
    "seek start": lambda c, p: after(c.seek_to_beginning(), lambda: many(c)),
    "seek start number": lambda c, p: c.seek_to_beginning(5),
    "seek end unassigned": lambda c, p: c.seek_to_end(p.other),
    "seek committed number": lambda c, p: c.seek_to_committed(5),
    "pause": lambda c, p: after(c.pause(p.place), lambda: c.getmany(timeout_ms=100)),
    "pause number": lambda c, p: c.pause(5),
    "pause unassigned": lambda c, p: c.pause(p.other),
    "resume number": lambda c, p: c.resume(5),
    "assign number": lambda c, p: c.assign(5),
    "assign none": lambda c, p: c.assign([]),
    "subscribe as well": lambda c, p: c.subscribe([p.topic]),
    "subscribe nothing": lambda c, p: c.subscribe(),
    "subscribe both": lambda c, p: c.subscribe(["x"], pattern="y"),
    "subscribe wrong pattern": lambda c, p: c.subscribe(pattern="("),
    "position": lambda c, p: c.position(p.place),
    "position unassigned": lambda c, p: c.position(p.other),
    "position number": lambda c, p: c.position(5),
    "committed number": lambda c, p: c.committed(5),
    "starts": lambda c, p: c.beginning_offsets([p.place, p.other]),
    "starts none": lambda c, p: c.beginning_offsets([]),
    "starts number": lambda c, p: c.beginning_offsets(5),
    "starts numbers": lambda c, p: c.beginning_offsets([5]),
    "ends": lambda c, p: c.end_offsets([p.place, p.other]),
    "ends numbers": lambda c, p: c.end_offsets([5]),
    "times": lambda c, p: c.offsets_for_times({p.place: 0}),
    "times after the end": lambda c, p: c.offsets_for_times({p.place: 2**50}),
    "times none": lambda c, p: c.offsets_for_times({}),
    "times negative": lambda c, p: c.offsets_for_times({p.place: -1}),
    "times number": lambda c, p: c.offsets_for_times(5),
    "times list": lambda c, p: c.offsets_for_times([p.place]),
    "times text": lambda c, p: c.offsets_for_times({p.place: "x"}),
    "times of number": lambda c, p: c.offsets_for_times({5: 5}),
}


@pytest.mark.parametrize("name", CALLS)
def test_a_call_ends_as_without_the_guard(pair, name):
    """The same result, or an error of the client's class; and the same effect."""
    bare, guarded = (pair.run(pair.end(each, CALLS[name])) for each in pair.consumers)
    assert bare[1] == guarded[1]
    if not isinstance(bare[0], Exception):
        assert bare[0] == guarded[0]
        return
    assert isinstance(guarded[0], type(bare[0])), guarded
    if isinstance(bare[0], KafkaError) and "commit" in name:
        assert isinstance(guarded[0], errors.KafkaGuardError)
