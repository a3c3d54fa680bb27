"""With the guard: only the record without a key is refused, and set aside."""

from __future__ import annotations

import os

from kafka import KafkaProducer

from kafkaguard import guard

policy = {"on_reject": "dead_letter", "dead_letter": {"topic": "flights-refused"}}
client = KafkaProducer(bootstrap_servers=os.environ["KAFKA"], linger_ms=100)
with guard(client, policy=policy) as producer:
    producer.send("flights", b"1013", key=b"N14228")
    producer.send("flights", b"2020")  # no key
    producer.send("flights", b"1124", key=b"N24211")
    print(producer.flush())
