"""Public reports of problems with producers, each of which is solved for all clients.

The tests have the numbers of the collection of reports: group (a), errors that are
retried wrongly or taken for fatal; (e), callbacks, flush and blocking; (g), wrappers. A
test class inherits this beside the producer's contract.
"""

from __future__ import annotations

import time

import pytest

from kafkaguard import Action, errors
from tests.contracts.attempts import PATIENT
from tests.contracts.producer import MARGIN_S, read, stale_topic, until

#: Microseconds instead of milliseconds: some 50,000 years ahead.
MICROSECONDS = 1_000


class CasesContract:
    """A guarded producer does the right thing in reported problems."""

    #: The error of an unknown code has its number.
    keeps_unknown_codes = True
    #: How often a record may be refused without a record to blame.
    dips = 2

    def test_b02_a_refused_record_is_not_sent_again_and_again(
        self, kafka_topic, kafka_faults
    ):
        """87 for ever: REJECT at once, whatever the policy's attempts."""
        kafka_faults.on("Produce").fail("INVALID_RECORD")
        with self.open(
            kafka_faults.bootstrap_servers, policy={"max_attempts": 9}
        ) as writer:
            error = writer.end_of(kafka_topic, b"v", b"k")
            assert (error.code, error.verdict.action) == (87, Action.REJECT)
            assert isinstance(error, self.client_error)
            # Once more alone, if the answer does not name this record.
            assert len(kafka_faults.requests("Produce")) <= 2
            kafka_faults.clear()
            assert writer.outcome(writer.send(kafka_topic, b"v", b"k")) == 0

    def test_b03_a_missing_key_is_told_within_two_seconds(self, kafka_cluster):
        """By the call; nothing that is returned could be taken for a success."""
        topic, _ = stale_topic(kafka_cluster)
        with self.open(kafka_cluster.bootstrap_servers) as writer:
            writer.outcome(writer.send(topic, b"v", b"k"))
            start = time.monotonic()
            with pytest.raises(errors.InvalidRecordKeyError):
                writer.send(topic, b"v")
            assert time.monotonic() - start < 2 + MARGIN_S

    @pytest.mark.parametrize("key", [b"k", None], ids=["with-key", "without-key"])
    def test_b04_code_2_ends_and_is_named(self, kafka_cluster, kafka_faults, key):
        """Older brokers answer it for a null key; its retriable flag has no end."""
        topic, stale = stale_topic(kafka_cluster)
        kafka_faults.on("Produce", topic=topic).fail("CORRUPT_MESSAGE")
        with self.open(
            kafka_faults.bootstrap_servers,
            topics=stale,
            delivery_timeout=3.0,
            policy={"rescue": "ordered", "max_attempts": 1},
        ) as writer:
            error = writer.end_of(topic, b"v", key)
            assert isinstance(error, self.client_error)
            assert error.verdict.written in ("no", "maybe")
            assert len(kafka_faults.requests("Produce")) < 100
            kafka_faults.clear()
            assert writer.outcome(writer.send(topic, b"v", b"k")) == 0
            writer.guarded.report()

    def test_b08_b11_a_denied_topic_works_once_it_is_granted(self, kafka_users):
        """Code 29 at once, not a timeout; then the same producer writes."""
        topic, other = kafka_users.create_topic(), kafka_users.create_topic()
        kafka_users.grant("bob", "WRITE", "TOPIC", other)
        servers = kafka_users.bootstrap_servers
        with self.open(servers, users=kafka_users) as writer:
            start = time.monotonic()
            error = writer.end_of(topic, b"v", b"k")
            assert time.monotonic() - start < 2 + MARGIN_S
            assert (error.code, error.verdict.action) == (29, Action.CONFIGURE)
            kafka_users.grant("bob", "WRITE", "TOPIC", topic)
            until(lambda: isinstance(writer.end_of(topic, b"v", b"k"), int), timeout=60)
            writer.guarded.report()

    def test_b12_a_short_dip_of_replicas_is_outlived(
        self, kafka_cluster, kafka_topic, kafka_faults
    ):
        """NOT_ENOUGH_REPLICAS: nothing was written, and it is tried again."""
        kafka_faults.on("Produce").fail("NOT_ENOUGH_REPLICAS", times=self.dips)
        with self.open(
            kafka_faults.bootstrap_servers, policy=PATIENT, delivery_timeout=6.0
        ) as writer:
            assert writer.outcome(writer.send(kafka_topic, b"v", b"k")) == 0
        assert len(kafka_faults.requests("Produce")) == 1 + self.dips
        assert read(kafka_cluster, kafka_topic) == [(b"k", b"v")]

    def test_b26_a_refused_batch_shrinks_until_it_is_one_record(
        self, kafka_topic, kafka_faults
    ):
        """10 for ever: eight records, eight refusals, no endless splitting."""
        kafka_faults.on("Produce").fail("MESSAGE_TOO_LARGE")
        with self.open(kafka_faults.bootstrap_servers) as writer:
            batch = [{"value": b"%d" % n, "key": b"k"} for n in range(8)]
            ends = writer.outcomes(writer.send_all(kafka_topic, batch))
            assert [end.code for end in ends] == [10] * 8
            assert {Action.REJECT} == {end.verdict.action for end in ends}
            # A client that splits batches splits them again with each successor.
            assert len(kafka_faults.requests("Produce")) < 100

    def test_b27_microseconds_are_told_as_a_bad_timestamp(
        self, kafka_cluster, kafka_topic
    ):
        """32, REJECT; a neighbour with a good time is delivered."""
        late = round(time.time() * 1000) * MICROSECONDS
        bad = {"value": b"bad", "key": b"bad", "timestamp_ms": late}
        fine = {"value": b"v", "key": b"k"}
        with self.open(kafka_cluster.bootstrap_servers) as writer:
            bad, good = writer.send_all(kafka_topic, [bad, fine])
            error = writer.outcome(bad)
            assert (error.code, error.verdict.action) == (32, Action.REJECT)
            assert isinstance(writer.outcome(good), int)

    def test_b29_a_topic_may_be_written_as_soon_as_it_is_made(self, kafka_cluster):
        """Brokers that have not heard of it yet are asked again."""
        with self.open(kafka_cluster.bootstrap_servers) as writer:
            for _ in range(3):
                topic = kafka_cluster.create_topic()
                assert writer.outcome(writer.send(topic, b"v", b"k")) == 0

    def test_b36_a_code_from_the_future_keeps_its_number(
        self, kafka_topic, kafka_faults
    ):
        """Not retried, no crash, and the producer lives on."""
        kafka_faults.on("Produce").fail(999, times=1)
        with self.open(kafka_faults.bootstrap_servers, built=[]) as writer:
            error = writer.end_of(kafka_topic, b"v", b"k")
            assert isinstance(error, self.client_error)
            assert not error.verdict.retriable
            if self.keeps_unknown_codes:
                assert error.code == 999
            kafka_faults.clear()
            assert isinstance(writer.end_of(kafka_topic, b"v", b"k"), int)
            writer.guarded.report()

    def test_b37_a_slow_answer_writes_nothing_twice(
        self, kafka_cluster, kafka_topic, kafka_faults
    ):
        """Waiting on is allowed; nothing is sent again meanwhile."""
        kafka_faults.on("Produce").delay(1.0)
        with self.open(
            kafka_faults.bootstrap_servers, policy={"max_attempts": 9}
        ) as writer:
            handle = writer.send(kafka_topic, b"v", b"k")
            kafka_faults.wait_for("Produce")
            assert writer.guarded.report().pending == 1
            assert writer.outcome(handle) == 0
            assert len(kafka_faults.requests("Produce")) == 1
        assert read(kafka_cluster, kafka_topic) == [(b"k", b"v")]

    def test_b82_failures_nobody_awaits_are_counted(self, kafka_topic, kafka_faults):
        """By the report, and told to the hook."""
        kafka_faults.on("Produce").fail("MESSAGE_TOO_LARGE")
        with self.open(kafka_faults.bootstrap_servers) as writer:
            writer.forget(kafka_topic, b"v", b"k")
            counts = []

            def is_counted():
                writer.serve()
                counts.append(writer.guarded.report().failed)
                return sum(counts)

            until(is_counted, 60)
            until(lambda: writer.events)
        assert sum(counts) == 1

    def test_b95_a_hook_that_raises_breaks_no_send(self, kafka_cluster):
        """It is logged; the record's error is the right one."""
        topic, _ = stale_topic(kafka_cluster)
        called = []

        def hook(event):
            called.append(event)
            raise ZeroDivisionError

        with self.open(kafka_cluster.bootstrap_servers, hook=hook) as writer:
            with pytest.raises(errors.InvalidRecordKeyError):
                writer.send(topic, b"v")
            assert writer.outcome(writer.send(topic, b"v", b"k")) == 0
            until(lambda: called)
