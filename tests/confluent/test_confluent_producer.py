"""The guarded producer of confluent-kafka: the contract of all, and its own details."""

from __future__ import annotations

import confluent_kafka
from confluent_kafka import Producer

from kafkaguard import guard
from kafkaguard.errors import KafkaGuardError
from tests.contracts.producer import ProducerContract


class Handle:
    """Stands for the outcome of a record, as a delivery callback tells it."""

    def __init__(self, producer):
        self._producer = producer
        self.told = []

    def __call__(self, error, message):
        """Be the callback."""
        self.told.append((error, message))

    def outcome(self):
        """Poll until it is told: the offset, or the exception."""
        while not self.told:
            self._producer.poll(0.1)
        ((error, message),) = self.told
        return message.offset() if error is None else error.error


class TestConfluent(ProducerContract):
    """The contract, for confluent-kafka."""

    client_refusal = confluent_kafka.KafkaException
    client_error = confluent_kafka.KafkaException
    client_class = Producer
    client_name = "confluent-kafka"
    idempotent = True

    def settings(self, proxy_or_cluster):
        """Return settings for the plain listener."""
        return {"bootstrap.servers": proxy_or_cluster.bootstrap_servers}

    def guarded(self, config, **options):
        """Records wait 50 ms for company, so that they share batches."""
        own = {"linger.ms": 50, "enable.idempotence": self.idempotent}
        return guard(factory=Producer, config={**config, **own}, **options)

    def send(self, producer, topic, value=None, key=None):
        """Produce, and return what will be told."""
        handle = Handle(producer)
        producer.produce(topic, value, key, on_delivery=handle)
        return handle

    def outcome(self, handle):
        """Poll until it is told."""
        return handle.outcome()


class TestNotIdempotent(TestConfluent):
    """The same without idempotence."""

    idempotent = False
