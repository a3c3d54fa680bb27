"""Read the dead letters: the record, and headers that say why it is here."""

from __future__ import annotations

import os

from kafka import KafkaConsumer

with KafkaConsumer(
    "flights-refused",
    bootstrap_servers=os.environ["KAFKA"],
    auto_offset_reset="earliest",
    consumer_timeout_ms=5000,
) as consumer:
    for record in consumer:
        print(record.key, record.value)
        for name, value in record.headers:
            print(f"  {name}: {value.decode()}")
