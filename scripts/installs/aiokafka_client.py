"""aiokafka: a lag report, awaited."""

import asyncio
import os

from aiokafka.admin import AIOKafkaAdminClient

from kafkaguard import guard


async def main() -> None:
    """Measure the lag of all groups."""
    admin = guard(AIOKafkaAdminClient(bootstrap_servers=os.environ["KAFKA"]))
    await admin.start()
    assert (await admin.lag()).complete
    await admin.close()


asyncio.run(main())
