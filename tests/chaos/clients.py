"""The guarded producers of each client behind one face, for chaos."""

from __future__ import annotations

import asyncio
import logging
import threading

from confluent_kafka import Producer
from kafka import KafkaProducer

from aiokafka import AIOKafkaProducer
from kafkaguard import guard
from kafkaguard.errors import DeliveryFailed

#: Seconds that a record has, and that a call may wait; and that the policy tries for.
DELIVERY_S, CALL_S, POLICY_S = 4.0, 8.0, 20.0
POLICY = {"deadline": POLICY_S}
SILENT = logging.getLogger("tests.chaos.librdkafka")
SILENT.disabled = True


class KafkaPython:
    """kafka-python's.

    Args:
        settings: How to connect.

    Attributes:
        LONGEST_S: When a record must have its outcome.
    """

    LONGEST_S = CALL_S + POLICY_S + DELIVERY_S

    def __init__(self, settings):
        self._producer = guard(
            factory=KafkaProducer,
            policy=POLICY,
            config={
                **settings,
                "linger_ms": 5,
                "request_timeout_ms": 1_000,
                "delivery_timeout_ms": int(DELIVERY_S * 1000),
                "max_block_ms": int(CALL_S * 1000),
                "bootstrap_timeout_ms": 3_000,
                "reconnect_backoff_max_ms": 500,
            },
        )

    def send(self, topic, value, key, stamp, told):
        """Send a record; what the call raises is raised."""
        future = self._producer.send(topic, value, key, timestamp_ms=stamp)
        future.add_callback(told.deliver)
        future.add_errback(told.fail)

    def close(self, seconds):
        """Close; failures were told to each record. Return what may be twice."""
        try:
            return self._producer.close(seconds).maybe_twice
        except DeliveryFailed as failed:
            return failed.report.maybe_twice


class Confluent:
    """confluent-kafka's, with a thread that polls, as its users have.

    Its records have less time than the faults last. A record that times out on its way
    lets librdkafka number anew what else is on its way, and write some of it twice.

    Args:
        settings: How to connect.
    """

    LONGEST_S = 2 * DELIVERY_S  # the call may wait as long as the policy tries

    def __init__(self, settings):
        self._producer = guard(
            factory=Producer,
            policy={"deadline": DELIVERY_S},
            config={
                **settings,
                "enable.idempotence": True,
                "linger.ms": 5,
                "batch.size": 16_384,  # as the others; its own default is 1 MB
                "socket.timeout.ms": 1_000,
                "request.timeout.ms": 1_000,
                "reconnect.backoff.max.ms": 500,
                "error_cb": lambda _: None,
                "logger": SILENT,
            },
        )
        self._is_done = threading.Event()
        self._thread = threading.Thread(target=self._poll, daemon=True)
        self._thread.start()

    def _poll(self):
        while not self._is_done.is_set():
            self._producer.poll(0.1)

    def send(self, topic, value, key, stamp, told):
        """Produce a record; what the call raises is raised."""

        def tell(error, message):
            if error is None:
                told.deliver((message.partition(), message.offset()))
            else:
                told.fail(error.error)

        stamped = {} if stamp is None else {"timestamp": stamp}
        self._producer.produce(topic, value, key, on_delivery=tell, **stamped)

    def close(self, seconds):
        """Close; failures were told to each record. Return what may be twice."""
        self._is_done.set()
        self._thread.join()
        twice = 0
        try:
            self._producer.close(seconds)
        except DeliveryFailed as failed:
            twice = failed.report.maybe_twice
        return twice + self._producer.report().maybe_twice


class Aiokafka:
    """aiokafka's, in an event loop of its own; threads send through it.

    Args:
        settings: How to connect.
    """

    LONGEST_S = KafkaPython.LONGEST_S

    def __init__(self, settings):
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._thread.start()
        self._config = {
            **settings,
            "enable_idempotence": True,
            "linger_ms": 5,
            "request_timeout_ms": int(DELIVERY_S * 1000),
        }
        self._producer = self._run(self._start(), 30)

    def _run(self, work, seconds):
        future = asyncio.run_coroutine_threadsafe(work, self._loop)
        return future.result(seconds)

    async def _start(self):
        producer = guard(factory=AIOKafkaProducer, config=self._config, policy=POLICY)
        await producer.start()
        return producer

    def send(self, topic, value, key, stamp, told):
        """Send a record; what the call raises is raised."""
        self._run(self._send(topic, value, key, stamp, told), 10 * CALL_S)

    async def _send(self, topic, value, key, stamp, told):
        def tell(future):
            error = future.exception()
            if error is None:
                put = future.result()
                told.deliver((put.partition, put.offset))
            else:
                told.fail(error)

        send = self._producer.send
        future = await send(topic, value, key, timestamp_ms=stamp)
        future.add_done_callback(tell)

    def close(self, seconds):
        """Stop; failures were told to each record. Return what may be twice."""
        twice = self._run(self._stop(seconds), 3 * seconds)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(10)
        left = asyncio.all_tasks(self._loop)
        self._loop.close()
        assert not left, left
        return twice

    async def _stop(self, seconds):
        try:
            return (await self._producer.stop(seconds)).maybe_twice
        except DeliveryFailed as failed:
            return failed.report.maybe_twice


CLIENTS = {"kafka-python": KafkaPython, "confluent": Confluent, "aiokafka": Aiokafka}
