"""Reading topics back, for tests of the sink."""

from __future__ import annotations

import time
import uuid

from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaError, TopicPartition


def read(cluster, topic):
    """Return a topic's messages, partition by partition, in order."""
    config = {
        "bootstrap.servers": cluster.bootstrap_servers,
        "group.id": uuid.uuid4().hex,
    }
    consumer = Consumer(config)
    try:
        parts = consumer.list_topics(topic, 10).topics[topic].partitions
        assigned = [TopicPartition(topic, part, OFFSET_BEGINNING) for part in parts]
        left = sum(consumer.get_watermark_offsets(each, 10)[1] for each in assigned)
        consumer.assign(assigned)
        messages = []
        while left:
            batch = consumer.consume(min(left, 10_000), 20)
            assert batch, f"{left} messages of {topic} do not come"
            assert not [m.error() for m in batch if m.error()]
            messages += batch
            left -= len(batch)
        return messages
    finally:
        consumer.close()


def values(cluster, topic):
    """Return the values of a topic's records, as text, in any order."""
    return sorted(message.value().decode() for message in read(cluster, topic))


def why(message):
    """Return a dead letter's headers, without the common beginning of their names."""
    return {
        name.removeprefix("kafkaguard."): (value or b"").decode()
        for name, value in message.headers() or ()
    }


def letters_to(topic, **more):
    """Return a policy that sets refused records aside into a topic."""
    return {"extends": "spark-sink", "dead_letter": {"topic": topic}, **more}


def committed(cluster, topic, patience=30.0):
    """Return the messages that readers of committed records see, in order.

    Args:
        cluster: The cluster.
        topic: The topic.
        patience: Seconds to wait for the ends of all partitions.
    """
    config = {
        "bootstrap.servers": cluster.bootstrap_servers,
        "group.id": uuid.uuid4().hex,
        "isolation.level": "read_committed",
        "enable.partition.eof": True,
    }
    consumer = Consumer(config)
    try:
        parts = consumer.list_topics(topic, 10).topics[topic].partitions
        consumer.assign([TopicPartition(topic, p, OFFSET_BEGINNING) for p in parts])
        found, ended = [], set()
        end = time.monotonic() + patience
        while len(ended) < len(parts) and time.monotonic() < end:
            for message in consumer.consume(10_000, 0.1):
                if message.error() is None:
                    found.append(message)
                elif message.error().code() == KafkaError._PARTITION_EOF:
                    ended.add(message.partition())
        assert len(ended) == len(parts), "a transaction is still open"
        return found
    finally:
        consumer.close()


def committed_values(cluster, topic, patience=30.0):
    """Return the values that readers of committed records see, in order."""
    messages = committed(cluster, topic, patience)
    return [message.value().decode() for message in messages]
