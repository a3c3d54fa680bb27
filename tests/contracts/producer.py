"""The contract of guarded producers, which the tests of each client inherit.

A subclass implements how its client is built and called; the tests are the same for all
clients. If a client makes something impossible, its subclass has a class attribute with
the reason, or does not inherit a contract class.
"""

from __future__ import annotations

import logging
import pickle
import threading
import time

import pytest

from kafkaguard import Action, DeliveryReport, TopicFacts, errors
from kafkaguard._retries.events import RejectEvent
from kafkaguard.errors import CallbackError, DeliveryFailed, SupersededError
from tests.contracts.consumer import in_child

COMPACTED = {"cleanup.policy": "compact"}
#: The size limit of a topic with small batches.
LIMIT = 2_000
SMALL = {"max.message.bytes": LIMIT}
TOO_LARGE = b"x" * 5_000
LATENCY_S = 0.3
#: Seconds that a busy machine may add to a time limit.
MARGIN_S = 15.0
#: A linger that ends after all sends of a test, also on a busy machine.
ONE_BATCH_S = 30.0
DAY_MS = 24 * 3_600_000


class Writer:
    """A guarded producer with the same blocking methods for all clients.

    Args:
        guarded: The guarded producer.
        events: The events that its hook has received, in order.
    """

    def __init__(self, guarded, events):
        self.guarded = guarded
        self.events = events

    def send(
        self,
        topic,
        value=None,
        key=None,
        *,
        headers=None,
        partition=None,
        timestamp_ms=None,
        on_outcome=None,
    ):
        """Send a record; return a handle for its outcome, or raise.

        The client calls `on_outcome` in its own way, with the error or None.
        """
        raise NotImplementedError

    def send_all(self, topic, records):
        """Send records, each with keyword arguments of `send`."""
        return [self.send(topic, **record) for record in records]

    def send_batch(self, topic, records):
        """Send records in one batch, with a writer that lingers for `ONE_BATCH_S`."""
        handles = self.send_all(topic, records)
        self.end_linger()
        return handles

    def end_linger(self):
        """Let what lingers be sent now, and wait for it."""
        self.flush_for(60)

    def forget(self, topic, value=None, key=None):
        """Send a record whose outcome is never checked."""
        self.send(topic, value, key)

    def call(self, *args, **kwargs):
        """Call the client's own send method with exactly these arguments."""
        raise NotImplementedError

    def send_in_callback(self, *args, **kwargs):
        """Send in a callback, which must not block."""
        return self.send(*args, **kwargs)

    def send_together(self, topic, values):
        """Send records at the same time; return the handles, or what was raised."""
        ends = {}

        def send(value):
            try:
                ends[value] = self.send(topic, value, b"k")
            except errors.KafkaGuardError as error:
                ends[value] = error

        senders = [threading.Thread(target=send, args=(value,)) for value in values]
        for sender in senders:
            sender.start()
        for sender in senders:
            sender.join()
        return [ends[value] for value in values]

    def outcome(self, handle, timeout=60.0):
        """Wait for the outcome: the offset, or the exception."""
        raise NotImplementedError

    def outcomes(self, handles):
        """Wait for the outcomes of records."""
        return [self.outcome(handle) for handle in handles]

    def end_of(self, *args, **kwargs):
        """Send a record and wait; return the offset, or the exception."""
        try:
            return self.outcome(self.send(*args, **kwargs))
        except errors.KafkaGuardError as error:
            return error

    def serve(self):
        """Let the client report outcomes, if it does so only when it is called."""

    def flush(self, timeout=None):
        """Flush, and return the report."""
        return self.guarded.flush(timeout)

    def flush_for(self, timeout):
        """Flush for so many seconds; return the report, also if it was raised."""
        try:
            return self.flush(timeout)
        except DeliveryFailed as error:
            return error.report

    def close(self, timeout=None):
        """Close, and return the report."""
        return self.guarded.close(timeout)

    def send_in_child(self, topic):
        """Send in a forked child."""
        self.send(topic, b"v", b"k")

    def deliver_in_child(self, topic):
        """Send in a forked child, and wait for the outcome."""
        assert self.outcome(self.send(topic, b"child", b"k")) is not None
        self.close()


class ProducerContract:
    """A guarded producer."""

    client_class: type
    client_name: str
    #: The client's base class of all errors, and its class of a refused record.
    client_error: type[BaseException]
    client_refusal: type[BaseException]
    #: The client's batches have sequence numbers.
    idempotent = True
    #: A batch of a partition may be accepted after an earlier one was refused.
    overtakes = False
    #: If the client splits a batch that is too large, it keeps the order.
    splits_in_order = True
    #: A refused batch kills the client, so a successor is built.
    dies_of_refusal = False
    #: The client reports which record of a batch was refused.
    names_refused = True
    #: The client can send a header whose value is null.
    null_headers = True

    def open(
        self,
        servers,
        *,
        policy="default",
        topics=None,
        users=None,
        linger=0.1,
        delivery_timeout=None,
        largest=None,
        built=None,
        client_class=None,
        hook=None,
        password=None,
        serializer=None,
        tight=False,
        patience=None,
    ):
        """Return a context manager of a `Writer`, which is closed at the end.

        Times are in seconds. `largest` is the client's own limit in bytes. `users` is a
        cluster in which user bob logs in, with his `password` or a wrong one. `built`
        collects the clients that a factory builds. `client_class` is a subclass of the
        client's class. `hook` receives the events instead of the writer. `serializer`
        turns each key into bytes or None. A `tight` client has the smallest buffer that
        it can have. `patience` is how long a send may wait for metadata, if the client
        has a limit of its own for that.
        """
        raise NotImplementedError

    def own_signature(self, given):
        """Return a subclass whose send method is `(self, topic, value, key, **more)`.

        It puts `(topic, value, key, more)` into `given` and sends without `more`.
        """
        raise NotImplementedError

    # --- standing in ------------------------------------------------------------------

    def test_every_name_of_the_client_is_there(self, kafka_cluster):
        """`isinstance` holds, and nothing that the client has is missing."""
        with self.open(kafka_cluster.bootstrap_servers) as writer:
            assert isinstance(writer.guarded, self.client_class)
            names = [n for n in dir(self.client_class) if not n.startswith("__")]
            assert [n for n in names if not hasattr(writer.guarded, n)] == []
            assert sorted(set(names) - set(dir(writer.guarded))) == []

    def test_a_producer_is_true(self, kafka_cluster):
        """`bool(producer)` is True, so `producer or default()` keeps the producer."""
        with self.open(kafka_cluster.bootstrap_servers) as writer:
            assert bool(writer.guarded) is True

    def test_a_producer_cannot_be_pickled_and_says_so(self, kafka_cluster):
        """Pickling one fails with what to do instead."""
        with (
            self.open(kafka_cluster.bootstrap_servers) as writer,
            pytest.raises(TypeError, match="in the worker"),
        ):
            pickle.dumps(writer.guarded)

    def test_a_subclass_gets_exactly_what_was_given(self, kafka_cluster, kafka_topic):
        """A signature of its own is called with the caller's own arguments."""
        given = []
        own = self.own_signature(given)
        topic = kafka_cluster.create_topic(config=COMPACTED)
        with self.open(kafka_cluster.bootstrap_servers, client_class=own) as writer:
            with pytest.raises(errors.InvalidRecordKeyError):
                writer.call(topic, b"0", None)
            handles = [
                writer.call(kafka_topic, b"1", b"k", trace="t"),
                writer.call(kafka_topic, value=b"2", key=b"k"),
            ]
            assert writer.outcomes(handles) == [0, 1]
        # Whether it was also called for the first record depends on the client.
        assert [
            (kafka_topic, b"1", b"k", {"trace": "t"}),
            (kafka_topic, b"2", b"k", {}),
        ] == given[-2:]

    # --- null keys --------------------------------------------------------------------

    def test_a_null_key_is_refused_before_anything_is_sent(
        self, kafka_cluster, kafka_faults
    ):
        """The call itself raises, of both classes, and no Produce request is made."""
        topic = kafka_cluster.create_topic(config=COMPACTED)
        with (
            self.open(kafka_faults.bootstrap_servers) as writer,
            pytest.raises(errors.InvalidRecordKeyError) as caught,
        ):
            writer.send(topic, b"v")
        error = caught.value
        assert isinstance(error, self.client_refusal)
        assert (87, topic, "Produce") == (error.code, error.topic, error.api)
        assert self.client_name == error.client
        assert error.verdict.action == Action.REJECT
        assert kafka_faults.requests("Produce") == []

    def test_what_is_raised_survives_pickling(self, kafka_cluster):
        """A refused record's error keeps class, code, name and topic."""
        topic = kafka_cluster.create_topic(config=COMPACTED)
        with (
            self.open(kafka_cluster.bootstrap_servers) as writer,
            pytest.raises(errors.InvalidRecordKeyError) as caught,
        ):
            writer.send(topic, b"v")
        copy = pickle.loads(pickle.dumps(caught.value))
        assert type(caught.value) is type(copy)
        assert isinstance(copy, self.client_refusal)
        assert (87, "INVALID_RECORD_KEY", topic) == (copy.code, copy.name, copy.topic)
        assert str(caught.value) == str(copy)

    def test_a_record_refused_by_the_guard_is_an_event(self, kafka_cluster):
        """REJECT, with the topic and the policy."""
        topic = kafka_cluster.create_topic(config=COMPACTED)
        with self.open(kafka_cluster.bootstrap_servers) as writer:
            with pytest.raises(errors.InvalidRecordKeyError):
                writer.send(topic, b"-")
            (event,) = writer.events
        assert isinstance(event, RejectEvent)
        assert (event.error, event.on_reject) == ("INVALID_RECORD_KEY", "raise")
        assert (event.context.topic, event.policy) == (topic, "default")

    def test_keys_and_tombstones_pass_without_a_look_up(
        self, kafka_cluster, kafka_faults
    ):
        """A record with a key is sent at once; a null value stays a null value."""
        topic = kafka_cluster.create_topic(config=COMPACTED)
        with self.open(kafka_faults.bootstrap_servers) as writer:
            assert writer.outcome(writer.send(topic, b"v", b"k")) == 0
            assert writer.outcome(writer.send(topic, None, b"k")) == 1
        assert kafka_faults.requests("DescribeConfigs") == []
        assert read(kafka_cluster, topic) == [(b"k", b"v"), (b"k", None)]

    def test_the_policy_of_a_topic_is_looked_up_once(self, kafka_topic, kafka_faults):
        """A hundred records without a key ask the cluster one time."""
        with self.open(kafka_faults.bootstrap_servers) as writer:
            handles = [writer.send(kafka_topic, b"v") for _ in range(100)]
            assert list(range(100)) == writer.outcomes(handles)
        assert len(kafka_faults.requests("DescribeConfigs")) == 1

    def test_what_is_declared_is_not_looked_up(self, kafka_cluster, kafka_faults):
        """The caller's word about a topic needs no request."""
        topic = kafka_cluster.create_topic(config=COMPACTED)
        facts = {topic: TopicFacts(compacted=True)}
        with (
            self.open(kafka_faults.bootstrap_servers, topics=facts) as writer,
            pytest.raises(errors.InvalidRecordKeyError),
        ):
            writer.send(topic, b"v")
        assert kafka_faults.requests("DescribeConfigs") == []

    def test_a_denied_look_up_lets_the_record_pass(self, kafka_users, caplog):
        """Without DescribeConfigs the broker judges, and one warning names the ACL."""
        topic = kafka_users.create_topic()
        kafka_users.grant("bob", "WRITE", "TOPIC", topic)
        with (
            caplog.at_level(logging.WARNING, "kafkaguard"),
            self.open(kafka_users.bootstrap_servers, users=kafka_users) as writer,
        ):
            for expected in range(3):
                assert expected == writer.outcome(writer.send(topic, b"v"))
        warnings = [
            r.getMessage() for r in caplog.records if r.name.startswith("kafkag")
        ]
        assert len(warnings) == 1
        assert "DescribeConfigs" in warnings[0]
        assert topic in warnings[0]

    def test_a_slow_look_up_delays_one_record_only(self, kafka_topic, kafka_faults):
        """A look-up that is not answered lets the record pass after a second."""
        kafka_faults.on("DescribeConfigs").delay(2.0)
        with self.open(kafka_faults.bootstrap_servers) as writer:
            for expected in range(3):
                assert expected == writer.outcome(writer.send(kafka_topic, b"v"))
            (asked,) = kafka_faults.requests("DescribeConfigs")
            assert asked.outcome == "waiting"
            asked_at = kafka_faults.requests
            until(lambda: asked_at("DescribeConfigs")[0].outcome != "waiting")

    def test_a_topic_that_becomes_compacted_is_noticed(
        self, kafka_cluster, kafka_topic, kafka_faults
    ):
        """The broker refuses the next record, and from then on the guard does."""
        with self.open(kafka_faults.bootstrap_servers) as writer:
            assert writer.outcome(writer.send(kafka_topic, b"v")) == 0
            compacted = {"cleanup.policy": "compact,delete"}
            kafka_cluster.alter_topic(kafka_topic, compacted)
            refused = writer.outcome(writer.send(kafka_topic, b"v"))
            assert isinstance(refused, errors.InvalidRecordKeyError)
            assert isinstance(refused, self.client_refusal)
            assert refused.verdict.action == Action.REJECT
            before = len(kafka_faults.requests("Produce"))
            with pytest.raises(errors.InvalidRecordKeyError):
                writer.send(kafka_topic, b"v")
            assert before == len(kafka_faults.requests("Produce"))

    # --- what is sent -----------------------------------------------------------------

    def test_a_record_arrives_as_it_was_given(self, kafka_cluster, kafka_topic):
        """A delivered record has the key, value, headers, partition and time of the call."""
        given = [("h", b"1"), ("empty", b""), ("null", None)][: 2 + self.null_headers]
        with self.open(kafka_cluster.bootstrap_servers) as writer:
            handle = writer.send(
                kafka_topic,
                b"v",
                b"k",
                headers=given,
                partition=0,
                timestamp_ms=1234,
            )
            assert writer.outcome(handle) == 0
        (record,) = records(kafka_cluster, kafka_topic)
        assert (record.key, record.value, record.timestamp) == (b"k", b"v", 1234)
        assert given == list(record.headers)

    def test_a_denied_topic_is_told_of_both_classes(self, kafka_users):
        """Code 29, and to be configured by a human."""
        topic = kafka_users.create_topic()
        servers = kafka_users.bootstrap_servers
        with self.open(servers, users=kafka_users) as writer:
            error = writer.end_of(topic, b"v", b"k")
        assert isinstance(error, errors.TopicAuthorizationFailedError)
        assert isinstance(error, self.client_error)
        assert (error.code, error.topic) == (29, topic)
        assert error.verdict.action is Action.CONFIGURE

    # --- batches with a record that is refused ----------------------------------------

    @pytest.mark.parametrize(
        ("code", "config", "guilty"),
        [
            (87, COMPACTED, {"value": b"no key"}),
            (10, SMALL, {"value": TOO_LARGE, "key": b"big"}),
            (32, {}, {"value": b"tomorrow", "key": b"own", "timestamp_ms": DAY_MS}),
        ],
        ids=["null-key", "too-large", "bad-timestamp"],
    )
    def test_a_refused_record_costs_the_others_of_its_batch_nothing(
        self, kafka_cluster, code, config, guilty
    ):
        """Only that one fails; each other one is there once, in the order of its key."""
        topic = kafka_cluster.create_topic(config=config)
        stale = {topic: TopicFacts(compacted=False)}
        if "timestamp_ms" in guilty:
            now = round(time.time() * 1000)
            guilty = {**guilty, "timestamp_ms": now + guilty["timestamp_ms"]}
        mates = [{"value": b"%d" % n, "key": b"k%d" % (n % 7)} for n in range(24)]
        servers = kafka_cluster.bootstrap_servers
        with self.open(servers, topics=stale, linger=ONE_BATCH_S) as writer:
            batch = [*mates[:17], guilty, *mates[17:]]
            handles = writer.send_all(topic, batch)
            report = writer.flush_for(60)
            assert (report.delivered, report.failed) == (24, 1)
            ends = writer.outcomes(handles)
            refused = ends.pop(17)
            assert list(range(24)) == sorted(ends)
        assert isinstance(refused, self.client_error)
        assert (code, topic) == (refused.code, refused.topic)
        assert refused.verdict.action == Action.REJECT
        assert refused.verdict.written == "no"
        sent = [(each["key"], each["value"]) for each in mates]
        there = read(kafka_cluster, topic)
        assert sorted(sent) == sorted(there)
        if code != 10 or self.splits_in_order:
            for key in {key for key, _ in sent}:
                mine = [each for each in there if each[0] == key]
                assert mine == [each for each in sent if each[0] == key]

    def test_a_producer_is_never_left_dead(self, kafka_cluster, kafka_topic):
        """After a refused batch, every later send works, time after time."""
        topic, stale = stale_topic(kafka_cluster)
        with self.open(kafka_cluster.bootstrap_servers, topics=stale) as writer:
            for n in range(3):
                refused = writer.outcome(writer.send(topic, b"keyless"))
                assert isinstance(refused, errors.InvalidRecordKeyError)
                assert n == writer.outcome(writer.send(kafka_topic, b"v"))

    def test_other_topics_go_on(self, kafka_cluster, kafka_topic):
        """Records of another topic are delivered once, also sent in between."""
        topic, stale = stale_topic(kafka_cluster)
        with self.open(kafka_cluster.bootstrap_servers, topics=stale) as writer:
            sent = []
            for n in range(30):
                sent.append(writer.send(kafka_topic, b"%d" % n, b"k"))
                if n % 10 == 5:
                    error = writer.outcome(writer.send(topic, b"no key"))
                    assert isinstance(error, errors.InvalidRecordKeyError)
            assert list(range(30)) == writer.outcomes(sent)
        there = read(kafka_cluster, kafka_topic)
        assert [(b"k", b"%d" % n) for n in range(30)] == there

    def test_sends_do_not_overtake_what_is_sent_again(self, kafka_cluster):
        """A thread that goes on sending does not overtake its own earlier record."""
        topic, stale = stale_topic(kafka_cluster)
        with self.open(
            kafka_cluster.bootstrap_servers, topics=stale, linger=0.01
        ) as writer:
            handles = []
            for n in range(300):
                handles.append(writer.send(topic, b"%d" % n, b"k"))
                if n % 100 == 50:
                    handles.append(writer.send(topic, b"keyless"))
            ends = writer.outcomes(handles)
        failed = [end for end in ends if not isinstance(end, int)]
        refused = [e for e in failed if isinstance(e, errors.InvalidRecordKeyError)]
        superseded = [e for e in failed if isinstance(e, SupersededError)]
        assert (3, len(failed)) == (len(refused), 3 + len(superseded))
        if not self.overtakes:
            assert superseded == []
        numbers = [int(value) for _, value in read(kafka_cluster, topic)]
        assert sorted(set(numbers)) == numbers
        assert len(numbers) == 300 - len(superseded)

    def test_an_older_value_of_a_key_never_lands_after_a_newer_one(
        self, kafka_cluster, kafka_faults
    ):
        """It is sent again before the newer one, or it ends as SUPERSEDED."""
        old, other, new, there = self.overtake(kafka_cluster, kafka_faults)
        assert isinstance(other, int)
        assert isinstance(new, int)
        if self.overtakes:
            assert isinstance(old, SupersededError)
            assert isinstance(old, self.client_error)
            assert old.verdict.written == "no"
            assert there == [(b"k", b"new"), (b"x", b"other")]
        else:
            assert there == [(b"k", b"old"), (b"x", b"other"), (b"k", b"new")]

    def test_any_order_sends_an_overtaken_record_again_all_the_same(
        self, kafka_cluster, kafka_faults
    ):
        """`rescue: any_order`: for events, where each one counts."""
        policy = {"rescue": "any_order"}
        old, other, new, there = self.overtake(kafka_cluster, kafka_faults, policy)
        assert sorted([old, other, new]) == [0, 1, 2]
        assert sorted(value for _, value in there) == [b"new", b"old", b"other"]

    def overtake(self, cluster, faults, policy="default"):
        """Refuse a batch while a later one of the same partition is in flight.

        Returns the outcomes of an old value, of another key's value and of the new
        value, and the content of the topic.
        """
        topic, stale = stale_topic(cluster)
        servers = faults.bootstrap_servers
        with self.open(servers, topics=stale, policy=policy, linger=0.05) as writer:
            assert writer.outcome(writer.send(topic, b"first", b"first")) == 0
            faults.on("Produce").delay(LATENCY_S)
            old, other, keyless = writer.send_all(
                topic,
                [
                    {"value": b"old", "key": b"k"},
                    {"value": b"other", "key": b"x"},
                    {"value": b"no key"},
                ],
            )
            faults.wait_for("Produce", count=2)
            new = writer.send(topic, b"new", b"k")
            refused = writer.outcome(keyless)
            assert isinstance(refused, errors.InvalidRecordKeyError)
            ends = writer.outcomes([old, other, new])
        ends = [end - 1 if isinstance(end, int) else end for end in ends]
        return *ends, read(cluster, topic)[1:]

    def test_without_rescue_the_mates_say_that_they_may_be_sent_again(
        self, kafka_cluster
    ):
        """`rescue: never`: not written, RETRY, and the producer lives on."""
        topic, stale = stale_topic(kafka_cluster)
        never, servers = {"rescue": "never"}, kafka_cluster.bootstrap_servers
        with self.open(
            servers, topics=stale, policy=never, linger=ONE_BATCH_S
        ) as writer:
            mate, keyless = writer.send_batch(
                topic, [{"value": b"v", "key": b"k"}, {"value": b"no key"}]
            )
            refused = writer.outcome(keyless)
            if self.names_refused:
                assert isinstance(refused, self.client_refusal)
            error = writer.outcome(mate)
            assert isinstance(error, errors.BatchMateRefusedError)
            assert (error.verdict.action, error.verdict.written) == ("RETRY", "no")
            (again,) = writer.send_batch(topic, [{"value": b"v", "key": b"k"}])
            assert writer.outcome(again) == 0
        assert read(kafka_cluster, topic) == [(b"k", b"v")]

    def test_each_outcome_is_told_once(self, kafka_cluster):
        """To whoever asked for it: the last word, also where a record was sent again."""
        topic, stale = stale_topic(kafka_cluster)
        told = {n: [] for n in range(12)}
        batch = [
            {
                "value": b"%d" % n,
                "key": None if n == 7 else b"k",
                "on_outcome": told[n].append,
            }
            for n in told
        ]
        servers = kafka_cluster.bootstrap_servers
        with self.open(servers, topics=stale, linger=ONE_BATCH_S) as writer:
            writer.send_batch(topic, batch)
        assert [len(each) for each in told.values()] == [1] * 12
        (error,) = told.pop(7)
        assert isinstance(error, errors.InvalidRecordKeyError)
        assert list(told.values()) == [[None]] * 11

    def test_the_bytes_that_were_sent_are_sent_again(self, kafka_cluster):
        """A record that is sent again keeps its bytes, headers and time."""
        topic, stale = stale_topic(kafka_cluster)
        kept = {
            "value": b"then",
            "key": b"k",
            "headers": [("h", b"1")],
            "timestamp_ms": 1234,
        }
        servers = kafka_cluster.bootstrap_servers
        with self.open(servers, topics=stale, linger=ONE_BATCH_S) as writer:
            handle, keyless = writer.send_batch(topic, [kept, {"value": b"no key"}])
            refused = writer.outcome(keyless)
            assert isinstance(refused, errors.InvalidRecordKeyError)
            assert writer.outcome(handle) == 0
        (record,) = records(kafka_cluster, topic)
        assert (record.key, record.value, record.timestamp) == (b"k", b"then", 1234)
        assert list(record.headers) == [("h", b"1")]

    def test_a_record_that_may_be_written_is_sent_again_where_the_policy_says_so(
        self, kafka_cluster, kafka_topic, kafka_faults
    ):
        """With `in_doubt: resend` the record is delivered, perhaps twice."""
        kafka_faults.on("Produce").fail("REQUEST_TIMED_OUT", written=True, times=1)
        policy = {"in_doubt": "resend"}
        servers = kafka_faults.bootstrap_servers
        with self.open(servers, policy=policy) as writer:
            assert isinstance(writer.outcome(writer.send(kafka_topic, b"v", b"k")), int)
        assert {(b"k", b"v")} == set(read(kafka_cluster, kafka_topic))

    # --- the client dies --------------------------------------------------------------

    def test_a_factory_builds_the_client_once_for_many_threads(
        self, kafka_cluster, kafka_topic
    ):
        """And its successor once, should it die; the others' records get through."""
        topic, stale = stale_topic(kafka_cluster)
        built = []
        results = [[] for _ in range(8)]

        def work(mine):
            for n in range(25):
                mine.append(writer.end_of(kafka_topic, b"%d" % n, b"k"))

        with self.open(
            kafka_cluster.bootstrap_servers, topics=stale, built=built, linger=0.0
        ) as writer:
            workers = [threading.Thread(target=work, args=(mine,)) for mine in results]
            for worker in workers:
                worker.start()
            refused = writer.outcome(writer.send(topic, b"keyless"))
            for worker in workers:
                worker.join(60)
        assert isinstance(refused, errors.InvalidRecordKeyError)
        assert len(built) == 1 + self.dies_of_refusal
        ends = [end for mine in results for end in mine]
        assert len(ends) == 200
        failed = [end for end in ends if not isinstance(end, int)]
        assert {Action.IN_DOUBT} >= {error.verdict.action for error in failed}
        assert len(failed) <= 8

    @pytest.mark.parametrize(
        "code", ["OUT_OF_ORDER_SEQUENCE_NUMBER", "INVALID_PRODUCER_EPOCH"]
    )
    def test_a_broken_sequence_does_not_end_the_producer(
        self, kafka_cluster, kafka_topic, kafka_faults, code
    ):
        """Whatever becomes of that record, the next ones are delivered."""
        built = []
        with self.open(kafka_faults.bootstrap_servers, built=built) as writer:
            assert writer.outcome(writer.send(kafka_topic, b"0", b"k")) == 0
            kafka_faults.on("Produce").fail(code, times=1)
            end = writer.end_of(kafka_topic, b"1", b"k")
            if not isinstance(end, int):
                assert isinstance(end, self.client_error)
            for n in range(3):
                assert isinstance(writer.end_of(kafka_topic, b"%d" % n, b"n"), int)
            writer.flush()
        values = [value for key, value in read(kafka_cluster, kafka_topic)]
        assert values[-3:] == [b"0", b"1", b"2"]

    def test_a_closed_producer_is_told_apart_at_once(self, kafka_cluster, kafka_topic):
        """Of both classes; nobody may take it for a bad record; closing again is fine."""
        with self.open(kafka_cluster.bootstrap_servers) as writer:
            assert writer.outcome(writer.send(kafka_topic, b"v", b"k")) == 0
            assert DeliveryReport(delivered=1) == writer.close()
            start = time.monotonic()
            with pytest.raises(errors.ClientClosedError) as caught:
                writer.send(kafka_topic, b"v", b"k")
            assert time.monotonic() - start < MARGIN_S
            assert DeliveryReport() == writer.close()
        assert isinstance(caught.value, self.client_error)
        assert caught.value.verdict.action is Action.RECREATE
        assert caught.value.verdict.written == "no"

    def test_a_forked_child_is_told_at_once(self, kafka_cluster, kafka_topic):
        """The child's send raises; the parent goes on after the child has ended."""
        with self.open(kafka_cluster.bootstrap_servers) as writer:
            assert writer.outcome(writer.send(kafka_topic, b"v", b"k")) == 0
            said = in_child(lambda: writer.send_in_child(kafka_topic))
            assert "ForkedProducerError" in said["kind"], said
            assert "factory=" in said["text"]
            assert "-> RECREATE: " in said["text"]
            assert said["took"] < MARGIN_S
            assert writer.outcome(writer.send(kafka_topic, b"v", b"k")) == 1

    def test_a_factory_builds_a_client_of_the_childs_own(
        self, kafka_cluster, kafka_topic
    ):
        """The child's record is delivered; the parent goes on with its own client."""
        with self.open(kafka_cluster.bootstrap_servers, built=[]) as writer:
            assert writer.outcome(writer.send(kafka_topic, b"parent", b"k")) == 0
            said = in_child(lambda: writer.deliver_in_child(kafka_topic))
            assert said["kind"] == "nothing", said
            assert writer.outcome(writer.send(kafka_topic, b"parent", b"k")) == 2
        assert [value for _, value in read(kafka_cluster, kafka_topic)] == [
            b"parent",
            b"child",
            b"parent",
        ]

    # --- reports ----------------------------------------------------------------------

    def test_flush_reports_what_was_delivered_since_the_last_one(
        self, kafka_cluster, kafka_topic
    ):
        """Each record is reported once, and nothing that lingers is left behind."""
        with self.open(kafka_cluster.bootstrap_servers) as writer:
            for _ in range(100):
                writer.forget(kafka_topic, b"v", b"k")
            assert DeliveryReport(delivered=100) == writer.flush()
            assert DeliveryReport() == writer.flush()
            writer.forget(kafka_topic, b"v", b"k")
            assert DeliveryReport(delivered=1) == writer.close()

    def test_reports_add_up(self, kafka_cluster, kafka_topic):
        """Those that do not wait count each record once, too, and never raise."""
        topic, stale = stale_topic(kafka_cluster)
        small = kafka_cluster.create_topic(config=SMALL)
        reports = []
        with self.open(kafka_cluster.bootstrap_servers, topics=stale) as writer:
            for n in range(60):
                writer.forget(kafka_topic, b"%d" % n, b"k")
                writer.forget(topic, b"v", None if n == 30 else b"k")
                if n % 20 == 10:
                    writer.forget(small, TOO_LARGE, b"k")
                    reports.append(writer.guarded.report())

            def is_done():
                writer.serve()
                reports.append(writer.guarded.report())
                return reports[-1].pending == 0

            until(is_done, 60)
            assert DeliveryReport() == writer.flush()
        assert sum(each.failed for each in reports) >= 4
        told = [code for each in reports for code in (e.code for e in each.errors)]
        assert (told.count(87), told.count(10)) == (1, 3)
        settled = sum(each.delivered + each.failed + each.in_doubt for each in reports)
        assert settled == 123

    def test_closing_raises_for_unseen_failures(self, kafka_cluster):
        """A failure that nobody looked at is raised at the end, with its code."""
        topic = kafka_cluster.create_topic(config=SMALL)
        with self.open(kafka_cluster.bootstrap_servers) as writer:
            writer.forget(topic, TOO_LARGE, b"k")
            with pytest.raises(DeliveryFailed, match=r"\(10\)") as caught:
                writer.close()
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
        again = pickle.loads(pickle.dumps(caught.value))
        assert isinstance(again, DeliveryFailed)
        assert isinstance(again, self.client_error)
        assert (again.report.failed, again.report.errors[0].code) == (1, 10)

    def test_flush_raises_for_failures_that_nobody_saw(self, kafka_cluster):
        """One time; what was delivered meanwhile is counted."""
        topic = kafka_cluster.create_topic(config=SMALL)
        with self.open(kafka_cluster.bootstrap_servers) as writer:
            writer.forget(topic, TOO_LARGE, b"k")
            writer.forget(topic, b"v", b"k")
            with pytest.raises(DeliveryFailed, match=r"1 x .*\(10\)") as caught:
                writer.flush()
            report = caught.value.report
            assert (report.delivered + report.in_doubt, report.failed) == (1, 1)
            assert DeliveryReport() == writer.flush()

    def test_a_failure_that_was_looked_at_is_not_raised_again(self, kafka_cluster):
        """The report counts it, and does not raise."""
        topic = kafka_cluster.create_topic(config=SMALL)
        with self.open(kafka_cluster.bootstrap_servers) as writer:
            error = writer.outcome(writer.send(topic, TOO_LARGE, b"k"))
            assert error.code == 10
            report = writer.flush()
            assert (report.delivered, report.failed, report.errors) == (0, 1, ())
            assert writer.flush().failed == 0

    # --- time -------------------------------------------------------------------------

    def test_close_gives_up_in_time_and_says_what_is_in_doubt(
        self, kafka_topic, kafka_faults
    ):
        """Without any answer, close(1) ends; what was on its way is in doubt."""
        kafka_faults.on("Produce").drop()
        with self.open(kafka_faults.bootstrap_servers) as writer:
            writer.forget(kafka_topic, b"v", b"k")
            kafka_faults.wait_for("Produce")
            start = time.monotonic()
            with pytest.raises(DeliveryFailed, match="in doubt 1") as caught:
                writer.close(1)
            assert time.monotonic() - start < 1 + MARGIN_S
        assert caught.value.verdict.action is Action.IN_DOUBT

    def test_close_ends_in_time_where_no_broker_answers(
        self, kafka_cluster, kafka_topic
    ):
        """Whatever the client asks, nobody is there; nothing hangs."""
        broker = kafka_cluster.broker(0)
        with self.open(kafka_cluster.bootstrap_servers) as writer:
            assert writer.outcome(writer.send(kafka_topic, b"0", b"k")) == 0
            broker.pause()
            try:
                writer.forget(kafka_topic, b"1", b"k")
                start = time.monotonic()
                with pytest.raises(DeliveryFailed) as caught:
                    writer.close(1)
                assert time.monotonic() - start < 1 + MARGIN_S
            finally:
                broker.resume()
        report = caught.value.report
        assert (report.failed + report.in_doubt, report.pending) == (1, 0)


class CallbacksContract:
    """A producer of a client that calls the application's callbacks."""

    @pytest.mark.parametrize("raised", [ZeroDivisionError, SystemExit])
    def test_what_a_callback_raises_is_told_at_the_flush(
        self, kafka_cluster, kafka_topic, raised
    ):
        """Once; it disturbs no record, and the producer goes on."""

        def fail(_):
            raise raised("of the callback")

        with self.open(kafka_cluster.bootstrap_servers) as writer:
            for _ in range(3):
                writer.send(kafka_topic, b"v", b"k", on_outcome=fail)
            with pytest.raises(CallbackError) as caught:
                writer.flush()
            assert isinstance(caught.value.__cause__, raised)
            assert isinstance(caught.value, self.client_error)
            assert caught.value.verdict.written == "yes"
            assert caught.value.report.delivered == 3
            assert writer.outcome(writer.send(kafka_topic, b"v", b"k")) == 3

    def test_a_callback_may_send_during_a_recovery(self, kafka_cluster, kafka_topic):
        """One that is called while the producer recovers."""
        topic, stale = stale_topic(kafka_cluster)
        further = []

        def send_another(_):
            further.append(writer.send(kafka_topic, b"next", b"k"))

        with self.open(kafka_cluster.bootstrap_servers, topics=stale) as writer:
            writer.send(topic, b"no key", on_outcome=send_another)

            def is_called():
                writer.serve()
                return further

            until(is_called, 60)
            assert writer.outcome(further[0]) == 0


class ExpiryContract:
    """A producer of a client that gives up records when their time is over."""

    #: Seconds within which a record must have its outcome.
    TIME_S = 1.5

    def lose(self, faults, topic, policy="default"):
        """Open a writer whose record is written but never answered."""
        faults.on("Produce", topic=topic).drop()
        return self.open(
            faults.bootstrap_servers, policy=policy, delivery_timeout=self.TIME_S
        )

    def test_a_record_without_an_answer_is_in_doubt_in_time(
        self, kafka_cluster, kafka_topic, kafka_faults
    ):
        """It may be written; and a flush raises it where nobody has looked."""
        with self.lose(kafka_faults, kafka_topic) as writer:
            start = time.monotonic()
            error = writer.outcome(writer.send(kafka_topic, b"v", b"k"))
            assert time.monotonic() - start < self.TIME_S + MARGIN_S
            assert (error.verdict.action, error.verdict.written) == (
                "IN_DOUBT",
                "maybe",
            )
            assert isinstance(error, self.client_error)
            writer.forget(kafka_topic, b"w", b"k")
            with pytest.raises(DeliveryFailed) as caught:
                writer.flush()
            report = caught.value.report
            assert (report.in_doubt, report.failed, report.pending) == (2, 0, 0)
            (unseen,) = report.errors
            assert unseen.verdict.action is Action.IN_DOUBT
        assert (b"k", b"v") in read(kafka_cluster, kafka_topic)

    def test_a_record_in_doubt_is_only_counted_where_the_policy_says_so(
        self, kafka_topic, kafka_faults
    ):
        """`in_doubt: report`: the report says it, and nothing is raised."""
        with self.lose(kafka_faults, kafka_topic, {"in_doubt": "report"}) as writer:
            writer.forget(kafka_topic, b"v", b"k")
            assert DeliveryReport(in_doubt=1) == writer.flush()

    def test_flush_and_the_next_send_work_once_a_silent_broker_is_back(
        self, kafka_cluster, kafka_topic
    ):
        """Until then flush() ends with what has failed."""
        broker = kafka_cluster.broker(0)
        servers = kafka_cluster.bootstrap_servers
        with self.open(servers, delivery_timeout=self.TIME_S) as writer:
            assert writer.outcome(writer.send(kafka_topic, b"0", b"k")) == 0
            broker.pause()
            try:
                writer.forget(kafka_topic, b"1", b"k")
                start = time.monotonic()
                with pytest.raises(DeliveryFailed) as caught:
                    writer.flush()
                assert time.monotonic() - start < self.TIME_S + MARGIN_S
            finally:
                broker.resume()
            report = caught.value.report
            assert (report.failed + report.in_doubt, report.pending) == (1, 0)
            # The client may need several attempts to find its broker again.
            until(
                lambda: isinstance(writer.end_of(kafka_topic, b"2", b"k"), int),
                timeout=60,
            )
            writer.guarded.report()
        assert read(kafka_cluster, kafka_topic)[-1] == (b"k", b"2")


def until(condition, timeout=20.0):
    """Poll until a condition holds; fail after `timeout` seconds."""
    end = time.monotonic() + timeout
    pause = threading.Event()
    while not condition():
        assert time.monotonic() < end, "the condition did not come true"
        pause.wait(0.01)


def stale_topic(cluster):
    """Make a compacted topic, and outdated facts about it."""
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
