"""The contract of guarded producers: a record that an earlier attempt may have written.

The client's own retry of such a record is refused, or never comes.
"""

from __future__ import annotations

import pytest

from kafkaguard import errors
from kafkaguard.errors import KafkaGuardError
from tests.contracts.producer import read, until

#: Each code that a broker can answer, and one that Kafka does not have.
CODES = tuple(sorted(code for code in [*range(-1, 137), 4444] if code))
#: Seconds that a client has for a record whose retries are refused for ever.
TIME_S = 2.0
#: A linger that puts all records of a test into one request.
LINGER_S = 0.5


class EarlierAttemptsContract:
    """A producer of a client that sends a batch again by itself."""

    @pytest.mark.parametrize("earlier", ["close", 7, 20])
    def test_no_answer_to_a_retry_says_that_a_record_was_not_written(
        self, kafka_cluster, kafka_faults, earlier
    ):
        """Each code refuses the retry of a record that the first attempt has written.

        Each record has a partition of its own, so that each code is the answer to a
        record alone. The answer to the first attempt is lost, or does not say whether
        the record was written. A client that a refusal ends gives up the rest.
        """
        topic = kafka_cluster.create_topic(partitions=len(CODES))
        for partition, code in enumerate(CODES):
            on = kafka_faults.on("Produce", topic=topic, partition=partition)
            if earlier != "close":
                fail_first(on, earlier)
            kafka_faults.on("Produce", topic=topic, partition=partition, skip=1).fail(
                code
            )
        if earlier == "close":
            seen = set()

            def is_first(request):
                """Return whether a request has a record for the first time."""
                new = set(request.partitions) - seen
                seen.update(new)
                return bool(new)

            on = kafka_faults.on("Produce", topic=topic, where=is_first)
            on.close(written=True)
        with self.open(
            kafka_faults.bootstrap_servers, linger=LINGER_S, delivery_timeout=TIME_S
        ) as writer:
            handles = writer.send_all(
                topic,
                [{"value": b"v", "partition": index} for index in range(len(CODES))],
            )
            ends = dict(zip(CODES, writer.outcomes(handles), strict=True))
            writer.flush_for(0)
        refused = {c: e for c, e in ends.items() if isinstance(e, KafkaGuardError)}
        wrong = {c: str(e) for c, e in refused.items() if e.verdict.written == "no"}
        assert wrong == {}
        if not self.idempotent:  # else the first one ends the client, and all others
            assert {-1, 10, 18, 29, 31, 32, 45, 47, 87} <= set(refused)
        kafka_faults.clear()

    @pytest.mark.parametrize("earlier", ["close", 20])
    @pytest.mark.parametrize("end", ["close", "expiry"])
    def test_no_end_of_a_record_forgets_that_an_earlier_attempt_may_have_written_it(
        self, kafka_topic, kafka_faults, earlier, end
    ):
        """It expires, or its producer is closed, before an attempt succeeds."""
        first = write_first(kafka_faults, kafka_topic, earlier)
        with self.open(
            kafka_faults.bootstrap_servers, delivery_timeout=TIME_S
        ) as writer:
            handle = writer.send(kafka_topic, b"v", b"k")
            writer.serve()
            until(lambda: first.fired)
            if end == "close":
                with pytest.raises(errors.KafkaGuardError):
                    writer.close(0.5)
            error = writer.outcome(handle)
            writer.flush_for(0)
        assert error.verdict.written == "maybe", error
        kafka_faults.clear()

    def test_the_mates_of_a_record_that_may_be_written_are_not_sent_again(
        self, kafka_cluster, kafka_topic, kafka_faults
    ):
        """The retry is refused, as by a topic that is compacted by then."""
        fail_first(kafka_faults.on("Produce", topic=kafka_topic), 20)
        kafka_faults.on("Produce", topic=kafka_topic, skip=1).fail(87, times=1)
        with self.open(kafka_faults.bootstrap_servers, linger=LINGER_S) as writer:
            handles = writer.send_all(
                kafka_topic,
                [{"value": b"v", "key": key} for key in (b"a", b"b", None)],
            )
            writer.flush_for(60)
            ends = writer.outcomes(handles)
            writer.flush_for(0)
        assert {e.verdict.written for e in ends} == {"maybe"}
        name = "NOT_ENOUGH_REPLICAS_AFTER_APPEND (20)"
        for error in ends:
            assert f"an earlier attempt was answered with {name}" in str(error)
        assert read(kafka_cluster, kafka_topic) == [
            (b"a", b"v"),
            (b"b", b"v"),
            (None, b"v"),
        ]


class EarlierAttemptsOfIdempotentContract(EarlierAttemptsContract):
    """The same for an idempotent producer, which a broken sequence ends."""

    @pytest.mark.parametrize("earlier", ["close", 20])
    def test_the_end_of_a_producer_leaves_such_a_record_in_doubt(
        self, kafka_cluster, kafka_topic, kafka_faults, earlier
    ):
        """Also if its batch waits for its next attempt at that moment."""
        other = kafka_cluster.create_topic()
        first = write_first(kafka_faults, kafka_topic, earlier)
        kafka_faults.on("Produce", topic=other).fail(45, times=1)
        with self.open(
            kafka_faults.bootstrap_servers, delivery_timeout=TIME_S
        ) as writer:
            handle = writer.send(kafka_topic, b"v", b"k")
            until(lambda: first.fired)
            assert writer.end_of(other, b"v", b"k") == 0  # by the next producer
            error = writer.outcome(handle)
            writer.flush_for(0)
        assert error.verdict.written == "maybe", error
        kafka_faults.clear()


def write_first(faults, topic, earlier):
    """Let the first attempt be written, and refuse all retries; return the first fault.

    The answer to the first attempt is lost, or a code that does not say whether it was
    written.
    """
    first = fail_first(faults.on("Produce", topic=topic), earlier)
    faults.on("Produce", topic=topic, skip=1).fail(19)
    return first


def fail_first(on, earlier):
    """Let an attempt be written, without an answer or with one that does not tell."""
    if earlier == "close":
        return on.close(times=1, written=True)
    return on.fail(earlier, times=1, written=True)
