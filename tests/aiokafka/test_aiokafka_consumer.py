"""The guarded consumer of aiokafka keeps the contract of all guarded consumers."""

from __future__ import annotations

import asyncio
import time
from contextlib import contextmanager

import pytest

from aiokafka import AIOKafkaConsumer, TopicPartition
from aiokafka import errors as aiokafka_errors
from kafkaguard import errors, guard
from tests.contracts.consumer import AnswersContract, Reader, fill


class AiokafkaReader(Reader):
    """A guarded AIOKafkaConsumer in an event loop of its own."""

    def __init__(self, guarded, events, loop):
        super().__init__(guarded, events)
        self.run = loop.run_until_complete

    def call(self, name, *args):
        """Call what does not wait, but wants a running loop."""

        async def call():
            getattr(self.guarded, name)(*args)

        self.run(call())

    def poll(self, seconds):
        """Poll once."""
        found = self.run(self.guarded.getmany(timeout_ms=round(seconds * 1000)))
        return [
            (record.partition, record.offset, record.value)
            for records in found.values()
            for record in records
        ]

    def poll_in_child(self):
        """Poll in a loop of the child's own: the parent's has the parent's sockets."""
        asyncio.run(self.guarded.getmany())

    def commit(self, offsets, timeout):
        """Commit, and wait; how long is the policy's word."""
        wanted = {TopicPartition(*place): at for place, at in offsets.items()}
        self.run(self.guarded.commit(wanted))

    def commit_async(self, offsets):
        """Commit in a task that nobody waits for."""
        wanted = {TopicPartition(*place): at for place, at in offsets.items()}

        async def start():
            task = asyncio.ensure_future(self.guarded.commit(wanted))
            task.add_done_callback(lambda done: done.exception())

        self.run(start())

    def committed(self, topic, partition):
        """Return the committed offset."""
        return self.run(self.guarded.committed(TopicPartition(topic, partition)))

    def seek(self, topic, partition, offset):
        """Set the position."""
        self.call("seek", TopicPartition(topic, partition), offset)

    def pause(self, topic, partition):
        """Pause."""
        self.call("pause", TopicPartition(topic, partition))

    def resume(self, topic, partition):
        """Resume."""
        self.call("resume", TopicPartition(topic, partition))

    def lag(self, *args, **kwargs):
        """Ask for the lag."""
        return self.run(self.guarded.lag(*args, **kwargs))

    def close(self):
        """Stop it."""
        self.run(self.guarded.stop())


class TestAiokafkaConsumer(AnswersContract):
    client_class = AIOKafkaConsumer
    client_name = "aiokafka"
    client_error = aiokafka_errors.KafkaError
    rejoin_error = aiokafka_errors.CommitFailedError
    closed_error = aiokafka_errors.ConsumerStoppedError

    @contextmanager
    def open(
        self,
        servers,
        *,
        assign=None,
        group=None,
        users=None,
        auto_commit=None,
        policy="default",
        **settings,
    ):
        """Build one, guard it, start it, and stop it in the end."""
        config = {
            "bootstrap_servers": servers,
            "group_id": group,
            "auto_offset_reset": "earliest",
            "enable_auto_commit": auto_commit is not None,
            "fetch_max_wait_ms": 100,
            **settings,
        }
        if auto_commit is not None:
            config["auto_commit_interval_ms"] = round(auto_commit * 1000)
        if users is not None:
            config |= users.client_config("SASL_PLAIN", client="aiokafka", user="bob")
        events = []
        with asyncio.Runner() as runner:

            async def start():
                client = AIOKafkaConsumer(**config)
                guarded = guard(client, policy=policy, on_event=events.append)
                await guarded.start()
                if assign:
                    guarded.assign([TopicPartition(*each) for each in assign])
                return guarded

            guarded = runner.run(start())
            try:
                yield AiokafkaReader(guarded, events, runner.get_loop())
            finally:
                runner.run(guarded.stop())


async def test_a_consumer_that_was_never_started_says_so_at_once(kafka_cluster):
    """The client alone fails with an AttributeError of its own inside."""
    servers = kafka_cluster.bootstrap_servers
    consumer = guard(AIOKafkaConsumer(bootstrap_servers=servers))
    for call in (consumer.getone, consumer.getmany, consumer.commit):
        with pytest.raises(errors.ClientStateError, match="not started"):
            await call()
    with pytest.raises(errors.ClientStateError, match="not started"):
        await anext(aiter(consumer))
    await consumer.stop()


async def test_b101_a_consumer_that_failed_to_start_leaves_nothing_open():
    """The error is of both classes; each later call ends at once."""
    consumer = guard(AIOKafkaConsumer(bootstrap_servers="127.0.0.1:1"))
    with pytest.raises(aiokafka_errors.KafkaConnectionError) as caught:
        await consumer.start()
    assert isinstance(caught.value, errors.KafkaGuardError)
    with pytest.raises(errors.ClientClosedError):
        await consumer.getone()
    await consumer.stop()


def test_b102_a_consumer_in_another_event_loop_says_which(kafka_cluster, kafka_topic):
    """Both loops are in the text, and nothing hangs."""
    servers = kafka_cluster.bootstrap_servers

    async def build():
        consumer = guard(AIOKafkaConsumer(kafka_topic, bootstrap_servers=servers))
        await consumer.start()
        return consumer

    with asyncio.Runner() as runner:
        consumer = runner.run(build())
        started = time.monotonic()
        with pytest.raises(errors.ClientStateError, match="belongs to"):
            asyncio.run(consumer.getone())
        assert time.monotonic() - started < 30
        runner.run(consumer.stop())


async def test_one_partition_without_a_start_does_not_keep_the_others_waiting(
    kafka_cluster, kafka_faults
):
    """The client asks for the starts of all partitions, and one refusal fails all."""
    topic = kafka_cluster.create_topic(partitions=3)
    await asyncio.to_thread(fill, kafka_cluster, topic, 5)
    kafka_faults.on("ListOffsets", topic=topic, partition=1).fail(9)
    events = []
    consumer = guard(
        AIOKafkaConsumer(
            bootstrap_servers=kafka_faults.bootstrap_servers,
            auto_offset_reset="earliest",
        ),
        on_event=events.append,
    )
    async with consumer:
        consumer.assign([TopicPartition(topic, n) for n in range(3)])
        read = []
        async with asyncio.timeout(15):
            while len(read) < 10:
                read.append((await consumer.getone()).partition)
        assert {0, 2} == set(read)
        assert events[0].error.code == 9
        kafka_faults.clear()
        async with asyncio.timeout(15):
            assert (await consumer.getone()).partition == 1


@pytest.mark.parametrize("code", [76, 109])
async def test_codes_that_the_client_loses_arrive(kafka_cluster, kafka_faults, code):
    """Aiokafka logs them and asks again without end; the guard raises them."""
    topic = kafka_cluster.create_topic()
    kafka_faults.on("Fetch", topic=topic).fail(code)
    async with guard(
        AIOKafkaConsumer(bootstrap_servers=kafka_faults.bootstrap_servers)
    ) as consumer:
        consumer.assign([TopicPartition(topic, 0)])
        with pytest.raises(errors.KafkaGuardError) as caught:
            async with asyncio.timeout(15):
                await consumer.getone()
    assert (code, topic, 0) == (
        caught.value.code,
        caught.value.topic,
        caught.value.partition,
    )
    assert isinstance(caught.value, aiokafka_errors.KafkaError)
