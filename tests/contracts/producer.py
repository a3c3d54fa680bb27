"""What every guarded producer must do, whatever the client; each adapter inherits it.

A subclass says how its client is built and spoken to; the tests are the same for all.
"""

from __future__ import annotations

import logging
import pickle
import threading
import time

import pytest

from kafkaguard import Action, DeliveryFailed, TopicFacts, errors

COMPACTED = {"cleanup.policy": "compact"}


class ProducerContract:
    """A guarded producer that is idempotent and guards null keys."""

    #: The client's own class of a refused record, and its base class of all errors.
    client_refusal: type[BaseException]
    client_error: type[BaseException]
    client_class: type
    client_name: str

    def guarded(self, config, **options):
        """Build a client from `client_config()` settings and guard it."""
        raise NotImplementedError

    def send(self, producer, topic, value=None, key=None):
        """Hand a record over; return what stands for its outcome."""
        raise NotImplementedError

    def outcome(self, handle):
        """Wait for the outcome: the offset, or the exception."""
        raise NotImplementedError

    def settings(self, proxy_or_cluster):
        """Return settings for the plain listener."""
        return {"bootstrap_servers": proxy_or_cluster.bootstrap_servers}

    # --- standing in ----------------------------------------------------------------

    def test_b92_every_name_of_the_client_is_there(self, kafka_cluster):
        """`isinstance` holds, and nothing that the client has is missing."""
        with self.guarded(self.settings(kafka_cluster)) as producer:
            assert isinstance(producer, self.client_class)
            names = [n for n in dir(self.client_class) if not n.startswith("__")]
            assert [n for n in names if not hasattr(producer, n)] == []
            assert sorted(set(names) - set(dir(producer))) == []

    def test_b96_a_producer_is_true(self, kafka_cluster):
        """`producer or default()` keeps the producer."""
        with self.guarded(self.settings(kafka_cluster)) as producer:
            assert bool(producer) is True

    def test_b97_a_producer_cannot_be_pickled_and_says_so(self, kafka_cluster):
        """Pickling one fails with what to do instead."""
        with (
            self.guarded(self.settings(kafka_cluster)) as producer,
            pytest.raises(TypeError, match="in the worker"),
        ):
            pickle.dumps(producer)

    # --- null keys --------------------------------------------------------------------

    def test_a_null_key_is_refused_before_anything_is_sent(
        self, kafka_cluster, kafka_faults
    ):
        """The call itself raises, of both classes, and no Produce request is made."""
        topic = kafka_cluster.create_topic(config=COMPACTED)
        with (
            self.guarded(self.settings(kafka_faults)) as producer,
            pytest.raises(errors.InvalidRecordKeyError) as caught,
        ):
            self.send(producer, topic, b"v")
        error = caught.value
        assert isinstance(error, self.client_refusal)
        assert (87, topic, "Produce") == (error.code, error.topic, error.api)
        assert self.client_name == error.client
        assert error.verdict.action == Action.REJECT
        assert kafka_faults.requests("Produce") == []

    def test_b97_what_is_raised_survives_pickling(self, kafka_cluster):
        """A refused record's error keeps class, code, name and topic."""
        topic = kafka_cluster.create_topic(config=COMPACTED)
        with (
            self.guarded(self.settings(kafka_cluster)) as producer,
            pytest.raises(errors.InvalidRecordKeyError) as caught,
        ):
            self.send(producer, topic, b"v")
        copy = pickle.loads(pickle.dumps(caught.value))
        assert type(caught.value) is type(copy)
        assert isinstance(copy, self.client_refusal)
        assert (87, "INVALID_RECORD_KEY", topic) == (copy.code, copy.name, copy.topic)
        assert str(caught.value) == str(copy)

    def test_keys_and_tombstones_pass_without_a_look_up(
        self, kafka_cluster, kafka_faults
    ):
        """A record with a key is sent at once; a null value stays a null value."""
        topic = kafka_cluster.create_topic(config=COMPACTED)
        with self.guarded(self.settings(kafka_faults)) as producer:
            assert self.outcome(self.send(producer, topic, b"v", b"k")) == 0
            assert self.outcome(self.send(producer, topic, None, b"k")) == 1
        assert kafka_faults.requests("DescribeConfigs") == []
        assert read(kafka_cluster, topic) == [(b"k", b"v"), (b"k", None)]

    def test_the_policy_of_a_topic_is_looked_up_once(self, kafka_topic, kafka_faults):
        """A hundred records without a key ask the cluster one time."""
        with self.guarded(self.settings(kafka_faults)) as producer:
            handles = [self.send(producer, kafka_topic, b"v") for _ in range(100)]
            assert list(range(100)) == [self.outcome(handle) for handle in handles]
        assert len(kafka_faults.requests("DescribeConfigs")) == 1

    def test_what_is_declared_is_not_looked_up(self, kafka_cluster, kafka_faults):
        """The caller's word about a topic needs no request."""
        topic = kafka_cluster.create_topic(config=COMPACTED)
        facts = {topic: TopicFacts(compacted=True)}
        with (
            self.guarded(self.settings(kafka_faults), topics=facts) as producer,
            pytest.raises(errors.InvalidRecordKeyError),
        ):
            self.send(producer, topic, b"v")
        assert kafka_faults.requests("DescribeConfigs") == []

    def test_b07_a_denied_look_up_lets_the_record_pass(self, kafka_users, caplog):
        """Without DescribeConfigs the broker judges, and one warning names the ACL."""
        topic = kafka_users.create_topic()
        kafka_users.grant("bob", "WRITE", "TOPIC", topic)
        config = kafka_users.client_config(
            "SASL_PLAIN", client=self.client_name, user="bob"
        )
        with (
            caplog.at_level(logging.WARNING, "kafkaguard"),
            self.guarded(config) as producer,
        ):
            for expected in range(3):
                assert expected == self.outcome(self.send(producer, topic, b"v"))
        warnings = [
            r.getMessage() for r in caplog.records if r.name.startswith("kafkag")
        ]
        assert len(warnings) == 1
        assert "DescribeConfigs" in warnings[0]
        assert topic in warnings[0]

    def test_b07_a_slow_look_up_delays_one_record_only(self, kafka_topic, kafka_faults):
        """A look-up that is not answered lets the record pass after a second."""
        kafka_faults.on("DescribeConfigs").delay(2.0)
        with self.guarded(self.settings(kafka_faults)) as producer:
            for expected in range(3):
                assert expected == self.outcome(self.send(producer, kafka_topic, b"v"))
            (asked,) = kafka_faults.requests("DescribeConfigs")
            assert asked.outcome == "waiting"
            until(lambda: not threads("kafkaguard-facts"))

    def test_b06_a_topic_that_becomes_compacted_is_noticed(
        self, kafka_cluster, kafka_topic, kafka_faults
    ):
        """The broker refuses the next record, and from then on the guard does."""
        with self.guarded(self.settings(kafka_faults)) as producer:
            assert self.outcome(self.send(producer, kafka_topic, b"v")) == 0
            compacted = {"cleanup.policy": "compact,delete"}
            kafka_cluster.alter_topic(kafka_topic, compacted)
            refused = self.outcome(self.send(producer, kafka_topic, b"v"))
            assert isinstance(refused, errors.InvalidRecordKeyError)
            assert isinstance(refused, self.client_refusal)
            assert refused.verdict.action == Action.REJECT
            before = len(kafka_faults.requests("Produce"))
            with pytest.raises(errors.InvalidRecordKeyError):
                self.send(producer, kafka_topic, b"v")
            assert before == len(kafka_faults.requests("Produce"))

    # --- batches --------------------------------------------------------------------

    def test_batch_mates_of_a_refused_record_are_rescued(self, kafka_cluster):
        """Only the record without a key fails; the others arrive, in order, once."""
        topic, stale = stale_topic(kafka_cluster)
        with self.guarded(self.settings(kafka_cluster), topics=stale) as producer:
            sent = [(b"k%d" % (n % 7), b"%d" % n) for n in range(50)]
            handles = [self.send(producer, topic, v, k) for k, v in sent]
            keyless = self.send(producer, topic, b"keyless")
            handles += [self.send(producer, topic, b"last", b"k0")]
            refused = self.outcome(keyless)
            offsets = [self.outcome(handle) for handle in handles]
        assert isinstance(refused, errors.InvalidRecordKeyError)
        assert list(range(51)) == offsets
        assert [*sent, (b"k0", b"last")] == read(kafka_cluster, topic)

    def test_a_producer_is_never_left_dead(self, kafka_cluster, kafka_topic):
        """After a refused batch, every later send works, time after time."""
        topic, stale = stale_topic(kafka_cluster)
        with self.guarded(self.settings(kafka_cluster), topics=stale) as producer:
            for n in range(3):
                refused = self.outcome(self.send(producer, topic, b"keyless"))
                assert isinstance(refused, errors.InvalidRecordKeyError)
                assert n == self.outcome(self.send(producer, kafka_topic, b"v"))

    # --- records that fail with others ----------------------------------------------

    def test_a_refused_record_costs_the_others_of_its_batch_nothing(
        self, kafka_cluster
    ):
        """Only the one without a key fails; its mates are there once, in their order."""
        topic, stale = stale_topic(kafka_cluster)
        config = self.settings(kafka_cluster)
        with self.guarded(config, topics=stale) as producer:
            mates = [self.send(producer, topic, b"%d" % n, b"k") for n in range(10)]
            refused = self.send(producer, topic, b"no key")
            mates += [self.send(producer, topic, b"%d" % n, b"k") for n in (10, 11)]
            assert isinstance(self.outcome(refused), errors.InvalidRecordKeyError)
            assert list(range(12)) == [self.outcome(mate) for mate in mates]
        assert [(b"k", b"%d" % n) for n in range(12)] == read(kafka_cluster, topic)

    def test_other_topics_go_on(self, kafka_cluster, kafka_topic):
        """Records of another topic are delivered once, also sent in between."""
        topic, stale = stale_topic(kafka_cluster)
        config = self.settings(kafka_cluster)
        with self.guarded(config, topics=stale) as producer:
            sent = []
            for n in range(30):
                sent.append(self.send(producer, kafka_topic, b"%d" % n, b"k"))
                if n % 10 == 5:
                    refused = self.send(producer, topic, b"no key")
                    error = self.outcome(refused)
                    assert isinstance(error, errors.InvalidRecordKeyError)
            assert list(range(30)) == [self.outcome(each) for each in sent]
        assert [(b"k", b"%d" % n) for n in range(30)] == read(
            kafka_cluster, kafka_topic
        )

    # --- reports ----------------------------------------------------------------------

    def test_b72_b73_leaving_the_block_raises_for_unseen_failures(self, kafka_cluster):
        """A failure that nobody looked at is raised at the end, with its code."""
        topic = kafka_cluster.create_topic(config={"max.message.bytes": 1000})
        with (
            pytest.raises(DeliveryFailed, match=r"\(10\)") as caught,
            self.guarded(self.settings(kafka_cluster)) as producer,
        ):
            self.send(producer, topic, b"x" * 5000, b"k")
        report = caught.value.report
        assert (
            report.delivered,
            report.failed,
            report.in_doubt,
            report.pending,
        ) == (0, 1, 0, 0)
        (error,) = report.errors
        assert (10, topic) == (error.code, error.topic)
        assert isinstance(error, self.client_error)
        assert isinstance(caught.value, self.client_error)

    def test_b73_a_failure_that_was_looked_at_is_not_raised_again(self, kafka_cluster):
        """The report counts it, and does not raise."""
        topic = kafka_cluster.create_topic(config={"max.message.bytes": 1000})
        with self.guarded(self.settings(kafka_cluster)) as producer:
            error = self.outcome(self.send(producer, topic, b"x" * 5000, b"k"))
            assert error.code == 10
            report = producer.flush()
            assert (report.delivered, report.failed, report.errors) == (0, 1, ())
            assert producer.flush().failed == 0


def until(condition, timeout=20.0):
    """Poll until a condition holds; fail after `timeout` seconds."""
    end = time.monotonic() + timeout
    pause = threading.Event()
    while not condition():
        assert time.monotonic() < end, "the condition did not come true"
        pause.wait(0.01)


def threads(prefix):
    """List the living threads whose name begins so."""
    return [t for t in threading.enumerate() if t.name.startswith(prefix)]


def stale_topic(cluster):
    """Make a compacted topic, and facts about it that are out of date."""
    topic = cluster.create_topic(config=COMPACTED)
    return topic, {topic: TopicFacts(compacted=False)}


def records(cluster, topic, **settings):
    """Read all records of a topic with one partition."""
    from kafka import KafkaConsumer, TopicPartition

    place = TopicPartition(topic, 0)
    with KafkaConsumer(
        bootstrap_servers=cluster.bootstrap_servers,
        enable_auto_commit=False,
        **settings,
    ) as consumer:
        consumer.assign([place])
        consumer.seek_to_beginning(place)
        end = consumer.end_offsets([place])[place]
        found = []
        while consumer.position(place) < end:
            for batch in consumer.poll(timeout_ms=1000).values():
                found += batch
        return found


def read(cluster, topic):
    """Read the keys and values of a topic with one partition."""
    return [(record.key, record.value) for record in records(cluster, topic)]
