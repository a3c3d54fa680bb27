"""With the guard: only the record without a key is refused, and set aside."""

from __future__ import annotations

import asyncio
import os

from aiokafka import AIOKafkaProducer
from kafkaguard import guard

policy = {"on_reject": "dead_letter", "dead_letter": {"topic": "flights-refused"}}


async def main() -> None:
    """Send three records at the same time."""
    servers = os.environ["KAFKA"]
    client = AIOKafkaProducer(
        bootstrap_servers=servers, linger_ms=100, enable_idempotence=True
    )
    async with guard(client, policy=policy) as producer:
        await producer.send("flights", b"1013", key=b"N14228")
        await producer.send("flights", b"2020")  # no key
        await producer.send("flights", b"1124", key=b"N24211")
        print(await producer.flush())


asyncio.run(main())
