"""Public reports of problems with producers, each of which is solved for all clients.

The tests have the numbers of the collection of reports: group (a), errors that are
retried wrongly or taken for fatal; (e), callbacks, flush and blocking; (g), wrappers. A
test class inherits this beside the producer's contract, which has further ones, as have
the contracts of consumers and of transactions.

Some reports are about one client only: aiokafka's sender task and event loops (b99 to
b102), confluent-kafka's AIOProducer (b81), its own `poll` in a callback (b80). Those about
the meaning of a code (b13, b19, b38) are tests of `classify()`.
"""

from __future__ import annotations

import json
import logging
import threading
import time
import uuid

import pytest

from kafkaguard import Action, errors
from kafkaguard._retries.events import RetryEvent
from tests.contracts.attempts import PATIENT
from tests.contracts.producer import (
    COMPACTED,
    LATENCY_S,
    MARGIN_S,
    read,
    records,
    stale_topic,
    until,
)

#: Microseconds instead of milliseconds: some 50,000 years ahead.
MICROSECONDS = 1_000

#: A serialiser of kafka-python may be a function, which it warns about.
SERIALIZERS = pytest.mark.filterwarnings(
    "ignore:key_serializer does not:DeprecationWarning"
)


def as_json(key):
    """Serialise a key, also one that is missing."""
    return json.dumps(key).encode()


class CasesContract:
    """A guarded producer does the right thing in reported problems."""

    #: The error of an unknown code has its number.
    keeps_unknown_codes = True
    #: How often a record may be refused without a record to blame.
    dips = 2

    def test_a_refused_record_is_not_sent_again_and_again(
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

    def test_a_missing_key_is_told_within_two_seconds(self, kafka_cluster):
        """By the call; nothing that is returned could be taken for a success."""
        topic, _ = stale_topic(kafka_cluster)
        with self.open(kafka_cluster.bootstrap_servers) as writer:
            writer.outcome(writer.send(topic, b"v", b"k"))
            start = time.monotonic()
            with pytest.raises(errors.InvalidRecordKeyError):
                writer.send(topic, b"v")
            assert time.monotonic() - start < 2 + MARGIN_S

    @pytest.mark.parametrize("key", [b"k", None], ids=["with-key", "without-key"])
    def test_code_2_ends_and_is_named(self, kafka_cluster, kafka_faults, key):
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

    @SERIALIZERS
    def test_a_key_that_a_serializer_drops_is_a_null_key(self, kafka_cluster):
        """What counts is what would be sent; a null value stays a delete marker."""
        topic = kafka_cluster.create_topic(config=COMPACTED)
        servers = kafka_cluster.bootstrap_servers
        with self.open(servers, serializer=lambda key: key or None) as writer:
            with pytest.raises(errors.InvalidRecordKeyError) as caught:
                writer.send(topic, b"v", b"")
            assert writer.outcome(writer.send(topic, None, b"k")) == 0
        verdict = caught.value.verdict
        assert (verdict.action, verdict.written) == (Action.REJECT, "no")
        assert read(kafka_cluster, topic) == [(b"k", None)]

    @SERIALIZERS
    def test_a_null_key_in_disguise_is_warned_about(self, kafka_cluster, caplog):
        """`json.dumps(None)` is a key for the broker: delivered, with one warning."""
        topic = kafka_cluster.create_topic(config=COMPACTED)
        servers = kafka_cluster.bootstrap_servers
        with (
            caplog.at_level(logging.WARNING, "kafkaguard"),
            self.open(servers, serializer=as_json) as writer,
        ):
            for expected in range(2):
                assert writer.outcome(writer.send(topic, b"v")) == expected
        assert sum(topic in record.getMessage() for record in caplog.records) == 1
        assert read(kafka_cluster, topic) == [(b"null", b"v")] * 2

    @SERIALIZERS
    def test_the_policy_may_reject_a_null_key_in_disguise(self, kafka_cluster):
        """`disguised_null_key: reject`: as a null key, before anything is sent."""
        topic = kafka_cluster.create_topic(config=COMPACTED)
        policy = {"disguised_null_key": "reject"}
        servers = kafka_cluster.bootstrap_servers
        with self.open(servers, serializer=as_json, policy=policy) as writer:
            with pytest.raises(errors.InvalidRecordKeyError) as caught:
                writer.send(topic, b"v")
            assert writer.outcome(writer.send(topic, b"v", "k")) == 0
        assert caught.value.verdict.action is Action.REJECT
        assert read(kafka_cluster, topic) == [(b'"k"', b"v")]

    def test_a_denied_topic_is_told_though_nothing_was_answered(
        self, kafka_cluster, kafka_topic, kafka_faults
    ):
        """29 in the metadata, no Produce: not silence until somebody gives up."""
        denied = kafka_faults.on("Metadata", topic=kafka_topic)
        denied.fail("TOPIC_AUTHORIZATION_FAILED")
        with self.open(kafka_faults.bootstrap_servers) as writer:
            start = time.monotonic()
            error = writer.end_of(kafka_topic, b"v", b"k")
            assert time.monotonic() - start < 3.5 + MARGIN_S
            assert isinstance(error, self.client_error)
            assert (error.code, error.topic) == (29, kafka_topic)
            verdict = error.verdict
            assert (verdict.action, verdict.written) == (Action.CONFIGURE, "no")
            assert kafka_faults.requests("Produce") == []
            writer.guarded.report()
        assert read(kafka_cluster, kafka_topic) == []

    def test_a_denied_topic_works_once_it_is_granted(self, kafka_users):
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

    def test_a_denial_is_final_and_an_override_is_said_to_change_nothing(
        self, kafka_topic, kafka_faults, caplog
    ):
        """One request; `overrides` with RETRY are for calls under `@retry`."""
        kafka_faults.on("Produce").fail("TOPIC_AUTHORIZATION_FAILED")
        override = {"when": {"code": 29}, "action": "RETRY"}
        with (
            caplog.at_level(logging.WARNING, "kafkaguard"),
            self.open(
                kafka_faults.bootstrap_servers, policy={"overrides": [override]}
            ) as writer,
        ):
            error = writer.end_of(kafka_topic, b"v", b"k")
            assert (error.code, error.verdict.action) == (29, Action.CONFIGURE)
            assert len(kafka_faults.requests("Produce")) == 1
            writer.guarded.report()
        told = [record.getMessage() for record in caplog.records]
        (said,) = [each for each in told if "overrides" in each]
        assert "overrides.action" in said
        assert "@retry" in said

    def test_a_short_dip_of_replicas_is_outlived(
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

    def test_a_refused_batch_shrinks_until_it_is_one_record(
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

    def test_microseconds_are_told_as_a_bad_timestamp(self, kafka_cluster, kafka_topic):
        """32, REJECT; a neighbour with a good time is delivered."""
        late = round(time.time() * 1000) * MICROSECONDS
        bad = {"value": b"bad", "key": b"bad", "timestamp_ms": late}
        fine = {"value": b"v", "key": b"k"}
        with self.open(kafka_cluster.bootstrap_servers) as writer:
            bad, good = writer.send_all(kafka_topic, [bad, fine])
            error = writer.outcome(bad)
            assert (error.code, error.verdict.action) == (32, Action.REJECT)
            assert isinstance(writer.outcome(good), int)

    def test_a_topic_may_be_written_as_soon_as_it_is_made(self, kafka_cluster):
        """Brokers that have not heard of it yet are asked again."""
        with self.open(kafka_cluster.bootstrap_servers) as writer:
            for _ in range(3):
                topic = kafka_cluster.create_topic()
                assert writer.outcome(writer.send(topic, b"v", b"k")) == 0

    def test_a_topic_that_does_not_exist_is_told_as_one(self, kafka_cluster):
        """Within the caller's time, and not as a timeout that is repeated."""
        topic = f"missing-{uuid.uuid4()}"
        with self.give_up_soon(kafka_cluster) as writer:
            start = time.monotonic()
            error = writer.end_of(topic, b"v", b"k")
            assert time.monotonic() - start < 3.5 + MARGIN_S
            assert isinstance(error, self.client_error)
            assert isinstance(error, errors.UnknownTopicOrPartitionError)
            assert topic == error.topic
            assert error.verdict.written == "no"
            # At once, a broker may only not have heard of it yet.
            assert error.verdict.action in (Action.CONFIGURE, Action.REFRESH)
            writer.guarded.report()

    def test_brokers_that_are_away_are_told_apart(
        self, kafka_cluster, kafka_topic, kafka_faults
    ):
        """Not as a topic that does not exist; and in time."""
        first = kafka_cluster.create_topic()
        with self.give_up_soon(kafka_faults) as writer:
            assert writer.outcome(writer.send(first, b"v", b"k")) == 0
            with kafka_faults.without(0):
                start = time.monotonic()
                error = writer.end_of(kafka_topic, b"v", b"k")
                assert time.monotonic() - start < 2.5 + MARGIN_S
            assert isinstance(error, self.client_error)
            assert not isinstance(error, errors.UnknownTopicOrPartitionError)
            assert "no broker" in str(error)
            assert error.verdict.written == "no"
            assert error.verdict.action in (Action.RETRY, Action.REFRESH)
            writer.guarded.report()
        assert read(kafka_cluster, kafka_topic) == []

    def give_up_soon(self, servers):
        """Open a writer that gives a record up after two seconds, for good."""
        return self.open(
            servers.bootstrap_servers,
            policy={"max_attempts": 1},
            delivery_timeout=2.0,
            patience=2.0,
        )

    def test_a_wrong_password_is_told_as_one(self, kafka_users):
        """By whatever call needs the connection; not as a timeout, and no retry."""
        topic = kafka_users.create_topic()
        error = self.shut_out(kafka_users, topic)
        assert isinstance(error, self.client_error)
        print("TOLD", type(error).__mro__[:4], error, error.verdict, error.__cause__)
        assert isinstance(error, errors.AuthenticationError)
        verdict = error.verdict
        assert (verdict.action, verdict.written) == (Action.CONFIGURE, "no")
        assert not verdict.retriable

    def shut_out(self, users, topic):
        """Use a producer with a wrong password; return what is told."""
        try:
            with self.open(
                users.bootstrap_servers,
                users=users,
                password="wrong",
                delivery_timeout=3.0,
            ) as writer:
                return writer.outcome(writer.send(topic, b"v", b"k"))
        except errors.KafkaGuardError as error:
            return error

    def test_brokers_that_are_away_for_a_while_cost_no_attempt(
        self, kafka_cluster, kafka_topic, kafka_faults, caplog
    ):
        """Ten failed connections are no news: delivered, and few lines in the log."""
        servers = kafka_faults.bootstrap_servers
        with (
            caplog.at_level(logging.WARNING, "kafkaguard"),
            self.open(servers, delivery_timeout=60.0, built=[]) as writer,
        ):
            assert writer.outcome(writer.send(kafka_topic, b"0", b"k")) == 0
            kafka_faults.take_away(0)
            flaky = kafka_faults.on("ApiVersions").close(times=10)
            kafka_faults.bring_back(0)
            handle = writer.send(kafka_topic, b"1", b"k")

            def has_tried():
                writer.serve()
                return flaky.is_spent

            until(has_tried, 60)
            assert writer.outcome(handle) == 1
            assert not any(isinstance(e, RetryEvent) for e in writer.events)
            assert len(kafka_faults.requests("Produce", topic=kafka_topic)) == 2
        assert len([r for r in caplog.records if r.name.startswith("kafkag")]) <= 2
        assert read(kafka_cluster, kafka_topic) == [(b"k", b"0"), (b"k", b"1")]

    def test_a_code_from_the_future_keeps_its_number(self, kafka_topic, kafka_faults):
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

    def test_a_slow_answer_writes_nothing_twice(
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

    def test_what_is_pending_is_neither_failed_nor_sent_again(
        self, kafka_cluster, kafka_topic, kafka_faults
    ):
        """A flush that ends too early says so; the next one says delivered."""
        kafka_faults.on("Produce").delay(5.0)
        with self.open(kafka_faults.bootstrap_servers) as writer:
            writer.forget(kafka_topic, b"v", b"k")
            report = writer.flush_for(0.5)
            assert (report.pending, report.delivered) == (1, 0)
            assert (report.failed, report.in_doubt) == (0, 0)
            assert writer.flush().delivered == 1
        assert len(kafka_faults.requests("Produce")) == 1
        assert read(kafka_cluster, kafka_topic) == [(b"k", b"v")]

    def test_a_callback_may_send(self, kafka_topic, kafka_cluster):
        """A chain of five, each sent by the callback of the one before."""
        sent = []

        def send_next(error=None):
            if len(sent) < 5:
                value = b"%d" % len(sent)
                send = writer.send_in_callback
                sent.append(send(kafka_topic, value, b"k", on_outcome=send_next))

        with self.open(kafka_cluster.bootstrap_servers) as writer:
            sent.append(writer.send(kafka_topic, b"0", b"k", on_outcome=send_next))

            def is_over():
                writer.serve()
                return len(sent) == 5

            until(is_over, 60)
            assert writer.outcomes(sent) == [0, 1, 2, 3, 4]
        there = [value for _, value in read(kafka_cluster, kafka_topic)]
        assert there == [b"0", b"1", b"2", b"3", b"4"]

    def test_an_outcome_needs_no_flush(self, kafka_cluster, kafka_topic):
        """One record in a batch that has room for many; with its headers."""
        with self.open(kafka_cluster.bootstrap_servers) as writer:
            handle = writer.send(kafka_topic, b"v", b"k", headers=[("h", b"1")])
            assert writer.outcome(handle) == 0
        (record,) = records(kafka_cluster, kafka_topic)
        assert list(record.headers) == [("h", b"1")]

    def test_failures_nobody_awaits_are_counted(self, kafka_topic, kafka_faults):
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

    def test_a_subclass_keeps_its_own_attributes(self, kafka_cluster):
        """Of the class and of the instance; and the client's order of arguments."""
        topic = kafka_cluster.create_topic(config=COMPACTED)

        class Own(self.client_class):
            __slots__ = ("added",)
            marker = "of the class"

            def twice(self, number):
                return 2 * number

        servers = kafka_cluster.bootstrap_servers
        with self.open(servers, client_class=Own, built=[]) as writer:
            guarded = writer.guarded
            guarded.client.added = "of the instance"
            assert isinstance(guarded, Own)
            assert (guarded.marker, guarded.added) == (Own.marker, "of the instance")
            assert guarded.twice(4) == 8
            with pytest.raises(errors.InvalidRecordKeyError):
                writer.call(topic, b"v", None)
            assert writer.outcome(writer.call(topic, None, b"k")) == 0
        assert read(kafka_cluster, topic) == [(b"k", None)]

    def test_a_hook_that_raises_breaks_no_send(self, kafka_cluster):
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


class SequencesContract:
    """Reported problems of a producer whose batches have sequence numbers."""

    def test_a_gap_behind_a_refused_batch_is_no_failure(
        self, kafka_cluster, kafka_topic, kafka_faults
    ):
        """The broker answers 45 to what was in flight; it is all delivered once."""
        built = []
        servers = kafka_faults.bootstrap_servers
        with self.open(servers, built=built, linger=0.0) as writer:
            assert writer.outcome(writer.send(kafka_topic, b"first", b"k")) == 0
            kafka_faults.on("Produce").fail("NOT_ENOUGH_REPLICAS", times=1)
            kafka_faults.on("Produce").delay(LATENCY_S)
            handles = []
            for n in range(4):
                handles.append(writer.send(kafka_topic, b"%d" % n, b"k"))
                writer.serve()
                if n == 0:
                    kafka_faults.wait_for("Produce", count=2)
            assert writer.outcomes(handles) == [1, 2, 3, 4]
            assert len(built) == 1
            assert not any(isinstance(e, RetryEvent) for e in writer.events)
        there = [value for _, value in read(kafka_cluster, kafka_topic)]
        assert there == [b"first", b"0", b"1", b"2", b"3"]

    def test_a_gap_in_the_sequence_under_load_crashes_nothing(
        self, kafka_cluster, kafka_topic, kafka_faults
    ):
        """Eight threads send while it happens again and again; each learns the end."""
        built, over = [], threading.Event()
        ends = [[] for _ in range(8)]

        def work(number):
            while not over.is_set():
                value = b"%d-%d" % (number, len(ends[number]))
                ends[number].append(writer.end_of(kafka_topic, value, b"k"))

        servers = kafka_faults.bootstrap_servers
        with self.open(servers, built=built, linger=0.0) as writer:
            assert writer.outcome(writer.send(kafka_topic, b"first", b"k")) == 0
            gaps = kafka_faults.on("Produce", rate=0.2, seed=1)
            gaps = gaps.fail("OUT_OF_ORDER_SEQUENCE_NUMBER", times=5)
            workers = [threading.Thread(target=work, args=(n,)) for n in range(8)]
            for worker in workers:
                worker.start()
            try:
                until(lambda: gaps.is_spent, 60)
            finally:
                over.set()
                for worker in workers:
                    worker.join(60)
            assert not any(worker.is_alive() for worker in workers)
            assert isinstance(writer.end_of(kafka_topic, b"last", b"k"), int)
            writer.guarded.report()
        assert len(built) <= 1 + gaps.fired
        there = [value for _, value in read(kafka_cluster, kafka_topic)]
        assert len(set(there)) == len(there)
        for number, mine in enumerate(ends):
            for n, end in enumerate(mine):
                is_there = b"%d-%d" % (number, n) in there
                assert is_there or is_error(end)
                assert not is_there or not is_error(end) or end.verdict.written != "no"


class BuffersContract:
    """Reported problems of a producer whose buffer is full."""

    #: A send that finds no room waits, and raises in the end.
    bounded = True
    #: Seconds that a send waits for room.
    ROOM_S = 2.0

    def test_a_full_buffer_is_waited_for(self, kafka_cluster, kafka_topic):
        """A thousand records of one thread: each once, in their order."""
        servers = kafka_cluster.bootstrap_servers
        with self.open(servers, tight=True, linger=0.0) as writer:
            values = [b"%d" % n for n in range(1000)]
            handles = [writer.send(kafka_topic, value, b"k") for value in values]
            assert writer.outcomes(handles) == list(range(1000))
        assert [value for _, value in read(kafka_cluster, kafka_topic)] == values

    @pytest.mark.filterwarnings("ignore::kafkaguard.errors.StackingWarning")
    @pytest.mark.parametrize("count", [20, 50], ids=["of-one-batch", "of-many-threads"])
    def test_a_buffer_that_stays_full_is_told_of_each_record(
        self, kafka_cluster, kafka_topic, kafka_faults, count
    ):
        """Each has an outcome of its own, in time; then the producer goes on."""
        values = [b"%d" % n for n in range(count)]
        with self.open(
            kafka_faults.bootstrap_servers,
            policy={"deadline": self.ROOM_S},
            delivery_timeout=self.ROOM_S,
            tight=True,
            linger=0.0,
        ) as writer:
            assert writer.outcome(writer.send(kafka_topic, b"first", b"k")) == 0
            silent = kafka_faults.on("Produce").drop()
            start = time.monotonic()
            sent = writer.send_together(kafka_topic, values)
            assert time.monotonic() - start < self.ROOM_S + MARGIN_S
            refused = {
                v for v, each in zip(values, sent, strict=True) if is_error(each)
            }
            ends = {
                value: each if is_error(each) else writer.outcome(each)
                for value, each in zip(values, sent, strict=True)
            }
            assert time.monotonic() - start < 2 * self.ROOM_S + MARGIN_S
            assert bool(refused) == self.bounded
            for value in refused:
                error = ends[value]
                assert isinstance(error, self.client_error)
                assert error.verdict.written == "no"
                assert error.verdict.action in (Action.WAIT, Action.RETRY)
            silent.remove()
            until(
                lambda: isinstance(writer.end_of(kafka_topic, b"last", b"k"), int),
                60,
            )
            writer.guarded.report()
        there = {value for _, value in read(kafka_cluster, kafka_topic)}
        unwritten = {
            v
            for v, end in ends.items()
            if is_error(end) and end.verdict.written == "no"
        }
        delivered = {value for value, end in ends.items() if not is_error(end)}
        assert there & unwritten == set()
        assert delivered - there == set()
        assert b"last" in there


def is_error(end):
    """Tell whether a send was refused, or a record has failed."""
    return isinstance(end, BaseException)
