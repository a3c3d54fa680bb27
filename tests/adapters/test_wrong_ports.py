"""All clients say the same of a port with another protocol than their settings."""

from __future__ import annotations

import asyncio
import ssl
import time
from contextlib import closing

import confluent_kafka
import pytest
from aiokafka.admin import AIOKafkaAdminClient
from confluent_kafka import Consumer, Producer
from confluent_kafka.admin import AdminClient
from kafka import KafkaAdminClient, KafkaConsumer, KafkaProducer

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer
from kafkaguard import errors, guard
from kafkaguard.testing import KafkaCluster
from tests import leaks
from tests.contracts.wrong_ports import PATIENCE_S, WrongPortsContract

pytestmark = [
    pytest.mark.java,
    pytest.mark.filterwarnings("ignore::kafkaguard.errors.StackingWarning"),
    # kafka-python leaves a socket to the garbage collector whose handshake failed.
    pytest.mark.filterwarnings("ignore:unclosed <ssl.SSLSocket:ResourceWarning"),
    pytest.mark.filterwarnings("ignore:.*ssl.SSLSocket"),
]


@pytest.fixture(scope="module")
def cluster():
    """A broker with a listener for TLS and one without."""
    with KafkaCluster(tls=True) as started:
        yield started


class TestKafkaPythonPorts(WrongPortsContract):
    """kafka-python, whose constructors connect."""

    @pytest.fixture(autouse=True)
    def unbuilt(self):
        """End the clients that are not built."""
        yield
        leaks.end_unbuilt_clients()

    @staticmethod
    def build(factory, servers, protocol, cluster, **settings):
        """Build a client."""
        config = {"bootstrap_servers": servers, "security_protocol": protocol}
        if protocol == "SSL":
            config["ssl_cafile"] = str(cluster.authority)
        config["bootstrap_timeout_ms"] = PATIENCE_S * 1000
        return guard(factory=factory, config={**config, **settings})

    def produce(self, *where):
        """Build a producer."""
        self.build(KafkaProducer, *where, enable_idempotence=True)

    def consume(self, *where):
        """Build a consumer."""
        self.build(KafkaConsumer, *where)

    def lag(self, *where):
        """Build an admin client."""
        self.build(KafkaAdminClient, *where)


class TestConfluentPorts(WrongPortsContract):
    """confluent-kafka, whose clients try on."""

    @staticmethod
    def build(factory, servers, protocol, cluster, **settings):
        """Build a client."""
        config = {"bootstrap.servers": servers, "security.protocol": protocol}
        if protocol == "SSL":
            config["ssl.ca.location"] = str(cluster.authority)
        return guard(factory=factory, config={**config, "log_level": 0, **settings})

    def produce(self, *where):
        """Produce a record, and raise the error of its callback."""
        told = []
        settings = {
            "delivery.timeout.ms": PATIENCE_S * 1000,
            "enable.idempotence": True,
        }
        with closing(self.build(Producer, *where, **settings)) as producer:
            producer.produce("t", b"v", on_delivery=lambda error, _: told.append(error))
            producer.flush(30)
        raise told[0].error

    def consume(self, *where):
        """Poll."""
        with closing(self.build(Consumer, *where, **{"group.id": "g"})) as consumer:
            consumer.subscribe(["t"])
            end = time.monotonic() + 30
            while time.monotonic() < end:
                assert consumer.poll(0.1) is None

    def lag(self, *where):
        """Measure lag."""
        with closing(self.build(AdminClient, *where)) as admin:
            admin.lag()

    def test_transactional_id_that_is_not_taken_over(self, cluster):
        """The call's time limit is not to blame; the class is the client's."""
        where = cluster.bootstrap_servers, "SSL", cluster
        settings = {"transactional.id": "t"}
        with (
            closing(self.build(Producer, *where, **settings)) as producer,
            pytest.raises(confluent_kafka.KafkaException) as caught,
        ):
            producer.init_transactions(PATIENCE_S)
        assert isinstance(caught.value, errors.ClientConfigurationError)
        assert "in the TLS handshake" in str(caught.value)


class TestAiokafkaPorts(WrongPortsContract):
    """aiokafka, whose clients connect when they start."""

    @staticmethod
    def build(factory, servers, protocol, cluster):
        """Build a client."""
        config = {"bootstrap_servers": servers, "security_protocol": protocol}
        if protocol == "SSL":
            config["ssl_context"] = ssl.create_default_context(cafile=cluster.authority)
        return guard(factory=factory, config=config)

    def start(self, factory, *where):
        """Start a client."""

        async def start():
            await self.build(factory, *where).start()

        asyncio.run(start())

    def produce(self, *where):
        """Start a producer."""
        self.start(AIOKafkaProducer, *where)

    def consume(self, *where):
        """Start a consumer."""
        self.start(AIOKafkaConsumer, *where)

    def lag(self, *where):
        """Measure lag with a client that was not started."""

        async def lag():
            client = self.build(AIOKafkaAdminClient, *where)
            try:
                await client.lag()
            finally:
                await client.close()

        asyncio.run(lag())
