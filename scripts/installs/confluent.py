"""confluent-kafka: a lag report, and verdicts on its errors."""

import os

from confluent_kafka import KafkaError
from confluent_kafka.admin import AdminClient

from kafkaguard import classify, guard

config = {"bootstrap.servers": os.environ["KAFKA"]}
admin = guard(factory=AdminClient, config=config)
assert admin.lag().complete
assert admin.log_dirs().complete
assert classify(KafkaError(7), api="Produce").action == "IN_DOUBT"
