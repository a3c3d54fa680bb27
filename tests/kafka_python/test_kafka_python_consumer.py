"""The guarded consumer of kafka-python keeps the contract of all guarded consumers."""

from __future__ import annotations

import types
from contextlib import contextmanager

from kafka import ConsumerRebalanceListener, KafkaConsumer, TopicPartition
from kafka import errors as kafka_errors
from kafka.serializer import Deserializer
from kafka.structs import OffsetAndMetadata

from kafkaguard import Action, errors, guard
from tests.contracts.consumer import AnswersContract, OwnError, Reader, fill


class KafkaPythonReader(Reader):
    """A guarded KafkaConsumer."""

    def poll(self, seconds):
        """Poll once."""
        found = self.guarded.poll(timeout_ms=round(seconds * 1000))
        return [
            (record.partition, record.offset, record.value)
            for records in found.values()
            for record in records
        ]

    def commit(self, offsets, timeout, **more):
        """Commit, and wait."""
        self.guarded.commit(_offsets(offsets), timeout_ms=timeout * 1000, **more)

    def commit_async(self, offsets):
        """Commit, and do not wait."""
        self.guarded.commit_async(_offsets(offsets))

    def committed(self, topic, partition):
        """Return the committed offset."""
        return self.guarded.committed(TopicPartition(topic, partition))

    def assign(self, places):
        """Assign."""
        self.guarded.assign([TopicPartition(*each) for each in places])

    def subscribe(self, topic):
        """Subscribe."""
        self.guarded.subscribe([topic])

    def seek(self, topic, partition, offset):
        """Set the position."""
        self.guarded.seek(TopicPartition(topic, partition), offset)

    def pause(self, topic, partition):
        """Pause."""
        self.guarded.pause(TopicPartition(topic, partition))

    def resume(self, topic, partition):
        """Resume."""
        self.guarded.resume(TopicPartition(topic, partition))


def _offsets(offsets):
    return {
        TopicPartition(*place): OffsetAndMetadata(offset, "", -1)
        for place, offset in offsets.items()
    }


class Decoder(Deserializer):
    """A function as a deserializer."""

    def __init__(self, decode):
        self.decode = decode

    def deserialize(self, topic, headers, data):
        """Decode a value."""
        return self.decode(data)


class TestKafkaPythonConsumer(AnswersContract):
    client_class = KafkaConsumer
    refresh = "metadata_max_age_ms"
    impatient = types.MappingProxyType({})
    client_name = "kafka-python"
    client_error = kafka_errors.KafkaError
    undecoded_error = OwnError
    not_owned_error = kafka_errors.CommitFailedError
    rejoin_error = kafka_errors.CommitFailedError
    closed_error = kafka_errors.IllegalStateError
    answers_closed = frozenset(
        {
            "assignment",
            "bootstrap_connected",
            "group_metadata",
            "highwater",
            "metrics",
            "partitions_for_topic",
            "paused",
            "position",
            "subscription",
        }
    )

    @contextmanager
    def open(
        self,
        servers,
        *,
        assign=None,
        group=None,
        users=None,
        auto_commit=None,
        policy="default",
        factory=False,
        kind=KafkaConsumer,
        on_event=None,
        **settings,
    ):
        """Build one, guard it, and close it in the end."""
        config = {
            "bootstrap_servers": servers,
            "group_id": group,
            "auto_offset_reset": "earliest",
            "enable_auto_commit": auto_commit is not None,
            "fetch_max_wait_ms": 100,
            **settings,
        }
        if auto_commit is not None:
            config["auto_commit_interval_ms"] = round(auto_commit * 1000)
        if users is not None:
            config |= users.client_config("SASL_PLAIN", user="bob")
        events = []
        given = (
            {"factory": kind, "config": config}
            if factory
            else {"client": kind(**config)}
        )
        guarded = guard(**given, policy=policy, on_event=on_event or events.append)
        reader = KafkaPythonReader(guarded, events)
        try:
            if assign:
                reader.assign(assign)
            yield reader
        finally:
            guarded.close(timeout_ms=5000)

    def test_a_commit_while_the_group_rejoins_keeps_the_clients_class(
        self, kafka_cluster, kafka_faults
    ):
        """`RebalanceInProgressError`, so that a program polls and commits again."""
        topic = kafka_cluster.create_topic()
        with self.open(
            kafka_faults.bootstrap_servers, group=topic, heartbeat_interval_ms=200
        ) as reader:
            reader.subscribe(topic)
            reader.read_until(reader.assigned)
            kafka_faults.on("JoinGroup").delay(1.5)
            for _ in range(2):
                kafka_faults.on("Heartbeat").fail(27, times=1)
                error = self.refused_commit(reader, topic)
                assert isinstance(error, kafka_errors.RebalanceInProgressError)
                assert isinstance(error, errors.RebalanceInProgressError)
                assert error.verdict.action is Action.REJOIN
                reader.read_until(lambda: self.is_member(reader))
                reader.commit({(topic, 0): 0}, 5)

    def test_a_listener_commits_without_waiting_while_the_consumer_closes(
        self, kafka_cluster, kafka_topic
    ):
        """It runs in the client's I/O thread, where `commit` cannot wait."""
        servers, errors_raised = kafka_cluster.bootstrap_servers, []
        fill(kafka_cluster, kafka_topic, 1, partitions=[0])

        class Listener(ConsumerRebalanceListener):
            def on_partitions_assigned(self, assigned):
                pass

            def on_partitions_revoked(self, revoked):
                offsets = _offsets(dict.fromkeys(revoked, 3))
                if revoked:
                    try:
                        reader.guarded.commit(offsets)
                    except RuntimeError as error:
                        errors_raised.append(error)
                    reader.guarded.commit_async(offsets)

        with self.open(servers, group=kafka_topic) as reader:
            reader.guarded.subscribe([kafka_topic], listener=Listener())
            reader.read_until(lambda: reader.read)
            reader.close()
        with self.open(servers, group=kafka_topic) as reader:
            assert reader.committed(kafka_topic, 0) == 3
        (error,) = errors_raised
        assert "Cannot block" in str(error)

    def refused_commit(self, reader, topic):
        """Commit until a commit is refused; return the error."""
        for _ in range(100):
            reader.poll(0.05)
            try:
                reader.commit({(topic, 0): 0}, 5)
            except errors.KafkaGuardError as error:
                return error
        raise AssertionError("no commit was refused")

    def is_member(self, reader):
        """Return whether the consumer has joined its group."""
        return reader.guarded._coordinator.generation_if_stable() is not None

    def open_decoding(self, servers, decode, **options):
        """Open a consumer with a deserializer."""
        return self.open(servers, value_deserializer=Decoder(decode), **options)
