"""Handle records with kafka-python; a record that fails is tried again."""

from __future__ import annotations

from kafka import KafkaConsumer, KafkaProducer

from kafkaguard import guard, handling
from kafkaguard.testing import KafkaCluster


def handle(record):
    """Fail at the first attempt of one record."""
    attempt = handling().attempt
    print(f"offset {record.offset}, attempt {attempt}")
    if record.offset == 2 and attempt == 1:
        raise OSError("the disk is busy")


with KafkaCluster() as cluster:
    topic = cluster.create_topic()
    with KafkaProducer(bootstrap_servers=cluster.bootstrap_servers) as producer:
        for number in range(5):
            producer.send(topic, b"%d" % number)
    config = {
        "bootstrap_servers": cluster.bootstrap_servers,
        "group_id": "files",
        "auto_offset_reset": "earliest",
    }
    with guard(factory=KafkaConsumer, config=config, policy="consumer") as consumer:
        consumer.subscribe([topic])
        report = consumer.process(handle, until_end=True)
    print(report)
    assert (report.processed, report.retried) == (5, 1)
