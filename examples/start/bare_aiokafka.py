"""Without the guard: one record without a key takes its whole batch along."""

from __future__ import annotations

import asyncio
import os

from aiokafka import AIOKafkaProducer


async def main() -> None:
    """Send three records at the same time."""
    client = AIOKafkaProducer(bootstrap_servers=os.environ["KAFKA"], linger_ms=100)
    async with client as producer:
        futures = [
            await producer.send("flights", b"1013", key=b"N14228"),
            await producer.send("flights", b"2020"),  # no key
            await producer.send("flights", b"1124", key=b"N24211"),
        ]
        for outcome in await asyncio.gather(*futures, return_exceptions=True):
            failed = isinstance(outcome, Exception)
            print("failed:" if failed else "delivered:", outcome)


asyncio.run(main())
