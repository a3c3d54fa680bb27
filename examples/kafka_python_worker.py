"""A worker: read orders, write totals, commit what is done, stop on SIGTERM."""

from __future__ import annotations

import json
import os
import signal

from kafka import KafkaConsumer, KafkaProducer

from kafkaguard import guard
from kafkaguard.errors import KafkaGuardError
from kafkaguard.testing import KafkaCluster

POLICY = {"on_reject": "dead_letter", "dead_letter": {"topic": "{topic}.dlq"}}
running = True


def stop(*_) -> None:
    """Finish the records that were read, then stop."""
    global running  # noqa: PLW0603 - a signal handler has no other way to tell
    running = False


def work(servers: str, orders: str, totals: str) -> None:
    """Handle orders until the process is told to stop."""
    signal.signal(signal.SIGTERM, stop)
    reader = KafkaConsumer(
        orders,
        bootstrap_servers=servers,
        group_id="worker",
        auto_offset_reset="earliest",
        enable_auto_commit=False,
    )
    writer = KafkaProducer(bootstrap_servers=servers)
    with guard(reader) as consumer, guard(writer, policy=POLICY) as producer:
        while running:
            for records in consumer.poll(timeout_ms=500).values():
                for record in records:
                    total = sum(json.loads(record.value)).__str__().encode()
                    producer.send(totals, total, key=record.key)
            # Commit only what is delivered or set aside; flush() raises otherwise.
            try:
                report = producer.flush(30)
                consumer.commit()
            except KafkaGuardError as error:
                print(f"{error.verdict.action}: {error}")
                raise
            if report.delivered:
                print(report)
                os.kill(os.getpid(), signal.SIGTERM)  # here: the example ends itself


with KafkaCluster() as cluster:
    orders, totals = cluster.create_topic(), cluster.create_topic()
    cluster.create_topic(f"{totals}.dlq")
    with KafkaProducer(bootstrap_servers=cluster.bootstrap_servers) as outside:
        outside.send(orders, b"[3, 4]", key=b"alice")
    work(cluster.bootstrap_servers, orders, totals)
