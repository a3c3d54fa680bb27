"""The contract of guarded producers about refused records: `on_reject`."""

from __future__ import annotations

import re
import threading
import time

import pytest
from kafka import KafkaAdminClient
from kafka.admin import NewPartitions

from kafkaguard import Action, DeliveryReport, errors
from kafkaguard._delivery.dead_letters import read_headers
from kafkaguard._delivery.size_limits import FRESH_S
from kafkaguard._retries.events import DeadLetterEvent, RejectEvent
from kafkaguard.errors import DeliveryFailed
from tests.contracts.producer import (
    COMPACTED,
    ONE_BATCH_S,
    SMALL,
    TOO_LARGE,
    read,
    records,
    stale_topic,
    until,
)

DEAD_LETTER = {"on_reject": "dead_letter"}
DROP = {"on_reject": "drop"}

#: Headers of a dead letter, as the tools of each dialect read them.
DIALECTS = {
    "spring": {
        "kafka_dlt-original-topic": b"{topic}",
        "kafka_dlt-original-partition": b"\x00\x00\x00\x00",
        "kafka_dlt-exception-fqcn": b"kafkaguard.errors.InvalidRecordKeyError",
    },
    "connect": {
        "__connect.errors.topic": b"{topic}",
        "__connect.errors.partition": b"0",
    },
    "kip-1191": {"__dlq.errors.topic": b"{topic}", "__dlq.errors.partition": b"0"},
}


class RejectsContract:
    """A guarded producer whose policy dead-letters or drops refused records."""

    @pytest.fixture
    def compacted(self, kafka_cluster):
        """A compacted topic with a dead-letter topic."""
        topic = kafka_cluster.create_topic(config=COMPACTED)
        kafka_cluster.create_topic(f"{topic}.dlq")
        return topic

    # --- partitions that do not exist -------------------------------------------------

    @pytest.mark.parametrize("partition", [99, -2])
    def test_a_partition_that_is_not_there_is_refused_by_the_call(
        self, kafka_cluster, partition
    ):
        """REJECT, with what there is; records for other partitions go on."""
        topic = kafka_cluster.create_topic(partitions=3)
        with self.open(kafka_cluster.bootstrap_servers) as writer:
            assert writer.outcome(writer.send(topic, b"v", b"k", partition=2)) == 0
            with pytest.raises(errors.PartitionNotThereError) as caught:
                writer.send(topic, b"v", b"k", partition=partition)
            error = caught.value
            assert (
                error.verdict.action,
                error.verdict.written,
            ) == (Action.REJECT, "no")
            assert (topic, partition) == (error.topic, error.partition)
            assert f"partition {partition}, and the topic has 3 partitions, 0 to 2" in (
                str(error)
            )
            assert writer.outcome(writer.send(topic, b"w", b"k", partition=2)) == 1

    def test_a_first_record_for_a_partition_that_is_not_there_is_rejected(
        self, kafka_cluster, kafka_topic
    ):
        """By the call, or by its outcome where the client asks for the topic later."""
        with self.open(kafka_cluster.bootstrap_servers) as writer:
            error = writer.end_of(kafka_topic, b"v", b"k", partition=99)
        assert isinstance(error, errors.PartitionNotThereError)
        assert "partition 99, and the topic has partition 0 only" in str(error)

    def test_a_partition_that_was_just_added_is_used(self, kafka_cluster, kafka_topic):
        """The client asks the brokers before it refuses a partition."""
        servers = kafka_cluster.bootstrap_servers
        with self.open(servers) as writer:
            assert writer.outcome(writer.send(kafka_topic, b"v", b"k")) == 0
            admin = KafkaAdminClient(bootstrap_servers=servers)
            admin.create_partitions({kafka_topic: NewPartitions(3)})
            # The broker itself learns it a moment after the controller.
            until(lambda: is_seen(admin, kafka_topic, 3), 60)
            admin.close()
            handle = writer.send(kafka_topic, b"v", b"k", partition=2)
            assert writer.outcome(handle) == 0

    def test_a_partition_is_not_refused_where_no_broker_answers(
        self, kafka_topic, kafka_faults
    ):
        """It may have been added: REFRESH, after the client's time limit."""
        with self.open(
            kafka_faults.bootstrap_servers,
            policy={"max_attempts": 1},
            delivery_timeout=3.0,
            patience=3.0,
        ) as writer:
            assert writer.outcome(writer.send(kafka_topic, b"v", b"k")) == 0
            kafka_faults.take_away(0)
            with pytest.raises(errors.ClientMetadataError) as caught:
                writer.send(kafka_topic, b"v", b"k", partition=2)
            assert caught.value.verdict.action is Action.REFRESH
            kafka_faults.bring_back(0)

    def test_a_record_for_a_partition_that_is_not_there_is_a_dead_letter(
        self, kafka_cluster, kafka_topic
    ):
        """As the policy says; its outcome is the error."""
        dead = kafka_cluster.create_topic(f"{kafka_topic}.dlq")
        with self.open(kafka_cluster.bootstrap_servers, policy=DEAD_LETTER) as writer:
            assert writer.outcome(writer.send(kafka_topic, b"v", b"k")) == 0
            handle = writer.send(kafka_topic, b"w", b"k", partition=99)
            assert DeliveryReport(delivered=1, dead_lettered=1) == writer.flush()
            error = writer.outcome(handle)
        assert isinstance(error, errors.PartitionNotThereError)
        assert read(kafka_cluster, dead) == [(b"k", b"w")]

    # --- dead letters -----------------------------------------------------------------

    def test_a_null_key_that_the_call_would_refuse_is_a_dead_letter(
        self, kafka_cluster, compacted
    ):
        """Not raised: the outcome is the error, once the dead letter is delivered."""
        with self.open(kafka_cluster.bootstrap_servers, policy=DEAD_LETTER) as writer:
            handle = writer.send(
                compacted, b"v", headers=[("trace", b"1")], timestamp_ms=1234
            )
            error = writer.outcome(handle)
            assert DeliveryReport(dead_lettered=1) == writer.flush()
            rejected, lettered = writer.events
        assert isinstance(error, errors.InvalidRecordKeyError)
        assert isinstance(error, self.client_refusal)
        assert (error.topic, error.verdict.action) == (compacted, "REJECT")
        where = f"its dead letter is in topic {compacted}.dlq, partition 0, offset 0"
        assert where in str(error)
        (letter,) = records(kafka_cluster, f"{compacted}.dlq")
        assert (letter.key, letter.value, letter.timestamp) == (None, b"v", 1234)
        assert letter.headers[0] == ("trace", b"1")
        said = read_headers(letter.headers)
        assert "compact" in said.pop("message")
        assert said == {
            "reason": "NULL_KEY",
            "topic": compacted,
            "error": "INVALID_RECORD_KEY",
            "code": "87",
        }
        assert read(kafka_cluster, compacted) == []
        assert isinstance(rejected, RejectEvent)
        assert rejected.on_reject == "dead_letter"
        assert isinstance(lettered, DeadLetterEvent)
        assert f"{compacted}.dlq" == lettered.dead_letter_topic
        assert (lettered.error, lettered.context.topic) == (
            "INVALID_RECORD_KEY",
            compacted,
        )

    def test_a_null_key_that_the_broker_refuses_is_a_dead_letter(self, kafka_cluster):
        """Its mates are delivered; it is not lost, and nobody has to look at it."""
        topic, stale = stale_topic(kafka_cluster)
        kafka_cluster.create_topic(f"{topic}.dlq")
        with self.open(
            kafka_cluster.bootstrap_servers,
            policy=DEAD_LETTER,
            topics=stale,
            linger=ONE_BATCH_S,
        ) as writer:
            batch = [{"value": b"%d" % n, "key": b"k"} for n in range(20)]
            batch.insert(11, {"value": b"no key", "headers": [("h", b"1")]})
            handles = writer.send_all(topic, batch)
            assert DeliveryReport(delivered=20, dead_lettered=1) == writer.flush()
            refused = writer.outcome(handles.pop(11))
            assert list(range(20)) == writer.outcomes(handles)
        assert isinstance(refused, errors.InvalidRecordKeyError)
        assert "its dead letter is in topic" in str(refused)
        (letter,) = records(kafka_cluster, f"{topic}.dlq")
        assert (letter.key, letter.value) == (None, b"no key")
        assert letter.headers[0] == ("h", b"1")
        assert read_headers(letter.headers)["partition"] == "0"

    def test_a_record_too_large_for_its_topic_is_a_dead_letter(self, kafka_cluster):
        """A dead-letter topic that takes more gets it whole."""
        topic = kafka_cluster.create_topic(config=SMALL)
        dead = kafka_cluster.create_topic(f"{topic}.dlq")
        with self.open(kafka_cluster.bootstrap_servers, policy=DEAD_LETTER) as writer:
            handle = writer.send(topic, TOO_LARGE, b"key")
            assert DeliveryReport(dead_lettered=1) == writer.flush()
            error = writer.outcome(handle)
        assert isinstance(error, errors.MessageTooLargeError)
        assert "its dead letter is in topic" in str(error)
        assert read(kafka_cluster, dead) == [(b"key", TOO_LARGE)]

    def test_a_record_too_large_for_the_client_is_a_dead_letter(
        self, kafka_cluster, kafka_topic
    ):
        """The value is cut, and its full size is told; the key is whole."""
        dead = kafka_cluster.create_topic(f"{kafka_topic}.dlq")
        with self.open(
            kafka_cluster.bootstrap_servers, policy=DEAD_LETTER, largest=5_000
        ) as writer:
            error = writer.outcome(writer.send(kafka_topic, b"x" * 9_000, b"key"))
            assert DeliveryReport(dead_lettered=1) == writer.flush()
        assert isinstance(error, errors.MessageTooLargeError)
        (letter,) = records(kafka_cluster, dead)
        assert (letter.key, letter.value) == (b"key", b"x" * 1024)
        said = read_headers(letter.headers)
        assert (said["reason"], said["value_bytes"]) == ("TOO_LARGE", "9000")

    @pytest.mark.parametrize("key", [b"k", None])
    def test_a_timestamp_that_the_broker_refuses_is_in_a_header_of_the_dead_letter(
        self, kafka_cluster, compacted, key
    ):
        """Whatever the record is refused for, the dead letter has a time of its own."""
        late = round(time.time() * 1000) * 1000
        with self.open(kafka_cluster.bootstrap_servers, policy=DEAD_LETTER) as writer:
            error = writer.outcome(writer.send(compacted, b"v", key, timestamp_ms=late))
            assert DeliveryReport(dead_lettered=1) == writer.flush()
        assert "its dead letter is in topic" in str(error)
        (letter,) = records(kafka_cluster, f"{compacted}.dlq")
        assert (letter.key, letter.value) == (key, b"v")
        assert letter.timestamp < late
        said = read_headers(letter.headers)
        assert said["timestamp"] == str(late)
        assert said["reason"] == ("NULL_KEY" if key is None else "INVALID_TIMESTAMP")

    @pytest.mark.parametrize("dialect", DIALECTS)
    def test_headers_in_the_dialect_of_the_policy(self, kafka_cluster, dialect):
        """Read back as the tools of that dialect read them."""
        topic, stale = stale_topic(kafka_cluster)
        dead = kafka_cluster.create_topic(f"rejected-{topic}")
        where = {"topic": "rejected-{topic}", "headers": dialect}
        policy = {**DEAD_LETTER, "dead_letter": where}
        with self.open(
            kafka_cluster.bootstrap_servers, policy=policy, topics=stale
        ) as writer:
            writer.forget(topic, b"no key")
            assert DeliveryReport(dead_lettered=1) == writer.flush()
        (letter,) = records(kafka_cluster, dead)
        headers = dict(letter.headers)
        for name, value in DIALECTS[dialect].items():
            assert value.replace(b"{topic}", topic.encode()) == headers[name]
        message = next(v for name, v in headers.items() if name.endswith("message"))
        assert message.startswith(b"NULL_KEY")

    def test_an_override_decides_for_its_topics(self, kafka_cluster, compacted):
        """By pattern; a record of another topic is refused by the call, as ever."""
        other = kafka_cluster.create_topic(config=COMPACTED)
        ruled = {"when": {"topic": f"{compacted[:-1]}*"}, **DEAD_LETTER}
        policy = {"overrides": [ruled]}
        with self.open(kafka_cluster.bootstrap_servers, policy=policy) as writer:
            refused = writer.outcome(writer.send(compacted, b"v"))
            assert isinstance(refused, errors.InvalidRecordKeyError)
            with pytest.raises(errors.InvalidRecordKeyError):
                writer.send(other, b"v")
            assert DeliveryReport(dead_lettered=1) == writer.flush()

    def test_a_dead_letter_that_would_be_refused_is_not_sent(
        self, kafka_cluster, kafka_faults
    ):
        """Its topic is compacted, too: the record has failed, and it is said why."""
        topic = kafka_cluster.create_topic(config=COMPACTED)
        dead = kafka_cluster.create_topic(f"{topic}.dlq", config=COMPACTED)
        servers = kafka_faults.bootstrap_servers
        with self.open(servers, policy=DEAD_LETTER) as writer:
            writer.forget(topic, b"v")
            error = undelivered(writer)
        assert isinstance(error, errors.InvalidRecordKeyError)
        assert f"topic {dead}" in str(error)
        assert kafka_faults.requests("Produce") == []

    def test_a_dead_letter_topic_that_does_not_exist_is_named(self, kafka_cluster):
        """CONFIGURE, without a wait; once it is created, it takes the dead letters."""
        topic = kafka_cluster.create_topic(config=COMPACTED)
        dead = f"{topic}.dlq"
        servers = kafka_cluster.bootstrap_servers
        with self.open(servers, policy=DEAD_LETTER, delivery_timeout=300.0) as writer:
            writer.forget(topic, b"v")
            assert dead == said_missing(undelivered(writer))
            kafka_cluster.create_topic(dead)
            time.sleep(FRESH_S)
            error = writer.outcome(writer.send(topic, b"w"))
            assert DeliveryReport(dead_lettered=1) == writer.flush()
        assert "its dead letter is in topic" in str(error)
        assert read(kafka_cluster, dead) == [(None, b"w")]

    def test_a_dead_letter_topic_that_was_deleted_is_named(self, kafka_cluster):
        """At the latest after the client's time limit, while it waits for the topic."""
        topic = kafka_cluster.create_topic(config=COMPACTED)
        dead = kafka_cluster.create_topic(f"{topic}.dlq")
        servers = kafka_cluster.bootstrap_servers
        limits = {"delivery_timeout": 5.0, "patience": 5.0}
        with self.open(servers, policy=DEAD_LETTER, **limits) as writer:
            writer.forget(topic, b"v")
            assert DeliveryReport(dead_lettered=1) == writer.flush()
            kafka_cluster.delete_topic(dead)
            writer.forget(topic, b"w")
            assert dead == said_missing(undelivered(writer))

    def test_a_dead_letter_is_not_sent_to_the_records_own_topic(self, kafka_cluster):
        """A dead-letter topic that is the record's own topic is refused."""
        topic = kafka_cluster.create_topic(config=COMPACTED)
        policy = {**DEAD_LETTER, "dead_letter": {"topic": topic}}
        with self.open(kafka_cluster.bootstrap_servers, policy=policy) as writer:
            writer.forget(topic, b"v")
            said = str(undelivered(writer))
        assert "dead_letter.topic is the record's own" in said

    def test_a_dead_letter_is_never_dead_lettered(self, kafka_cluster):
        """Known to be too large for its topic, it is not sent; and there is no third."""
        topic = kafka_cluster.create_topic(config={"max.message.bytes": 3_000})
        dead = kafka_cluster.create_topic(
            f"{topic}.dlq", config={"max.message.bytes": 3_000}
        )
        third = kafka_cluster.create_topic(f"{dead}.dlq")
        with self.open(kafka_cluster.bootstrap_servers, policy=DEAD_LETTER) as writer:
            writer.forget(topic, b"v", TOO_LARGE)
            error = undelivered(writer)
        assert isinstance(error, errors.MessageTooLargeError)
        assert "this record was not sent" in str(error)
        assert (read(kafka_cluster, dead), read(kafka_cluster, third)) == ([], [])

    def test_many_threads_lose_nothing(self, kafka_cluster):
        """Good and bad records at once: each is in one topic, and counted once."""
        topic, stale = stale_topic(kafka_cluster)
        dead = kafka_cluster.create_topic(f"{topic}.dlq")

        def work(thread):
            for n in range(60):
                name = b"%d-%d" % (thread, n)
                writer.forget(topic, name, None if n % 20 == 7 else b"k%d" % thread)

        with self.open(
            kafka_cluster.bootstrap_servers,
            policy=DEAD_LETTER,
            topics=stale,
            linger=0.005,
        ) as writer:
            workers = [threading.Thread(target=work, args=(n,)) for n in range(4)]
            for worker in workers:
                worker.start()
            for worker in workers:
                worker.join(120)
            try:
                report = writer.flush()
            except DeliveryFailed as failure:  # a mate that is superseded or in doubt
                report = failure.report
        ends = (report.delivered, report.failed, report.in_doubt, report.dead_lettered)
        assert (sum(ends), report.pending) == (240, 0), repr(report)
        written = len(read(kafka_cluster, topic))
        assert report.delivered <= written <= report.delivered + report.in_doubt
        letters = {value: key for key, value in read(kafka_cluster, dead)}
        assert report.dead_lettered == len(letters)  # those that are superseded, too
        assert list(letters.values()).count(None) == 12

    # --- dropped records --------------------------------------------------------------

    def test_a_dropped_record_is_counted_and_told_once(self, kafka_cluster, caplog):
        """Whoever refuses it; one warning a topic, which has no word of a record."""
        topic = kafka_cluster.create_topic()
        with self.open(kafka_cluster.bootstrap_servers, policy=DROP) as writer:
            assert writer.outcome(writer.send(topic, b"kept")) == 0
            assert DeliveryReport(delivered=1) == writer.flush()
            kafka_cluster.alter_topic(topic, COMPACTED)
            with caplog.at_level("WARNING", "kafkaguard"):
                by_broker = writer.send(topic, b"secret")
                assert DeliveryReport(dropped=1) == writer.flush()
                by_guard = writer.send(topic, b"secret")
            for error in writer.outcomes([by_broker, by_guard]):
                assert isinstance(error, errors.InvalidRecordKeyError)
            assert DeliveryReport(dropped=1) == writer.flush()
        said = [r.getMessage() for r in caplog.records if "drops" in r.getMessage()]
        assert len(said) == 1
        assert topic in said[0]
        assert "secret" not in caplog.text

    def test_the_count_of_dropped_records_is_in_what_a_flush_raises(
        self, kafka_cluster
    ):
        """Beside a record that failed for another reason."""
        topic = kafka_cluster.create_topic(config=COMPACTED)
        small = kafka_cluster.create_topic(config=SMALL)
        ruled = {"when": {"code": 10}, "on_reject": "raise"}
        policy = {**DROP, "overrides": [ruled]}
        with self.open(kafka_cluster.bootstrap_servers, policy=policy) as writer:
            writer.forget(topic, b"v")
            writer.forget(small, TOO_LARGE, b"k")
            with pytest.raises(DeliveryFailed, match="dropped 1") as caught:
                writer.flush()
        assert (caught.value.report.failed, caught.value.report.dropped) == (1, 1)


def undelivered(writer):
    """Flush, and return the only error that was not checked."""
    with pytest.raises(DeliveryFailed) as caught:
        writer.flush()
    report = caught.value.report
    assert (report.failed, report.dead_lettered, report.dropped) == (1, 0, 0)
    (error,) = report.errors
    return error


def said_missing(error):
    """Return the dead-letter topic that does not exist, as an error says it."""
    said = re.search(
        r"its dead letter for topic (\S+) was not delivered: "
        r"UNKNOWN_TOPIC_OR_PARTITION \(3\) .* -> CONFIGURE: the brokers know no such "
        r"topic: create it",
        str(error),
    )
    assert said, error
    return said[1]


def is_seen(admin, topic, partitions):
    """Tell whether the broker knows so many partitions of a topic."""
    (told,) = admin.describe_topics([topic])
    return len(told["partitions"]) == partitions
