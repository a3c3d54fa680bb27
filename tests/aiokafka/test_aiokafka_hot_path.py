"""What makes a send cheap means the same as the client's own, slower way."""

from __future__ import annotations

import asyncio
import gc
import inspect
import threading
import weakref
from types import SimpleNamespace

import pytest
from aiokafka.admin import AIOKafkaAdminClient, NewPartitions
from aiokafka.errors import UnknownTopicOrPartitionError

from aiokafka import AIOKafkaProducer
from kafkaguard import errors, guard
from kafkaguard_adapters.aiokafka._private.producing import moving


def client_of(where, **others):
    """Build a client that asks for an unknown topic for one second."""
    settings = {"enable_idempotence": True, "request_timeout_ms": 1_000, **others}
    return AIOKafkaProducer(bootstrap_servers=where.bootstrap_servers, **settings)


async def partitions(client, topic):
    """Return what a send waits for: the partitions, or the class of the error."""
    try:
        return await client._wait_on_metadata(topic)
    except UnknownTopicOrPartitionError as error:
        return type(error)


class TestKnownTopics:
    """A send of a known topic waits for nothing."""

    @pytest.mark.kafka_topic(partitions=2)
    async def test_both_ways_give_the_same_at_each_stage(
        self, kafka_cluster, kafka_topic
    ):
        """A topic that is unknown, known, larger, expired and deleted."""
        bare, producer = client_of(kafka_cluster), guard(client_of(kafka_cluster))
        admin = AIOKafkaAdminClient(bootstrap_servers=kafka_cluster.bootstrap_servers)
        await admin.start()
        async with bare, producer:
            clients = bare.client, producer.client.client

            async def both(topic=kafka_topic):
                """Return the common answer."""
                one, other = [await partitions(each, topic) for each in clients]
                assert one == other
                return one

            async def update():
                for each in clients:
                    await each.force_metadata_update()

            assert await both("never-there") is UnknownTopicOrPartitionError
            for each in clients:
                each._topics.discard("never-there")
            assert await both() == {0, 1}
            waits = [each._wait_on_metadata(kafka_topic) for each in clients]
            assert [inspect.iscoroutine(each) for each in waits] == [True, False]
            assert [{0, 1}, {0, 1}] == [await each for each in waits]

            await admin.create_partitions({kafka_topic: NewPartitions(3)})
            assert await both() == {0, 1}  # as the clients still know it
            while await both() != {0, 1, 2}:
                await update()
            assert (await producer.send_and_wait(kafka_topic, b"v", b"k")).offset == 0

            for each in clients:  # as after metadata_max_age_ms
                each.cluster.request_update()
            assert await both() == {0, 1, 2}

            kafka_cluster.delete_topic(kafka_topic)
            while kafka_topic in bare.client.cluster.topics():
                await update()
            await update()
            assert await both() is UnknownTopicOrPartitionError
            with pytest.raises(errors.UnknownTopicOrPartitionError):
                await producer.send(kafka_topic, b"v", b"k")
        await admin.close()

    async def test_the_partitions_are_the_callers_own(self, kafka_cluster, kafka_topic):
        """A set that the caller changes is not what the next call gets."""
        async with guard(client_of(kafka_cluster)) as producer:
            for _ in range(2):
                found = await producer.partitions_for(kafka_topic)
                assert found == {0}
                found.clear()

    def test_a_client_without_the_name_asks_as_before(self):
        """The shortcut for known topics is left out if the client lacks the attribute."""
        client = SimpleNamespace(cluster=object(), _wait_on_metadata=print)
        moving.answer_for_known_topics(SimpleNamespace(client=client))
        assert client._wait_on_metadata is print


class TestArguments:
    """What the client's send gets."""

    async def test_instrumentation_that_comes_later_is_called(
        self, kafka_cluster, kafka_topic, monkeypatch
    ):
        """In the class or in the object, and it may add headers."""
        seen = []

        def instrumented(send):
            async def call(*args, **kwargs):
                seen.append(kwargs)
                return await send(*args, **{"headers": [("trace", b"1")], **kwargs})

            return call

        async with guard(client_of(kafka_cluster)) as producer:
            with monkeypatch.context() as patch:
                patch.setattr(
                    AIOKafkaProducer, "send", instrumented(AIOKafkaProducer.send)
                )
                await (await producer.send(kafka_topic, b"1", b"k"))
            client = producer.client
            client.send = instrumented(client.send)
            await (await producer.send(kafka_topic, b"v", key=b"k"))
            await (await producer.send(kafka_topic, b"v", b"k", 0, None, [("h", b"")]))
        assert seen == [{}, {}, {"partition": 0, "headers": [("h", b"")]}]

    async def test_a_send_that_was_set_before_gets_exactly_what_was_given(
        self, kafka_cluster, kafka_topic
    ):
        """A send that was replaced on the object gets the caller's arguments unchanged."""
        client, seen = client_of(kafka_cluster), []
        own = client.send

        async def send(*args, **kwargs):
            seen.append((args, kwargs))
            return await own(kafka_topic, *args, **kwargs)

        client.send = send
        async with guard(client) as producer:
            await (await producer.send(b"v", key=b"k", headers=None))
        assert seen == [((b"v",), {"key": b"k", "headers": None})]

    async def test_an_assertion_of_the_application_is_raised_as_it_is(
        self, kafka_cluster, kafka_topic
    ):
        """Only the client's own tells of a partition that is not there."""

        def serialize(value):
            assert value != b"bad", "mine"
            return value

        client = client_of(kafka_cluster, value_serializer=serialize)
        async with guard(client) as producer:
            for partition in (None, 99):
                with pytest.raises(AssertionError, match="mine") as caught:
                    await producer.send(kafka_topic, b"bad", b"k", partition)
                assert not isinstance(caught.value, errors.KafkaGuardError)
            with pytest.raises(AssertionError, match="Need at least one") as caught:
                await producer.send(kafka_topic, partition=99)
            assert not isinstance(caught.value, errors.KafkaGuardError)


class TestLoops:
    """A send belongs to the producer's event loop, also after many that were right."""

    def test_another_loop_is_refused(self, kafka_cluster, kafka_topic):
        """In another thread while the own loop runs, and later in the same thread."""
        with asyncio.Runner() as runner:

            async def start():
                return await guard(client_of(kafka_cluster)).__aenter__()

            producer = runner.run(start())

            async def send():
                return await (await producer.send(kafka_topic, b"v", b"k"))

            async def send_elsewhere():
                await send()
                await asyncio.to_thread(refused)

            def refused():
                with pytest.raises(errors.ClientStateError, match="event loop"):
                    asyncio.run(send())

            runner.run(send_elsewhere())
            refused()
            # The own loop in another thread: the same producer goes on.
            loop = runner.get_loop()
            found = []
            thread = threading.Thread(
                target=lambda: found.append(loop.run_until_complete(send()))
            )
            thread.start()
            thread.join(30)
            assert [each.offset for each in found] == [1]
            assert runner.run(send()).offset == 2
            runner.run(producer.stop())


@pytest.mark.filterwarnings("ignore::kafkaguard.errors.StackingWarning")
@pytest.mark.parametrize("acks", [0, "all"])
async def test_a_delivered_batch_is_freed_without_the_garbage_collector(
    kafka_cluster, kafka_topic, acks
):
    """It would keep all of its records, and their futures, until then."""
    settings = {"acks": acks, "enable_idempotence": acks != 0, "linger_ms": 50}
    async with guard(client_of(kafka_cluster, **settings)) as producer:
        await producer.send(kafka_topic, b"v", b"k")
        ((batch,),) = producer.client._message_accumulator._batches.values()
        left = weakref.ref(batch)
        del batch
        gc.collect()
        gc.disable()
        try:
            for _ in range(200):  # the client's sender keeps its last batches
                await (await producer.send(kafka_topic, b"v", b"k"))
                if left() is None:
                    break
            assert left() is None
        finally:
            gc.enable()
