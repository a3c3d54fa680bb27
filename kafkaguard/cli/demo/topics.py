"""Read the demo's topics back and count their records."""

from __future__ import annotations

import json
import time
from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from kafkaguard._delivery.dead_letters import read_headers
from kafkaguard.cli.demo.flights import Flight
from kafkaguard.cli.group import Problem

if TYPE_CHECKING:
    from collections.abc import Iterator

_PATIENCE_S = 15.0
_QUIET_S = 1.0
_AT_ONCE = 10_000


@dataclass
class Contents:
    """The content of a topic.

    Attributes:
        flights: How often each flight is in the topic.
        last: The last record of each key, which compaction will keep.
        reasons: The reasons of dead letters.
    """

    flights: Counter[Flight] = field(default_factory=Counter)
    last: dict[str, Flight] = field(default_factory=dict)
    reasons: Counter[str] = field(default_factory=Counter)

    @property
    def records(self) -> int:
        """The number of records."""
        return self.flights.total()

    @property
    def repeated(self) -> int:
        """The number of duplicates."""
        return self.records - len(self.flights)


def read_topic(servers: str, topic: str) -> Contents:
    """Read a topic from its first to its last record."""
    found = Contents()
    for message in _messages(servers, topic):
        flight = Flight.of(json.loads(message.value()))
        found.flights[flight] += 1
        if (key := message.key()) is not None:
            found.last[key.decode()] = flight
        if reason := read_headers(message.headers()).get("reason"):
            found.reasons[reason] += 1
    return found


def _messages(servers: str, topic: str) -> Iterator[Any]:
    """Read until the end of each partition is reached and no more records come.

    The producer of a failed job may still be sending, so the end offsets of one moment
    are not enough.
    """
    from confluent_kafka import Consumer

    config = {"bootstrap.servers": servers, "group.id": "kafkaguard-demo"}
    consumer = Consumer(config | {"enable.partition.eof": True})
    try:
        yield from _read_to_the_end(consumer, topic)
    finally:
        consumer.close()


def _read_to_the_end(consumer: Any, topic: str) -> Iterator[Any]:
    from confluent_kafka import OFFSET_BEGINNING, TopicPartition

    partitions = consumer.list_topics(topic, _PATIENCE_S).topics[topic].partitions
    consumer.assign([TopicPartition(topic, p, OFFSET_BEGINNING) for p in partitions])
    ended: set[int] = set()
    deadline = time.monotonic() + _PATIENCE_S
    while (batch := consumer.consume(_AT_ONCE, _QUIET_S)) or len(ended) < len(
        partitions
    ):
        if time.monotonic() > deadline:
            raise Problem(f"topic {topic} cannot be read to its end")
        for message in batch:
            deadline = time.monotonic() + _PATIENCE_S
            if message.error() is None:
                yield message
            else:
                ended.add(message.partition())
