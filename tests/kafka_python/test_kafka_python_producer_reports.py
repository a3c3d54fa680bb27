"""kafka-python's producer, guarded: flush, close, callbacks and forks."""

from __future__ import annotations

import subprocess
import sys
import textwrap
import time

import pytest
from kafka import KafkaProducer
from kafka.errors import KafkaTimeoutError

from kafkaguard import DeliveryReport, errors, guard
from kafkaguard.errors import DeliveryFailed
from tests.contracts.producer import read, stale_topic, until


def run_to_its_end(script):
    """Run a program in a process of its own, which must end with 0."""
    ended = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", textwrap.dedent(script)],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert ended.returncode == 0, ended.stderr


def guarded(cluster, **settings):
    """Guard a new producer."""
    return guard(KafkaProducer(bootstrap_servers=cluster.bootstrap_servers, **settings))


@pytest.fixture
def small(kafka_cluster):
    """Make a topic that takes 1000 bytes at most."""
    return kafka_cluster.create_topic(config={"max.message.bytes": 1000})


class TestReports:
    """flush() and close() tell what became of the records."""

    def test_flush_sends_what_lingers(self, kafka_cluster, kafka_topic):
        """A long linger does not hold a flush up."""
        with guarded(kafka_cluster, linger_ms=80_000) as producer:
            producer.send(kafka_topic, b"v", b"k")
            start = time.monotonic()
            assert producer.flush().delivered == 1
            assert time.monotonic() - start < 60

    def test_an_errback_counts_as_looking(self, kafka_cluster, small):
        """A failure that an errback has received is not raised by flush()."""
        seen = []
        with guarded(kafka_cluster) as producer:
            producer.send(small, b"x" * 5000, b"k").add_errback(seen.append)
            report = producer.flush()
        assert (report.failed, report.errors) == (1, ())
        assert [error.code for error in seen] == [10]
        assert isinstance(seen[0], errors.MessageTooLargeError)

    def test_what_is_pending_is_raised_as_a_timeout(self, kafka_topic, kafka_faults):
        """The error has both classes, and the report."""
        kafka_faults.on("Produce").delay(4.0)
        with guarded(kafka_faults) as producer:
            producer.send(kafka_topic, b"v", b"k")
            with pytest.raises(KafkaTimeoutError) as caught:
                producer.flush(0.5)
        assert isinstance(caught.value, DeliveryFailed)
        assert DeliveryReport(pending=1) == caught.value.report

    def test_the_bound_holds_for_all_batches_together(
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


class TestCallbacks:
    """The application's callbacks."""

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


class TestForks:
    """A producer in a forked child has no thread there."""

    def test_a_factory_builds_one_for_the_child(self, kafka_cluster, kafka_topic):
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
        run_to_its_end(script)
        values = [value for _, value in read(kafka_cluster, kafka_topic)]
        assert values == [b"parent", b"child", b"parent"]

    def test_a_future_of_the_parent_is_told_at_once_in_the_child(
        self, kafka_cluster, kafka_topic
    ):
        """Only the parent gets the outcome; what was known before the fork stays so."""
        script = f"""
            import os
            from kafka import KafkaProducer
            from kafkaguard import guard
            from kafkaguard.errors import ForkedProducerError

            servers = {kafka_cluster.bootstrap_servers!r}
            producer = guard(KafkaProducer(bootstrap_servers=servers, linger_ms=80_000))
            known = producer.send({kafka_topic!r}, b"1")
            producer.flush(30)
            future = producer.send({kafka_topic!r}, b"2")
            child = os.fork()
            if child == 0:
                try:
                    future.get()
                except ForkedProducerError as error:
                    said = str(error)
                    sound = known.get().offset == 0 and "in the parent process" in said
                    os._exit(3 if sound and error.verdict.written == "maybe" else 1)
                os._exit(2)
            _, status = os.waitpid(child, 0)
            assert os.waitstatus_to_exitcode(status) == 3, status
            producer.flush(30)
            assert future.get(30).offset == 1
            producer.close(5)
        """
        run_to_its_end(script)
