"""After ``close()`` nothing is opened again, and nothing is printed at exit."""

from __future__ import annotations

import asyncio
import subprocess
import sys

import confluent_kafka
import kafka
import pytest
from aiokafka.admin import AIOKafkaAdminClient
from confluent_kafka.admin import AdminClient

import aiokafka
from kafkaguard import Action, errors, guard
from kafkaguard.testing import FaultProxy

BLOCKING = (
    *(kafka.KafkaProducer, kafka.KafkaConsumer, kafka.KafkaAdminClient),
    *(confluent_kafka.Producer, confluent_kafka.Consumer, AdminClient),
)
AWAITED = (aiokafka.AIOKafkaProducer, aiokafka.AIOKafkaConsumer, AIOKafkaAdminClient)
ERRORS = {
    "kafka": kafka.errors.KafkaError,
    "confluent_kafka": confluent_kafka.KafkaException,
    "aiokafka": aiokafka.errors.KafkaError,
}


def config_of(cls, bootstrap):
    """Write the settings of a client of a class."""
    if cls not in (confluent_kafka.Producer, confluent_kafka.Consumer, AdminClient):
        is_aio = cls is aiokafka.AIOKafkaProducer
        own = {"enable_idempotence": True} if is_aio else {}
        return {"bootstrap_servers": bootstrap, **own}
    own = {
        confluent_kafka.Consumer: {"group.id": "none"},
        confluent_kafka.Producer: {"enable.idempotence": True},
    }.get(cls, {})
    return {"bootstrap.servers": bootstrap, **own}


def theirs(cls):
    """Return the base class of all errors of a client."""
    package = "confluent_kafka" if cls is AdminClient else cls.__module__
    names = {"cimpl": "confluent_kafka"}
    package = package.partition(".")[0]
    return ERRORS[names.get(package, package)]


@pytest.mark.parametrize("cls", BLOCKING)
def test_reports_of_a_closed_client_are_refused(cls, kafka_cluster):
    """Whether they were used before the end or not."""
    config = config_of(cls, kafka_cluster.bootstrap_servers)
    for used in (True, False):
        guarded = guard(factory=cls, config=config)
        if used:
            assert guarded.log_dirs().complete
        guarded.close()
        for call in (guarded.lag, guarded.log_dirs):
            with pytest.raises(errors.ClientClosedError, match="was closed") as caught:
                call()
            assert isinstance(caught.value, theirs(cls))
            assert caught.value.verdict.action is Action.RECREATE


@pytest.mark.parametrize("cls", AWAITED)
async def test_reports_of_a_stopped_client_are_refused(cls, kafka_cluster):
    """For those who await, too; leaving a block closes as well."""
    config = config_of(cls, kafka_cluster.bootstrap_servers)
    async with guard(cls(**config)) as guarded:
        assert (await guarded.log_dirs()).complete
    for call in (guarded.lag, guarded.log_dirs):
        with pytest.raises(errors.ClientClosedError, match="was closed") as caught:
            await call()
        assert isinstance(caught.value, theirs(cls))


PROGRAM = """
import asyncio, sys
from kafka import KafkaAdminClient
from aiokafka import AIOKafkaProducer
from kafkaguard import guard

admin = guard(KafkaAdminClient(bootstrap_servers=sys.argv[1]))
assert admin.log_dirs().complete

async def main():
    producer = AIOKafkaProducer(bootstrap_servers=sys.argv[1], enable_idempotence=True)
    guarded = guard(producer)
    assert (await guarded.log_dirs()).complete
    await producer.stop()  # not the guarded one, so our own connection stays

asyncio.run(main())
if "close" in sys.argv:
    admin.close()
"""


@pytest.mark.parametrize("end", ["close", "nothing"])
def test_nothing_is_printed_at_exit(end, kafka_cluster):
    """Connections of our own that nobody closed end without a word of asyncio."""
    ended = subprocess.run(
        [sys.executable, "-c", PROGRAM, kafka_cluster.bootstrap_servers, end],
        capture_output=True,
        text=True,
        timeout=60,
    )
    told = [each for each in ended.stderr.splitlines() if "guard():" not in each]
    assert (ended.returncode, ended.stdout, told) == (0, "", [])


@pytest.mark.parametrize("cls", AWAITED)
async def test_failed_start_closes_what_it_opened(cls):
    """A failed start raises one error and leaves nothing unclosed (aiokafka #1130)."""
    client = cls(**config_of(cls, "127.0.0.1:1"))
    guarded = guard(client)
    for start in (guarded.__aenter__, guarded.start):
        with pytest.raises(errors.ClientConnectionError) as caught:
            await start()
        assert isinstance(caught.value, aiokafka.errors.KafkaConnectionError)
        assert caught.value.verdict.action is Action.RETRY
        assert client._closed


async def test_a_producer_starts_at_the_second_attempt(kafka_cluster):
    """start() may be called again until there is a broker."""
    topic = kafka_cluster.create_topic()
    with FaultProxy(kafka_cluster) as proxy:
        config = config_of(aiokafka.AIOKafkaProducer, proxy.bootstrap_servers)
        producer = aiokafka.AIOKafkaProducer(**config)
        guarded = guard(producer)
        down = proxy.on("ApiVersions").close()
        with pytest.raises(errors.ClientConnectionError):
            await guarded.start()
        down.remove()
        async with guarded:
            assert (await guarded.send_and_wait(topic, b"v")).offset == 0
        assert producer._closed


@pytest.mark.parametrize("how", ["send", "send_and_wait"])
async def test_sends_after_the_end_are_refused_at_once(how, kafka_cluster):
    """After stop(), and after a start() that failed, where aiokafka waits for ever."""
    config = config_of(aiokafka.AIOKafkaProducer, kafka_cluster.bootstrap_servers)
    stopped = guard(aiokafka.AIOKafkaProducer(**config))
    async with stopped:
        pass
    config = config_of(aiokafka.AIOKafkaProducer, "127.0.0.1:1")
    failed = guard(aiokafka.AIOKafkaProducer(**config))
    with pytest.raises(errors.ClientConnectionError):
        await failed.start()
    with pytest.raises(errors.ClientClosedError, match="nothing was sent") as caught:
        async with asyncio.timeout(10):
            await getattr(stopped, how)("t", b"v")
    assert isinstance(caught.value, aiokafka.errors.ProducerClosed)
    assert caught.value.verdict.action is Action.RECREATE
    with pytest.raises(errors.ClientStateError, match="did not start"):
        async with asyncio.timeout(10):
            await getattr(failed, how)("t", b"v")
