"""kafka-python's producer, guarded: its own details, beside the contract of all."""

from __future__ import annotations

import subprocess
import sys
import textwrap

import pytest
from kafka import KafkaProducer
from kafka.errors import (
    ClusterAuthorizationFailedError,
    KafkaError,
    KafkaTimeoutError,
    MessageSizeTooLargeError,
)
from kafka.producer.future import FutureRecordMetadata

from kafkaguard import TopicFacts, errors, guard, load_policy
from kafkaguard._verdicts.topic_facts import TopicFactsCache
from kafkaguard.errors import DeliveryFailed, StackingWarning
from kafkaguard.testing import KafkaCluster
from kafkaguard_adapters.building import Wish
from kafkaguard_adapters.kafka_python import shell
from kafkaguard_adapters.kafka_python.guarded_producer import GuardedProducer
from tests.contracts.producer import (
    COMPACTED,
    read,
    stale_topic,
    until,
)


@pytest.fixture
def make(kafka_cluster):
    """Build guarded producers that are closed in the end."""
    made = []

    def build(topics=None, servers=None, **settings):
        settings["bootstrap_servers"] = (servers or kafka_cluster).bootstrap_servers
        made.append(guard(KafkaProducer(**settings), topics=topics))
        return made[-1]

    yield build
    for producer in made:
        producer.close(5)


@pytest.mark.filterwarnings("ignore:key_serializer does not:DeprecationWarning")
class TestSerialisers:
    """The key that counts is the one that would be sent."""

    def test_a_serialiser_that_fails_is_the_clients_to_report(
        self, kafka_cluster, make
    ):
        """Its own exception comes out, as without a guard."""
        topic = kafka_cluster.create_topic(config=COMPACTED)
        with pytest.raises(ZeroDivisionError):
            make(key_serializer=lambda _: 1 / 0).send(topic, b"v", "k")


class TestSend:
    """`send` is the client's own."""

    def test_positional_arguments_keep_the_clients_order(
        self, kafka_cluster, kafka_topic, make
    ):
        """send() takes topic, value, key, headers, partition and timestamp_ms in this order."""
        future = make().send(kafka_topic, b"v", b"k", [("h", b"1")], 0, 1234)
        metadata = future.get(10)
        assert (metadata.partition, metadata.timestamp) == (0, 1234)
        assert (
            metadata.serialized_key_size,
            metadata.serialized_value_size,
            metadata.serialized_header_size,
        ) == (1, 1, 2)

    def test_the_future_has_the_whole_interface(self, kafka_topic, make):
        """Every name of kafka-python's future is there, and says the same."""
        future = make().send(kafka_topic, b"v", b"k")
        assert isinstance(future, FutureRecordMetadata)
        missing = [n for n in dir(FutureRecordMetadata) if not hasattr(future, n)]
        assert missing == []
        metadata = future.get(10)
        assert metadata is future.value
        assert future.is_done
        assert future.succeeded()
        assert not future.failed()
        assert not future.retriable()
        assert future.exception is None

    def test_callbacks_are_called_before_and_after(self, kafka_topic, make):
        """With the metadata, and with the further arguments first as in the client."""
        seen = []
        future = make().send(kafka_topic, b"v", b"k")
        assert future is future.add_callback(seen.append)
        metadata = future.get(10)
        until(lambda: seen)
        future.add_callback(lambda extra, value: seen.append((extra, value)), "x")
        future.add_errback(seen.append)
        future.add_both(seen.append)
        assert [metadata, ("x", metadata), metadata] == seen

    def test_a_future_can_settle_another(self, kafka_topic, make):
        """`chain` passes the outcome of a guarded future to another future."""
        from kafka.future import Future

        other = Future()
        metadata = make().send(kafka_topic, b"v").chain(other).get(10)
        assert metadata is other.value

    def test_what_the_client_refuses_is_of_both_classes(self, kafka_topic, make):
        """Too large for the client's own limit: raised by send, code kept."""
        producer = make(max_request_size=1000)
        with pytest.raises(MessageSizeTooLargeError) as caught:
            producer.send(kafka_topic, b"x" * 2000, b"k")
        assert isinstance(caught.value, errors.MessageTooLargeError)
        assert (10, kafka_topic) == (caught.value.code, caught.value.topic)

    def test_mistakes_of_the_caller_are_passed_on(self, kafka_topic, make):
        """A TypeError of the client stays a TypeError."""
        with pytest.raises(TypeError, match="headers"):
            make().send(kafka_topic, b"v", b"k", {"not": "a list"})

    def test_a_missing_topic_is_told_apart(self, make):
        """The bound is max_block_ms, and the text says which of the causes it was."""
        producer = make(max_block_ms=500, allow_auto_create_topics=False)
        with pytest.raises(KafkaTimeoutError, match="do not know topic") as caught:
            producer.send("never-created", b"v", b"k")
        assert caught.value.verdict.written == "no"

    def test_a_send_takes_no_longer_than_its_timeout(self, make):
        """The lesser of both bounds holds, and is named."""
        producer = make(allow_auto_create_topics=False)
        with pytest.raises(KafkaTimeoutError, match=r"0\.2 s \(timeout\).*know topic"):
            producer.send("never-created", b"v", timeout=0.2)
        producer = make(max_block_ms=200, allow_auto_create_topics=False)
        with pytest.raises(KafkaTimeoutError, match=r"0\.2 s \(max_block_ms\)"):
            producer.send("never-created", b"v", b"k", timeout=60)

    def test_within_its_timeout_a_send_is_like_any_other(self, kafka_topic, make):
        """Also where a record has no key; and a closed producer says so at once."""
        producer = make()
        assert producer.send(kafka_topic, b"v", timeout=30).get(10).offset == 0
        assert producer.send(kafka_topic, b"v", b"k", timeout=0).get(10).offset == 1
        for wrong, kind in ((-1, ValueError), ("1", TypeError), (True, TypeError)):
            with pytest.raises(kind, match="timeout must be a number of sec"):
                producer.send(kafka_topic, b"v", timeout=wrong)
        producer.close()
        with pytest.raises(errors.ClientClosedError):
            producer.send(kafka_topic, b"v", b"k", timeout=30)

    def test_brokers_that_are_away_are_told_apart(self, kafka_faults):
        """Within the timeout, and nothing was sent.

        In a process of its own, since kafka-python leaves a socket open whose
        connection was refused.
        """
        script = """
            import sys
            from kafka import KafkaProducer
            from kafkaguard import guard

            producer = guard(KafkaProducer(bootstrap_servers=sys.argv[1]))
            print("ready", flush=True)
            sys.stdin.readline()
            try:
                producer.send("some-topic", b"v", b"k", timeout=0.5)
            except Exception as error:
                print(error.verdict.written, error)
            """
        child = subprocess.Popen(
            [
                sys.executable,
                "-W",
                "ignore",
                "-c",
                textwrap.dedent(script),
                kafka_faults.bootstrap_servers,
            ],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        with child:
            assert child.stdout.readline() == "ready\n"
            (broker,) = kafka_faults.brokers
            kafka_faults.take_away(broker)
            said, _ = child.communicate("go\n", timeout=30)
        assert said.startswith("no CLIENT_")
        assert "no broker answers" in said

    def test_a_denied_topic_is_in_the_report(self, kafka_users):
        """Also where the future, which failed at once, is dropped."""
        topic = kafka_users.create_topic()
        producer = guard(
            KafkaProducer(**kafka_users.client_config("SASL_PLAIN", user="bob"))
        )
        producer.send(topic, b"v", b"k")
        with pytest.raises(DeliveryFailed, match=r"\(29\)"):
            producer.close()

    @pytest.mark.java
    def test_a_producer_that_is_not_let_in_keeps_its_reason(self):
        """Without any right to write, 31 and CONFIGURE, and no producer after another."""
        users = {"carol": "carols-password"}
        with KafkaCluster(users=users) as cluster:
            topic = cluster.create_topic()
            cluster.grant("carol", "DESCRIBE", "TOPIC", topic)
            config = cluster.client_config("SASL_PLAIN", user="carol")
            client = KafkaProducer(**config)
            with guard(client) as producer:
                for _ in range(2):
                    with pytest.raises(ClusterAuthorizationFailedError) as caught:
                        producer.send(topic, b"v", b"k").get(20)
                    error = caught.value
                    assert (error.code, error.verdict.action) == (31, "CONFIGURE")
                assert producer.client is client


class TestFaultsOfTheGuard:
    """A bug of ours must not break a send."""

    def test_a_check_that_fails_lets_the_record_pass(
        self, kafka_topic, make, monkeypatch, caplog
    ):
        """It is logged, and the record is delivered."""
        producer = make()
        monkeypatch.setattr(producer._sending.null_keys, "check", lambda *_: 1 / 0)
        assert producer.send(kafka_topic, b"v").get(10).offset == 0
        assert "the record is sent" in caplog.text

    def test_tracking_that_fails_lets_the_record_pass(
        self, kafka_topic, make, monkeypatch, caplog
    ):
        """A bug in the guard's tracking fails no send, and the future has the outcome."""
        producer = make()
        with monkeypatch.context() as broken:
            broken.setattr(shell, "SourceBatch", lambda *_: 1 / 0)
            future = producer.send(kafka_topic, b"v", b"k")
        assert future.get(10).offset == 0
        until(lambda: "could not be tracked; it is sent" in caplog.text)


class TestTransactions:
    """Within a transaction nothing is sent again, and nothing replaced."""

    def test_a_refused_record_is_for_the_application_to_abort(self, kafka_cluster):
        """Its mates fail too, the commit is refused, and the abort goes through."""
        topic, stale = stale_topic(kafka_cluster)
        client = KafkaProducer(
            bootstrap_servers=kafka_cluster.bootstrap_servers,
            transactional_id=f"id-{topic}",
            linger_ms=20,
        )
        with guard(client, topics=stale) as producer:
            producer.init_transactions()
            producer.begin_transaction()
            mate, keyless = producer.send(topic, b"v", b"k"), producer.send(topic, b"-")
            with pytest.raises(errors.InvalidRecordKeyError):
                keyless.get(10)
            assert isinstance(mate.exception, errors.KafkaGuardError)
            with pytest.raises(KafkaError) as caught:
                producer.commit_transaction()
            assert isinstance(caught.value, errors.KafkaGuardError)
            producer.abort_transaction()
            assert producer.client is client
        assert read(kafka_cluster, topic) == []


class TestGuard:
    """The one line."""

    def test_other_objects_are_refused_with_what_is_known(self):
        """The message names what guard() can do."""
        with pytest.raises(TypeError, match=r"kafka\.KafkaProducer"):
            guard(object())

    def test_a_client_or_a_factory(self):
        """guard() raises TypeError for neither or both of client and factory."""
        with pytest.raises(TypeError, match="factory="):
            guard()

    def test_guarding_twice_is_refused(self, make):
        """guard() raises TypeError for a producer that is guarded already."""
        with pytest.raises(TypeError, match="guarded already"):
            guard(make())

    def test_retries_without_idempotence_are_warned_about(self, kafka_cluster):
        """The client itself can write twice; `strict` refuses it."""
        settings = {
            "bootstrap_servers": kafka_cluster.bootstrap_servers,
            "enable_idempotence": False,
        }
        with (
            pytest.warns(StackingWarning, match="enable_idempotence = True works"),
            guard(KafkaProducer(**settings)),
        ):
            pass
        with (
            KafkaProducer(**settings) as client,
            pytest.raises(errors.ClientConfigurationError, match="idempotence"),
        ):
            guard(client, strict=True)


class TestFacts:
    """What is known of topics."""

    def test_a_fact_expires(self, kafka_cluster, kafka_topic):
        """After its time the topic is looked up again, and the record refused."""
        now = [0.0]
        producer = GuardedProducer(
            KafkaProducer(bootstrap_servers=kafka_cluster.bootstrap_servers),
            Wish(
                load_policy("default"),
                cache=TopicFactsCache(ttl=60.0, clock=lambda: now[0]),
            ),
        )
        with producer:
            producer.send(kafka_topic, b"v")
            producer.flush(10)
            kafka_cluster.alter_topic(kafka_topic, COMPACTED)
            now[0] = 61.0
            with pytest.raises(errors.InvalidRecordKeyError):
                producer.send(kafka_topic, b"v")

    def test_the_policy_may_leave_null_keys_to_the_broker(self, kafka_cluster):
        """`null_key: send` looks nothing up; the broker refuses it."""
        topic = kafka_cluster.create_topic(config=COMPACTED)
        with guard(
            KafkaProducer(bootstrap_servers=kafka_cluster.bootstrap_servers),
            policy={"null_key": "send"},
            topics={topic: TopicFacts(compacted=True)},
        ) as producer:
            future = producer.send(topic, b"v")
            with pytest.raises(errors.InvalidRecordKeyError):
                future.get(10)
