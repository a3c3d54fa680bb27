"""aiokafka's calls, each awaited in the event loop of its cell."""

from __future__ import annotations

import asyncio
import contextlib
import time

from aiokafka.admin import AIOKafkaAdminClient, NewTopic
from aiokafka.admin.config_resource import ConfigResource, ConfigResourceType

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition
from tests.atlas.caller import (
    LASTS_S,
    LIMIT_MS,
    LIMIT_S,
    OF_CONNECTIONS,
    AnsweredError,
    Caller,
    SilenceError,
)

SETTINGS = {
    "producer": {"request_timeout_ms": LIMIT_MS},
    "transactions": {"request_timeout_ms": LIMIT_MS, "transaction_timeout_ms": 10_000},
    "consumer": {
        "request_timeout_ms": LIMIT_MS,
        "session_timeout_ms": 6000,
        "heartbeat_interval_ms": 200,
    },
    "admin": {"request_timeout_ms": LIMIT_MS},
}
#: Calls for which the client has no time limit end with the cell's.
_MOST_S = LASTS_S + 8


class _Aio(Caller):
    def __init__(self, world, *, guarded):
        super().__init__(world, guarded=guarded)
        self.loop = asyncio.new_event_loop()
        self.loop.set_exception_handler(lambda *_: None)

    def run(self, work, seconds=_MOST_S):
        """Await in the cell's event loop."""
        asyncio.set_event_loop(self.loop)
        return self.loop.run_until_complete(asyncio.wait_for(work, seconds))

    def open(self):
        """Prepare the client."""
        self.run(self.opening())

    def call(self):
        """Make the call."""
        try:
            self.run(self.calling())
        except TimeoutError as error:
            if type(error) is TimeoutError:
                raise SilenceError from None
            raise

    def again(self):
        """Make the second call."""
        self.run(self.calling_again())

    def close(self):
        """Close the client."""
        self.run(self.end(self.client), 4)

    @staticmethod
    async def end(client):
        """Stop a client; an admin client is closed."""
        await (client.stop if hasattr(client, "stop") else client.close)()

    async def make(self, factory, kind, **more):
        """Make and start the client."""
        config = {"client_id": self.world["name"], **self.world["access"], **more}
        config |= SETTINGS[kind]
        client = self.guard(factory, config)
        try:
            await client.start()
        except BaseException:
            with contextlib.suppress(Exception):
                await self.end(client)
            raise
        self.client = client

    async def opening(self):
        """Prepare the client."""

    async def calling_again(self):
        """Make the call again."""
        await self.calling()


class Sending(_Aio):
    """A producer."""

    async def opening(self):
        """Know the topic, where its metadata are not the question."""
        if self.world["api"] not in OF_CONNECTIONS:
            await self.make(AIOKafkaProducer, "producer")
        if self.world["api"] == "Produce":
            await self.client.partitions_for(self.world["topic"])

    async def calling(self, value=b"first"):
        """Send a record."""
        if self.client is None:
            await self.make(AIOKafkaProducer, "producer")
        await self.client.send_and_wait(self.world["topic"], value, b"key")

    async def calling_again(self):
        """Send another."""
        await Sending.calling(self, b"second")


class Transacting(Sending):
    """A transactional producer."""

    async def opening(self):
        """Get the id of the producer, where that is not the question."""
        if self.world["api"] != "InitProducerId":
            await self.start()
            await self.client.partitions_for(self.world["topic"])

    async def start(self):
        """Make and start it."""
        name = self.world["name"]
        await self.make(AIOKafkaProducer, "transactions", transactional_id=name)

    async def calling(self, value=b"first"):
        """Write a record and an offset in a transaction."""
        if self.world["api"] == "InitProducerId":
            await self.start()
        await self.transact(value)

    async def transact(self, value):
        """Make one transaction."""
        await self.client.begin_transaction()
        await super().calling(value)
        offsets = {TopicPartition(self.world["topic"], 0): 1}
        await self.client.send_offsets_to_transaction(offsets, self.world["group"])
        await self.client.commit_transaction()

    async def calling_again(self):
        """Abort, as a user would, and make another."""
        if self.world["api"] == "InitProducerId":
            try:
                await self.transact(b"second")
            except Exception:
                await self.client.start()
                await self.transact(b"second")
            return
        if self.failed:
            with contextlib.suppress(Exception):
                await self.client.abort_transaction()
        await self.transact(b"second")


class Reading(_Aio):
    """A consumer with an assigned partition."""

    async def opening(self):
        """Assign the partition."""
        api = self.world["api"]
        more = {} if api == "Fetch" else {"group_id": self.world["group"]}
        self.place = TopicPartition(self.world["topic"], 0)
        self.more = {
            "enable_auto_commit": False,
            "auto_offset_reset": "earliest",
            **more,
        }
        if api != "FindCoordinator":
            await self.start()

    async def start(self):
        """Make and start it."""
        await self.make(AIOKafkaConsumer, "consumer", **self.more)
        api = self.world["api"]
        if api != "ListOffsets":
            self.client.assign([self.place])
        if api in ("OffsetCommit", "OffsetFetch"):
            await self.client.committed(self.place)
        if api == "OffsetFetch":
            await self.client.position(self.place)

    async def calling(self):
        """Make the call for the request."""
        api = self.world["api"]
        if api == "Fetch":
            self.client.seek(self.place, 0)
            await self.client.getone()
        elif api == "ListOffsets":
            await self.client.end_offsets([self.place])
        elif api == "OffsetCommit":
            await self.client.commit({self.place: 1})
        else:
            if self.client is None:
                await self.start()
            await self.client.committed(self.place)


class Joining(_Aio):
    """A member of a group."""

    async def opening(self):
        """Join, where the question is what comes after."""
        if self.world["api"] == "Heartbeat":
            await self.start()
            await self.client.getone()

    async def start(self):
        """Make and start it."""
        await self.make(
            AIOKafkaConsumer,
            "consumer",
            group_id=self.world["group"],
            enable_auto_commit=False,
            auto_offset_reset="earliest",
        )
        self.client.subscribe([self.world["topic"]])

    async def calling(self):
        """Read a record; as a member, the one that comes after the answer."""
        if self.client is None:
            await self.start()
        if self.world["api"] == "Heartbeat":
            end = time.monotonic() + LIMIT_S
            while not self.met() and time.monotonic() < end:
                await self.client.getmany(timeout_ms=100)
        await asyncio.to_thread(self.feed)
        await self.client.getone()


class Administrating(_Aio):
    """An admin client."""

    async def opening(self):
        """Connect."""
        await self.make(AIOKafkaAdminClient, "admin")

    async def calling(self):
        """Make the call for the request."""
        client, topic = self.client, self.world["topic"]
        api, name, group = self.world["api"], self.world["spare"], self.world["group"]
        if api == "CreateTopics":
            answer = await client.create_topics([NewTopic(name, 1, 1)])
            code = answer.topic_errors[0][1]
        elif api == "DeleteTopics":
            answer = await client.delete_topics([topic])
            code = answer.topic_error_codes[0][1]
        elif api == "DescribeConfigs":
            resource = ConfigResource(ConfigResourceType.TOPIC, topic)
            (answer,) = await client.describe_configs([resource])
            code = answer.resources[0][0]
        else:
            (answer,) = await client.describe_consumer_groups([group])
            code = answer.groups[0][0]
        if code:
            raise AnsweredError(code)

    async def calling_again(self):
        """Ask for something that is always there."""
        await self.client.list_topics()
