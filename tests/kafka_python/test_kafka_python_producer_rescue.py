"""kafka-python's producer after a refused batch: rescue, order, and the successor."""

from __future__ import annotations

import subprocess
import sys
import textwrap
import threading
import time
from itertools import pairwise

import pytest
from kafka import KafkaProducer
from kafka.errors import (
    IllegalStateError,
    InvalidProducerEpochError,
    InvalidRecordError,
    KafkaError,
    KafkaTimeoutError,
)

from kafkaguard import Action, errors, guard
from kafkaguard.errors import DeliveryFailed
from tests.contracts.producer import read, stale_topic, until
from tests.kafka_python.producer_load import await_recovery

LATENCY_S = 0.3


@pytest.fixture
def make():
    """Build guarded producers whose failures a test looks at itself."""
    made = []

    def build(cluster, topics, policy="default", **settings):
        settings["bootstrap_servers"] = cluster.bootstrap_servers
        made.append(guard(KafkaProducer(**settings), topics=topics, policy=policy))
        return made[-1]

    yield build
    for producer in made:
        try:
            producer.close(10)
        except DeliveryFailed as failure:
            raise AssertionError(f"unseen: {failure.report.errors}") from failure


def outcome(future):
    """Wait for an outcome: the offset, or the exception."""
    try:
        return future.get(20).offset
    except KafkaError as error:
        return error


def identity(producer):
    """Return the id and the epoch that a producer writes with."""
    return producer.client._transaction_manager.producer_id_and_epoch


class TestOrder:
    """Records sent again keep their order (rule: no later record of a key before)."""

    def test_the_bytes_that_were_sent_are_sent_again(self, kafka_cluster, make):
        """An object that the application changes after send() is not read again."""
        topic, stale = stale_topic(kafka_cluster)
        producer = make(kafka_cluster, stale, linger_ms=50)
        value = bytearray(b"then")
        kept = producer.send(topic, value, b"k", [("h", b"1")], None, 1234)
        keyless = producer.send(topic, b"-")
        value[:] = b"now!"
        assert isinstance(outcome(keyless), errors.InvalidRecordKeyError)
        assert (kept.get(10).offset, kept.get(10).timestamp) == (0, 1234)
        assert read(kafka_cluster, topic) == [(b"k", b"then")]


class TestInDoubt:
    """Records on their way when the producer dies may have been written."""

    def test_records_in_flight_to_other_topics_are_heard_of(
        self, kafka_cluster, kafka_topic, kafka_faults, make
    ):
        """Their answers come after the death, and count: none is in doubt."""
        topic, stale = stale_topic(kafka_cluster)
        kafka_faults.on("Produce").delay(LATENCY_S)
        producer = make(kafka_faults, stale, linger_ms=20)
        producer.partitions_for(kafka_topic)
        keyless = producer.send(topic, b"-")
        kafka_faults.wait_for("Produce", count=1)
        others = [producer.send(kafka_topic, b"%d" % n, b"k") for n in range(16)]
        kafka_faults.wait_for("Produce", count=2)
        assert isinstance(outcome(keyless), errors.InvalidRecordKeyError)
        assert list(range(16)) == [outcome(future) for future in others]
        assert others[3].value.topic_partition == (kafka_topic, 0)
        assert others[3].value.serialized_key_size == 1
        report = producer.flush()
        assert (report.delivered, report.failed, report.in_doubt) == (16, 1, 0)
        assert len(read(kafka_cluster, kafka_topic)) == 16

    @pytest.mark.parametrize("rescue", ["ordered", "never"])
    def test_refusals_of_records_in_flight_are_heard_of(
        self, kafka_cluster, kafka_faults, make, rescue
    ):
        """Their batch is too large as a whole: nothing was written, each is sent again."""
        topic, stale = stale_topic(kafka_cluster)
        small = kafka_cluster.create_topic(config={"max.message.bytes": 2_000})
        kafka_faults.on("Produce").delay(LATENCY_S)
        producer = make(kafka_faults, stale, {"rescue": rescue}, linger_ms=20)
        producer.partitions_for(small)
        keyless = producer.send(topic, b"-")
        kafka_faults.wait_for("Produce", count=1)
        others = [producer.send(small, b"x" * 900, b"k") for _ in range(8)]
        kafka_faults.wait_for("Produce", count=2)
        assert isinstance(outcome(keyless), errors.InvalidRecordKeyError)
        if rescue == "ordered":
            assert list(range(8)) == [outcome(future) for future in others]
        else:
            ends = [outcome(future) for future in others]
            assert {type(end) for end in ends} == {type(ends[0])}
            assert isinstance(ends[0], errors.BatchMateRefusedError)
            assert (ends[0].verdict.action, ends[0].verdict.written) == ("RETRY", "no")
        report = producer.flush()
        assert (report.delivered + report.failed, report.in_doubt) == (9, 0)

    def lose_answer(self, cluster, faults, topic, make, policy="default", **settings):
        """Send a record whose answer is lost while its producer dies of another."""
        stale, facts = stale_topic(cluster)
        faults.on("Produce", topic=topic).drop(times=1)
        faults.on("Produce", topic=stale).delay(LATENCY_S)
        producer = make(faults, facts, policy, linger_ms=20, **settings)
        producer.partitions_for(topic)
        keyless = producer.send(stale, b"-")
        faults.wait_for("Produce", count=1)
        other = producer.send(topic, b"old", b"k")
        faults.wait_for("Produce", count=2)
        assert isinstance(outcome(keyless), errors.InvalidRecordKeyError)
        return producer, other

    def test_records_in_flight_without_an_answer_are_in_doubt(
        self, kafka_cluster, kafka_topic, kafka_faults, make
    ):
        """Not a copy of the 87, not sent again, and written once."""
        producer, other = self.lose_answer(
            kafka_cluster, kafka_faults, kafka_topic, make
        )
        lost = outcome(other)
        assert lost.verdict.action is Action.IN_DOUBT
        assert not isinstance(lost, InvalidRecordError)
        assert isinstance(lost, KafkaError)
        assert outcome(producer.send(kafka_topic, b"new", b"k")) == 1
        assert read(kafka_cluster, kafka_topic) == [(b"k", b"old"), (b"k", b"new")]

    def test_the_policy_may_send_them_again(
        self, kafka_cluster, kafka_topic, kafka_faults, make
    ):
        """`in_doubt` delivers them, and here writes them twice."""
        policy = {"in_doubt": "resend"}
        _, other = self.lose_answer(
            kafka_cluster, kafka_faults, kafka_topic, make, policy
        )
        assert outcome(other) == 1
        assert read(kafka_cluster, kafka_topic) == [(b"k", b"old")] * 2

    def test_what_is_still_on_its_way_is_locked_out(
        self, kafka_cluster, kafka_topic, kafka_faults, make
    ):
        """The successor has the same id and a newer epoch; the old one is refused."""
        producer, lost = self.lose_answer(
            kafka_cluster, kafka_faults, kafka_topic, make
        )
        old = identity(producer)
        assert outcome(lost).verdict.action is Action.IN_DOUBT
        assert outcome(producer.send(kafka_topic, b"new", b"k")) == 1
        new = identity(producer)
        assert (old.producer_id, old.epoch + 1) == (new.producer_id, new.epoch)
        ghost = KafkaProducer(bootstrap_servers=kafka_cluster.bootstrap_servers)
        until(ghost._transaction_manager.has_producer_id)
        ghost._transaction_manager.set_producer_id_and_epoch(old)
        with pytest.raises(InvalidProducerEpochError):
            ghost.send(kafka_topic, b"late", b"k").get(10)
        ghost.close(1)
        assert read(kafka_cluster, kafka_topic) == [(b"k", b"old"), (b"k", b"new")]

    def test_no_two_successors_have_the_same_epoch(
        self, kafka_cluster, kafka_topic, kafka_faults, make
    ):
        """Else a broker takes a record of the second for a copy, and drops it."""
        producer, lost = self.lose_answer(
            kafka_cluster, kafka_faults, kafka_topic, make,
            delivery_timeout_ms=2000, request_timeout_ms=1500,
        )  # fmt: skip
        used = [identity(producer)]
        assert outcome(lost).verdict.action is Action.IN_DOUBT
        told = {0: b"old"}

        def tell(future, value):
            if not isinstance(offset := outcome(future), KafkaError):
                told[offset] = value

        for n in range(0, 6, 2):
            tell(producer.send(kafka_topic, b"%d" % n, b"k"), b"%d" % n)
            used.append(identity(producer))
            refusing = kafka_faults.on("Produce").fail("NOT_ENOUGH_REPLICAS")
            late = producer.send(kafka_topic, b"%d" % (n + 1), b"k")
            until(lambda dead=producer.client: producer.client is not dead)
            refusing.remove()
            tell(late, b"%d" % (n + 1))
        assert [each.epoch for each in used] == sorted({each.epoch for each in used})
        assert len({each.producer_id for each in used}) == 1
        there = [value for _, value in read(kafka_cluster, kafka_topic)]
        assert told == {offset: there[offset] for offset in told}

    def test_an_answer_after_the_write_is_in_doubt(
        self, kafka_cluster, kafka_topic, kafka_faults, make
    ):
        """REQUEST_TIMED_OUT without idempotence and retries: not sent again."""
        kafka_faults.on("Produce").fail("REQUEST_TIMED_OUT", written=True)
        producer = make(kafka_faults, None, enable_idempotence=False, retries=0)
        error = outcome(producer.send(kafka_topic, b"v", b"k"))
        assert (error.code, error.verdict.action) == (7, Action.IN_DOUBT)
        assert read(kafka_cluster, kafka_topic) == [(b"k", b"v")]


class TestSuccessor:
    """The default producer dies of a refused batch; a new one takes its place."""

    def test_serialisers_stay_open_for_the_successor(self, kafka_cluster, kafka_topic):
        """Closing the dead producer does not close what the new one uses."""
        from kafka.serializer import Serializer

        class Utf8(Serializer):
            closed = 0

            def serialize(self, topic, headers, data):
                assert not self.closed
                return data and data.encode()

            def close(self):
                self.closed += 1

        topic, stale = stale_topic(kafka_cluster)
        serializer = Utf8()
        client = KafkaProducer(
            bootstrap_servers=kafka_cluster.bootstrap_servers, key_serializer=serializer
        )
        with guard(client, topics=stale) as producer:
            refused = outcome(producer.send(topic, b"-"))
            assert isinstance(refused, errors.InvalidRecordKeyError)
            await_recovery(producer)
            assert outcome(producer.send(kafka_topic, b"v", "k")) == 0
        assert serializer.closed == 1

    def test_one_that_cannot_be_built_again_says_so(self, kafka_cluster):
        """A subclass with an __init__ of its own needs a factory."""

        class Mine(KafkaProducer):
            def __init__(self, servers):
                super().__init__(bootstrap_servers=servers)

        topic, stale = stale_topic(kafka_cluster)
        producer = guard(Mine(kafka_cluster.bootstrap_servers), topics=stale)
        with producer:
            refused = outcome(producer.send(topic, b"-"))
            assert isinstance(refused, errors.InvalidRecordKeyError)
            await_recovery(producer)
            with pytest.raises(errors.ClientClosedError, match="factory=") as caught:
                producer.send(topic, b"v", b"k")
            assert isinstance(caught.value, KafkaError)
            assert caught.value.verdict.action == Action.RECREATE

    def test_it_is_built_later_if_that_fails_now(self, kafka_cluster, kafka_topic):
        """A send waits for the next attempt, which comes after a pause."""
        topic, stale = stale_topic(kafka_cluster)
        builds = []

        def factory(**config):
            builds.append(time.monotonic())
            if 2 <= len(builds) <= 4:
                raise KafkaTimeoutError("nobody there")
            return KafkaProducer(**config)

        config = {"bootstrap_servers": kafka_cluster.bootstrap_servers}
        with guard(factory=factory, config=config, topics=stale) as producer:
            refused = outcome(producer.send(topic, b"-"))
            assert isinstance(refused, errors.InvalidRecordKeyError)
            assert outcome(producer.send(kafka_topic, b"v", b"k")) == 0
        pauses = [b - a for a, b in pairwise(builds[1:])]
        assert len(builds) == 5
        assert pauses[0] >= 0.25
        assert pauses[1] >= 0.5
        assert pauses[2] >= 1.0

    def test_a_send_does_not_wait_for_it_longer_than_max_block_ms(self, kafka_cluster):
        """It says why there is no successor, and that nothing was sent."""
        topic, stale = stale_topic(kafka_cluster)
        builds = []

        def factory(**config):
            builds.append(config)
            if len(builds) > 1:
                raise KafkaTimeoutError("nobody there")
            return KafkaProducer(**config)

        servers = kafka_cluster.bootstrap_servers
        config = {"bootstrap_servers": servers, "max_block_ms": 600}
        with guard(factory=factory, config=config, topics=stale) as producer:
            refused = outcome(producer.send(topic, b"-"))
            assert isinstance(refused, errors.InvalidRecordKeyError)
            with pytest.raises(errors.ClientTimeoutError, match="nobody there") as e:
                producer.send(topic, b"v", b"k")
            assert (e.value.verdict.action, e.value.verdict.written) == ("WAIT", "no")
            with pytest.raises(errors.ClientTimeoutError, match=r"0\.1 s \(timeout\)"):
                producer.send(topic, b"v", b"k", timeout=0.1)
        with pytest.raises(IllegalStateError, match="closed"):
            producer.send(topic, b"v", b"k")

    def test_a_send_that_waits_for_a_topic_goes_on_with_the_successor(
        self, kafka_cluster, make
    ):
        """Nobody asks for the topic any more in the name of the dead one."""
        topic, stale = stale_topic(kafka_cluster)
        missing = f"{topic}-later"
        producer = make(kafka_cluster, stale, allow_auto_create_topics=False)
        sent = []
        waiting = threading.Thread(
            target=lambda: sent.append(producer.send(missing, b"v", b"k")), daemon=True
        )
        waiting.start()
        until(lambda: missing in producer.client._metadata._topics)
        assert isinstance(
            outcome(producer.send(topic, b"-")), errors.InvalidRecordKeyError
        )
        kafka_cluster.create_topic(missing)
        waiting.join(30)  # the dead one would have waited for max_block_ms, 60 s
        assert outcome(sent[0]) == 0

    def test_twenty_deaths_under_load_do_not_crash(self, kafka_cluster):
        """Eight threads send while the producer dies 20 times; the process ends well."""
        topic, _ = stale_topic(kafka_cluster)
        other = kafka_cluster.create_topic()
        script = f"""
            import threading
            from kafka import KafkaProducer
            from kafkaguard import TopicFacts, guard

            alive, most, lock = set(), [0], threading.Lock()

            def factory(**config):
                producer = KafkaProducer(**config)
                with lock:
                    alive.add(producer)
                    living = [p for p in alive if p._sender.is_alive()]
                    most[0] = max(most[0], len(living))
                return producer

            done = threading.Event()
            producer = guard(
                factory=factory,
                config={{"bootstrap_servers": {kafka_cluster.bootstrap_servers!r}}},
                topics={{{topic!r}: TopicFacts(compacted=False)}},
            )

            def work():
                while not done.is_set():
                    try:
                        producer.send({other!r}, b"v", b"k").get(20)
                    except Exception as error:
                        assert error.verdict.written == "maybe", error

            threads = [threading.Thread(target=work) for _ in range(8)]
            for thread in threads:
                thread.start()
            # One that comes into a producer which is dying already kills no other.
            for _ in range(60):
                try:
                    producer.send({topic!r}, b"keyless").get(20)
                except Exception as error:
                    assert error.code == 87, error
                if len(alive) > 20:
                    break
            done.set()
            for thread in threads:
                thread.join(30)
            producer.close(10)
            print(len(alive) > 20, most[0] <= 2)
        """
        ended = subprocess.run(
            [sys.executable, "-W", "ignore", "-c", textwrap.dedent(script)],
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )
        said = (ended.returncode, ended.stdout.strip())
        assert said == (0, "True True"), ended.stderr
