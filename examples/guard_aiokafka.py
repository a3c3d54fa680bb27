"""An asyncio service with a guarded AIOKafkaProducer: a refused record, a report."""

from __future__ import annotations

import asyncio

from aiokafka import AIOKafkaProducer
from kafkaguard import guard
from kafkaguard.errors import DeliveryFailed, InvalidRecordKeyError
from kafkaguard.testing import KafkaCluster

#: Tail number and flight; one has no aircraft.
FLIGHTS = [(b"N14228", b"1013"), (None, b"2020"), (b"N24211", b"1714")]


async def take_in(orders: asyncio.Queue, producer: AIOKafkaProducer, topic: str):
    """Send each order; one that can never succeed costs the others nothing."""
    while (order := await orders.get()) is not None:
        aircraft, flight = order
        try:
            await producer.send(topic, flight, key=aircraft)
        except InvalidRecordKeyError as error:
            print(f"left out: {error}")


async def serve(servers: str, topic: str) -> None:
    """Run two workers until there are no orders, then say what was delivered."""
    client = AIOKafkaProducer(bootstrap_servers=servers, enable_idempotence=True)
    async with guard(client) as producer:
        orders = asyncio.Queue()
        workers = [take_in(orders, producer, topic) for _ in range(2)]
        for order in (*FLIGHTS, None, None):
            orders.put_nowait(order)
        await asyncio.gather(*workers)
        try:
            report = await producer.flush()
        except DeliveryFailed as failure:
            print(failure)
            report = failure.report
        print(f"delivered {report.delivered}, failed {report.failed}")
        assert (report.delivered, report.failed) == (2, 0)


with KafkaCluster() as cluster:
    last_flights = cluster.create_topic(config={"cleanup.policy": "compact"})
    asyncio.run(serve(cluster.bootstrap_servers, last_flights))
