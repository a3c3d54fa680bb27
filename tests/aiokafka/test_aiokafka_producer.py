"""The guarded producer of aiokafka keeps the contract of all guarded producers."""

from __future__ import annotations

import asyncio
import threading
from contextlib import contextmanager
from typing import ClassVar

import pytest
from opentelemetry.instrumentation.aiokafka import AIOKafkaInstrumentor

from aiokafka import AIOKafkaProducer, TopicPartition
from aiokafka import errors as aiokafka_errors
from kafkaguard import errors, guard
from kafkaguard_adapters.aiokafka._private.producing import reading
from kafkaguard_adapters.aiokafka.errors import errors as aiokafka_classes
from tests.contracts.attempts import AttemptsContract
from tests.contracts.cases import BuffersContract, CasesContract, SequencesContract
from tests.contracts.earlier_attempts import (
    EarlierAttemptsContract,
    EarlierAttemptsOfIdempotentContract,
)
from tests.contracts.instrumentation import InstrumentationContract
from tests.contracts.producer import ExpiryContract, ProducerContract, Writer
from tests.contracts.rejects import RejectsContract
from tests.contracts.transactions import TransactionsContract

pytestmark = pytest.mark.filterwarnings("ignore:retries = inf without:UserWarning")


class Loop:
    """An event loop in a thread of its own."""

    def __init__(self):
        self.loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self.loop.run_forever, daemon=True)
        self._thread.start()

    def run(self, work, timeout=120):
        """Run a coroutine, and wait for what it returns."""
        return asyncio.run_coroutine_threadsafe(work, self.loop).result(timeout)

    def call(self, function, *args):
        """Call a function in the loop, and wait for what it returns."""

        async def call():
            return function(*args)

        return self.run(call())

    def close(self):
        """End it."""
        self.run(self.loop.shutdown_asyncgens())
        self.loop.call_soon_threadsafe(self.loop.stop)
        self._thread.join(10)
        self.loop.close()


class AiokafkaWriter(Writer):
    """A guarded AIOKafkaProducer in an event loop of its own."""

    def __init__(self, guarded, events, loop):
        super().__init__(guarded, events)
        self._loop = loop
        report = getattr(guarded, "report", None)  # a bare client has none
        if report is not None:
            guarded.report = lambda: loop.call(report)  # in its loop, as all else

    def send(self, topic, value=None, key=None, **record):
        """Send by position, and return the future."""
        return self._loop.run(self._send(topic, value, key, **record))

    async def _send(
        self,
        topic,
        value=None,
        key=None,
        *,
        headers=None,
        partition=None,
        timestamp_ms=None,
        on_outcome=None,
    ):
        future = await self.guarded.send(
            topic, value, key, partition, timestamp_ms, headers
        )
        if on_outcome is not None:
            future.add_done_callback(lambda done: on_outcome(done.exception()))
        return future

    def send_all(self, topic, records):
        """Send in one coroutine."""

        async def send_all():
            return [await self._send(topic, **record) for record in records]

        return self._loop.run(send_all())

    def send_in_callback(self, *args, **kwargs):
        """Start to send; the loop is the one that runs the callback."""
        return asyncio.ensure_future(self._send(*args, **kwargs))

    def send_together(self, topic, values):
        """Send each in a task."""

        async def send_together():
            sends = [self._send(topic, value, b"k") for value in values]
            return await asyncio.gather(*sends, return_exceptions=True)

        return self._loop.run(send_together())

    def call(self, *args, **kwargs):
        """Call `send`."""
        return self._loop.run(self.guarded.send(*args, **kwargs))

    def outcome(self, handle, timeout=60.0):
        """Wait for the future."""

        async def outcome():
            done, _ = await asyncio.wait([handle], timeout=timeout)
            assert done, "there is no outcome"
            if isinstance(handle, asyncio.Task):  # a send in a callback
                return handle.exception() or (await handle.result()).offset
            return handle.exception() or handle.result().offset

        return self._loop.run(outcome())

    def flush(self, timeout=None):
        """Flush in the loop."""
        return self._loop.run(self.guarded.flush(timeout))

    def close(self, timeout=None):
        """Stop."""
        return self._loop.run(self.guarded.stop(timeout))

    def init(self):
        """Start: aiokafka takes its id over there."""
        self._loop.run(self.guarded.start())

    def abort(self):
        """Abort."""
        self._loop.run(self.guarded.abort_transaction())

    def commit(self):
        """Commit."""
        self._loop.run(self.guarded.commit_transaction())

    def send_offsets(self, topic, group):
        """Send the offset 1 of partition 0."""
        offsets = {TopicPartition(topic, 0): 1}
        self._loop.run(self.guarded.send_offsets_to_transaction(offsets, group))

    @contextmanager
    def transaction(self):
        """Enter and leave the block in the loop."""
        block = self.guarded.transaction()
        self._loop.run(block.__aenter__())
        try:
            yield
        except GeneratorExit:  # a block that nobody leaves
            raise
        except BaseException as error:
            self._loop.run(block.__aexit__(type(error), error, error.__traceback__))
            raise
        self._loop.run(block.__aexit__(None, None, None))

    def send_in_child(self, topic):
        """Send in a loop of the child's own."""
        asyncio.run(self.guarded.send(topic, b"v", b"k"))

    def deliver_in_child(self, topic):
        """Send and stop in a loop of the child's own."""

        async def deliver():
            await self.guarded.send_and_wait(topic, b"child", b"k")
            await self.guarded.stop()

        asyncio.run(deliver())


class AiokafkaContract(
    ProducerContract,
    ExpiryContract,
    AttemptsContract,
    CasesContract,
    BuffersContract,
    RejectsContract,
    InstrumentationContract,
):
    """The contract for this client, whatever its settings.

    aiokafka calls no callbacks of the application: no `CallbacksContract` (b79).
    """

    client_class = AIOKafkaProducer
    client_name = "aiokafka"
    client_error = aiokafka_errors.KafkaError
    client_refusal = aiokafka_classes.class_for(87)
    names_refused = False  # Produce v7
    keeps_unknown_codes = False  # its class table ends with Kafka's
    settings: ClassVar = {}

    @contextmanager
    def open(
        self,
        servers,
        *,
        policy="default",
        topics=None,
        users=None,
        linger=0.1,
        delivery_timeout=None,
        largest=None,
        built=None,
        client_class=AIOKafkaProducer,
        hook=None,
        password=None,
        serializer=None,
        tight=False,
        patience=None,
    ):
        """Build one in a loop, guard it, start it, and stop it in the end."""
        config = {
            "bootstrap_servers": servers,
            "linger_ms": round(linger * 1000),
            **self.settings,
        }
        if users is not None:
            config |= users.client_config("SASL_PLAIN", client="aiokafka", user="bob")
        if password is not None:
            config["sasl_plain_password"] = password
        if serializer is not None:
            config["key_serializer"] = serializer
        if tight:
            config["max_batch_size"] = 1  # a record at a time for each partition
        if delivery_timeout is not None:
            config["request_timeout_ms"] = round(delivery_timeout * 1000)
        if largest is not None:
            config["max_request_size"] = largest
        events = []
        options = {
            "policy": policy,
            "topics": topics,
            "on_event": hook or events.append,
        }

        def factory(**config):
            built.append(client_class(**config))
            return built[-1]

        def build():
            if built is None:
                return guard(client_class(**config), **options)
            return guard(factory=factory, config=config, **options)

        loop = Loop()
        try:
            guarded = loop.call(build)
            loop.run(guarded.start())
            writer = AiokafkaWriter(guarded, events, loop)
            try:
                yield writer
            except BaseException:
                self.leave(writer)
                raise
            writer.close()
        finally:
            left = loop.call(lambda: asyncio.all_tasks(loop.loop))
            loop.close()
        assert len(left) == 1, left  # the one that asks

    @contextmanager
    def instrumented(self, provider, writer=None):
        """Its methods are replaced in the class, so it does not matter when."""
        AIOKafkaInstrumentor().instrument(tracer_provider=provider)
        try:
            yield
        finally:
            AIOKafkaInstrumentor().uninstrument()

    @staticmethod
    def leave(writer):
        """Stop after a test has failed, which counts for more."""
        try:
            writer.close(1)
        except errors.KafkaGuardError as error:
            print("on leaving:", error)

    def lose_topic(self, writer, cluster, faults):
        """A record sent before the client sees the end of its connection is in doubt."""
        lost = super().lose_topic(writer, cluster, faults)

        async def is_seen():
            while reading.has_connection(writer.guarded.client):  # noqa: ASYNC110 - there is no event for it
                await asyncio.sleep(0.01)

        writer._loop.run(is_seen())
        return lost

    def own_signature(self, given):
        """A `send` of its own."""

        class Own(AIOKafkaProducer):
            async def send(self, topic, value, key, **more):
                given.append((topic, value, key, more))
                return await super().send(topic, value, key)

        return Own


class TestAiokafka(
    AiokafkaContract, SequencesContract, EarlierAttemptsOfIdempotentContract
):
    """With idempotence."""

    settings: ClassVar = {"enable_idempotence": True}

    def test_a_denied_topic_is_told_of_both_classes(self, kafka_users):
        """Whoever may write to no topic at all gets no id: start() says so, code 31."""
        kafka_users.grant("bob", "WRITE", "TOPIC", kafka_users.create_topic())
        super().test_a_denied_topic_is_told_of_both_classes(kafka_users)


class TestAiokafkaNotIdempotent(AiokafkaContract, EarlierAttemptsContract):
    """Without idempotence, which is the client's default."""

    idempotent = False


class TestAiokafkaTransactions(TransactionsContract):
    """With a transactional_id."""

    client_error = aiokafka_errors.KafkaError

    @contextmanager
    def open_transactional(
        self,
        servers,
        name,
        *,
        topics=None,
        policy="default",
        timeout=60.0,
        patience=10.0,
    ):
        """Build one in a loop, guard it, and stop it in the end."""
        config = {
            "bootstrap_servers": servers,
            "transactional_id": f"id-{name}",
            "transaction_timeout_ms": round(timeout * 1000),
            "request_timeout_ms": round(patience * 1000),
        }
        loop = Loop()

        def build():
            client = AIOKafkaProducer(**config)
            try:
                return guard(client, topics=topics, policy=policy)
            except Exception:
                client._closed = True  # it was never started
                raise

        try:
            writer = AiokafkaWriter(loop.call(build), [], loop)
            try:
                yield writer
            finally:
                AiokafkaContract.leave(writer)
        finally:
            loop.close()
