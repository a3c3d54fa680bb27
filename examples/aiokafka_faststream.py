"""A FastStream service that publishes its results through a guarded producer.

FastStream reads the orders; the guarded producer writes the totals. It starts and stops
with the application.
"""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from typing import Annotated, Any

from faststream import Context, ContextRepo, FastStream
from faststream.kafka import KafkaBroker

from aiokafka import AIOKafkaProducer
from kafkaguard import guard
from kafkaguard.testing import KafkaCluster


def service(servers: str, orders: str, totals: str, done: asyncio.Event) -> FastStream:
    """Build the application."""
    broker = KafkaBroker(servers)

    @asynccontextmanager
    async def lifespan(context: ContextRepo):
        client = AIOKafkaProducer(bootstrap_servers=servers, enable_idempotence=True)
        async with guard(client) as producer:
            context.set_global("producer", producer)
            yield

    @broker.subscriber(orders, auto_offset_reset="earliest")
    async def add_up(order: dict, producer: Annotated[Any, Context()]) -> None:
        total = str(sum(order["prices"])).encode()
        key = order["customer"].encode()
        # Raises with a verdict; FastStream then does not acknowledge the order.
        metadata = await producer.send_and_wait(totals, total, key=key)
        print(f"{order['customer']}: {total.decode()} at offset {metadata.offset}")
        done.set()

    return FastStream(broker, lifespan=lifespan)


async def main(cluster: KafkaCluster) -> None:
    """Publish one order, and run the service until it has been handled."""
    orders, totals = cluster.create_topic(), cluster.create_topic()
    servers, done = cluster.bootstrap_servers, asyncio.Event()
    async with KafkaBroker(servers) as outside:
        await outside.publish({"customer": "alice", "prices": [3, 4]}, orders)
    app = service(servers, orders, totals, done)
    running = asyncio.create_task(app.run())
    await asyncio.wait_for(done.wait(), 60)
    app.exit()
    await running


with KafkaCluster() as started:
    asyncio.run(main(started))
