"""Without an extra: a guarded producer and the lag of a group, with kafka-python."""

import os
import sys

from kafka import KafkaAdminClient, KafkaProducer

from kafkaguard import guard

servers = os.environ["KAFKA"]
with guard(KafkaProducer(bootstrap_servers=servers)) as producer:
    producer.send("flights", b"1013", key=b"N14228")
    assert producer.flush().delivered == 1
with guard(KafkaAdminClient(bootstrap_servers=servers)) as admin:
    assert admin.lag().complete
    assert admin.log_dirs().complete
assert "pyspark" not in sys.modules
