"""Send dead letters back to their topic, once the cause is mended."""

from __future__ import annotations

import os
from dataclasses import replace

from confluent_kafka import Producer

import kafkaguard

config = {"bootstrap.servers": os.environ["KAFKA"]}
policy = {"on_reject": "dead_letter", "dead_letter": {"topic": "payments.dlq"}}
settings = {**config, "enable.idempotence": True}
producer = kafkaguard.guard(factory=Producer, config=settings, policy=policy)
producer.produce("payments", b"12.50")  # no key, and the topic is compacted
producer.flush(20)
print(producer.report())


def fix(letter):
    """Give a letter the key that it lacks."""
    return replace(letter, key=letter.key or b"unknown")


back = kafkaguard.replay("payments.dlq", config, fix=fix)
print(back.replayed, "replayed;", back.left.total(), "left")
