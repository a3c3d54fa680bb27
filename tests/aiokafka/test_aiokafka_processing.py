"""aiokafka's consumer keeps the contract of consumers that handle records."""

from __future__ import annotations

import asyncio
import threading
import time
from contextlib import contextmanager

import pytest
from aiokafka.abc import ConsumerRebalanceListener

from aiokafka import AIOKafkaConsumer
from kafkaguard import errors, guard
from tests.contracts.processing import LETTERS, Member, ProcessContract, Seen, fill


class AIOKafkaMember(Member):
    """A guarded AIOKafkaConsumer, in an event loop of its own thread."""

    def __init__(self):
        super().__init__()
        self.loop = asyncio.new_event_loop()
        self._runner = threading.Thread(target=self.loop.run_forever)
        self._runner.start()

    def call(self, coroutine):
        """Run a coroutine in the loop."""
        return asyncio.run_coroutine_threadsafe(coroutine, self.loop).result(120)

    def process(self, handler, **options):
        """Run it; the handler runs in threads, so that it may sleep."""

        async def handle(record):
            await asyncio.to_thread(handler, record)

        return self.call(self.guarded.process(handle, **options))

    def close(self):
        """Stop it."""
        if not self.loop.is_closed():
            self.call(self.guarded.stop())

    def end_loop(self):
        """Stop the loop."""
        self.loop.call_soon_threadsafe(self.loop.stop)
        self._runner.join(10)
        self.loop.close()


class TestAIOKafkaProcess(ProcessContract):
    """The contract."""

    setting = "enable_auto_commit=False"

    def read(self, record):
        """Return key and value."""
        return record.key, record.value

    @contextmanager
    def open(
        self, cluster, topic, *, group=None, policy="default", given=False, **more
    ):
        """Open an AIOKafkaConsumer."""
        member = AIOKafkaMember()
        listener = more.pop("listener", None)
        config = {
            "bootstrap_servers": cluster.bootstrap_servers,
            "group_id": group or topic,
            "auto_offset_reset": "earliest",
            **more,
        }
        options = {"policy": policy, "on_event": member.hear}

        async def begin():
            member.guarded = (
                guard(AIOKafkaConsumer(**config), **options)
                if given
                else guard(factory=AIOKafkaConsumer, config=config, **options)
            )
            await member.guarded.start()
            member.guarded.subscribe([topic], listener=listener)

        try:
            member.call(begin())
            yield member
        finally:
            member.close()
            member.end_loop()

    @contextmanager
    def open_decoding(self, cluster, topic, decode, **options):
        """Open one with a deserialiser for values."""
        with self.open(cluster, topic, value_deserializer=decode, **options) as member:
            yield member

    def test_a_plain_handler_is_refused(self, kafka_cluster, kafka_topic):
        """It would stop the event loop, and with it the heartbeats."""
        with (
            self.open(kafka_cluster, kafka_topic) as member,
            pytest.raises(TypeError, match="async def"),
        ):
            member.call(member.guarded.process(print))

    def test_exactly_once_is_refused_with_the_reason(self, kafka_cluster, kafka_topic):
        """A member that has lost its partitions could not be fenced."""
        with (
            self.open(kafka_cluster, kafka_topic) as member,
            pytest.raises(errors.ClientConfigurationError, match="generation"),
        ):
            member.call(member.guarded.process(asyncio.sleep, producer=object()))

    def test_a_handler_over_its_time_is_cancelled(self, kafka_cluster, kafka_topic):
        """And tried again, and set aside."""
        kafka_cluster.create_topic(f"{kafka_topic}.dlq")
        fill(kafka_cluster, kafka_topic, 3)
        begun = []

        async def handle(record):
            begun.append(record.offset)
            if record.offset == 1:
                await asyncio.sleep(60)

        policy = LETTERS | {"handler": {"timeout": 0.2, "max_attempts": 2}}
        with self.open(kafka_cluster, kafka_topic, policy=policy) as member:
            report = member.call(member.guarded.process(handle, until_end=True))
        assert begun == [0, 1, 1, 2]
        assert (report.processed, report.dead_lettered) == (2, 1)

    def test_a_cancelled_run_commits_what_is_done(self, kafka_cluster, kafka_topic):
        """As asyncio.run() does it at Ctrl-C."""
        fill(kafka_cluster, kafka_topic, 50)
        seen = Seen(self.read)

        has_five = asyncio.Event()

        async def handle(record):
            await asyncio.sleep(0.05)
            seen(record)
            if len(seen.values) == 5:
                has_five.set()

        async def run(guarded):
            task = asyncio.ensure_future(guarded.process(handle))
            await has_five.wait()
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task

        with self.open(kafka_cluster, kafka_topic) as member:
            member.call(run(member.guarded))
            (place,) = member.guarded.assignment()
            done = member.call(member.guarded.committed(place))
        assert done == len(seen.values)

    def test_a_consumer_stops_at_once_when_all_tasks_were_cancelled(
        self, kafka_cluster, kafka_topic
    ):
        """As asyncio.run() does it at a second Ctrl-C: nobody reads answers then."""
        fill(kafka_cluster, kafka_topic, 5)
        seen = Seen(self.read)

        async def end(guarded):
            tasks = asyncio.all_tasks() - {asyncio.current_task()}
            for task in tasks:
                task.cancel()
            await asyncio.wait(tasks)
            await guarded.stop()

        with self.open(kafka_cluster, kafka_topic) as member:
            member.process(seen, until_end=True)
            begin = time.monotonic()
            member.call(end(member.guarded))
            assert time.monotonic() - begin < 5

    def test_the_applications_listener_is_called_too(self, kafka_cluster, kafka_topic):
        """After the guard has committed what was done."""
        fill(kafka_cluster, kafka_topic, 5)
        told = []

        class Listener(ConsumerRebalanceListener):
            def on_partitions_assigned(self, assigned):
                told.append(("assigned", len(assigned)))

            async def on_partitions_revoked(self, revoked):
                told.append(("revoked", len(revoked)))

        with self.open(kafka_cluster, kafka_topic, listener=Listener()) as member:
            member.process(Seen(self.read), until_end=True)
        assert ("assigned", 1) in told
