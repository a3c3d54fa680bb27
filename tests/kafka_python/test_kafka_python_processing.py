"""kafka-python's consumer keeps the contract of consumers that handle records."""

from __future__ import annotations

from contextlib import contextmanager

from kafka import ConsumerRebalanceListener, KafkaConsumer, KafkaProducer
from kafka.coordinator.assignors.cooperative_sticky import CooperativeStickyAssignor
from kafka.serializer import Deserializer

from kafkaguard import guard
from tests.contracts.once import OnceContract
from tests.contracts.processing import Member, ProcessContract, Seen, fill


class KafkaPythonMember(Member):
    """A guarded KafkaConsumer."""

    def process(self, handler, **options):
        """Run in this thread."""
        return self.guarded.process(handler, **options)

    def close(self):
        """Close it."""
        self.guarded.close()


class TestKafkaPythonProcess(OnceContract, ProcessContract):
    """The contract."""

    setting = "enable_auto_commit=False"
    null_header = b""
    client = "kafka-python"

    def open_producer(self, cluster, name):
        """Return a guarded transactional KafkaProducer."""
        config = {
            "bootstrap_servers": cluster.bootstrap_servers,
            "transactional_id": name,
        }
        return guard(factory=KafkaProducer, config=config)

    def open_once(self, cluster, topic, **options):
        """Open a member that reads committed records."""
        return self.open(cluster, topic, isolation_level="read_committed", **options)

    def send(self, producer, topic, key, value):
        """Send a record."""
        producer.send(topic, value, key=key)

    def read(self, record):
        """Return key and value."""
        return record.key, record.value

    @contextmanager
    def open(
        self, cluster, topic, *, group=None, policy="default", given=False, **more
    ):
        """Open a KafkaConsumer."""
        member = KafkaPythonMember()
        listener = more.pop("listener", None)
        config = {
            "bootstrap_servers": cluster.bootstrap_servers,
            "group_id": group or topic,
            "auto_offset_reset": "earliest",
            **more,
        }
        options = {"policy": policy, "on_event": member.hear}
        member.guarded = (
            guard(KafkaConsumer(**config), **options)
            if given
            else guard(factory=KafkaConsumer, config=config, **options)
        )
        member.guarded.subscribe([topic], listener=listener)
        try:
            yield member
        finally:
            member.close()

    @contextmanager
    def open_decoding(self, cluster, topic, decode, **options):
        """Open one with a deserialiser for values."""

        class Decoder(Deserializer):
            def deserialize(self, _topic, _headers, data):
                return decode(data)

        with self.open(
            cluster, topic, value_deserializer=Decoder(), **options
        ) as member:
            yield member

    def test_members_come_and_go_with_cooperative_rebalances(self, kafka_cluster):
        """Partitions that stay are read on."""
        self.check_members(
            kafka_cluster, partition_assignment_strategy=[CooperativeStickyAssignor]
        )

    def test_the_applications_listener_is_called_too(self, kafka_cluster, kafka_topic):
        """After the guard has committed what was done."""
        fill(kafka_cluster, kafka_topic, 5)
        told = []

        class Listener(ConsumerRebalanceListener):
            def on_partitions_assigned(self, assigned):
                told.append(("assigned", len(assigned)))

            def on_partitions_revoked(self, revoked):
                told.append(("revoked", len(revoked)))

        with self.open(kafka_cluster, kafka_topic, listener=Listener()) as member:
            member.process(Seen(self.read), until_end=True)
        assert ("assigned", 1) in told
        assert told[-1] == ("revoked", 1)
