"""Consumers of kafka-python that read in a group."""

from __future__ import annotations

import time

from kafka import KafkaConsumer

from kafkaguard import guard


def joining(topic, **settings):
    """Return a guarded consumer that knows its topic before it joins its group.

    Else it may be given no partition at all, and it never asks again. Guarded, since a
    bare one forgets a join that outlives a poll, and reads nothing for good.
    """
    consumer = guard(KafkaConsumer(**settings))
    deadline = time.monotonic() + 20
    while not consumer.partitions_for_topic(topic):
        assert time.monotonic() < deadline, f"{topic} is not known"
    consumer.subscribe([topic])
    return consumer
