"""For each client and each API, something a user does that needs the API.

Every function gets the addresses of a proxy, a topic with one record in it, and ``arm``,
which lets the fault begin once the client is ready. It returns when the user has got what
was wanted, and raises what the client raises.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
import uuid

WAIT_S = 10
WAIT_MS = WAIT_S * 1000


class NotSupportedError(Exception):
    """The client has no call that makes this request."""


def _until(done):
    """Call until it returns something, or give up."""
    deadline = time.monotonic() + WAIT_S
    while time.monotonic() < deadline:
        if done():
            return
    raise TimeoutError


def _name():
    return f"name-{uuid.uuid4().hex}"


class KafkaPython:
    """What users of kafka-python do."""

    name = "kafka-python"

    @staticmethod
    @contextlib.contextmanager
    def _producer(servers, **settings):
        from kafka import KafkaProducer

        producer = KafkaProducer(
            bootstrap_servers=servers, max_block_ms=WAIT_MS, **settings
        )
        try:
            yield producer
        finally:
            producer.close(timeout=0)

    @staticmethod
    @contextlib.contextmanager
    def _consumer(servers, *topics, **settings):
        from kafka import KafkaConsumer

        consumer = KafkaConsumer(
            *topics,
            bootstrap_servers=servers,
            auto_offset_reset="earliest",
            request_timeout_ms=WAIT_MS,
            enable_auto_commit=False,
            **settings,
        )
        try:
            yield consumer
        finally:
            consumer.close(timeout_ms=500)

    @staticmethod
    @contextlib.contextmanager
    def _admin(servers):
        from kafka import KafkaAdminClient

        admin = KafkaAdminClient(bootstrap_servers=servers, request_timeout_ms=WAIT_MS)
        try:
            yield admin
        finally:
            admin.close()

    def produce(self, servers, topic, arm):
        """Send a record."""
        with self._producer(servers) as producer:
            producer.partitions_for(topic)
            arm()
            producer.send(topic, b"value").get(WAIT_S)

    def fetch(self, servers, topic, arm):
        """Read a record."""
        from kafka import TopicPartition

        with self._consumer(servers) as consumer:
            consumer.assign([TopicPartition(topic, 0)])
            consumer.seek(TopicPartition(topic, 0), 0)
            arm()
            _until(lambda: consumer.poll(500))

    def list_offsets(self, servers, topic, arm):
        """Ask for the end of a partition."""
        from kafka import TopicPartition

        with self._consumer(servers) as consumer:
            consumer.partitions_for_topic(topic)
            arm()
            consumer.end_offsets([TopicPartition(topic, 0)])

    def offset_commit(self, servers, topic, arm):
        """Commit an offset."""
        from kafka import OffsetAndMetadata, TopicPartition

        partition = TopicPartition(topic, 0)
        with self._consumer(servers, group_id=_name()) as consumer:
            consumer.assign([partition])
            consumer.committed(partition)
            arm()
            consumer.commit({partition: OffsetAndMetadata(1, "", -1)})

    def offset_fetch(self, servers, topic, arm):
        """Ask for a committed offset."""
        from kafka import TopicPartition

        with self._consumer(servers, group_id=_name()) as consumer:
            consumer.partitions_for_topic(topic)
            arm()
            consumer.committed(TopicPartition(topic, 0))

    def metadata(self, servers, topic, arm):
        """Send a record to a topic that the client does not know yet."""
        with self._producer(servers) as producer:
            arm()
            producer.send(topic, b"value").get(WAIT_S)

    find_coordinator = offset_fetch

    def init_producer_id(self, servers, topic, arm):
        """Begin to be a transactional producer."""
        with self._producer(servers, transactional_id=_name()) as producer:
            arm()
            producer.init_transactions()

    def end_txn(self, servers, topic, arm):
        """Commit a transaction."""
        with self._producer(servers, transactional_id=_name()) as producer:
            producer.init_transactions()
            producer.begin_transaction()
            producer.send(topic, b"value").get(WAIT_S)
            arm()
            producer.commit_transaction()

    def create_topics(self, servers, topic, arm):
        """Create a topic."""
        from kafka.admin import NewTopic

        with self._admin(servers) as admin:
            arm()
            admin.create_topics([NewTopic(_name(), 1, 1)])

    def describe_configs(self, servers, topic, arm):
        """Ask for the settings of a topic."""
        from kafka.admin import ConfigResource, ConfigResourceType

        with self._admin(servers) as admin:
            arm()
            admin.describe_configs([ConfigResource(ConfigResourceType.TOPIC, topic)])

    def describe_log_dirs(self, servers, topic, arm):
        """Ask for the disks of the brokers."""
        with self._admin(servers) as admin:
            arm()
            admin.describe_log_dirs()

    def join_group(self, servers, topic, arm):
        """Read a record as a member of a group."""
        with self._consumer(servers, topic, group_id=_name()) as consumer:
            arm()
            _until(lambda: consumer.poll(WAIT_MS))

    def heartbeat(self, servers, topic, arm):
        """Stay in a group, and read the next record."""
        with self._consumer(
            servers, topic, group_id=_name(), heartbeat_interval_ms=100
        ) as consumer:
            _until(lambda: consumer.poll(WAIT_MS))
            met = arm()
            _until(lambda: consumer.poll(100) or met())
            with self._producer(servers) as producer:
                producer.send(topic, b"value").get(WAIT_S)
            _until(lambda: consumer.poll(WAIT_MS))


class Confluent:
    """What users of confluent-kafka do."""

    name = "confluent-kafka"

    @staticmethod
    def _producer(servers, **settings):
        from confluent_kafka import Producer

        return Producer(
            {"bootstrap.servers": servers, "message.timeout.ms": WAIT_MS, **settings}
        )

    @staticmethod
    @contextlib.contextmanager
    def _consumer(servers, **settings):
        from confluent_kafka import Consumer

        consumer = Consumer(
            {
                "bootstrap.servers": servers,
                "auto.offset.reset": "earliest",
                "enable.auto.commit": False,
                "group.id": _name(),
                **settings,
            }
        )
        try:
            yield consumer
        finally:
            consumer.close()

    @staticmethod
    def _admin(servers):
        from confluent_kafka.admin import AdminClient

        return AdminClient({"bootstrap.servers": servers})

    @staticmethod
    def _send(producer, topic):
        from confluent_kafka import KafkaException

        errors = []
        producer.produce(topic, b"value", on_delivery=lambda e, _: errors.append(e))
        if producer.flush(WAIT_S):
            raise TimeoutError
        if errors[0] is not None:
            raise KafkaException(errors[0])

    @staticmethod
    def _poll(consumer):
        from confluent_kafka import KafkaException

        message = consumer.poll(0.5)
        if message is not None and message.error():
            raise KafkaException(message.error())
        return message

    def produce(self, servers, topic, arm):
        """Send a record."""
        producer = self._producer(servers)
        producer.list_topics(topic, WAIT_S)
        arm()
        self._send(producer, topic)

    def fetch(self, servers, topic, arm):
        """Read a record."""
        from confluent_kafka import TopicPartition

        with self._consumer(servers) as consumer:
            arm()
            consumer.assign([TopicPartition(topic, 0, 0)])
            _until(lambda: self._poll(consumer))

    def list_offsets(self, servers, topic, arm):
        """Ask for the ends of a partition."""
        from confluent_kafka import TopicPartition

        with self._consumer(servers) as consumer:
            consumer.list_topics(topic, WAIT_S)
            arm()
            consumer.get_watermark_offsets(TopicPartition(topic, 0), WAIT_S)

    def offset_commit(self, servers, topic, arm):
        """Commit an offset."""
        from confluent_kafka import TopicPartition

        with self._consumer(servers) as consumer:
            consumer.committed([TopicPartition(topic, 0)], WAIT_S)
            arm()
            consumer.commit(offsets=[TopicPartition(topic, 0, 1)], asynchronous=False)

    def offset_fetch(self, servers, topic, arm):
        """Ask for a committed offset."""
        from confluent_kafka import KafkaException, TopicPartition

        with self._consumer(servers) as consumer:
            arm()
            found = consumer.committed([TopicPartition(topic, 0)], WAIT_S)
        if found[0].error:
            raise KafkaException(found[0].error)

    def metadata(self, servers, topic, arm):
        """Send a record to a topic that the client does not know yet."""
        producer = self._producer(servers)
        arm()
        self._send(producer, topic)

    find_coordinator = offset_fetch

    def init_producer_id(self, servers, topic, arm):
        """Begin to be a transactional producer."""
        producer = self._producer(servers, **{"transactional.id": _name()})
        arm()
        producer.init_transactions(WAIT_S)

    def end_txn(self, servers, topic, arm):
        """Commit a transaction."""
        producer = self._producer(servers, **{"transactional.id": _name()})
        producer.init_transactions(WAIT_S)
        producer.begin_transaction()
        self._send(producer, topic)
        arm()
        producer.commit_transaction(WAIT_S)

    def create_topics(self, servers, topic, arm):
        """Create a topic."""
        from confluent_kafka.admin import NewTopic

        admin = self._admin(servers)
        arm()
        self._result(admin.create_topics([NewTopic(_name(), 1, 1)]))

    def describe_configs(self, servers, topic, arm):
        """Ask for the settings of a topic."""
        from confluent_kafka.admin import ConfigResource

        admin = self._admin(servers)
        arm()
        resource = ConfigResource(ConfigResource.Type.TOPIC, topic)
        self._result(admin.describe_configs([resource]))

    @staticmethod
    def _result(futures):
        for future in futures.values():
            future.result(WAIT_S)

    def describe_log_dirs(self, servers, topic, arm):
        """There is no such call."""
        raise NotSupportedError

    def join_group(self, servers, topic, arm):
        """Read a record as a member of a group."""
        with self._consumer(servers) as consumer:
            arm()
            consumer.subscribe([topic])
            _until(lambda: self._poll(consumer))

    def heartbeat(self, servers, topic, arm):
        """Stay in a group, and read the next record."""
        with self._consumer(servers, **{"heartbeat.interval.ms": 100}) as consumer:
            consumer.subscribe([topic])
            _until(lambda: self._poll(consumer))
            met = arm()
            _until(lambda: self._poll(consumer) or met())
            self._send(self._producer(servers), topic)
            _until(lambda: self._poll(consumer))


class Aiokafka:
    """What users of aiokafka do."""

    name = "aiokafka"

    def __getattribute__(self, name):
        """Run a scenario in a loop of its own, with a bound."""
        found = object.__getattribute__(self, name)
        if not asyncio.iscoroutinefunction(found):
            return found
        return lambda *args: asyncio.run(asyncio.wait_for(found(*args), 2 * WAIT_S))

    @staticmethod
    def _producer(servers, **settings):
        from aiokafka import AIOKafkaProducer

        return AIOKafkaProducer(bootstrap_servers=servers, **settings)

    @staticmethod
    def _consumer(servers, *topics, **settings):
        from aiokafka import AIOKafkaConsumer

        return AIOKafkaConsumer(
            *topics,
            bootstrap_servers=servers,
            auto_offset_reset="earliest",
            enable_auto_commit=False,
            **settings,
        )

    @staticmethod
    @contextlib.asynccontextmanager
    async def _admin(servers):
        from aiokafka.admin import AIOKafkaAdminClient

        admin = AIOKafkaAdminClient(bootstrap_servers=servers)
        await admin.start()
        try:
            yield admin
        finally:
            await admin.close()

    async def produce(self, servers, topic, arm):
        """Send a record."""
        async with self._producer(servers) as producer:
            await producer.partitions_for(topic)
            arm()
            await asyncio.wait_for(producer.send_and_wait(topic, b"value"), WAIT_S)

    async def fetch(self, servers, topic, arm):
        """Read a record."""
        from aiokafka import TopicPartition

        async with self._consumer(servers) as consumer:
            consumer.assign([TopicPartition(topic, 0)])
            consumer.seek(TopicPartition(topic, 0), 0)
            arm()
            await asyncio.wait_for(consumer.getone(), WAIT_S)

    async def list_offsets(self, servers, topic, arm):
        """Ask for the end of a partition."""
        from aiokafka import TopicPartition

        async with self._consumer(servers) as consumer:
            arm()
            ends = consumer.end_offsets([TopicPartition(topic, 0)])
            await asyncio.wait_for(ends, WAIT_S)

    async def offset_commit(self, servers, topic, arm):
        """Commit an offset."""
        from aiokafka import TopicPartition

        async with self._consumer(servers, group_id=_name()) as consumer:
            consumer.assign([TopicPartition(topic, 0)])
            await consumer.committed(TopicPartition(topic, 0))
            arm()
            commit = consumer.commit({TopicPartition(topic, 0): 1})
            await asyncio.wait_for(commit, WAIT_S)

    async def offset_fetch(self, servers, topic, arm):
        """Ask for a committed offset."""
        from aiokafka import TopicPartition

        partition = TopicPartition(topic, 0)
        async with self._consumer(servers, group_id=_name()) as consumer:
            consumer.assign([partition])
            await consumer.committed(partition)
            await consumer.position(partition)
            arm()
            await asyncio.wait_for(consumer.committed(partition), WAIT_S)

    async def metadata(self, servers, topic, arm):
        """Send a record to a topic that the client does not know yet."""
        async with self._producer(servers) as producer:
            arm()
            await asyncio.wait_for(producer.send_and_wait(topic, b"value"), WAIT_S)

    async def find_coordinator(self, servers, topic, arm):
        """Ask for a committed offset, with the coordinator not known yet."""
        from aiokafka import TopicPartition

        arm()
        async with self._consumer(servers, group_id=_name()) as consumer:
            consumer.assign([TopicPartition(topic, 0)])
            committed = consumer.committed(TopicPartition(topic, 0))
            await asyncio.wait_for(committed, WAIT_S)

    async def init_producer_id(self, servers, topic, arm):
        """Begin to be a transactional producer."""
        arm()
        producer = self._producer(servers, transactional_id=_name())
        try:
            await asyncio.wait_for(producer.start(), WAIT_S)
        finally:
            with contextlib.suppress(Exception):
                await asyncio.wait_for(producer.stop(), 1)

    async def end_txn(self, servers, topic, arm):
        """Commit a transaction."""
        producer = self._producer(servers, transactional_id=_name())
        await producer.start()
        try:
            await producer.begin_transaction()
            await producer.send_and_wait(topic, b"value")
            arm()
            await asyncio.wait_for(producer.commit_transaction(), WAIT_S)
        finally:
            with contextlib.suppress(Exception):
                await asyncio.wait_for(producer.stop(), 1)

    async def create_topics(self, servers, topic, arm):
        """Create a topic."""
        from aiokafka.admin import NewTopic

        async with self._admin(servers) as admin:
            arm()
            answer = await admin.create_topics([NewTopic(_name(), 1, 1)])
            _raise_code(answer.topic_errors[0][1])

    async def describe_configs(self, servers, topic, arm):
        """Ask for the settings of a topic."""
        from aiokafka.admin.config_resource import ConfigResource, ConfigResourceType

        async with self._admin(servers) as admin:
            arm()
            resource = ConfigResource(ConfigResourceType.TOPIC, topic)
            answers = await admin.describe_configs([resource])
            _raise_code(answers[0].resources[0][0])

    async def describe_log_dirs(self, servers, topic, arm):
        """There is no such call."""
        raise NotSupportedError

    async def join_group(self, servers, topic, arm):
        """Read a record as a member of a group."""
        arm()
        async with self._consumer(servers, topic, group_id=_name()) as consumer:
            await asyncio.wait_for(consumer.getone(), WAIT_S)

    async def heartbeat(self, servers, topic, arm):
        """Stay in a group, and read the next record."""
        async with self._consumer(
            servers, topic, group_id=_name(), heartbeat_interval_ms=100
        ) as consumer:
            await asyncio.wait_for(consumer.getone(), WAIT_S)
            met = arm()
            deadline = time.monotonic() + WAIT_S
            while not met() and time.monotonic() < deadline:
                await consumer.getmany(timeout_ms=100)
            async with self._producer(servers) as producer:
                await producer.send_and_wait(topic, b"value")
            await asyncio.wait_for(consumer.getone(), WAIT_S)


class AnsweredCodeError(Exception):
    """The client does not raise: it hands over an answer with the code in it."""


def _raise_code(code):
    if code:
        raise AnsweredCodeError(code)


CLIENTS = (KafkaPython(), Confluent(), Aiokafka())
