"""A guarded aiokafka producer in asyncio: one bad record does not stop the others."""

from __future__ import annotations

import asyncio

from aiokafka import AIOKafkaProducer
from kafkaguard import guard
from kafkaguard.errors import KafkaGuardError
from kafkaguard.testing import KafkaCluster


async def send(producer, topic, value, key) -> str:
    """Send a record, and say what became of it."""
    try:
        metadata = await producer.send_and_wait(topic, value, key=key)
    except KafkaGuardError as error:
        return f"{error.verdict.action}: {error.verdict.rule.sentence}"
    return f"delivered at offset {metadata.offset}"


async def main(servers: str, topic: str) -> None:
    """Send three records at the same time; the second one has no key."""
    client = AIOKafkaProducer(
        bootstrap_servers=servers, linger_ms=50, enable_idempotence=True
    )
    async with guard(client) as producer:
        outcomes = await asyncio.gather(
            send(producer, topic, b"1013", b"N14228"),
            send(producer, topic, b"2020", None),
            send(producer, topic, b"1124", b"N24211"),
        )
    print(*outcomes, sep="\n")


with KafkaCluster() as cluster:
    compacted = cluster.create_topic(config={"cleanup.policy": "compact"})
    asyncio.run(main(cluster.bootstrap_servers, compacted))
