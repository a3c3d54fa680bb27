"""A guarded producer: what it tells against what is in its topics."""

from __future__ import annotations

import time
from collections import Counter, defaultdict
from functools import partial
from itertools import takewhile

from kafka import KafkaConsumer, TopicPartition

from tests.chaos.actors import Actor, Outcome, Series
from tests.chaos.clients import CLIENTS
from tests.chaos.load import Load

PARTITIONS = 3
TOPIC = {
    "min.insync.replicas": 2,
    "max.message.bytes": 20_000,
    # Nothing is compacted away while it is compared.
    "min.compaction.lag.ms": 3_600_000,
}
#: Seconds beyond that until an outcome must be told: the guard's own, a successor's, and
#: those of a busy machine.
MARGIN_S = 20.0
#: Seconds that the brokers have to agree what is written.
CATCH_UP_S = 30.0
#: Seconds that the client has to close.
CLOSE_S = 60.0
#: Seconds after the last fault in which each topic must get a record.
RECOVER_S = 60.0


class Producing(Actor):
    """Four threads that send by one guarded producer to three topics.

    One topic grows, one becomes compacted, and one is deleted and made anew, which may
    lose what was delivered before.

    Args:
        ground: The cluster and its proxy.
        client: The client's name.
        seed: What is drawn at random.
        pace: Seconds between two records of a thread.
    """

    def __init__(self, ground, client, seed, pace):
        self.name = user_of(client)
        self._client_name = client
        self._ground = ground
        create = ground.cluster.create_topic
        self._topics = [create(None, PARTITIONS, config=TOPIC) for _ in "abc"]
        self.growing, self.compacted, remade = self._topics
        self.remade = remade, partial(create, remade, PARTITIONS, config=TOPIC)
        self._seed, self._pace = seed, pace

    def start(self):
        """Begin to send."""
        settings = self._ground.settings(self.name, self._client_name)
        self._client = CLIENTS[self._client_name](settings)
        self._load = Load(self._client.send, self._topics, self._seed, self._pace)
        self._load.start()

    def finish(self, faults):
        """Stop, and compare."""
        idle = self._wait_for_deliveries()
        longest = self._client.LONGEST_S
        has_ended = self._load.stop(longest + MARGIN_S)
        start = time.monotonic()
        maybe_twice = self._client.close(CLOSE_S)
        seconds = time.monotonic() - start
        told = self._load.told
        remade = self.remade[0]
        since = {remade: faults.last("remake", remade)}
        found, bad = compare(
            self._ground.cluster,
            self._topics,
            told,
            longest,
            faults,
            maybe_twice,
            since,
        )
        bad["topics without a delivery after the faults"] = idle
        bad["threads that hang"] = 0 if has_ended else 1
        bad["close() too slow"] = 1 if seconds > CLOSE_S + MARGIN_S else 0
        outcomes = Counter(map(kind, told.values()))
        late = sum(n for k, n in outcomes.items() if k.startswith("SUPERSEDED"))
        times = [t.settled - t.sent for t in told.values() if t.settled is not None]
        facts = {
            "records": len(told),
            "maybe_twice": maybe_twice,
            "superseded, in percent": round(100 * late / max(1, len(told)), 2),
            "seconds of the longest outcome": round(max(times, default=0.0), 1),
            **dict(outcomes.most_common()),
            **{f"twice: {k}": n for k, n in twice(told, found).items()},
        }
        return Outcome(bad, facts, series(told, found, since))

    def _wait_for_deliveries(self):
        """Wait until each topic gets a record; return how many got none."""
        begin = time.monotonic()
        while True:
            newest = reversed(list(self._load.told.values()))
            sent = takewhile(lambda told: told.sent > begin, newest)
            idle = {*self._topics} - {told.topic for told in sent if told.is_delivered}
            if not idle or time.monotonic() > begin + RECOVER_S:
                return len(idle)
            time.sleep(0.5)


def user_of(client):
    """Name the user of a client's producer."""
    return f"produce-{client}"


def read(cluster, topics):
    """Read the names of the records, by topic and partition, in order."""
    with KafkaConsumer(bootstrap_servers=cluster.bootstrap_servers) as consumer:
        places = [
            TopicPartition(topic, number)
            for topic in topics
            for number in consumer.partitions_for_topic(topic)
        ]
        consumer.assign(places)
        consumer.seek_to_beginning(*places)
        ends = consumer.end_offsets(places)
        found = {place: [] for place in places}
        while any(consumer.position(place) < ends[place] for place in places):
            for place, batch in consumer.poll(timeout_ms=1000).items():
                found[place] += [(r.key, r.value[:16].rstrip(b"x")) for r in batch]
    return found


def told_place(told):
    """Tell the partition and the offset that a delivered record was told to have."""
    if hasattr(told.put, "offset"):  # kafka-python's RecordMetadata
        return told.put.partition, told.put.offset
    return told.put


def stands_at(cluster, told):
    """Say what stands at the offset of a record that was told as delivered."""
    partition, offset = told_place(told)
    place = TopicPartition(told.topic, partition)
    with KafkaConsumer(
        bootstrap_servers=cluster.bootstrap_servers, group_id=None
    ) as consumer:
        start = consumer.beginning_offsets([place])[place]
        end = consumer.end_offsets([place])[place]
        text = f"{place.topic} [{partition}] at offset {offset}, log {start} to {end}"
        if offset is None or not start <= offset < end:
            return f"{text}: no such offset"
        consumer.assign([place])
        consumer.seek(place, max(start, offset - 2))
        records = []
        while consumer.position(place) < min(end, offset + 3):
            for batch in consumer.poll(timeout_ms=1000, max_records=5).values():
                records += batch
        near = [f"{r.offset}: {r.value[:16]!r} of {r.timestamp}" for r in records]
        return f"{text}: there is {', '.join(near)}"


def lost(told, found, since):
    """List what was told as delivered and is not there.

    What was sent before its topic was made anew may be gone: ``since`` is by topic.
    """
    there = {name for names in found.values() for _, name in names}
    return [
        name
        for name, each in told.items()
        if each.is_delivered
        and name not in there
        and each.sent > since.get(each.topic, 0.0)
    ]


def wrong(told, found, now, longest, maybe_twice, since):
    """Compare what was told with what is there: counts of wrong words.

    A second copy may be anywhere behind the first one, whose order counts.
    """
    there = Counter(name for names in found.values() for _, name in names)
    doubles = twice(told, found)
    doubles["in all"] = doubles.total()
    numbers = defaultdict(list)
    for place, names in found.items():
        for key, name in dict.fromkeys(names):
            if key is not None:
                numbers[place, key].append(name)
    late = [
        t
        for t in told.values()
        if (t.settled or now) > t.sent + longest + MARGIN_S
    ]  # fmt: skip
    return {
        "lost": len(lost(told, found, since)),
        "not written, yet there": sum(
            t.was_not_written and there[n] > 0 for n, t in told.items()
        ),
        "twice, and not within maybe_twice": max(
            0, doubles["delivered" if maybe_twice else "in all"] - maybe_twice
        ),
        "never sent": sum(name not in told for name in there),
        "keys out of order": sum(names != sorted(names) for names in numbers.values()),
        "never settled": sum(t.settled is None for t in told.values()),
        "settled late": len(late),
    }


def series(told, found, since):
    """Return when records were told, and when those that are there were."""
    there = {name for names in found.values() for _, name in names}
    ends = {name: t.settled or t.sent for name, t in told.items()}
    missing = lost(told, found, since)
    false = [n for n, t in told.items() if t.was_not_written and n in there]
    return Series(
        [ends[name] for name, t in told.items() if t.is_delivered],
        [ends[name] for name, t in told.items() if not t.is_delivered],
        [ends[name] for name in there if name in ends],
        [ends[name] for name in (*missing, *false)],
    )


def twice(told, found):
    """Say what was told about records that are there twice."""
    there = Counter(name for names in found.values() for _, name in names)
    return Counter(kind(told[name]) for name, count in there.items() if count > 1)


def age(told, now):
    """Say how long before the end a record was sent and told."""
    return f"sent {now - told.sent:.3f} s and told {now - told.settled:.3f} s ago"


def compare(cluster, topics, told, longest, faults, maybe_twice, since):
    """Compare, again while the high watermarks of brokers that crashed catch up."""
    now = end = time.monotonic()
    end += CATCH_UP_S
    while True:
        found = read(cluster, topics)
        bad = wrong(told, found, now, longest, maybe_twice, since)
        if not bad["lost"] or time.monotonic() > end:
            return found, bad
        for name in lost(told, found, since)[:5]:
            print("not there yet:", name, told[name].put, age(told[name], now))
            for each in faults.happened:
                begins, ends = told[name].sent - 5, told[name].settled + 5
                if each.stop > begins and each.start < ends:
                    ago = f"{now - each.start:.3f} to {now - each.stop:.3f} s ago"
                    print(f"     {each.kind} ({each.subject}) {ago}")
            print("    ", stands_at(cluster, told[name]), flush=True)
        time.sleep(2)


def kind(told):
    """Name an outcome."""
    error = told.error
    return "delivered" if error is None else f"{error.name} {error.verdict.written}"
