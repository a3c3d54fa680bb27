"""One record under a policy's deadline, while its broker has a fault that lasts.

Each client is built by the guard, with no setting of its own that the policy would set.
"""

from __future__ import annotations

import asyncio
import threading
import time
from dataclasses import dataclass

from confluent_kafka import Producer
from kafka import KafkaProducer

from aiokafka import AIOKafkaProducer
from kafkaguard import guard
from kafkaguard.errors import KafkaGuardError
from kafkaguard.testing import FaultProxy

#: Seconds beyond its deadline in which a record must have its outcome; and what a busy
#: machine adds to that.
MARGINS = {"kafka-python": 1.0, "confluent-kafka": 1.0, "aiokafka": 2.0}
BUSY_S = 0.5
_NEVER = "no-such-topic"


@dataclass(frozen=True)
class Run:
    """What came of one record.

    Attributes:
        client: The client.
        fault: What was wrong.
        deadline: The policy's, in seconds.
        seconds: From the call of ``send`` to the outcome.
        outcome: The outcome in words.
        attempts: Produce requests for its topic that the proxy has seen.
    """

    client: str
    fault: str
    deadline: float
    seconds: float
    outcome: str
    attempts: int

    @property
    def is_in_time(self):
        """Whether the outcome came within the deadline and the client's margin."""
        return self.seconds <= self.deadline + MARGINS[self.client] + BUSY_S


def no_broker(proxy, _deadline):
    """Let the broker refuse connections."""
    proxy.take_away(0)


def silent_broker(proxy, _deadline):
    """Let the broker take requests and answer none."""
    proxy.on().drop(written=False)


def too_few_replicas(proxy, _deadline):
    """Refuse each attempt with 19."""
    proxy.on("Produce").fail("NOT_ENOUGH_REPLICAS")


def unknown_topic(_proxy, _deadline):
    """Send to a topic that there is not."""


def leader_comes_back(proxy, deadline):
    """Let the partition have no leader for half of the deadline."""
    fault = proxy.on("Produce").fail("NOT_LEADER_OR_FOLLOWER")
    timer = threading.Timer(deadline / 2, fault.remove)
    timer.daemon = True
    timer.start()


def refused_then_silent(proxy, _deadline):
    """Refuse the batch once, so that the guard sends it again, and answer no more."""
    proxy.on("Produce", skip=1).drop(written=False)
    proxy.on("Produce", nth=1).fail("INVALID_RECORD")


FAULTS = {
    "no broker": no_broker,
    "silent broker": silent_broker,
    "19 for ever": too_few_replicas,
    "unknown topic": unknown_topic,
    "refused, then silent": refused_then_silent,
    "leader back after half": leader_comes_back,
}


def send_with_kafka_python(servers, policy, topic, begin, idempotent):
    """Send a record before and one after the fault begins; return the second's end."""
    config = {"bootstrap_servers": servers, "enable_idempotence": idempotent}
    with guard(factory=KafkaProducer, config=config, policy=policy) as producer:
        producer.send(topic, b"first").get(60)
        name = begin()
        start = time.monotonic()
        try:
            producer.send(name, b"second", b"k").get(10 * policy["deadline"])
            error = None
        except KafkaGuardError as failure:
            error = failure
        seconds = time.monotonic() - start
        producer.report()
        producer.close(1)
    return seconds, error


def send_with_confluent_kafka(servers, policy, topic, begin, idempotent):
    """Do the same with a client that is polled."""
    config = {
        "bootstrap.servers": servers,
        "enable.idempotence": idempotent,
        "log_level": 0,
    }
    told = []

    def tell(error, _message):
        told.append((time.monotonic(), error and error.error))

    with guard(factory=Producer, config=config, policy=policy) as producer:
        producer.produce(topic, b"first")
        assert not producer.flush(60)
        name = begin()
        start = time.monotonic()
        try:
            producer.produce(name, b"second", b"k", on_delivery=tell)
        except KafkaGuardError as failure:
            told.append((time.monotonic(), failure))
        while not told and time.monotonic() < start + 10 * policy["deadline"]:
            producer.poll(0.05)
        producer.report()
        producer.close(1)
    ((end, error),) = told
    return end - start, error


def send_with_aiokafka(servers, policy, topic, begin, idempotent):
    """Do the same in an event loop."""

    async def send():
        config = {"bootstrap_servers": servers, "enable_idempotence": idempotent}
        producer = guard(factory=AIOKafkaProducer, config=config, policy=policy)
        await producer.start()
        await producer.send_and_wait(topic, b"first")
        name = begin()
        start = time.monotonic()
        try:
            await producer.send_and_wait(name, b"second", b"k")
            error = None
        except KafkaGuardError as failure:
            error = failure
        seconds = time.monotonic() - start
        producer.report()
        await producer.stop(1)
        return seconds, error

    return asyncio.run(send())


CLIENTS = {
    "kafka-python": send_with_kafka_python,
    "confluent-kafka": send_with_confluent_kafka,
    "aiokafka": send_with_aiokafka,
}


def run(cluster, client, fault, deadline, policy=None, *, idempotent=True):
    """Send one record under a fault, through a proxy of its own."""
    topic = cluster.create_topic()
    policy = {"deadline": deadline, **(policy or {})}
    name = _NEVER if fault == "unknown topic" else topic
    with FaultProxy(cluster.bootstrap_servers) as proxy:

        def begin():
            proxy.journal.clear()
            FAULTS[fault](proxy, deadline)
            return name

        send, servers = CLIENTS[client], proxy.bootstrap_servers
        seconds, error = send(servers, policy, topic, begin, idempotent)
        attempts = len(proxy.requests("Produce", topic=name))
    outcome = "delivered" if error is None else f"{error.name}, {error.verdict.written}"
    return Run(client, fault, deadline, seconds, outcome, attempts)
