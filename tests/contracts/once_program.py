"""A service that handles records exactly once, to be killed: CLIENT SETTINGS TOPIC OUT ID."""

from __future__ import annotations

import asyncio
import json
import sys
import time

from kafkaguard import guard


def main(client: str, connection: str, topic: str, out: str, name: str) -> None:
    """Copy a topic, until there is nothing new for a few seconds."""
    settings = json.loads(connection)
    if client == "aiokafka":
        asyncio.run(copy_with_tasks(settings, topic, out, name))
        return
    if client == "confluent":
        from confluent_kafka import Consumer, Producer

        producer = guard(
            factory=Producer,
            config={
                **settings,
                "transactional.id": name,
                "transaction.timeout.ms": 10_000,
            },
        )
        consumer = guard(
            factory=Consumer,
            config={
                **settings,
                "group.id": topic,
                "auto.offset.reset": "earliest",
                "session.timeout.ms": 6_000,
                "topic.metadata.refresh.interval.ms": 5_000,
            },
        )

        def handle(record):
            time.sleep(0.002)
            producer.produce(out, record.value(), key=record.key())
    else:
        from kafka import KafkaConsumer, KafkaProducer

        producer = guard(
            factory=KafkaProducer,
            config={
                **settings,
                "transactional_id": name,
                "transaction_timeout_ms": 10_000,
            },
        )
        consumer = guard(
            factory=KafkaConsumer,
            config={
                **settings,
                "group_id": topic,
                "auto_offset_reset": "earliest",
                "isolation_level": "read_committed",
                "session_timeout_ms": 6_000,
                "metadata_max_age_ms": 5_000,
            },
        )

        def handle(record):
            time.sleep(0.002)
            producer.send(out, record.value, key=record.key)

    consumer.subscribe([topic])
    report = consumer.process(
        handle, workers=2, order="key", producer=producer, idle_timeout=15
    )
    print(report.processed)
    consumer.close()
    producer.close()


async def copy_with_tasks(
    settings: dict[str, str], topic: str, out: str, name: str
) -> None:
    """Copy a topic of three partitions, assigned by hand."""
    from aiokafka.structs import TopicPartition

    from aiokafka import AIOKafkaConsumer, AIOKafkaProducer

    transactional = {"transactional_id": name, "transaction_timeout_ms": 10_000}
    producer = guard(factory=AIOKafkaProducer, config={**settings, **transactional})
    consumer = guard(
        factory=AIOKafkaConsumer,
        config={
            **settings,
            "group_id": topic,
            "auto_offset_reset": "earliest",
            "isolation_level": "read_committed",
        },
    )

    async def handle(record):
        await asyncio.sleep(0.002)
        await producer.send(out, record.value, key=record.key)

    async with producer, consumer:
        consumer.assign([TopicPartition(topic, n) for n in range(3)])
        report = await consumer.process(
            handle, workers=2, order="key", producer=producer, idle_timeout=15
        )
    print(report.processed)


if __name__ == "__main__":
    main(*sys.argv[1:])
