"""kafka-python's producer, guarded: flush, close, callbacks and forks."""

from __future__ import annotations

import copy
import os
import pickle
import subprocess
import sys
import textwrap
import time

import pytest
from kafka import KafkaProducer
from kafka.errors import KafkaError, KafkaTimeoutError, MessageSizeTooLargeError

from kafkaguard import (
    CallbackError,
    DeliveryFailed,
    DeliveryReport,
    ForkedProducerError,
    errors,
    guard,
)
from tests.contracts.producer import read, stale_topic, until


def guarded(cluster, **settings):
    """Guard a new producer."""
    return guard(KafkaProducer(bootstrap_servers=cluster.bootstrap_servers, **settings))


@pytest.fixture
def small(kafka_cluster):
    """Make a topic that takes 1000 bytes at most."""
    return kafka_cluster.create_topic(config={"max.message.bytes": 1000})


class TestReports:
    """flush() and close() tell what became of the records."""

    def test_flush_reports_what_was_delivered_since_the_last_one(
        self, kafka_cluster, kafka_topic
    ):
        """Each record is reported once."""
        with guarded(kafka_cluster) as producer:
            for _ in range(100):
                producer.send(kafka_topic, b"v", b"k")
            assert DeliveryReport(delivered=100) == producer.flush()
            assert DeliveryReport() == producer.flush()
            producer.send(kafka_topic, b"v", b"k")
            assert DeliveryReport(delivered=1) == producer.close()

    def test_flush_sends_what_lingers(self, kafka_cluster, kafka_topic):
        """A long linger does not hold a flush up."""
        with guarded(kafka_cluster, linger_ms=80_000) as producer:
            producer.send(kafka_topic, b"v", b"k")
            start = time.monotonic()
            assert producer.flush().delivered == 1
            assert time.monotonic() - start < 60

    def test_b73_flush_raises_for_failures_that_nobody_saw(self, kafka_cluster, small):
        """The future is dropped; flush() says what went wrong, one time."""
        with guarded(kafka_cluster) as producer:
            producer.send(small, b"x" * 5000, b"k")
            producer.send(small, b"v", b"k")
            with pytest.raises(DeliveryFailed, match=r"1 x .*\(10\)") as caught:
                producer.flush()
            report = caught.value.report
            assert (report.delivered + report.in_doubt, report.failed) == (1, 1)
            assert isinstance(report.errors[0], MessageSizeTooLargeError)
            assert DeliveryReport() == producer.flush()

    def test_b73_an_errback_counts_as_looking(self, kafka_cluster, small):
        """Who is called has seen it."""
        seen = []
        with guarded(kafka_cluster) as producer:
            producer.send(small, b"x" * 5000, b"k").add_errback(seen.append)
            report = producer.flush()
        assert (report.failed, report.errors) == (1, ())
        assert [error.code for error in seen] == [10]
        assert isinstance(seen[0], errors.MessageTooLargeError)

    def test_b74_what_is_pending_is_neither_failed_nor_sent_again(
        self, kafka_topic, kafka_faults
    ):
        """flush(timeout) ends in time and says pending; the next one has it."""
        kafka_faults.on("Produce").delay(4.0)
        with guarded(kafka_faults) as producer:
            producer.send(kafka_topic, b"v", b"k")
            with pytest.raises(KafkaTimeoutError) as caught:
                producer.flush(0.5)
            assert isinstance(caught.value, DeliveryFailed)
            assert DeliveryReport(pending=1) == caught.value.report
            assert DeliveryReport(delivered=1) == producer.flush(10)
        assert len(kafka_faults.requests("Produce")) == 1

    def test_b74_the_bound_holds_for_all_batches_together(
        self, kafka_cluster, kafka_faults
    ):
        """Many slow batches do not add up to many times the bound."""
        topic = kafka_cluster.create_topic(partitions=6)
        bound = 2.0
        kafka_faults.on("Produce").drop()
        with guarded(kafka_faults, max_in_flight_requests_per_connection=1) as producer:
            for n in range(6):
                producer.send(topic, b"v", b"k", partition=n)
                kafka_faults.wait_for("Produce", count=1)
            start = time.monotonic()
            with pytest.raises(DeliveryFailed):
                producer.flush(bound)
            assert time.monotonic() - start < 5 * bound
            with pytest.raises(DeliveryFailed):
                producer.close(0)

    def test_b83_close_gives_up_in_time_and_says_what_is_in_doubt(
        self, kafka_topic, kafka_faults
    ):
        """Without any answer, close(1) ends; what was on its way is in doubt."""
        kafka_faults.on("Produce").drop()
        producer = guarded(kafka_faults)
        producer.send(kafka_topic, b"v", b"k")
        kafka_faults.wait_for("Produce")
        start = time.monotonic()
        with pytest.raises(DeliveryFailed, match="in doubt 1"):
            producer.close(1)
        assert time.monotonic() - start < 60
        assert not producer._sender.is_alive()
        assert DeliveryReport() == producer.close()

    def test_an_exception_of_the_block_goes_first(self, kafka_cluster, small):
        """What failed besides is noted on it."""

        def work():
            with guarded(kafka_cluster) as producer:
                producer.send(small, b"x" * 5000, b"k")
                raise ZeroDivisionError

        with pytest.raises(ZeroDivisionError) as caught:
            work()
        assert "(10)" in caught.value.__notes__[0]

    def test_a_batch_that_the_client_splits_is_followed(self, kafka_cluster, small):
        """Too large together, fine apart: all are delivered and counted."""
        with guarded(kafka_cluster, linger_ms=100) as producer:
            futures = [producer.send(small, b"x" * 300, b"k") for _ in range(8)]
            assert DeliveryReport(delivered=8) == producer.flush()
            assert list(range(8)) == [future.get(1).offset for future in futures]

    def test_b97_a_report_survives_pickling(self, kafka_cluster, small):
        """DeliveryFailed can be raised in a pool's worker."""
        producer = guarded(kafka_cluster)
        producer.send(small, b"x" * 5000, b"k")
        with pytest.raises(DeliveryFailed) as caught:
            producer.close()
        for again in (
            pickle.loads(pickle.dumps(caught.value)),
            copy.copy(caught.value),
        ):
            assert isinstance(again, DeliveryFailed)
            assert isinstance(again, KafkaError)
            assert (again.report.failed, again.report.errors[0].code) == (1, 10)


class TestCallbacks:
    """The application's callbacks."""

    def test_b79_a_callback_that_raises_is_reported_at_the_flush(
        self, kafka_cluster, kafka_topic
    ):
        """Three are delivered and counted; the first exception comes out in the end."""
        with guarded(kafka_cluster) as producer:
            for n in range(3):
                producer.send(kafka_topic, b"v", b"k").add_callback(
                    lambda _, n=n: 1 / n
                )
            with pytest.raises(CallbackError) as caught:
                producer.flush()
            assert isinstance(caught.value.__cause__, ZeroDivisionError)
            assert isinstance(caught.value, KafkaError)
            producer.flush()
        assert len(read(kafka_cluster, kafka_topic)) == 3

    def test_a_callback_of_a_rescued_record_gets_its_metadata(self, kafka_cluster):
        """Not the failure of the first try."""
        topic, stale = stale_topic(kafka_cluster)
        seen = []
        client = KafkaProducer(
            bootstrap_servers=kafka_cluster.bootstrap_servers, linger_ms=50
        )
        with guard(client, topics=stale) as producer:
            producer.send(topic, b"v", b"k").add_both(seen.append)
            producer.send(topic, b"-").add_both(seen.append)
            assert (
                producer.flush().delivered,
                len(read(kafka_cluster, topic)),
            ) == (1, 1)
            until(lambda: len(seen) == 2)
        refused, kept = sorted(seen, key=lambda each: hasattr(each, "offset"))
        assert kept.offset == 0
        assert isinstance(refused, errors.InvalidRecordKeyError)

    def test_a_callback_may_send(self, kafka_cluster, kafka_topic):
        """Also one that is called while the producer is being replaced."""
        topic, stale = stale_topic(kafka_cluster)
        client = KafkaProducer(
            bootstrap_servers=kafka_cluster.bootstrap_servers, linger_ms=20
        )
        with guard(client, topics=stale) as producer:
            follow_ups = []

            def send_another(_):
                follow_ups.append(producer.send(kafka_topic, b"dead letter", b"k"))

            producer.send(topic, b"-").add_errback(send_another)
            until(lambda: follow_ups)
            assert follow_ups[0].get(20).offset == 0


class TestForks:
    """A producer in a forked child has no thread there."""

    def test_b98_a_forked_child_is_told_at_once(self, kafka_cluster, kafka_topic):
        """The child's send raises; the parent goes on after the child has ended."""
        with guarded(kafka_cluster) as producer:
            assert producer.send(kafka_topic, b"v", b"k").get(10).offset == 0
            child = os.fork()
            if child == 0:
                os._exit(_in_child(producer, kafka_topic))
            _, status = os.waitpid(child, 0)
            assert os.waitstatus_to_exitcode(status) == 0
            assert producer.send(kafka_topic, b"v", b"k").get(10).offset == 1

    def test_b98_a_factory_builds_one_for_the_child(self, kafka_cluster, kafka_topic):
        """Both deliver; a child that ends normally does not disturb the parent."""
        script = f"""
            import os, sys
            from kafka import KafkaProducer
            from kafkaguard import guard

            config = {{"bootstrap_servers": {kafka_cluster.bootstrap_servers!r}}}
            producer = guard(factory=KafkaProducer, config=config)
            producer.send({kafka_topic!r}, b"parent", b"k").get(10)
            child = os.fork()
            if child == 0:
                producer.send({kafka_topic!r}, b"child", b"k").get(10)
                producer.close(5)
                sys.exit(0)
            _, status = os.waitpid(child, 0)
            assert os.waitstatus_to_exitcode(status) == 0
            producer.send({kafka_topic!r}, b"parent", b"k").get(10)
            producer.close(5)
        """
        ended = subprocess.run(
            [sys.executable, "-W", "ignore", "-c", textwrap.dedent(script)],
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        assert ended.returncode == 0, ended.stderr
        values = [value for _, value in read(kafka_cluster, kafka_topic)]
        assert values == [b"parent", b"child", b"parent"]


def _in_child(producer, topic):
    """Return 0 if the child's send is refused quickly and clearly."""
    start = time.monotonic()
    try:
        producer.send(topic, b"v", b"k")
    except ForkedProducerError as error:
        # An unguarded send would block for max_block_ms, a minute.
        fast = time.monotonic() - start < 20
        return 0 if fast and "factory=" in str(error) else 2
    return 1
