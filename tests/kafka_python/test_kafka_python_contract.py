"""The guarded producer of kafka-python keeps the contract of all guarded producers."""

from __future__ import annotations

from contextlib import contextmanager, suppress
from typing import ClassVar

import pytest
from kafka import KafkaProducer, OffsetAndMetadata, TopicPartition
from kafka import errors as kafka_errors
from opentelemetry.instrumentation.kafka import KafkaInstrumentor

from kafkaguard import errors, guard
from tests.contracts.attempts import AttemptsContract
from tests.contracts.cases import BuffersContract, CasesContract, SequencesContract
from tests.contracts.earlier_attempts import (
    EarlierAttemptsContract,
    EarlierAttemptsOfIdempotentContract,
)
from tests.contracts.instrumentation import InstrumentationContract
from tests.contracts.producer import (
    CallbacksContract,
    ExpiryContract,
    ProducerContract,
    Writer,
)
from tests.contracts.rejects import RejectsContract
from tests.contracts.transactions import TransactionsContract

pytestmark = pytest.mark.filterwarnings("ignore:retries = inf without:UserWarning")


class KafkaPythonWriter(Writer):
    """A guarded KafkaProducer."""

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
        """Send by position, and return the future."""
        future = self.guarded.send(topic, value, key, headers, partition, timestamp_ms)
        if on_outcome is not None:
            future.add_callback(lambda _: on_outcome(None))
            future.add_errback(on_outcome)
        return future

    def call(self, *args, **kwargs):
        """Call `send`."""
        return self.guarded.send(*args, **kwargs)

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
        offsets = {TopicPartition(topic, 0): OffsetAndMetadata(1, "", -1)}
        self.guarded.send_offsets_to_transaction(offsets, group)

    def transaction(self):
        """Begin one, and end it."""
        return self.guarded.transaction()

    def outcome(self, handle, timeout=60.0):
        """Wait on the future."""
        try:
            return handle.get(timeout).offset
        except (kafka_errors.KafkaError, errors.KafkaGuardError) as error:
            return error


class KafkaPythonContract(
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

    client_class = KafkaProducer
    client_name = "kafka-python"
    client_error = kafka_errors.KafkaError
    client_refusal = kafka_errors.InvalidRecordError
    dies_of_refusal = True
    null_headers = False  # KafkaProducer.send takes (str, bytes) only
    bounded = False  # kafka-python 3 has no buffer_memory: send() never waits for room
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
        client_class=KafkaProducer,
        hook=None,
        password=None,
        serializer=None,
        tight=False,
        patience=None,
    ):
        """Build one, guard it, and close it in the end."""
        config = {
            "bootstrap_servers": servers,
            "linger_ms": round(linger * 1000),
            **self.settings,
        }
        if users is not None:
            config |= users.client_config("SASL_PLAIN", user="bob")
        if password is not None:
            config["sasl_plain_password"] = password
        if patience is not None:
            config["max_block_ms"] = round(patience * 1000)
        if serializer is not None:
            config["key_serializer"] = serializer
        if delivery_timeout is not None:
            config |= {
                "delivery_timeout_ms": round(delivery_timeout * 1000),
                "request_timeout_ms": round(delivery_timeout * 1000 / 3),
                "bootstrap_timeout_ms": 15_000,
                "reconnect_backoff_max_ms": 200,
            }
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

        if password is not None:
            guarded = guard(factory=client_class, config=config, **options)
        elif built is None:
            guarded = guard(client_class(**config), **options)
        else:
            guarded = guard(factory=factory, config=config, **options)
        with guarded:
            yield KafkaPythonWriter(guarded, events)

    @contextmanager
    def instrumented(self, provider, writer=None):
        """Its methods are replaced in the class, so it does not matter when."""
        KafkaInstrumentor().instrument(tracer_provider=provider)
        try:
            yield
        finally:
            KafkaInstrumentor().uninstrument()

    def own_signature(self, given):
        """A `send` of its own."""

        class Own(KafkaProducer):
            def send(self, topic, value, key, **more):
                given.append((topic, value, key, more))
                return super().send(topic, value, key)

        return Own


class TestKafkaPython(
    KafkaPythonContract, SequencesContract, EarlierAttemptsOfIdempotentContract
):
    """With idempotence, which is the client's default."""


class TestKafkaPythonNotIdempotent(KafkaPythonContract):
    """Without idempotence the client does not die, and one batch overtakes another."""

    idempotent = False
    dies_of_refusal = False
    overtakes = True
    splits_in_order = False  # a part that is split again is overtaken by the next one
    settings: ClassVar = {"enable_idempotence": False, "retries": 0}


class TestKafkaPythonRetries(EarlierAttemptsContract):
    """The client's own retries, where a refused batch does not end the client."""

    idempotent = False
    settings: ClassVar = {"enable_idempotence": False}
    open = KafkaPythonContract.open


class TestKafkaPythonTransactions(TransactionsContract):
    client_error = kafka_errors.KafkaError

    @contextmanager
    def open_transactional(
        self,
        servers,
        name,
        *,
        topics=None,
        policy="default",
        timeout=60.0,
        patience=60.0,
    ):
        """Build one, guard it, and close it in the end."""
        client = KafkaProducer(
            bootstrap_servers=servers,
            transactional_id=f"id-{name}",
            transaction_timeout_ms=round(timeout * 1000),
            max_block_ms=round(patience * 1000),
            linger_ms=20,
        )
        try:
            guarded = guard(client, topics=topics, policy=policy)
        except Exception:
            client.close()
            raise
        try:
            yield KafkaPythonWriter(guarded, [])
        finally:
            with suppress(errors.KafkaGuardError):
                guarded.close(5)
