"""Lag of 10 groups on 1,000 partitions in one call, compared with the common recipe.

It also checks that a report on 10,000 partitions leaves nothing in memory.

The recipe is what users of confluent-kafka write: ``committed`` for a group's
partitions, then ``get_watermark_offsets`` for each partition.
"""

from __future__ import annotations

import gc
import time
import tracemalloc

import confluent_kafka
from confluent_kafka.admin import AdminClient

from kafkaguard import guard
from kafkaguard.testing import KafkaCluster

PARTITIONS = 1_000
GROUPS = 10
ROUNDS = 3
LIMIT = 0.2
TOPICS_OF_1000 = 10
MEMORY_LIMIT = 200_000


def commit(bootstrap, group, topic):
    consumer = consumer_of(bootstrap, group)
    offsets = [
        confluent_kafka.TopicPartition(topic, each, 0) for each in range(PARTITIONS)
    ]
    deadline = time.monotonic() + 60
    while True:
        try:
            consumer.commit(offsets=offsets, asynchronous=False)
            break
        except confluent_kafka.KafkaException:  # the coordinator is not there yet
            if time.monotonic() > deadline:
                raise
            consumer.poll(0.2)
    consumer.close()


def consumer_of(bootstrap, group):
    return confluent_kafka.Consumer(
        {"bootstrap.servers": bootstrap, "group.id": group, "log_level": 0}
    )


def recipe(consumers, topic):
    places = [confluent_kafka.TopicPartition(topic, each) for each in range(PARTITIONS)]
    total = 0
    for consumer in consumers:
        for committed in consumer.committed(places, timeout=30):
            _, end = consumer.get_watermark_offsets(committed, timeout=30)
            total += end - committed.offset
    return total


def one_call(admin, groups):
    report = admin.lag(groups)
    report.raise_for_errors()
    return sum(group.total or 0 for group in report.groups.values())


def timed(function, *arguments):
    started = time.perf_counter()
    result = function(*arguments)
    return time.perf_counter() - started, result


def main():
    """Return 1 if one call takes more than a fifth of the recipe's time."""
    with KafkaCluster(brokers=3) as cluster:
        bootstrap = cluster.bootstrap_servers
        topic = cluster.create_topic(partitions=PARTITIONS, replication_factor=1)
        groups = [f"group-{each}" for each in range(GROUPS)]
        for group in groups:
            commit(bootstrap, group, topic)
        consumers = [consumer_of(bootstrap, group) for group in groups]
        settings = {"bootstrap.servers": bootstrap}
        with guard(factory=AdminClient, config=settings) as admin:
            one_call(admin, groups)  # opens the connections, for both ways
            consumers[0].list_topics(timeout=30)
            ratios = []
            for _ in range(ROUNDS):
                ours, theirs = (
                    timed(one_call, admin, groups),
                    timed(recipe, consumers, topic),
                )
                assert ours[1] == theirs[1]
                ratios.append(ours[0] / theirs[0])
                print(f"one call {ours[0]:.3f} s, recipe {theirs[0]:.3f} s")
        for consumer in consumers:
            consumer.close()
    ratio = sorted(ratios)[ROUNDS // 2]
    print(f"ratio {ratio:.3f}, limit {LIMIT}")
    return int(ratio > LIMIT) + memory()


def memory():
    """Return 1 if reports on 10,000 partitions leave objects in memory."""
    with KafkaCluster(brokers=3) as cluster:
        bootstrap = cluster.bootstrap_servers
        for _ in range(TOPICS_OF_1000):
            topic = cluster.create_topic(partitions=PARTITIONS, replication_factor=1)
            commit(bootstrap, "group", topic)
        settings = {"bootstrap.servers": bootstrap}
        with guard(factory=AdminClient, config=settings) as admin:
            one_call(admin, ["group"])
            tracemalloc.start()
            left = []
            for _ in range(ROUNDS):
                seconds, _ = timed(one_call, admin, ["group"])
                gc.collect()
                left.append(tracemalloc.get_traced_memory()[0])
                print(f"10,000 partitions: {seconds:.3f} s traced, {left[-1]:,} B left")
            tracemalloc.stop()
    growth = left[-1] - left[0]
    print(f"growth {growth:,} B, limit {MEMORY_LIMIT:,} B")
    return int(growth > MEMORY_LIMIT)
