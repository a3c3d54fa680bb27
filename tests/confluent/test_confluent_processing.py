"""confluent-kafka's consumer keeps the contract of consumers that handle records."""

from __future__ import annotations

from contextlib import contextmanager

import pytest
from confluent_kafka import (
    Consumer,
    DeserializingConsumer,
    Producer,
    TopicPartition,
)

from kafkaguard import errors, guard
from tests.contracts.once import OnceContract
from tests.contracts.processing import Member, ProcessContract, Seen, fill


class ConfluentMember(Member):
    """A guarded Consumer."""

    def process(self, handler, **options):
        """Run in this thread."""
        return self.guarded.process(handler, **options)

    def close(self):
        """Close it."""
        self.guarded.close()


class TestConfluentProcess(OnceContract, ProcessContract):
    """The contract."""

    setting = '"enable.auto.commit": False'
    factory = Consumer
    client = "confluent"

    def open_producer(self, cluster, name):
        """Return a guarded transactional Producer."""
        config = {
            "bootstrap.servers": cluster.bootstrap_servers,
            "transactional.id": name,
        }
        return guard(factory=Producer, config=config)

    def open_once(self, cluster, topic, **options):
        """Open a member; it reads committed records by default."""
        return self.open(cluster, topic, **options)

    def send(self, producer, topic, key, value):
        """Send a record."""
        producer.produce(topic, value, key=key)

    def read(self, record):
        """Return key and value."""
        return record.key(), record.value()

    def pause(self, member, topic, partition):
        """Pause a partition."""
        member.guarded.pause([TopicPartition(topic, partition)])

    def resume(self, member, topic, partition):
        """Resume it."""
        member.guarded.resume([TopicPartition(topic, partition)])

    def headers(self, record):
        """Return the headers."""
        return record.headers()

    def place(self, record):
        """Return topic, partition and offset."""
        return record.topic(), record.partition(), record.offset()

    @contextmanager
    def open(
        self, cluster, topic, *, group=None, policy="default", given=False, **more
    ):
        """Open a Consumer."""
        member = ConfluentMember()
        listeners = more.pop("listeners", {})
        config = {
            "bootstrap.servers": cluster.bootstrap_servers,
            "group.id": group or topic,
            "auto.offset.reset": "earliest",
            **{name.replace("_", "."): value for name, value in more.items()},
        }
        options = {"policy": policy, "on_event": member.hear}
        member.guarded = (
            guard(self.factory(config), **options)
            if given
            else guard(factory=self.factory, config=config, **options)
        )
        member.guarded.subscribe([topic], **listeners)
        try:
            yield member
        finally:
            member.close()

    @contextmanager
    def open_decoding(self, cluster, topic, decode, **options):
        """Open a DeserializingConsumer."""
        self.factory = DeserializingConsumer
        options["value.deserializer"] = lambda value, _: decode(value)
        with self.open(cluster, topic, **options) as member:
            yield member

    def test_members_come_and_go_with_cooperative_rebalances(self, kafka_cluster):
        """Partitions that stay are read on."""
        self.check_members(
            kafka_cluster, partition_assignment_strategy="cooperative-sticky"
        )

    def test_members_come_and_go_with_the_new_protocol(self, kafka_cluster):
        """KIP-848."""
        self.check_members(kafka_cluster, group_protocol="consumer")

    def test_each_output_is_there_once_with_the_new_protocol(self, kafka_cluster):
        """Partitions that stay are committed in the round that was open."""
        self.check_once_with_members(kafka_cluster, group_protocol="consumer")

    def test_a_consumer_that_was_subscribed_before_is_refused(
        self, kafka_cluster, kafka_topic
    ):
        """The guard would not hear of its rebalances."""
        consumer = Consumer(
            {
                "bootstrap.servers": kafka_cluster.bootstrap_servers,
                "group.id": kafka_topic,
                "enable.auto.commit": False,
            }
        )
        consumer.subscribe([kafka_topic])
        with (
            guard(consumer, config={"enable.auto.commit": False}) as guarded,
            pytest.raises(errors.ClientStateError, match=r"subscribe\(\)"),
        ):
            guarded.process(Seen(self.read), until_end=True)

    def test_a_client_that_is_given_waits_for_its_commits(
        self, kafka_cluster, kafka_topic
    ):
        """It was built without a callback for their answers."""
        fill(kafka_cluster, kafka_topic, 50)
        config = {
            "bootstrap.servers": kafka_cluster.bootstrap_servers,
            "group.id": kafka_topic,
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
        }
        with guard(Consumer(config), config=config) as guarded:
            guarded.subscribe([kafka_topic])
            report = guarded.process(Seen(self.read), until_end=True)
        assert (report.processed, report.committed) == (50, 50)

    def test_the_applications_listeners_are_called_too(
        self, kafka_cluster, kafka_topic
    ):
        """After the guard has committed what was done."""
        fill(kafka_cluster, kafka_topic, 5)
        told = []
        listeners = {
            "on_assign": lambda _, partitions: told.append(
                ("assigned", len(partitions))
            ),
            "on_revoke": lambda _, partitions: told.append(
                ("revoked", len(partitions))
            ),
        }
        with self.open(kafka_cluster, kafka_topic, listeners=listeners) as member:
            member.process(Seen(self.read), until_end=True)
        assert ("assigned", 1) in told
        assert told[-1] == ("revoked", 1)
