"""Handle records with aiokafka; a database that is down makes no dead letters."""

from __future__ import annotations

import asyncio

from kafka import KafkaProducer

from aiokafka import AIOKafkaConsumer
from kafkaguard import Unavailable, guard
from kafkaguard.testing import KafkaCluster

outage = iter([True, True])


async def handle(record):
    """Write a record, if the database is there."""
    if next(outage, False):
        raise Unavailable("the database is down", after=0.5)
    await asyncio.sleep(0.01)
    print(f"wrote {record.value}")


async def main(cluster):
    """Handle what is in the topic."""
    topic = cluster.create_topic()
    with KafkaProducer(bootstrap_servers=cluster.bootstrap_servers) as producer:
        for number in range(20):
            producer.send(topic, b"%d" % number)
    config = {
        "bootstrap_servers": cluster.bootstrap_servers,
        "group_id": "writers",
        "auto_offset_reset": "earliest",
    }
    async with guard(factory=AIOKafkaConsumer, config=config) as consumer:
        consumer.subscribe([topic])
        report = await consumer.process(handle, workers=8, order="key", until_end=True)
    print(report)
    assert report.processed == 20


with KafkaCluster() as cluster:
    asyncio.run(main(cluster))
