"""Without the guard: one record without a key takes its whole batch along."""

from __future__ import annotations

import os

from kafka import KafkaProducer
from kafka.errors import KafkaError

producer = KafkaProducer(bootstrap_servers=os.environ["KAFKA"], linger_ms=100)
futures = [
    producer.send("flights", b"1013", key=b"N14228"),
    producer.send("flights", b"2020"),  # no key
    producer.send("flights", b"1124", key=b"N24211"),
]
for future in futures:
    try:
        print("delivered at offset", future.get(timeout=20).offset)
    except KafkaError as error:
        print("failed:", error)
try:
    producer.send("flights", b"1545", key=b"N14228").get(timeout=20)
except KafkaError as error:
    print("the producer is dead:", error)
