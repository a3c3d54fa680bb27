"""Consumers of kafka-python that read in a group."""

from __future__ import annotations

import time

from kafka import KafkaConsumer


def joining(topic, **settings):
    """Return a consumer that knows its topic before it joins its group.

    Else it may be given no partition at all, and it never asks again.
    """
    consumer = KafkaConsumer(**settings)
    deadline = time.monotonic() + 20
    while not consumer.partitions_for_topic(topic):
        assert time.monotonic() < deadline, f"{topic} is not known"
    consumer.subscribe([topic])
    return consumer
