"""aiokafka's guarded producer: started, dead, replaced, stopped; nothing ever hangs."""

from __future__ import annotations

import asyncio
import gc
import os
import subprocess
import sys
import threading
import warnings
from functools import partial

import pytest

from aiokafka import AIOKafkaProducer
from aiokafka import errors as aiokafka_errors
from kafkaguard import Action, TopicFacts, errors, guard
from kafkaguard._delivery.report import DeliveryReport, ForkedProducerError
from kafkaguard._retries.events import WaitEvent
from kafkaguard.errors import DeliveryFailed, StackingWarning
from kafkaguard_adapters.aiokafka._private.producing import moving
from tests.contracts.attempts import PATIENT
from tests.contracts.producer import COMPACTED, read, stale_topic

#: Seconds that nothing here may take, on the busiest machine.
LIMIT_S = 60.0


def settings(where, **others):
    """Return settings of an idempotent producer that gives up soon."""
    return {
        "bootstrap_servers": where.bootstrap_servers,
        "enable_idempotence": True,
        "request_timeout_ms": 10_000,
        **others,
    }


def guarded(where, *, policy="default", topics=None, on_event=None, **others):
    """Build a client and guard it; it must be stopped."""
    producer = AIOKafkaProducer(**settings(where, **others))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", StackingWarning)  # without idempotence
        return guard(producer, policy=policy, topics=topics, on_event=on_event)


def other_tasks():
    """List the tasks of the loop but the caller's."""
    return asyncio.all_tasks() - {asyncio.current_task()}


class TestStart:
    """Before a producer is started, and where it does not start."""

    async def test_a_producer_that_was_never_started_says_so_at_once(
        self, kafka_cluster, kafka_topic
    ):
        """send() before start() raises at once; the bare client waits without end."""
        producer = guarded(kafka_cluster)
        calls = [
            producer.send(kafka_topic, b"v"),
            producer.send_and_wait(kafka_topic, b"v"),
            producer.send_batch(producer.create_batch(), kafka_topic, partition=0),
            producer.partitions_for(kafka_topic),
        ]
        for call in calls:
            with pytest.raises(errors.ClientStateError, match="was not started"):
                await call
        await producer.stop()

    async def test_a_failed_start_is_told_as_one(self, kafka_topic):
        """Not as a client that was closed; and start() may be called again."""
        servers = "127.0.0.1:1"
        producer = guard(
            AIOKafkaProducer(bootstrap_servers=servers, enable_idempotence=True)
        )
        for _ in range(2):
            with pytest.raises(aiokafka_errors.KafkaConnectionError):
                await producer.start()
        with pytest.raises(errors.ClientStateError, match="did not start") as caught:
            await producer.send(kafka_topic, b"v")
        said = str(caught.value)
        assert said.count(" -> ") == 1, said  # one advice, without that of the cause
        assert "CLIENT_NOT_CONNECTED: " in said
        assert said.endswith("CONFIGURE: start the client, then make the same call")
        assert DeliveryReport() == await producer.stop()
        assert set() == other_tasks()

    async def test_a_second_start_does_nothing(self, kafka_cluster, kafka_topic):
        """The bare client begins a second sender, and leaves the first one behind."""
        async with guarded(kafka_cluster) as producer:
            before = len(other_tasks())
            await producer.start()
            assert before == len(other_tasks())
            await producer.send_and_wait(kafka_topic, b"v", b"k")

    async def test_another_loop_is_refused(self, kafka_cluster, kafka_topic):
        """A producer belongs to the loop in which it was built."""
        producer = guarded(kafka_cluster)

        def elsewhere():
            with pytest.raises(errors.ClientStateError, match="belongs to"):
                asyncio.run(producer.send(kafka_topic, b"v"))

        async with producer:
            await asyncio.to_thread(elsewhere)

    async def test_a_forked_child_is_refused(self, kafka_cluster):
        """A call in a forked child raises, since the connections are the parent's."""
        async with guarded(kafka_cluster) as producer:
            producer.after_fork()
            with pytest.raises(ForkedProducerError, match=str(os.getpid())) as caught:
                await producer.send("t", b"v")
            assert caught.value.verdict.action is Action.RECREATE
            producer._is_forked = False


class TestStop:
    """A producer that was stopped."""

    async def test_nothing_hangs_and_no_task_is_left(self, kafka_cluster, kafka_topic):
        """Every call says at once that it was stopped, start() too."""
        producer = guarded(kafka_cluster)
        await producer.start()
        await producer.send(kafka_topic, b"v", b"k")
        assert (await producer.stop()).delivered == 1
        calls = [
            producer.send(kafka_topic, b"v"),
            producer.send_and_wait(kafka_topic, b"v"),
            producer.partitions_for(kafka_topic),
            producer.start(),
        ]
        for call in calls:
            with pytest.raises(errors.ClientClosedError, match="was stopped") as caught:
                await call
            assert isinstance(caught.value, aiokafka_errors.ProducerClosed)
        assert DeliveryReport() == await producer.stop()
        assert set() == other_tasks()

    async def test_a_broker_that_does_not_answer_bounds_stop(
        self, kafka_topic, kafka_faults
    ):
        """What was on its way is in doubt, and no task is left."""
        producer = guarded(kafka_faults)
        await producer.start()
        await producer.send_and_wait(kafka_topic, b"v", b"k")
        kafka_faults.on("Produce").drop()
        future = await producer.send(kafka_topic, b"w", b"k")
        async with asyncio.timeout(LIMIT_S):
            with pytest.raises(DeliveryFailed) as caught:
                await producer.stop(timeout=1.0)
        assert (caught.value.report.delivered, caught.value.report.in_doubt) == (1, 1)
        assert future.exception().verdict.action == Action.IN_DOUBT
        assert set() == other_tasks()

    async def test_a_cancelled_stop_ends_soon_and_loses_no_outcome(
        self, kafka_topic, kafka_faults
    ):
        """The second call tells what became of the records."""
        producer = guarded(kafka_faults, request_timeout_ms=60_000)
        await producer.start()
        await producer.send_and_wait(kafka_topic, b"v", b"k")
        kafka_faults.on("Produce").drop()
        await producer.send(kafka_topic, b"w", b"k")
        async with asyncio.timeout(25):
            with pytest.raises(TimeoutError):
                await asyncio.wait_for(producer.stop(), 0.5)
        with pytest.raises(DeliveryFailed) as caught:
            await producer.stop()
        assert caught.value.report.delivered == caught.value.report.in_doubt == 1
        assert DeliveryReport() == await producer.stop()
        assert set() == other_tasks()

    async def test_waiting_for_metadata_ends_without_a_log_of_asyncio(self, caplog):
        """A lost connection asks for metadata, and nobody awaits that future."""
        producer = AIOKafkaProducer(bootstrap_servers="127.0.0.1:1")
        producer.client.force_metadata_update()
        waiting = asyncio.create_task(producer.client._wait_on_metadata("t"))
        await asyncio.sleep(0)
        moving.fail_metadata_waiters(producer)
        with pytest.raises(aiokafka_errors.ProducerClosed):
            await waiting
        del waiting
        gc.collect()
        assert [r.getMessage() for r in caplog.records if r.name == "asyncio"] == []
        await producer.stop()

    async def test_a_cancelled_start_is_told_as_one(
        self, kafka_cluster, kafka_topic, monkeypatch
    ):
        """A cancellation has no text of its own."""

        async def wait(_):
            await asyncio.Event().wait()

        monkeypatch.setattr(AIOKafkaProducer, "start", wait)
        producer = guarded(kafka_cluster)
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(producer.start(), 0.1)
        with pytest.raises(errors.ClientStateError, match="was cancelled"):
            await producer.send(kafka_topic, b"v")
        await producer.stop()

    async def test_an_exception_of_the_block_goes_first(self, kafka_cluster):
        """What stop() would raise becomes a note of it."""
        topic = kafka_cluster.create_topic(config={"max.message.bytes": 1000})

        async def fail():
            async with guarded(kafka_cluster) as producer:
                await producer.send(topic, b"x" * 5000, b"k")
                raise ZeroDivisionError

        with pytest.raises(ZeroDivisionError) as caught:
            await fail()
        (note,) = caught.value.__notes__
        assert "besides, on closing the AIOKafkaProducer" in note

    async def test_a_client_stopped_behind_its_back_is_replaced(
        self, kafka_cluster, kafka_topic
    ):
        """Only the guarded producer's own stop() ends it."""
        async with guarded(kafka_cluster) as producer:
            await producer.client.stop()
            async with asyncio.timeout(LIMIT_S):
                await producer.send_and_wait(kafka_topic, b"v", b"k")
        assert set() == other_tasks()


class TestDeath:
    """A producer that delivers nothing any more is replaced."""

    @pytest.mark.parametrize("idempotent", [True, False])
    async def test_a_cancelled_sender_is_replaced(
        self, kafka_cluster, kafka_topic, idempotent
    ):
        """The bare client takes in records for ever, and sends none."""
        events = []
        producer = guarded(
            kafka_cluster, on_event=events.append, enable_idempotence=idempotent
        )
        async with producer:
            await producer.send_and_wait(kafka_topic, b"1", b"k")
            old = producer.client
            old._sender.sender_task.cancel()
            async with asyncio.timeout(LIMIT_S):
                for n in (2, 3):
                    await producer.send_and_wait(kafka_topic, b"%d" % n, b"k")
            assert old is not producer.client
        assert [value.decode() for _, value in read(kafka_cluster, kafka_topic)] == [
            "1",
            "2",
            "3",
        ]
        assert "RecreateEvent" in [type(event).__name__ for event in events]
        assert set() == other_tasks()

    async def test_records_that_waited_reach_the_successor_in_order(
        self, kafka_cluster, kafka_topic
    ):
        """Records of the dead producer come before those sent since."""
        async with guarded(kafka_cluster, linger_ms=60_000) as producer:
            old = [await producer.send(kafka_topic, b"%d" % n, b"k") for n in range(5)]
            producer.client._sender.sender_task.cancel()
            new = [
                await producer.send(kafka_topic, b"%d" % n, b"k") for n in range(5, 8)
            ]
            report = await producer.flush()
            assert list(range(8)) == [(await each).offset for each in old + new]
            assert (report.delivered, report.failed) == (8, 0)
        assert [b"%d" % n for n in range(8)] == [
            value for _, value in read(kafka_cluster, kafka_topic)
        ]

    @pytest.mark.parametrize("way", ["send", "send_and_wait"])
    async def test_a_send_whose_client_dies_meanwhile_goes_to_its_successors(
        self, kafka_cluster, kafka_topic, way
    ):
        """The call waits for each of two successors, and its record is sent once."""
        built = []

        async def die(client, *_args, **_options):
            client._sender.sender_task.cancel()
            await asyncio.sleep(0)  # the task ends, and the guard is told
            raise aiokafka_errors.ProducerClosed

        def build(**config):
            client = AIOKafkaProducer(**config)
            built.append(client)
            if len(built) < 3:
                client.send = partial(die, client)
            return client

        build.__name__ = "AIOKafkaProducer"
        producer = guard(factory=build, config=settings(kafka_cluster))
        async with asyncio.timeout(LIMIT_S), producer:
            sent = await getattr(producer, way)(kafka_topic, b"v", b"k")
            sent = await sent if asyncio.isfuture(sent) else sent
            assert sent.offset == 0
            assert producer.client is built[2]
        assert len(read(kafka_cluster, kafka_topic)) == 1

    async def test_a_record_whose_answer_takes_seconds_is_delivered_by_stop(
        self, kafka_topic, kafka_faults
    ):
        """The default time limit is for slow brokers, not for a quick test."""
        kafka_faults.on("InitProducerId").delay(1.2, times=1)
        kafka_faults.on("Produce").delay(2.0, times=1)
        async with asyncio.timeout(LIMIT_S):
            producer = guarded(kafka_faults)
            await producer.start()
            sent = await producer.send(kafka_topic, b"v", b"k")
            report = await producer.stop()
            assert (await sent).offset == 0
        assert (report.delivered, report.failed) == (1, 0)

    async def test_a_sequence_gap_is_healed(self, kafka_topic, kafka_faults):
        """After OUT_OF_ORDER_SEQUENCE_NUMBER the bare client fails for good."""
        async with guarded(kafka_faults) as producer:
            await producer.send_and_wait(kafka_topic, b"1", b"k")
            kafka_faults.on("Produce").fail("OUT_OF_ORDER_SEQUENCE_NUMBER", times=1)
            for n in (2, 3, 4):
                await producer.send_and_wait(kafka_topic, b"%d" % n, b"k")
        assert len(read(kafka_faults, kafka_topic)) == 4

    async def test_a_refused_batch_costs_the_next_one_nothing(self, kafka_cluster):
        """The number of a batch that was not written is used again; nobody dies."""
        topic = kafka_cluster.create_topic(config={"max.message.bytes": 1000})
        async with guarded(kafka_cluster) as producer:
            bare = producer.client
            for n in range(5):
                large = await producer.send(topic, b"x" * 5000, b"k")
                await asyncio.wait([large])
                assert large.exception().code == 10
                assert n == (await producer.send_and_wait(topic, b"v", b"k")).offset
            assert bare is producer.client

    async def test_old_epoch_without_a_transactional_id_needs_a_new_client(
        self, kafka_topic, kafka_faults
    ):
        """Nobody else can have fenced it, though the client says so."""
        async with guarded(kafka_faults) as producer:
            bare = producer.client
            kafka_faults.on("Produce").fail("INVALID_PRODUCER_EPOCH", times=1)
            with pytest.raises(errors.InvalidProducerEpochError) as caught:
                await producer.send_and_wait(kafka_topic, b"v", b"k")
            assert caught.value.verdict.action == Action.RECREATE
            await producer.send_and_wait(kafka_topic, b"w", b"k")
            assert bare is not producer.client
        (landed,) = read(kafka_faults, kafka_topic)
        assert b"w" in landed

    async def test_fenced_is_final(self, kafka_topic, kafka_faults):
        """No successor is built for a producer whose epoch is old."""
        async with guarded(kafka_faults, transactional_id=kafka_topic) as producer:
            bare = producer.client
            await producer.begin_transaction()
            kafka_faults.on("Produce").fail("INVALID_PRODUCER_EPOCH")
            with pytest.raises(errors.KafkaGuardError) as caught:
                await producer.send_and_wait(kafka_topic, b"v", b"k")
            assert isinstance(caught.value, aiokafka_errors.ProducerFenced)
            assert caught.value.verdict.action == Action.FENCED
            assert bare is producer.client
            with pytest.raises(errors.ClientFencedError):
                await producer.abort_transaction()

    async def test_a_class_with_an_init_of_its_own_cannot_be_replaced(
        self, kafka_cluster, kafka_topic
    ):
        """It is refused at once, with the way out."""

        class Own(AIOKafkaProducer):
            def __init__(self, where):
                super().__init__(**settings(where))

        async with guard(Own(kafka_cluster)) as producer:
            producer.client._sender.sender_task.cancel()
            await asyncio.wait([producer.client._sender.sender_task])
            with pytest.raises(errors.ClientClosedError, match="factory=") as caught:
                await producer.send(kafka_topic, b"v", b"k")
            assert caught.value.verdict.action == Action.RECREATE

    async def test_a_factory_builds_it_again(self, kafka_cluster, kafka_topic):
        """This holds for every kind of producer."""
        built = []

        class Own(AIOKafkaProducer):
            def __init__(self, where):
                built.append(self)
                super().__init__(**settings(where))

        async with guard(factory=Own, config={"where": kafka_cluster}) as producer:
            producer.client._sender.sender_task.cancel()
            await producer.send_and_wait(kafka_topic, b"v", b"k")
        assert len(built) == 2

    async def test_a_stuck_batch_is_settled_by_its_time(
        self, kafka_topic, kafka_faults
    ):
        """An idempotent batch of the bare client never expires."""
        config = {"request_timeout_ms": 2000}
        async with guarded(kafka_faults, **config) as producer:
            await producer.send_and_wait(kafka_topic, b"1", b"k")
            lost = kafka_faults.on("Produce").drop()
            async with asyncio.timeout(LIMIT_S):
                future = await producer.send(kafka_topic, b"2", b"k")
                with pytest.raises(errors.KafkaGuardError) as caught:
                    await future
            assert caught.value.verdict.action == Action.IN_DOUBT
            lost.remove()
            await producer.send_and_wait(kafka_topic, b"3", b"k")

    async def test_a_batch_given_up_between_two_tries_leaves_no_traceback(
        self, kafka_topic, kafka_faults, caplog
    ):
        """The client takes it out of a set in which it is not, and would log that."""
        async with guarded(kafka_faults, request_timeout_ms=2000) as producer:
            await producer.send_and_wait(kafka_topic, b"v", b"k")
            kafka_faults.on("Produce").fail(6)
            future = await producer.send(kafka_topic, b"w", b"k")
            async with asyncio.timeout(LIMIT_S):
                with pytest.raises(errors.KafkaGuardError):
                    await future
        logged = [r.getMessage() for r in caplog.records if r.name == "asyncio"]
        assert logged == []

    async def test_a_lost_answer_writes_nothing_twice(self, kafka_topic, kafka_faults):
        """The client asks again by itself, with the same number."""
        async with guarded(kafka_faults) as producer:
            kafka_faults.on("Produce").close(times=1, written=True)
            for n in range(3):
                await producer.send_and_wait(kafka_topic, b"%d" % n, b"k")
        assert [value for _, value in read(kafka_faults, kafka_topic)] == [
            b"0",
            b"1",
            b"2",
        ]


class TestCalls:
    """How a record is given to send()."""

    async def test_a_subclass_gets_exactly_what_was_given(
        self, kafka_cluster, kafka_topic
    ):
        """A subclass with a send of its own gets the caller's arguments unchanged."""
        seen = []

        class Own(AIOKafkaProducer):
            async def send(self, topic, value, key, **others):
                seen.append((topic, value, key, others))
                return await super().send(topic, value, key, **others)

        async with guard(Own(**settings(kafka_cluster))) as producer:
            await (await producer.send(kafka_topic, b"v", key=b"k"))
            await (await producer.send(kafka_topic, b"v", b"k", headers=[("h", b"x")]))
            with pytest.raises(TypeError):
                await producer.send(kafka_topic)
        assert [
            (kafka_topic, b"v", b"k", {}),
            (kafka_topic, b"v", b"k", {"headers": [("h", b"x")]}),
        ] == seen

    async def test_a_send_without_room_is_tried_again(self, kafka_topic, kafka_faults):
        """The policy tries again after the client's own time; it is delivered once."""
        waits = asyncio.Event()

        def hook(event):
            if isinstance(event, WaitEvent):
                waits.set()

        async with guarded(
            kafka_faults,
            policy=PATIENT,
            on_event=hook,
            request_timeout_ms=1_000,
            max_batch_size=500,
        ) as producer:
            await producer.send_and_wait(kafka_topic, b"first", b"k")
            kafka_faults.take_away(0)
            sends = [
                asyncio.create_task(producer.send(kafka_topic, b"x" * 400, b"%d" % n))
                for n in range(3)
            ]
            async with asyncio.timeout(LIMIT_S / 2):
                await waits.wait()
            kafka_faults.bring_back(0)
            async with asyncio.timeout(LIMIT_S / 2):
                found = await asyncio.gather(*await asyncio.gather(*sends))
            assert sorted(each.offset for each in found) == [1, 2, 3]

    async def test_a_record_without_a_connection_is_sent_again(
        self, kafka_topic, kafka_faults
    ):
        """A silent broker accepts the connection and answers nothing: not in doubt."""
        config = {"request_timeout_ms": 1_000}
        async with guarded(kafka_faults, policy=PATIENT, **config) as producer:
            await producer.send_and_wait(kafka_topic, b"1", b"k")
            silent = kafka_faults.on("ApiVersions").drop()
            for connection in list(producer.client.client._conns.values()):
                connection.close()
            future = await producer.send(kafka_topic, b"2", b"k")
            await asyncio.wait([future], timeout=5)  # the client gives up after 3 s
            silent.remove()
            async with asyncio.timeout(LIMIT_S):
                assert (await future).offset == 1
        assert len(read(kafka_faults, kafka_topic)) == 2

    @pytest.mark.parametrize("way", ["send", "send_batch"])
    async def test_a_send_behind_a_batch_that_fails_does_not_fail_with_it(
        self, kafka_cluster, kafka_faults, way
    ):
        """It waits for room; the failed batch ahead of it makes room."""
        topic, stale = stale_topic(kafka_cluster)
        kafka_faults.on("Produce").delay(1.0)
        async with guarded(
            kafka_faults, topics=stale, max_batch_size=500, linger_ms=200
        ) as producer:

            async def send(number):
                value = b"x" * 400
                if way == "send" or number == 1:
                    return await producer.send_and_wait(topic, value, b"%d" % number)
                batch = producer.create_batch()
                batch.append(timestamp=None, key=b"%d" % number, value=value)
                future = await producer.send_batch(batch, topic, partition=0)
                return await future

            mate = await producer.send(topic, b"x" * 100, b"mate")
            keyless = await producer.send(topic, b"x" * 100)
            async with asyncio.timeout(LIMIT_S):
                await asyncio.to_thread(kafka_faults.wait_for, "Produce")
                found = await asyncio.gather(*map(send, range(1, 4)))
                with pytest.raises(errors.InvalidRecordKeyError):
                    await keyless
                found.append(await mate)
        assert sorted(each.offset for each in found) == [0, 1, 2, 3]

    @pytest.mark.parametrize("wrong", [None, 5, "", "a b", "x" * 250])
    async def test_a_wrong_topic_name_spoils_no_later_send(
        self, kafka_cluster, kafka_topic, wrong
    ):
        """The bare client would ask for it together with each topic, for ever."""
        kind = errors.InvalidTopicError if isinstance(wrong, str) else TypeError
        async with guarded(kafka_cluster) as producer:
            with pytest.raises(kind, match="nothing was sent") as caught:
                await producer.send(wrong, b"v", b"k")
            if isinstance(wrong, str):
                assert caught.value.verdict.action is Action.REJECT
            sent = await producer.send_and_wait(kafka_topic, b"v", b"k")
        assert sent.offset == 0

    @pytest.mark.parametrize("partition", [99, -1])
    async def test_a_given_partition_that_is_not_there_is_told(
        self, kafka_cluster, kafka_topic, partition
    ):
        """Each producer names it; the bare client raises an AssertionError without text."""
        async with guarded(kafka_cluster) as producer:
            with pytest.raises(errors.PartitionNotThereError) as caught:
                await producer.send(kafka_topic, b"v", b"k", partition=partition)
            error = caught.value
            assert isinstance(error, AssertionError)
            assert (kafka_topic, partition) == (error.topic, error.partition)
            assert f"is for partition {partition}, and the topic has" in str(error)
            batch = producer.create_batch()
            batch.append(key=b"k", value=b"v", timestamp=None)
            with pytest.raises(errors.PartitionNotThereError):
                await producer.send_batch(batch, kafka_topic, partition=partition)
            assert (await producer.send_and_wait(kafka_topic, b"v", b"k")).offset == 0

    async def test_a_null_key_is_looked_for_after_the_serialiser(self, kafka_cluster):
        """One that makes None of a key is refused; one that makes a key is not."""
        topic = kafka_cluster.create_topic(config=COMPACTED)

        def key_of(key):
            return None if key == "none" else b"made"

        async with guarded(kafka_cluster, key_serializer=key_of) as producer:
            with pytest.raises(errors.InvalidRecordKeyError):
                await producer.send(topic, b"v", "none")
            assert (await producer.send_and_wait(topic, b"v", None)).offset == 0

    @pytest.mark.parametrize("policy", ["warn", "reject", "send"])
    async def test_a_disguised_null_key(self, kafka_cluster, policy, caplog):
        """A serialiser that turns None into a text hides it from the broker."""
        topic = kafka_cluster.create_topic(config=COMPACTED)
        settings = {"key_serializer": lambda key: str(key).encode()}
        rules = {"disguised_null_key": policy}
        async with guarded(kafka_cluster, policy=rules, **settings) as producer:
            if policy == "reject":
                with pytest.raises(errors.InvalidRecordKeyError):
                    await producer.send(topic, b"v")
            else:
                await producer.send_and_wait(topic, b"v")
            await producer.send_and_wait(topic, b"v", "k")
        said = [r for r in caplog.records if "turns a key of None" in r.getMessage()]
        assert len(said) == (policy == "warn")

    async def test_what_is_no_error_of_kafka_is_raised_as_it_is(
        self, kafka_cluster, kafka_topic
    ):
        """An assertion of the client's, a value that is no bytes."""
        async with guarded(kafka_cluster) as producer:
            with pytest.raises(AssertionError, match="key or value"):
                await producer.send(kafka_topic)
            with pytest.raises(TypeError):
                await producer.send(kafka_topic, "text", b"k")
            assert (await producer.send_and_wait(kafka_topic, b"v", b"k")).offset == 0

    async def test_a_cancelled_future_is_no_error(self, kafka_cluster):
        """Cancelling what send() returned does not stop the record, as in the client."""
        topic = kafka_cluster.create_topic(config=COMPACTED)
        stale = {topic: TopicFacts(compacted=False)}
        async with guarded(kafka_cluster, topics=stale, linger_ms=200) as producer:
            first = await producer.send(topic, b"v", b"k")
            refused = await producer.send(topic, b"v")
            first.cancel()
            with pytest.raises(errors.InvalidRecordKeyError):
                await refused
            assert (await producer.flush()).delivered == 1
        assert read(kafka_cluster, topic) == [(b"k", b"v")]

    async def test_a_lost_code_arrives(self, kafka_topic, kafka_faults):
        """The bare client calls it UnknownError, -1."""
        async with guarded(kafka_faults) as producer:
            kafka_faults.on("Produce").fail("POLICY_VIOLATION", times=1)
            with pytest.raises(errors.KafkaGuardError) as caught:
                await producer.send_and_wait(kafka_topic, b"v", b"k")
        assert (caught.value.code, caught.value.name) == (44, "POLICY_VIOLATION")
        assert isinstance(caught.value, aiokafka_errors.BrokerResponseError)

    async def test_two_guards_of_one_client_are_refused(self, kafka_cluster):
        """Only one can account for its records."""
        producer = guarded(kafka_cluster)
        with pytest.raises(TypeError, match="guarded already"):
            guard(producer.client)
        await producer.stop()


class TestLooking:
    """Which failures flush() raises."""

    async def test_a_failure_that_was_awaited_is_not_raised_again(self, kafka_cluster):
        """A failure whose exception was read is not raised again either."""
        topic = kafka_cluster.create_topic(config={"max.message.bytes": 1000})
        async with guarded(kafka_cluster) as producer:
            futures = [await producer.send(topic, b"x" * 5000, b"k") for _ in range(3)]
            with pytest.raises(errors.MessageTooLargeError):
                await futures[0]
            await asyncio.wait(futures)
            assert futures[1].exception().code == 10
            gathered = await asyncio.gather(futures[2], return_exceptions=True)
            assert gathered[0].code == 10
            assert (await producer.flush()).failed == 3

    async def test_a_failure_at_which_nobody_looked_is_raised_once(
        self, kafka_cluster, caplog
    ):
        """The flush raises it, so asyncio does not log it as never retrieved."""
        topic = kafka_cluster.create_topic(config={"max.message.bytes": 1000})
        async with guarded(kafka_cluster) as producer:
            await producer.send(topic, b"x" * 5000, b"k")
            with pytest.raises(DeliveryFailed) as caught:
                await producer.flush()
            assert caught.value.report.failed == 1
            assert (await producer.flush()).failed == 0
        assert "never retrieved" not in caplog.text

    async def test_report_counts_without_waiting(self, kafka_topic, kafka_faults):
        """report() returns at once and counts open records as pending."""
        async with guarded(kafka_faults) as producer:
            await producer.send_and_wait(kafka_topic, b"v", b"k")
            kafka_faults.on("Produce").delay(1.0, times=1)
            await producer.send(kafka_topic, b"w", b"k")
            report = producer.report()
            assert (report.delivered, report.pending) == (1, 1)
            assert (await producer.flush()).delivered == 1

    async def test_flush_is_bounded(self, kafka_topic, kafka_faults):
        """What is pending in the end is told; it may be delivered yet."""
        async with guarded(kafka_faults) as producer:
            await producer.send_and_wait(kafka_topic, b"v", b"k")
            kafka_faults.on("Produce").delay(2.0, times=1)
            await producer.send(kafka_topic, b"w", b"k")
            with pytest.raises(DeliveryFailed) as caught:
                await producer.flush(timeout=0.2)
            assert caught.value.report.pending == 1
            assert isinstance(caught.value, aiokafka_errors.KafkaTimeoutError)
            assert (await producer.flush()).delivered == 1

    async def test_flush_does_not_linger(self, kafka_cluster, kafka_topic):
        """flush() sends waiting batches at once; the bare client waits for linger_ms."""
        async with guarded(kafka_cluster, linger_ms=60_000) as producer:
            await producer.send(kafka_topic, b"v", b"k")
            async with asyncio.timeout(LIMIT_S / 2):
                assert (await producer.flush()).delivered == 1


FORGETFUL = """
import asyncio, sys
from aiokafka import AIOKafkaProducer
from kafkaguard import guard

async def forget(servers, topic):
    client = AIOKafkaProducer(bootstrap_servers=servers, enable_idempotence=True)
    producer = guard(client)
    await producer.start()
    await producer.send_and_wait(topic, b"v", b"k")
    await producer.send(topic, b"w", b"k")

asyncio.run(forget(*sys.argv[1:]))
"""


def test_a_loop_that_ends_without_stop_starts_no_recovery(kafka_cluster, kafka_topic):
    """At its end, asyncio cancels the client's sender: no death to recover from."""
    done = subprocess.run(
        [sys.executable, "-c", FORGETFUL, kafka_cluster.bootstrap_servers, kafka_topic],
        capture_output=True,
        text=True,
        timeout=LIMIT_S,
    )
    assert (done.returncode, done.stdout) == (0, "")
    assert "Unclosed AIOKafkaProducer" in done.stderr
    assert "kafkaguard" not in done.stderr.replace("/kafkaguard", ""), done.stderr


def test_a_real_fork_is_refused(kafka_cluster):
    """In the child every call says whose producer it is."""
    if not hasattr(os, "fork"):
        pytest.fail("this test is for systems that can fork")
    read_end, write_end = os.pipe()

    async def child(producer):
        try:
            await producer.send("t", b"v")
        except ForkedProducerError:
            return b"refused"
        return b"sent"

    async def parent():
        async with guarded(kafka_cluster) as producer:
            pid = os.fork()
            if not pid:
                asyncio._set_running_loop(None)
                os.write(write_end, asyncio.new_event_loop().run_until_complete(
                    child(producer)
                ))  # fmt: skip
                os._exit(0)
            await asyncio.to_thread(os.waitpid, pid, 0)

    asyncio.run(parent())
    assert os.read(read_end, 100) == b"refused"
    assert threading.active_count() >= 1


async def test_a_topic_is_not_called_missing_while_metadata_is_silent(
    kafka_topic, kafka_faults
):
    """The connection is there, and no broker has said whether the topic exists."""
    producer = guarded(kafka_faults, request_timeout_ms=2_000)
    await producer.start()
    try:
        kafka_faults.on("Metadata").drop()
        with pytest.raises(aiokafka_errors.UnknownTopicOrPartitionError) as caught:
            await asyncio.wait_for(producer.send(kafka_topic, b"v"), LIMIT_S)
        assert isinstance(caught.value, errors.ClientNotConnectedError)
        assert caught.value.verdict.action is Action.RETRY
        assert caught.value.verdict.written == "no"
        assert caught.value.topic == kafka_topic
    finally:
        await producer.stop()


async def test_a_topic_that_no_broker_knows_is_called_missing(kafka_cluster):
    """The brokers answer, and none has it."""
    producer = guarded(kafka_cluster, request_timeout_ms=2_000)
    await producer.start()
    try:
        with pytest.raises(errors.UnknownTopicOrPartitionError) as caught:
            await producer.send("never-made", b"v")
        assert caught.value.verdict.action is Action.CONFIGURE
    finally:
        await producer.stop()
