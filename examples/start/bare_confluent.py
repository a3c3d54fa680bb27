"""Without the guard: one record without a key takes its whole batch along."""

from __future__ import annotations

import os

from confluent_kafka import Producer


def report(error, message) -> None:
    """Say what became of a record."""
    print("failed:" if error else "delivered at offset", error or message.offset())


producer = Producer({"bootstrap.servers": os.environ["KAFKA"], "linger.ms": 100})
producer.produce("flights", b"1013", b"N14228", on_delivery=report)
producer.produce("flights", b"2020", on_delivery=report)  # no key
producer.produce("flights", b"1124", b"N24211", on_delivery=report)
producer.flush(20)
