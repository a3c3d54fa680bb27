"""Send a record every second, through an outage of the broker."""

from __future__ import annotations

import os
import time

from kafka import KafkaProducer

from kafkaguard import guard

client = KafkaProducer(bootstrap_servers=os.environ["KAFKA"])
with guard(client) as producer:
    for number in range(int(os.environ.get("RECORDS", "30"))):
        producer.send("flights", b"%d" % number, key=b"N14228")
        time.sleep(1)
    print(producer.flush())
