"""Write each record once, and be told of those that may be there or not."""

from __future__ import annotations

import os

from confluent_kafka import Producer

from kafkaguard import guard

config = {"bootstrap.servers": os.environ["KAFKA"], "enable.idempotence": True}
producer = guard(factory=Producer, config=config, policy={"in_doubt": "raise"})
for number in range(100):
    producer.produce("ledger", b"%d" % number, b"%d" % (number % 7))
producer.flush(20)
report = producer.report()  # raises for a record that is in doubt
print(report.delivered, "written once,", report.in_doubt, "in doubt")
