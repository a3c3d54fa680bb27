"""A service that handles records exactly once, to be killed: CLIENT SERVERS TOPIC OUT ID."""

from __future__ import annotations

import asyncio
import sys
import time

from kafkaguard import guard


def main(client: str, servers: str, topic: str, out: str, name: str) -> None:
    """Copy a topic, until there is nothing new for a few seconds."""
    if client == "aiokafka":
        asyncio.run(copy_with_tasks(servers, topic, out, name))
        return
    if client == "confluent":
        from confluent_kafka import Consumer, Producer

        producer = guard(
            factory=Producer,
            config={
                "bootstrap.servers": servers,
                "transactional.id": name,
                "transaction.timeout.ms": 10_000,
            },
        )
        consumer = guard(
            factory=Consumer,
            config={
                "bootstrap.servers": servers,
                "group.id": topic,
                "auto.offset.reset": "earliest",
                "session.timeout.ms": 6_000,
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
                "bootstrap_servers": servers,
                "transactional_id": name,
                "transaction_timeout_ms": 10_000,
            },
        )
        consumer = guard(
            factory=KafkaConsumer,
            config={
                "bootstrap_servers": servers,
                "group_id": topic,
                "auto_offset_reset": "earliest",
                "isolation_level": "read_committed",
                "session_timeout_ms": 6_000,
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


async def copy_with_tasks(servers: str, topic: str, out: str, name: str) -> None:
    """Copy a topic of three partitions, assigned by hand."""
    from aiokafka.structs import TopicPartition

    from aiokafka import AIOKafkaConsumer, AIOKafkaProducer

    settings = {"transactional_id": name, "transaction_timeout_ms": 10_000}
    producer = guard(
        factory=AIOKafkaProducer, config={"bootstrap_servers": servers, **settings}
    )
    consumer = guard(
        factory=AIOKafkaConsumer,
        config={
            "bootstrap_servers": servers,
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
