"""With the guard: only the record without a key is refused, and set aside."""

from __future__ import annotations

import os

from confluent_kafka import Producer

from kafkaguard import guard

config = {
    "bootstrap.servers": os.environ["KAFKA"],
    "linger.ms": 100,
    "enable.idempotence": True,
}
policy = {"on_reject": "dead_letter", "dead_letter": {"topic": "flights-refused"}}
producer = guard(factory=Producer, config=config, policy=policy)
producer.produce("flights", b"1013", b"N14228")
producer.produce("flights", b"2020")  # no key
producer.produce("flights", b"1124", b"N24211")
producer.flush(20)
print(producer.report())
