"""Guarded admins of the three clients behind one face, for tests that inherit it."""

from __future__ import annotations

import asyncio
import inspect
from contextlib import contextmanager

import confluent_kafka
from aiokafka.admin import AIOKafkaAdminClient
from confluent_kafka.admin import AdminClient
from kafka import KafkaAdminClient

from kafkaguard import guard

CLIENTS = ("kafka-python", "confluent", "aiokafka")


class Awaited:
    """Runs what a guarded client of aiokafka returns to its end."""

    def __init__(self, client, loop):
        self.client = client
        self._loop = loop

    def __getattr__(self, name):
        """Return an attribute; of a coroutine function one that blocks."""
        value = getattr(self.client, name)
        if not inspect.iscoroutinefunction(value):
            return value
        return lambda *args, **kw: self._loop.run_until_complete(value(*args, **kw))


@contextmanager
def admin_of(client, config):
    """Make a guarded admin of a client; ``config`` is in that client's own words."""
    if client == "aiokafka":
        with asyncio.Runner() as runner:
            loop = runner.get_loop()
            admin = runner.run(_aio(config))
            try:
                yield Awaited(admin, loop)
            finally:
                runner.run(admin.close())
        return
    admin = (
        guard(KafkaAdminClient(**config))
        if client == "kafka-python"
        else guard(factory=AdminClient, config=config)
    )
    with admin:
        yield admin


async def _aio(config):
    return guard(AIOKafkaAdminClient(**config))


def words_of(client, bootstrap, **config):
    """Write the address of brokers in a client's words."""
    key = "bootstrap.servers" if client == "confluent" else "bootstrap_servers"
    return {**config, key: bootstrap}


def commit(bootstrap, group, offsets, **config):
    """Commit offsets, as soon as there is a coordinator.

    Args:
        bootstrap: Where the brokers are.
        group: The group.
        offsets: Offsets by topic and partition.
        config: Further settings of confluent-kafka, with ``_`` for the dots.
    """
    settings = {name.replace("_", "."): value for name, value in config.items()}
    consumer = confluent_kafka.Consumer(
        {"bootstrap.servers": bootstrap, "group.id": group, **settings}
    )
    wanted = [
        confluent_kafka.TopicPartition(topic, partition, offset)
        for (topic, partition), offset in offsets.items()
    ]
    try:
        for _ in range(100):
            try:
                consumer.commit(offsets=wanted, asynchronous=False)
            except confluent_kafka.KafkaException as error:
                if error.args[0].code() not in (14, 15, 16):
                    raise
                consumer.poll(0.1)
            else:
                return
    finally:
        consumer.close()
    raise AssertionError("no coordinator within 100 tries")
