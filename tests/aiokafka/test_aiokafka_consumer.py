"""The guarded consumer of aiokafka keeps the contract of all guarded consumers."""

from __future__ import annotations

import asyncio
import gc
import time
import types
from contextlib import contextmanager
from functools import partial
from inspect import isawaitable

import pytest
from aiokafka.consumer.fetcher import Fetcher, PartitionRecords

from aiokafka import AIOKafkaConsumer, TopicPartition
from aiokafka import errors as aiokafka_errors
from kafkaguard import Action, errors, guard
from kafkaguard_adapters.aiokafka._private.consuming.reading import _of_group
from tests.contracts.consumer import AnswersContract, OwnError, Reader, fill


class AiokafkaReader(Reader):
    """A guarded AIOKafkaConsumer in an event loop of its own."""

    def __init__(self, guarded, events, loop):
        super().__init__(guarded, events)
        self.run = loop.run_until_complete

    def call(self, name, *args):
        """Call a method within the loop, and await what it returns."""

        async def call():
            answer = getattr(self.guarded, name)(*args)
            return await answer if isawaitable(answer) else answer

        return self.run(call())

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

    def read_in_child(self, place, count):
        """Start, assign and read in a loop of the child's own."""

        async def read():
            found = []
            async with self.guarded as consumer, asyncio.timeout(20):
                consumer.assign([TopicPartition(*place)])
                while len(found) < count:
                    found.append((await consumer.getone()).value.decode())
            return found

        return asyncio.run(read())

    def assign(self, places):
        """Assign."""
        self.call("assign", [TopicPartition(*each) for each in places])

    def subscribe(self, topic):
        """Subscribe."""
        self.call("subscribe", [topic])

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
    refresh = "metadata_max_age_ms"
    impatient = types.MappingProxyType({})
    client_name = "aiokafka"
    client_error = aiokafka_errors.KafkaError
    undecoded_error = OwnError
    not_owned_error = aiokafka_errors.IllegalStateError
    commits_unassigned = False
    rejoin_error = aiokafka_errors.CommitFailedError
    closed_error = aiokafka_errors.ConsumerStoppedError
    answers_closed = frozenset(
        {
            "assignment",
            "highwater",
            "last_poll_timestamp",
            "last_stable_offset",
            "partitions_for_topic",
            "paused",
            "subscription",
        }
    )

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
        factory=False,
        kind=AIOKafkaConsumer,
        on_event=None,
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
                given = (
                    {"factory": kind, "config": config}
                    if factory
                    else {"client": kind(**config)}
                )
                hook = on_event or events.append
                guarded = guard(**given, policy=policy, on_event=hook)
                await guarded.start()
                return guarded

            guarded = runner.run(start())
            reader = AiokafkaReader(guarded, events, runner.get_loop())
            try:
                if assign:
                    reader.assign(assign)
                yield reader
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


async def test_what_is_passed_on_says_it_too_before_the_start(kafka_cluster):
    """These methods fail inside the client alone."""
    servers = kafka_cluster.bootstrap_servers
    consumer = guard(AIOKafkaConsumer(bootstrap_servers=servers, group_id="g"))
    place = TopicPartition("t", 0)
    for call in (
        lambda: consumer.committed(place),
        lambda: consumer.position(place),
        lambda: consumer.seek_to_end(place),
        lambda: consumer.end_offsets([place]),
    ):
        with pytest.raises(errors.ClientStateError, match="not started"):
            await call()
    await consumer.stop()


async def until_it_waits(consumer, reads=1):
    """Let others run until reads wait for the broker."""
    async with asyncio.timeout(30):
        while len(consumer.client._fetcher._fetch_waiters) < reads:  # noqa: ASYNC110 - it tells nobody
            await asyncio.sleep(0)


async def test_a_fetcher_that_was_cancelled_is_said_and_nobody_waits(
    kafka_cluster, kafka_topic
):
    """RECREATE, for the read that waits, for the next one, and for an iteration."""
    consumer = guard(
        AIOKafkaConsumer(bootstrap_servers=kafka_cluster.bootstrap_servers)
    )
    async with consumer:
        consumer.assign([TopicPartition(kafka_topic, 0)])
        waiting = asyncio.ensure_future(consumer.getone())
        await until_it_waits(consumer)
        consumer.client._fetcher._fetch_task.cancel()
        async with asyncio.timeout(30):
            with pytest.raises(errors.ClientClosedError, match="build a new one") as at:
                await waiting
            for read in (consumer.getone, consumer.getmany, aiter(consumer).__anext__):
                with pytest.raises(errors.ClientClosedError, match="build a new one"):
                    await read()
        assert isinstance(at.value, aiokafka_errors.KafkaError)
        assert at.value.verdict.action == Action.RECREATE


async def test_a_stop_ends_the_reads_that_wait_as_the_client_does(
    kafka_cluster, kafka_topic
):
    """`getone` raises an error of both classes, `getmany` and an iteration end."""
    consumer = guard(
        AIOKafkaConsumer(bootstrap_servers=kafka_cluster.bootstrap_servers)
    )
    await consumer.start()
    consumer.assign([TopicPartition(kafka_topic, 0)])
    one = asyncio.ensure_future(consumer.getone())
    many = asyncio.ensure_future(consumer.getmany(timeout_ms=60_000))
    rest = asyncio.ensure_future(_rest(consumer))
    await until_it_waits(consumer, 3)
    await consumer.stop()
    with pytest.raises(errors.ClientClosedError) as caught:
        await one
    assert isinstance(caught.value, aiokafka_errors.ConsumerStoppedError)
    assert await many == {}
    assert await rest == []


async def _rest(consumer):
    return [record async for record in consumer]


async def test_a_static_member_that_was_forgotten_joins_again(
    kafka_cluster, kafka_topic, kafka_faults
):
    """The broker does not know the member; asked with the id, it names no other."""
    await asyncio.to_thread(fill, kafka_cluster, kafka_topic, 1, [0])
    kafka_faults.on("Heartbeat").fail(25, times=1)
    events = []
    client = AIOKafkaConsumer(
        kafka_topic,
        bootstrap_servers=kafka_faults.bootstrap_servers,
        group_id=kafka_topic,
        group_instance_id="the-id",
        heartbeat_interval_ms=100,
        enable_auto_commit=False,
        auto_offset_reset="earliest",
    )
    async with guard(client, on_event=events.append) as consumer, asyncio.timeout(30):
        read = [(await consumer.getone()).offset for _ in range(2)]
        versions = {each.version for each in kafka_faults.requests("Heartbeat")}
    assert read == [0, 0]  # it has committed nothing
    assert 3 in versions
    assert events == []


async def test_records_that_cannot_be_decoded_raise_an_error_of_both_classes(
    kafka_cluster, kafka_topic, monkeypatch
):
    """The client raises it in the middle of what it has fetched."""
    await asyncio.to_thread(fill, kafka_cluster, kafka_topic, 3, [0])
    servers = kafka_cluster.bootstrap_servers

    def corrupt(*_):
        raise aiokafka_errors.CorruptRecordException("Invalid CRC")

    async with guard(
        AIOKafkaConsumer(bootstrap_servers=servers, auto_offset_reset="earliest")
    ) as consumer:
        consumer.assign([TopicPartition(kafka_topic, 0)])
        with monkeypatch.context() as patch:
            patch.setattr(PartitionRecords, "_consumer_record", corrupt)
            for read in (consumer.getone, partial(consumer.getmany, timeout_ms=20_000)):
                with pytest.raises(errors.CorruptMessageError) as caught:
                    async with asyncio.timeout(30):
                        await read()
                error = caught.value
                assert (2, kafka_topic, 0) == (error.code, error.topic, error.partition)
                assert isinstance(error, aiokafka_errors.CorruptRecordException)
        async with asyncio.timeout(30):
            assert (await consumer.getone()).offset == 0


async def test_an_error_of_the_group_is_of_both_classes(kafka_users):
    """For the read that waits, and for the next one."""
    config = kafka_users.client_config("SASL_PLAIN", client="aiokafka", user="bob")
    topic = kafka_users.create_topic()
    kafka_users.grant("bob", "READ", "TOPIC", topic)
    async with guard(AIOKafkaConsumer(group_id="denied", **config)) as consumer:
        consumer.subscribe([topic])
        for read in (consumer.getone, partial(consumer.getmany, timeout_ms=20_000)):
            with pytest.raises(errors.GroupAuthorizationFailedError) as caught:
                async with asyncio.timeout(30):
                    await read()
            assert isinstance(
                caught.value, aiokafka_errors.GroupAuthorizationFailedError
            )


@pytest.mark.parametrize(
    ("text", "code", "action"),
    [
        ("RequestTimedOutError()", 7, Action.RETRY),
        ("UnknownError()", -1, Action.RETRY),
        (
            "Unexpected exception in heartbeat task: UnknownError()",
            None,
            Action.RECREATE,
        ),
        ("Unexpected error during coordination KafkaError('x')", None, Action.RECREATE),
        ("no class of an error", None, Action.REJECT),
    ],
)
def test_an_error_that_the_group_did_not_expect_has_its_code(text, code, action):
    """Aiokafka names it only in the text of a KafkaError."""
    error = _of_group(aiokafka_errors.KafkaError(text))
    assert (error.code, error.verdict.action, error.verdict.written) == (
        code,
        action,
        "no",
    )


async def test_a_consumer_goes_on_after_an_answer_that_its_group_did_not_expect(
    kafka_topic, kafka_faults
):
    """The error says RETRY, and so it is."""
    fill(kafka_faults, kafka_topic, 1, [0])
    client = AIOKafkaConsumer(
        bootstrap_servers=kafka_faults.bootstrap_servers,
        group_id=f"g-{kafka_topic}",
        auto_offset_reset="earliest",
    )
    async with guard(client) as consumer:
        kafka_faults.on("JoinGroup").fail("REQUEST_TIMED_OUT", times=1)
        consumer.subscribe([kafka_topic])
        async with asyncio.timeout(60):
            for _ in range(2):  # the client raises it to the read that waits, and again
                with pytest.raises(errors.RequestTimedOutError) as caught:
                    await consumer.getone()
                assert caught.value.verdict.action is Action.RETRY
            assert (await consumer.getone()).value == b"0"


async def test_a_read_that_is_cancelled_loses_no_record(kafka_cluster, kafka_topic):
    """`CancelledError` passes, and the next read gets what came meanwhile."""
    servers = kafka_cluster.bootstrap_servers
    async with guard(
        AIOKafkaConsumer(bootstrap_servers=servers, auto_offset_reset="earliest")
    ) as consumer:
        consumer.assign([TopicPartition(kafka_topic, 0)])
        waiting = asyncio.ensure_future(consumer.getone())
        await until_it_waits(consumer)
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting
        await asyncio.to_thread(fill, kafka_cluster, kafka_topic, 3, [0])
        async with asyncio.timeout(15):
            assert [(await consumer.getone()).offset for _ in range(3)] == [0, 1, 2]


@pytest.mark.parametrize("is_started", [False, True])
async def test_an_aiokafka_that_has_changed_inside_is_used_by_its_public_interface(
    kafka_cluster, kafka_topic, monkeypatch, caplog, is_started
):
    """One warning; reads, commits and the lag go on, with errors of both classes."""
    await asyncio.to_thread(fill, kafka_cluster, kafka_topic, 3, [0])
    monkeypatch.delattr(Fetcher, "_set_error")
    client = AIOKafkaConsumer(
        bootstrap_servers=kafka_cluster.bootstrap_servers,
        group_id=kafka_topic,
        auto_offset_reset="earliest",
        enable_auto_commit=False,
    )
    if is_started:
        await client.start()
    consumer = guard(client)
    if not is_started:
        await consumer.start()
    place = TopicPartition(kafka_topic, 0)
    try:
        consumer.assign([place])
        async with asyncio.timeout(20):
            read = [(await consumer.getone()).value for _ in range(3)]
            await consumer.commit({place: 2})
        assert read == [b"0", b"1", b"2"]
        group = (await consumer.lag()).groups[kafka_topic]
        assert group.partitions[place].lag == 1
        with pytest.raises(errors.KafkaGuardError) as caught:
            await consumer.commit({TopicPartition("other", 0): 1})
        assert isinstance(caught.value, aiokafka_errors.IllegalStateError)
    finally:
        await consumer.stop()
    assert caplog.text.count("(other private attributes: fetcher._set_error)") == 1


async def test_a_consumer_of_a_topic_that_is_not_there_names_it(kafka_cluster):
    """The client's error has neither the topic nor advice that helps."""
    client = AIOKafkaConsumer(
        "not-there",
        bootstrap_servers=kafka_cluster.bootstrap_servers,
        request_timeout_ms=2000,
    )
    consumer = guard(client)
    with pytest.raises(errors.UnknownTopicOrPartitionError) as caught:
        await consumer.start()
    assert (
        caught.value.topic,
        caught.value.verdict.action,
    ) == ("not-there", Action.CONFIGURE)
    assert isinstance(caught.value, aiokafka_errors.UnknownTopicOrPartitionError)


async def test_a_consumer_that_failed_to_start_leaves_nothing_open():
    """The error is of both classes; each later call ends at once."""
    consumer = guard(AIOKafkaConsumer(bootstrap_servers="127.0.0.1:1"))
    with pytest.raises(aiokafka_errors.KafkaConnectionError) as caught:
        await consumer.start()
    assert isinstance(caught.value, errors.KafkaGuardError)
    with pytest.raises(errors.ClientClosedError, match="did not start"):
        await consumer.getone()
    await consumer.stop()
    with pytest.raises(errors.ClientClosedError, match="was closed"):
        await consumer.getone()


def test_a_consumer_in_another_event_loop_is_refused(kafka_cluster, kafka_topic):
    """Nothing hangs, and its own loop can still close it, with all its tasks."""
    servers = kafka_cluster.bootstrap_servers

    async def build():
        client = AIOKafkaConsumer(
            kafka_topic, bootstrap_servers=servers, group_id=kafka_topic
        )
        consumer = guard(client)
        await consumer.start()
        return consumer

    with asyncio.Runner() as runner:
        consumer = runner.run(build())
        started = time.monotonic()
        with pytest.raises(errors.ClientStateError, match="belongs to"):
            asyncio.run(consumer.getone())
        with pytest.raises(errors.ClientStateError, match="belongs to"):
            asyncio.run(consumer.stop())
        assert time.monotonic() - started < 30
        runner.run(consumer.stop())
        assert asyncio.all_tasks(runner.get_loop()) == set()


async def test_no_task_is_left_by_the_commit_of_a_start_without_an_answer(
    kafka_cluster, kafka_topic
):
    """The guard commits where a new group begins; the client is closed meanwhile."""
    servers = kafka_cluster.bootstrap_servers
    client = AIOKafkaConsumer(
        kafka_topic, bootstrap_servers=servers, group_id=kafka_topic
    )
    consumer = guard(client)
    await consumer.start()
    never = asyncio.Event()
    client.commit = lambda _offsets: never.wait()
    while not consumer._starting:
        await consumer.getmany(timeout_ms=100)
    (starting,) = consumer._starting
    await consumer.stop()
    assert starting.done()


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


@pytest.mark.parametrize(
    ("deadline", "request_timeout_ms", "expected"),
    [
        (2.0, 6000, r"no answer within the policy's deadline, 2 s"),
        (6.0, 4000, r"no answer within request_timeout_ms, 4 s"),
    ],
)
async def test_a_commit_without_an_answer_ends_in_time_and_leaves_nothing_behind(
    kafka_cluster,
    kafka_topic,
    kafka_faults,
    caplog,
    deadline,
    request_timeout_ms,
    expected,
):
    """The client alone never ends; the error says how long nobody has answered."""
    client = AIOKafkaConsumer(
        bootstrap_servers=kafka_faults.bootstrap_servers,
        group_id=kafka_topic,
        enable_auto_commit=False,
        request_timeout_ms=request_timeout_ms,
    )
    async with guard(client, policy={"deadline": deadline}) as consumer:
        place = TopicPartition(kafka_topic, 0)
        consumer.assign([place])
        await consumer.commit({place: 0})  # now there is a coordinator
        kafka_faults.on("OffsetCommit").drop()
        async with asyncio.timeout(60):
            with pytest.raises(errors.RetriableError, match=expected) as caught:
                await consumer.commit({place: 0})
        assert (caught.value.topic, caught.value.partition) == place
        assert isinstance(caught.value, aiokafka_errors.KafkaError)
    await asyncio.sleep(0.1)  # so that the client's own task ends
    gc.collect()
    assert "never retrieved" not in caplog.text
