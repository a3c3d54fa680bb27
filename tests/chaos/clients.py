"""The guarded producers of each client behind one face, for chaos."""

from __future__ import annotations

import threading
from contextlib import suppress

from confluent_kafka import Producer
from kafka import KafkaProducer

from kafkaguard import DeliveryFailed, guard

#: Seconds that a record has, and that a call may wait.
DELIVERY_S, CALL_S = 4.0, 8.0


class KafkaPython:
    """kafka-python's.

    Args:
        servers: Where the cluster is.
    """

    def __init__(self, servers):
        self._producer = guard(
            factory=KafkaProducer,
            config={
                "bootstrap_servers": servers,
                "linger_ms": 5,
                "request_timeout_ms": 1_000,
                "delivery_timeout_ms": int(DELIVERY_S * 1000),
                "max_block_ms": int(CALL_S * 1000),
                "bootstrap_timeout_ms": 3_000,
                "reconnect_backoff_max_ms": 500,
            },
        )

    def send(self, topic, value, key, told):
        """Send a record; what the call raises is raised."""
        future = self._producer.send(topic, value, key)
        future.add_callback(told.deliver)
        future.add_errback(told.fail)

    def close(self, seconds):
        """Close; failures were told to each record."""
        with suppress(DeliveryFailed):
            self._producer.close(seconds)


class Confluent:
    """confluent-kafka's, with a thread that polls, as its users have.

    Args:
        servers: Where the cluster is.
    """

    def __init__(self, servers):
        self._producer = guard(
            factory=Producer,
            policy={"deadline": CALL_S},
            config={
                "bootstrap.servers": servers,
                "enable.idempotence": True,
                "linger.ms": 5,
                "socket.timeout.ms": 1_000,
                "request.timeout.ms": 1_000,
                "delivery.timeout.ms": int(DELIVERY_S * 1000),
                "reconnect.backoff.max.ms": 500,
                "error_cb": lambda _: None,
            },
        )
        self._is_done = threading.Event()
        self._thread = threading.Thread(target=self._poll, name="poll")
        self._thread.start()

    def _poll(self):
        while not self._is_done.is_set():
            self._producer.poll(0.1)

    def send(self, topic, value, key, told):
        """Produce a record; what the call raises is raised."""

        def tell(error, message):
            if error is None:
                told.deliver((message.partition(), message.offset()))
            else:
                told.fail(error.error)

        self._producer.produce(topic, value, key, on_delivery=tell)

    def close(self, seconds):
        """Close; failures were told to each record."""
        self._is_done.set()
        self._thread.join()
        with suppress(DeliveryFailed):
            self._producer.close(seconds)


CLIENTS = {"kafka-python": KafkaPython, "confluent": Confluent}
