"""aiokafka's consumer keeps the contract of consumers that handle records."""

from __future__ import annotations

import asyncio
import threading
import time
from collections import Counter
from contextlib import contextmanager

import pytest
from aiokafka.abc import ConsumerRebalanceListener
from aiokafka.structs import TopicPartition

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer
from kafkaguard import errors, guard
from kafkaguard_adapters.processing.arguments import Arguments
from tests.contracts.once import check_kills, read_committed
from tests.contracts.processing import (
    LETTERS,
    Member,
    ProcessContract,
    Seen,
    committed,
    ends,
    fill,
)


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
        partitions = more.pop("partitions", 0)
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
            if partitions:
                places = [TopicPartition(topic, n) for n in range(partitions)]
                member.guarded.assign(places)
            else:
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

    def pause(self, member, topic, partition):
        """Pause a partition in the loop of the consumer."""

        async def pause():
            member.guarded.pause(TopicPartition(topic, partition))

        member.call(pause())

    def resume(self, member, topic, partition):
        """Resume it."""

        async def resume():
            member.guarded.resume(TopicPartition(topic, partition))

        member.call(resume())

    def test_a_plain_handler_is_refused(self, kafka_cluster, kafka_topic):
        """It would stop the event loop, and with it the heartbeats."""
        with (
            self.open(kafka_cluster, kafka_topic) as member,
            pytest.raises(TypeError, match="async def"),
        ):
            member.call(member.guarded.process(print))

    def open_once(self, cluster, topic, partitions, **options):
        """Open a member with partitions that are assigned by hand."""
        return self.open(
            cluster, topic, partitions=partitions, isolation_level="read_committed",
            **options,
        )  # fmt: skip

    @contextmanager
    def open_producer(self, cluster, member, name):
        """Open a transactional producer in the loop of a member."""
        servers = {"bootstrap_servers": cluster.bootstrap_servers}

        async def begin():
            config = {**servers, "transactional_id": name}
            producer = guard(factory=AIOKafkaProducer, config=config)
            await producer.start()
            return producer

        producer = member.call(begin())
        try:
            yield producer
        finally:
            member.call(producer.stop())

    def test_exactly_once_is_refused_in_a_group_with_the_reason(
        self, kafka_cluster, kafka_topic
    ):
        """A member that has lost its partitions could not be fenced."""
        with (
            self.open(
                kafka_cluster, kafka_topic, isolation_level="read_committed"
            ) as member,
            self.open_producer(kafka_cluster, member, kafka_topic) as producer,
            self.open(kafka_cluster, kafka_topic, partitions=1) as uncommitted,
        ):
            for each, reason in ((member, "generation"), (uncommitted, "read_commit")):
                run = each.guarded.process(asyncio.sleep, producer=producer)
                with pytest.raises(errors.ClientConfigurationError, match=reason):
                    each.call(run)

    @pytest.mark.parametrize("order", ["partition", "key"])
    def test_outputs_letters_and_offsets_are_committed_together(
        self, kafka_cluster, order
    ):
        """Of partitions that are assigned by hand; failed attempts leave no output."""
        topic = kafka_cluster.create_topic(partitions=2)
        out = kafka_cluster.create_topic(partitions=2)
        kafka_cluster.create_topic(f"{topic}.dlq")
        fill(kafka_cluster, topic, 500)
        attempts, refused, begun = Counter(), [], asyncio.Event()
        with (
            self.open_once(kafka_cluster, topic, 2, policy=LETTERS) as member,
            self.open_producer(kafka_cluster, member, topic) as producer,
        ):

            async def handle(record):
                later = await producer.send(out, record.value, key=record.key)
                attempts[record.value] += 1
                begun.set()
                if record.value == b"77" or (
                    record.value == b"99" and attempts[record.value] == 1
                ):
                    raise OSError
                if record.value == b"5":
                    for waiting in (later, producer.send_and_wait(out, b"x")):
                        with pytest.raises(errors.ClientStateError, match="returned"):
                            await waiting
                        refused.append(record.value)

            async def send_outside():
                with pytest.raises(errors.ClientStateError, match="in its handlers"):
                    await producer.send(out, b"x")

            async def run():
                run = asyncio.ensure_future(
                    member.guarded.process(
                        handle,
                        workers=3,
                        order=order,
                        producer=producer,
                        until_end=True,
                    )
                )
                await begun.wait()
                await send_outside()
                return await run

            shell = member.call(member.guarded._make_process_shell(Arguments(handle)))
            assert shell.check_once(producer) == 30  # half of transaction_timeout_ms
            report = member.call(run())

            async def send_afterwards():
                async with producer.transaction():
                    await producer.send(out, b"after")

            member.call(send_afterwards())
        assert (report.processed, report.dead_lettered) == (499, 1)
        assert len(refused) >= 2
        outputs = Counter(read_committed(kafka_cluster, out, 2))
        assert set(outputs) == {b"%d" % n for n in range(500)} - {b"77"} | {b"after"}
        assert set(outputs.values()) == {1}
        assert read_committed(kafka_cluster, f"{topic}.dlq", 1) == [b"77"]
        assert committed(kafka_cluster, topic, topic, 2) == ends(
            kafka_cluster, topic, 2
        )

    def test_a_service_that_is_killed_writes_each_output_once(self, kafka_cluster):
        """With kill -9, at random times, and started again with the same id."""
        check_kills(kafka_cluster, "aiokafka", 5, each=7000)  # it need not join

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

    def test_a_limit_of_revocations_below_the_drain_timeout_is_told(
        self, kafka_cluster, kafka_topic, caplog
    ):
        """Once, when the run begins."""
        limited = {"rebalance_timeout_ms": 6000}
        with self.open(kafka_cluster, kafka_topic, **limited) as member:
            member.process(print, until_end=True)
        assert caplog.text.count("Set rebalance_timeout_ms") == 1

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
