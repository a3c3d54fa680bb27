"""Every form of a call of a Consumer ends as without the guard: result, error, effect."""

from __future__ import annotations

import pytest
from confluent_kafka import (
    OFFSET_BEGINNING,
    OFFSET_END,
    Consumer,
    KafkaException,
    Message,
    TopicPartition,
)

from kafkaguard import errors, guard
from tests.confluent.test_confluent_consumer import settings
from tests.contracts.consumer import fill


class Pair:
    """A bare and a guarded consumer that read the same partition."""

    def __init__(self, cluster):
        self.topic = cluster.create_topic(partitions=2)
        fill(cluster, self.topic, 9, partitions=[0, 1])
        own = {"enable.auto.offset.store": False}
        configs = [
            settings(cluster.bootstrap_servers, f"{self.topic}-{each}", **own)
            for each in ("bare", "guarded")
        ]
        self.consumers = (
            Consumer(configs[0]),
            guard(factory=Consumer, config=configs[1]),
        )

    def at(self, partition=0, offset=4, *more):
        """Return a partition of the topic with an offset."""
        return TopicPartition(self.topic, partition, offset, *more)

    def end(self, consumer, call):
        """Make a call; return its result or error, and what it has changed."""
        consumer.assign([self.at(0, 0)])
        consumer.resume([self.at(0, 0)])  # the client keeps pauses
        (message,) = consumer.consume(1, 20)
        try:
            outcome = plain(call(consumer, self, message))
        except Exception as error:
            outcome = error
        owned = consumer.assignment()
        committed = consumer.committed([self.at(0), self.at(1)], 10)
        return (
            outcome,
            [plain(each) for each in (owned, consumer.position(owned))],
            (plain(committed)),
        )


def plain(value):
    """Return what a result says, without what differs between two consumers."""
    if isinstance(value, TopicPartition):
        told = value.error and value.error.code()
        return value.partition, value.offset, value.leader_epoch, value.metadata, told
    if isinstance(value, Message):
        return value.partition(), value.offset(), value.error()
    return [plain(each) for each in value] if isinstance(value, list) else value


@pytest.fixture(scope="module")
def pair(kafka_cluster):
    """Return the two consumers, and close them."""
    made = Pair(kafka_cluster)
    yield made
    for each in made.consumers:
        each.close()


def sync(consumer, *args, **kwargs):
    """Commit, and wait."""
    return consumer.commit(*args, asynchronous=False, **kwargs)


CALLS = {
    "poll": lambda c, p, m: c.poll(20),
    "poll by name": lambda c, p, m: c.poll(timeout=20),
    "poll text": lambda c, p, m: (c.seek(p.at(0, 9)), c.poll("x")),
    "consume": lambda c, p, m: c.consume(2, 20),
    "consume by name": lambda c, p, m: c.consume(timeout=20, num_messages=2),
    "consume none": lambda c, p, m: c.consume(0, 1),
    "consume negative": lambda c, p, m: c.consume(-1, 1),
    "consume too many": lambda c, p, m: c.consume(2_000_000, 1),
    "consume text": lambda c, p, m: c.consume("a", 1),
    "consume timeout text": lambda c, p, m: c.consume(1, "a"),
    "commit message": lambda c, p, m: sync(c, m),
    "commit message by name": lambda c, p, m: sync(c, message=m),
    "commit message in order": lambda c, p, m: c.commit(m, None, False),
    "commit offsets": lambda c, p, m: sync(c, offsets=[p.at()]),
    "commit metadata": lambda c, p, m: sync(c, offsets=[p.at(0, 3, "said")]),
    "commit twice": lambda c, p, m: not sync(c, offsets=[p.at(0, 5), p.at(0, 2)]),
    "commit unassigned": lambda c, p, m: sync(c, offsets=[p.at(1, 6)]),
    "commit nowhere": lambda c, p, m: sync(c, offsets=[p.at(77, 6)]),
    "commit nothing": lambda c, p, m: sync(c),
    "commit no offsets": lambda c, p, m: sync(c, offsets=[]),
    "commit invalid offset": lambda c, p, m: sync(c, offsets=[p.at(0, -1001)]),
    "commit both": lambda c, p, m: sync(c, message=m, offsets=[p.at(0, 7)]),
    "commit both, empty": lambda c, p, m: sync(c, message=m, offsets=[]),
    "commit both, later": lambda c, p, m: c.commit(message=m, offsets=[p.at(0, 7)]),
    "commit number": lambda c, p, m: sync(c, message=5),
    "commit number later": lambda c, p, m: c.commit(message=5),
    "commit text": lambda c, p, m: sync(c, message="x"),
    "commit offsets text": lambda c, p, m: sync(c, offsets="x"),
    "commit offsets of numbers": lambda c, p, m: sync(c, offsets=[5]),
    "commit mixed": lambda c, p, m: sync(c, offsets=[p.at(0, 8), 5]),
    "commit tuple": lambda c, p, m: sync(c, offsets=(p.at(),)),
    "commit mapping": lambda c, p, m: sync(c, offsets={p.at(): 1}),
    "commit unknown name": lambda c, p, m: sync(c, wrong=1),
    "store message": lambda c, p, m: (c.store_offsets(m), sync(c))[1],
    "store offsets": lambda c, p, m: (c.store_offsets(offsets=[p.at()]), sync(c))[1],
    "store number": lambda c, p, m: c.store_offsets(message=5),
    "store both": lambda c, p, m: c.store_offsets(m, [p.at()]),
    "seek": lambda c, p, m: (c.seek(p.at(0, 6)), c.poll(20))[1],
    "seek start": lambda c, p, m: (c.seek(p.at(0, OFFSET_BEGINNING)), c.poll(20))[1],
    "seek unassigned": lambda c, p, m: c.seek(p.at(1, 3)),
    "seek number": lambda c, p, m: c.seek(5),
    "seek text": lambda c, p, m: c.seek("x"),
    "seek nothing": lambda c, p, m: c.seek(),
    "pause": lambda c, p, m: (c.pause([p.at()]), c.poll(0.1))[1],
    "pause and resume": lambda c, p, m: (
        c.pause([p.at()]),
        c.resume([p.at()]),
        c.poll(20),
    )[2],
    "pause unassigned": lambda c, p, m: c.pause([p.at(1)]),
    "pause number": lambda c, p, m: c.pause([5]),
    "pause tuple": lambda c, p, m: c.pause((p.at(),)),
    "resume unassigned": lambda c, p, m: c.resume([p.at(1)]),
    "resume number": lambda c, p, m: c.resume([5]),
    "resume tuple": lambda c, p, m: c.resume((p.at(),)),
    "resume none": lambda c, p, m: c.resume([]),
    "resume generator": lambda c, p, m: c.resume(each for each in [p.at()]),
    "assign": lambda c, p, m: (c.assign([p.at(0, 6)]), c.poll(20))[1],
    "assign none": lambda c, p, m: c.assign([]),
    "assign number": lambda c, p, m: c.assign([5]),
    "assign text": lambda c, p, m: c.assign("x"),
    "assign more": lambda c, p, m: c.incremental_assign([p.at(1, 2)]),
    "assign more number": lambda c, p, m: c.incremental_assign(5),
    "unassign some": lambda c, p, m: c.incremental_unassign([p.at(0)]),
    "unassign others": lambda c, p, m: c.incremental_unassign([p.at(1)]),
    "unassign": lambda c, p, m: c.unassign(),
    "subscribe text": lambda c, p, m: c.subscribe("x"),
    "subscribe tuple": lambda c, p, m: c.subscribe(("x",)),
    "subscribe no topic": lambda c, p, m: c.subscribe([]),
    "subscribe wrong listener": lambda c, p, m: c.subscribe([p.topic], on_assign=5),
    "subscribe zero": lambda c, p, m: c.subscribe([p.topic], on_assign=0),
    "subscribe in order": lambda c, p, m: c.subscribe([p.topic], None, 5),
    "subscribe lost": lambda c, p, m: c.subscribe([p.topic], on_lost="x"),
    "subscribe twice": lambda c, p, m: c.subscribe([p.topic], print, on_assign=print),
    "subscribe too many": lambda c, p, m: c.subscribe([p.topic], *[print] * 4),
    "subscribe unknown": lambda c, p, m: c.subscribe([p.topic], on_what=print),
    "position": lambda c, p, m: c.position([p.at()]),
    "position number": lambda c, p, m: c.position(5),
    "committed": lambda c, p, m: c.committed([p.at()], timeout=10),
    "committed text": lambda c, p, m: c.committed("x"),
    "times": lambda c, p, m: c.offsets_for_times([p.at(0, 0)], timeout=10),
    "times of the end": lambda c, p, m: c.offsets_for_times([p.at(0, OFFSET_END)], 10),
    "times none": lambda c, p, m: c.offsets_for_times([], 10),
    "times number": lambda c, p, m: c.offsets_for_times([5], 10),
    "times no list": lambda c, p, m: c.offsets_for_times(5, 10),
    "times tuple": lambda c, p, m: c.offsets_for_times((p.at(0, 0),), 10),
    "times timeout text": lambda c, p, m: c.offsets_for_times([p.at(0, 0)], "x"),
    "ends": lambda c, p, m: c.get_watermark_offsets(p.at(), 10),
    "ends by name": lambda c, p, m: c.get_watermark_offsets(p.at(), timeout=10),
    "ends number": lambda c, p, m: c.get_watermark_offsets(5, 10),
    "ends nothing": lambda c, p, m: c.get_watermark_offsets(None),
    "ends timeout": lambda c, p, m: c.get_watermark_offsets(p.at(), "x"),
}


@pytest.mark.parametrize("name", CALLS)
def test_a_call_ends_as_without_the_guard(pair, name):
    """The same result, or an error of the client's class; and the same effect."""
    bare, guarded = (pair.end(each, CALLS[name]) for each in pair.consumers)
    assert bare[1:] == guarded[1:]
    if not isinstance(bare[0], Exception):
        assert bare[0] == guarded[0]
        return
    assert isinstance(guarded[0], type(bare[0])), guarded
    if isinstance(bare[0], KafkaException):
        assert isinstance(guarded[0], errors.KafkaGuardError)
        assert bare[0].args[0].code() == guarded[0].args[0].code()
