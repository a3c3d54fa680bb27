"""The guarded producer of confluent-kafka keeps the contract of all guarded producers."""

from __future__ import annotations

import time
import uuid
from contextlib import contextmanager, suppress
from typing import ClassVar

import confluent_kafka
from confluent_kafka import Producer
from opentelemetry.instrumentation.confluent_kafka import ConfluentKafkaInstrumentor

from kafkaguard import errors, guard
from tests.contracts.attempts import AttemptsContract
from tests.contracts.cases import BuffersContract, CasesContract, SequencesContract
from tests.contracts.instrumentation import InstrumentationContract
from tests.contracts.producer import (
    CallbacksContract,
    ExpiryContract,
    ProducerContract,
    Writer,
)
from tests.contracts.rejects import RejectsContract
from tests.contracts.transactions import TransactionsContract


class Handle:
    """What a delivery callback was told of one record."""

    def __init__(self, on_outcome=None):
        self.told = []
        self._on_outcome = on_outcome

    def __call__(self, error, message):
        """Be the callback."""
        self.told.append((error, message))
        if self._on_outcome is not None:
            self._on_outcome(None if error is None else error.error)


class ConfluentWriter(Writer):
    """A guarded Producer."""

    def __init__(self, guarded, events):
        super().__init__(guarded, events)
        self.untraced = guarded  # OpenTelemetry's stand-in has no list_topics()

    def send(
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
        """Produce, and return what its callback will be told."""
        handle = Handle(on_outcome)
        self.guarded.produce(
            topic,
            value=value,
            key=key,
            partition=-1 if partition is None else partition,
            on_delivery=handle,
            timestamp=timestamp_ms or 0,
            headers=headers,
        )
        return handle

    def send_all(self, topic, records):
        """Send when the topic is known: until then librdkafka splits what waits."""
        self.untraced.list_topics(topic, timeout=30)
        return super().send_all(topic, records)

    def forget(self, topic, value=None, key=None):
        """Produce without a callback."""
        self.guarded.produce(topic, value, key)

    def call(self, *args, **kwargs):
        """Call `produce`."""
        handle = Handle()
        self.guarded.produce(*args, **kwargs, on_delivery=handle)
        return handle

    def outcome(self, handle, timeout=60.0):
        """Poll until the callback was called."""
        end = time.monotonic() + timeout
        while not handle.told:
            assert time.monotonic() < end, "no outcome"
            self.guarded.poll(0.1)
        ((error, message),) = handle.told
        if error is None:
            return message.offset()
        bare = confluent_kafka.KafkaException(error)  # what a bare client tells
        return getattr(error, "error", bare)

    def serve(self):
        """Poll."""
        self.guarded.poll(0)

    def flush(self, timeout=None):
        """Flush; nothing is left where nothing is pending."""
        left = self.guarded.flush(-1 if timeout is None else timeout)
        report = self.guarded.report()
        assert left == report.pending
        return report

    def end_linger(self):
        """Flush; a producer that instrumentation wraps has no report."""
        assert self.guarded.flush(60) == 0

    def close(self, timeout=None):
        """Close."""
        assert self.guarded.close(timeout) is True
        return self.guarded.report()


class ConfluentContract(
    ProducerContract,
    CallbacksContract,
    ExpiryContract,
    AttemptsContract,
    CasesContract,
    BuffersContract,
    RejectsContract,
    InstrumentationContract,
):
    """The contract for this client, whatever its settings."""

    client_class = Producer
    client_name = "confluent-kafka"
    client_error = client_refusal = confluent_kafka.KafkaException
    overtakes = True  # before anybody polls, later batches are in the topic already
    settings: ClassVar = {"enable.idempotence": True}
    is_given = False  # whether the guard gets a producer instead of a factory

    def test_a_forked_child_is_told_at_once(self, kafka_cluster, kafka_topic):
        """Without a factory the guard cannot build a producer in the child."""
        self.is_given = True
        super().test_a_forked_child_is_told_at_once(kafka_cluster, kafka_topic)

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
        client_class=None,
        hook=None,
        password=None,
        serializer=None,
        tight=False,
        patience=None,
    ):
        """Build one, guard it, and close it in the end."""
        client_class = client_class or confluent_kafka.Producer  # of this moment
        if serializer is not None:
            client_class = confluent_kafka.SerializingProducer
        config = {
            "bootstrap.servers": servers,
            "linger.ms": linger * 1000,
            **self.settings,
        }
        if users is not None:
            config |= users.client_config("SASL_PLAIN", client="confluent", user="bob")
        if password is not None:
            config["sasl.password"] = password
        if serializer is not None:
            config["key.serializer"] = lambda key, _: serializer(key)
        if tight:
            config["queue.buffering.max.messages"] = 5
        if delivery_timeout is not None:
            config |= {
                "delivery.timeout.ms": round(delivery_timeout * 1000),
                "request.timeout.ms": round(delivery_timeout * 1000 / 3),
                "reconnect.backoff.max.ms": 200,
                "topic.metadata.propagation.max.ms": 200,
            }
        if largest is not None:
            config["message.max.bytes"] = largest
        events = []
        options = {
            "policy": policy,
            "topics": topics,
            "on_event": hook or events.append,
        }

        class Built(client_class):
            def __init__(self, config):
                super().__init__(config)
                if built is not None:
                    built.append(self)

        if self.is_given:
            guarded = guard(client_class(config), config=config, **options)
        else:
            factory = client_class if built is None else Built
            guarded = guard(factory=factory, config=config, **options)
        with guarded:
            yield ConfluentWriter(guarded, events)

    @contextmanager
    def instrumented(self, provider, writer=None):
        """It replaces the class; of a producer that is there it makes another one."""
        instrumentor = ConfluentKafkaInstrumentor()
        if writer is not None:
            traced = instrumentor.instrument_producer(writer.guarded, provider)
            writer.guarded = traced
            yield
            return
        instrumentor.instrument(tracer_provider=provider)
        try:
            yield
        finally:
            instrumentor.uninstrument()

    def lose_topic(self, writer, cluster, faults):
        """All that it can tell is that a topic is not there (yet)."""
        topic = f"later-{uuid.uuid4()}"
        return topic, lambda: cluster.create_topic(topic)

    def own_signature(self, given):
        """A `produce` of its own, which hands the guard's callback on."""

        class Own(Producer):
            def produce(self, topic, value, key, on_delivery=None, **more):
                given.append((topic, value, key, more))
                super().produce(topic, value, key, on_delivery=on_delivery)

        return Own


class TestConfluent(ConfluentContract, SequencesContract):
    """With idempotence."""


class TestConfluentNotIdempotent(ConfluentContract):
    """The same without idempotence."""

    # It does not say whether a refusal was of the first try: once more, then it ends.
    dips = 1
    settings: ClassVar = {"enable.idempotence": False, "retries": 0}


class TransactionalWriter(ConfluentWriter):
    """A guarded Producer with a transactional.id."""

    def init(self):
        """Initialise."""
        self.guarded.init_transactions()

    def abort(self):
        """Abort."""
        self.guarded.abort_transaction()

    def commit(self):
        """Commit."""
        self.guarded.commit_transaction()

    def send_offsets(self, topic, group):
        """Send the offset 1 of partition 0."""
        offsets = [confluent_kafka.TopicPartition(topic, 0, 1)]
        consumer = confluent_kafka.Consumer(
            {"bootstrap.servers": "127.0.0.1:1", "group.id": group, "log_level": 0}
        )
        try:
            of_group = consumer.consumer_group_metadata()
        finally:
            consumer.close()
        self.guarded.send_offsets_to_transaction(offsets, of_group)

    def transaction(self):
        """Begin one, and end it."""
        return self.guarded.transaction()


class TestConfluentTransactions(TransactionsContract):
    client_error = confluent_kafka.KafkaException

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
        """Have the guard build one, and close it in the end."""
        config = {
            "bootstrap.servers": servers,
            "transactional.id": f"id-{name}",
            "transaction.timeout.ms": round(timeout * 1000),
            "linger.ms": 20,
        }
        guarded = guard(factory=Producer, config=config, topics=topics, policy=policy)
        try:
            yield TransactionalWriter(guarded, [])
        finally:
            with suppress(errors.KafkaGuardError):
                guarded.close(5)
