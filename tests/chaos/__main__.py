"""What a guarded producer tells, against what is in the topics, while brokers fail.

``python -m tests.chaos --seconds 45 --seed 7`` runs three brokers (replication factor 3,
min.insync.replicas 2) and four sending threads. It exits with 1 where a word was wrong.
``--process`` runs services that handle records instead, and kills them too; ``--once 50``
kills a service 50 times that handles records exactly once.
"""

from __future__ import annotations

import argparse
import logging
import sys
import threading
import time
from collections import Counter, defaultdict
from random import Random

from kafka import KafkaConsumer, TopicPartition

from kafkaguard.testing import KafkaCluster
from tests.chaos import processing
from tests.chaos.clients import CLIENTS, DELIVERY_S
from tests.chaos.faults import Faults
from tests.chaos.load import Load
from tests.contracts.once import check_kills

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


class Uncaught(logging.Handler):
    """Counts what ended a thread, and what the guard logs as a fault of its own."""

    def __init__(self):
        super().__init__(logging.ERROR)
        self.found = []
        threading.excepthook = lambda args: self.found.append(repr(args.exc_value))
        logging.getLogger("kafkaguard").addHandler(self)

    def emit(self, record):
        """Take in a line."""
        self.found.append(self.format(record))


def read(cluster, topics):
    """Read the names of the records, by topic and partition, in order."""
    found = {}
    with KafkaConsumer(bootstrap_servers=cluster.bootstrap_servers) as consumer:
        places = [TopicPartition(t, n) for t in topics for n in range(PARTITIONS)]
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


def lost(told, found):
    """List what was told as delivered and is not there."""
    there = {name for names in found.values() for _, name in names}
    return [
        name for name, each in told.items() if each.is_delivered and name not in there
    ]


def wrong(told, found, now, longest, maybe_twice):
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
        "lost": len(lost(told, found)),
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


def twice(told, found):
    """Say what was told about records that are there twice."""
    there = Counter(name for names in found.values() for _, name in names)
    return Counter(kind(told[name]) for name, count in there.items() if count > 1)


def age(told, now):
    """Say how long before the end a record was sent and told."""
    return f"sent {now - told.sent:.3f} s and told {now - told.settled:.3f} s ago"


def compare(cluster, topics, told, longest, times, maybe_twice):
    """Compare, again while the high watermarks of brokers that crashed catch up."""
    now = end = time.monotonic()
    end += CATCH_UP_S
    while True:
        found = read(cluster, topics)
        bad = wrong(told, found, now, longest, maybe_twice)
        if not bad["lost"] or time.monotonic() > end:
            for word, count in twice(told, found).items():
                print(f"twice: {count} {word}; maybe_twice: {maybe_twice}")
            return bad
        for name in lost(told, found)[:5]:
            print("not there yet:", name, told[name].put, age(told[name], now))
            for kind, start, stop in times:
                if stop > told[name].sent - 5 and start < told[name].settled + 5:
                    print(f"     {kind} {now - start:.3f} to {now - stop:.3f} s ago")
            print("    ", stands_at(cluster, told[name]), flush=True)
        time.sleep(2)


def kinds(told):
    """Count the outcomes in words."""
    return Counter(map(kind, told.values()))


def kind(told):
    """Name an outcome."""
    error = told.error
    return "delivered" if error is None else f"{error.name} {error.verdict.written}"


def main():
    """Run, compare, and say what was found."""
    parser = argparse.ArgumentParser(prog="python -m tests.chaos", description=__doc__)
    parser.add_argument("--seconds", type=float, default=45.0)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--client", choices=CLIENTS, default="kafka-python")
    parser.add_argument("--process", action="store_true", help="services, not sends")
    parser.add_argument("--once", type=int, metavar="KILLS", help="exactly once")
    parser.add_argument("--bare", action="store_true", help="a loop written by hand")
    chosen = parser.parse_args()
    if chosen.once:
        with KafkaCluster() as cluster:
            check_kills(cluster, chosen.client, chosen.once, 500 * chosen.once)
        return 0
    if chosen.process:
        return main_of_services(chosen)
    logging.getLogger("kafka").setLevel(logging.CRITICAL)
    uncaught = Uncaught()
    with KafkaCluster(brokers=3) as cluster:
        topics = [cluster.create_topic(None, PARTITIONS, config=TOPIC) for _ in "ab"]
        client = CLIENTS[chosen.client](cluster.bootstrap_servers)
        load = Load(client.send, topics, chosen.seed)
        faults = Faults(cluster, topics[0], Random(chosen.seed), DELIVERY_S + 1)
        load.start()
        faults.run(chosen.seconds)
        has_ended = load.stop(client.LONGEST_S + MARGIN_S)
        start = time.monotonic()
        maybe_twice = client.close(CLOSE_S)
        seconds = time.monotonic() - start
        bad = compare(
            cluster, topics, load.told, client.LONGEST_S, faults.times, maybe_twice
        )
    bad["uncaught"] = len(uncaught.found)
    bad["threads that hang"] = 0 if has_ended else 1
    bad["close() too slow"] = 1 if seconds > CLOSE_S + MARGIN_S else 0
    say(chosen, faults, load.told, bad, uncaught, maybe_twice)
    return int(any(bad.values()))


def main_of_services(chosen):
    """Let services handle records while brokers fail; compare at the end."""
    random = Random(chosen.seed)
    with KafkaCluster(brokers=3) as cluster:
        faults = Faults(cluster, None, Random(chosen.seed), 12)
        bad, facts = processing.play(
            cluster, chosen.client, chosen.seconds, random, faults, bare=chosen.bare
        )
    print(f"seed {chosen.seed}, {chosen.client}: {dict(faults.done)}")
    for word, count in {**facts, **bad}.items():
        print(f"  {word}: {count}")
    return int(any(bad.values()))


def say(chosen, faults, told, bad, uncaught, maybe_twice):
    """Print what happened."""
    outcomes = kinds(told)
    late = sum(n for kind, n in outcomes.items() if kind.startswith("SUPERSEDED"))
    print(f"seed {chosen.seed}, {chosen.client}: {dict(faults.done)}")
    times = [t.settled - t.sent for t in told.values() if t.settled is not None]
    print(f"the longest outcome took {max(times, default=0.0):.1f} s")
    print(
        f"{len(told)} records, maybe_twice {maybe_twice}; superseded {late / max(1, len(told)):.2%}"
    )
    for kind, count in outcomes.most_common():
        print(f"  {count:8} {kind}")
    for word, count in bad.items():
        print(f"  {word}: {count}")
    for line in uncaught.found[:5]:
        print("   ", line)


if __name__ == "__main__":
    sys.exit(main())
