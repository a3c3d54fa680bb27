"""The guarded consumer of confluent-kafka keeps the contract of all guarded consumers."""

from __future__ import annotations

import subprocess
import sys
import types
from contextlib import contextmanager
from itertools import pairwise
from pathlib import Path

import confluent_kafka
import pytest
from confluent_kafka import Consumer, DeserializingConsumer, TopicPartition
from confluent_kafka.error import ValueDeserializationError

from kafkaguard import Action, errors, guard
from kafkaguard._consuming import events as ev
from kafkaguard.testing import FaultProxy
from tests.contracts.consumer import (
    PARTITIONS,
    ConsumerContract,
    Reader,
    fill,
    refusals,
    three,
)
from tests.contracts.producer import until
from tests.own_log import own_records


class ConfluentReader(Reader):
    """A guarded Consumer."""

    join_s = 0.2

    def poll(self, seconds):
        """Poll once, for as many records as there are."""
        return [
            (message.partition(), message.offset(), message.value())
            for message in self.guarded.consume(1000, seconds)
            if message.error() is None
        ]

    def commit(self, offsets, timeout, **more):
        """Commit, and wait; raise what stands in the list, as the others do."""
        wanted = [TopicPartition(*place, at) for place, at in offsets.items()]
        found = self.guarded.commit(offsets=wanted, asynchronous=False, **more)
        for each in found:
            if each.error is not None:
                (event,) = self.told(ev.CommitFailedEvent)
                raise event.errors[each.topic, each.partition]

    def commit_async(self, offsets):
        """Commit, and do not wait."""
        self.guarded.commit(
            offsets=[TopicPartition(*place, at) for place, at in offsets.items()]
        )

    def committed(self, topic, partition):
        """Return the committed offset."""
        (found,) = self.guarded.committed([TopicPartition(topic, partition)], 10)
        return found.offset

    def assign(self, places):
        """Assign."""
        self.guarded.assign([TopicPartition(*each) for each in places])

    def start_at(self, topic, partition, offset):
        """Assign with the offset: the client seeks only once it reads."""
        self.guarded.assign([TopicPartition(topic, partition, offset)])

    def subscribe(self, topic):
        """Subscribe."""
        self.guarded.subscribe([topic])

    def seek(self, topic, partition, offset):
        """Set the position."""
        self.guarded.seek(TopicPartition(topic, partition, offset))

    def pause(self, topic, partition):
        """Pause."""
        self.guarded.pause([TopicPartition(topic, partition)])

    def resume(self, topic, partition):
        """Resume."""
        self.guarded.resume([TopicPartition(topic, partition)])


def settings(servers, group="confluent-consumers", **more):
    """Settings of a consumer that reads from the start and commits nothing."""
    return {
        "bootstrap.servers": servers,
        "group.id": group,
        "auto.offset.reset": "earliest",
        "enable.auto.commit": False,
        "isolation.level": "read_uncommitted",
        "topic.metadata.refresh.interval.ms": 1000,
        "fetch.wait.max.ms": 100,
        "session.timeout.ms": 6000,
        **more,
    }


class TestConfluentConsumer(ConsumerContract):
    client_class = Consumer
    refresh = "topic.metadata.refresh.interval.ms"
    impatient = types.MappingProxyType({"socket.timeout.ms": 1500})
    latest = types.MappingProxyType({"auto.offset.reset": "latest"})
    client_name = "confluent-kafka"
    client_error = confluent_kafka.KafkaException
    undecoded_error = ValueDeserializationError
    not_owned_error = confluent_kafka.KafkaException
    rejoin_error = confluent_kafka.KafkaException
    closed_error = RuntimeError
    answers_closed = frozenset()
    sees_answers = False

    @contextmanager
    def open(
        self,
        servers,
        *,
        assign=None,
        group=None,
        users=None,
        auto_commit=None,
        policy="default",
        factory=True,
        kind=Consumer,
        on_event=None,
        **more,
    ):
        """Build one, guard it, and close it in the end."""
        config = settings(servers, **more)
        if group is not None:
            config["group.id"] = group
        if auto_commit is not None:
            config["enable.auto.commit"] = True
            config["auto.commit.interval.ms"] = round(auto_commit * 1000)
        if users is not None:
            config |= users.client_config("SASL_PLAIN", client="confluent", user="bob")
        events = []
        given = {"factory": kind} if factory else {"client": kind(config)}
        guarded = guard(
            **given, config=config, policy=policy, on_event=on_event or events.append
        )
        reader = ConfluentReader(guarded, events)
        try:
            if assign:
                reader.assign(assign)
            yield reader
        finally:
            guarded.close()

    def static(self, instance):
        """Return the settings of a static member with frequent heartbeats."""
        return {"group.instance.id": instance, "heartbeat.interval.ms": 300}

    @contextmanager
    def open_decoding(self, servers, decode, **options):
        """Open a DeserializingConsumer, which polls record by record."""
        options |= {"kind": DeserializingConsumer, "value.deserializer": decode}
        with self.open(servers, **options) as reader:

            def poll(seconds):
                message = reader.guarded.poll(seconds)
                if message is None:
                    return []
                return [(message.partition(), message.offset(), message.value())]

            reader.poll = poll
            yield reader

    def test_a_failed_broker_is_asked_again_with_growing_gaps(
        self, kafka_cluster, kafka_faults
    ):
        """The client asks every half second; once the guard holds it, gaps grow."""
        topic = kafka_cluster.create_topic()
        with self.open(
            kafka_faults.bootstrap_servers,
            assign=[(topic, 0)],
            policy={"backoff": {"base": 0.3, "jitter": "none"}, "max_attempts": 20},
        ) as reader:
            fault = kafka_faults.on("Fetch", topic=topic, partition=0).fail(-1)
            fill(kafka_cluster, topic, 3, partitions=[0])
            reader.read_until(lambda: reader.told(ev.PartitionWaitsEvent))
            kafka_faults.journal.clear()
            reader.read_until(lambda: len(refusals(kafka_faults, topic, 0)) >= 4)
            times = [each.at for each in refusals(kafka_faults, topic, 0)]
            first, second, third = (after - at for at, after in pairwise(times[:4]))
            assert 0.3 <= first < second < third
            fault.remove()
            reader.read_until(lambda: len(reader.read) == 3)

    @PARTITIONS
    @pytest.mark.parametrize("strategy", ["range", "cooperative-sticky"])
    def test_a_look_up_of_the_commit_that_stays_refused_has_growing_gaps(
        self, kafka_cluster, kafka_topic, kafka_faults, strategy
    ):
        """Pauses of the user stay; reading begins at the committed offset.

        The client looks up by itself when it gets an assignment, on a busy machine more
        than once. So only the look-ups after the guard has taken over have gaps.
        """
        fill(kafka_cluster, kafka_topic, 3)
        servers, group = kafka_faults.bootstrap_servers, kafka_topic
        with self.open(servers, group=group, assign=three(kafka_topic)) as reader:
            reader.commit({(kafka_topic, 1): 2}, 20)
        kafka_faults.journal.clear()
        fault = kafka_faults.on("OffsetFetch", client_id="rdkafka").fail(16)
        backoff = {"base": 0.3, "jitter": "none"}
        more = {"partition.assignment.strategy": strategy}
        with self.open(
            servers, group=group, policy={"backoff": backoff}, **more
        ) as reader:
            reader.subscribe(kafka_topic)
            reader.read_until(lambda: reader.told(ev.PartitionWaitsEvent), 30)
            kafka_faults.journal.clear()
            reader.pause(kafka_topic, 0)
            reader.read_until(lambda: len(look_ups(kafka_faults)) >= 3)
            times = [each.at for each in look_ups(kafka_faults)]
            first, second = (after - at for at, after in pairwise(times[:3]))
            assert 0.3 <= first < second
            fault.remove()
            reader.read_until(lambda: len(reader.read) == 4, 30)
            self.read_for(reader, 1.0)
            assert reader.values(0) == []
            assert (reader.values(1), len(reader.values(2))) == ([b"2"], 3)
            reader.resume(kafka_topic, 0)
            reader.read_until(lambda: len(reader.values(0)) == 3)

    @pytest.mark.parametrize("on_offset_reset", ["as_client", "raise"])
    def test_a_reset_before_the_first_record_of_a_new_group_skips_nothing(
        self, kafka_cluster, kafka_topic, kafka_faults, on_offset_reset
    ):
        """It reads from the end; what is fetched and not returned yet is not lost."""
        fill(kafka_cluster, kafka_topic, 5, partitions=[0])
        with self.open(
            kafka_faults.bootstrap_servers,
            group=kafka_topic,
            assign=[(kafka_topic, 0)],
            policy={"on_offset_reset": on_offset_reset},
            **{"auto.offset.reset": "latest"},
        ) as reader:
            reader.read_until(lambda: kafka_faults.requests("Fetch"))
            fill(kafka_cluster, kafka_topic, 10, partitions=[0])
            fetched = len(kafka_faults.requests("Fetch"))
            until(lambda: len(kafka_faults.requests("Fetch")) >= fetched + 3, 30)
            kafka_faults.on("Fetch", topic=kafka_topic).fail(1, times=1)
            until(lambda: refusals(kafka_faults, kafka_topic, 0), 30)
            reader.read_until(lambda: len(reader.read) == 10)
            assert list(range(5, 15)) == [offset for _, offset, _ in reader.read]

    @pytest.mark.parametrize("is_assigned", [False, True])
    def test_a_commit_of_nothing_raises_as_the_client_does_and_is_no_failure(
        self, kafka_cluster, kafka_topic, is_assigned
    ):
        """`_NO_OFFSET` is a notice: the verdict is IGNORE, and there is no event."""
        heard = []
        with self.open(
            kafka_cluster.bootstrap_servers,
            group=kafka_topic,
            assign=[(kafka_topic, 0)] * is_assigned,
            on_commit=lambda error, _: heard.append(error.code()),
        ) as reader:
            with pytest.raises(errors.ClientNoticeError) as caught:
                reader.guarded.commit(asynchronous=False)
            assert caught.value.args[0].code() == confluent_kafka.KafkaError._NO_OFFSET
            assert isinstance(caught.value, confluent_kafka.KafkaException)
            assert caught.value.verdict.action is Action.IGNORE
            reader.guarded.commit(asynchronous=True)
            reader.read_until(lambda: heard or not is_assigned)
            assert reader.events == []


def look_ups(proxy):
    """List the look-ups of committed offsets that were refused."""
    return [each for each in proxy.requests("OffsetFetch") if each.errors]


def test_a_denied_topic_is_raised_though_the_group_has_no_coordinator(kafka_users):
    """The client would say so once it can ask for commits; a probe finds out before."""
    topic = kafka_users.create_topic()
    access = kafka_users.client_config("SASL_PLAIN", client="confluent", user="bob")
    with FaultProxy(access["bootstrap.servers"]) as proxy:
        proxy.on("FindCoordinator").fail(15)
        config = settings(None) | access
        config["bootstrap.servers"] = proxy.bootstrap_servers
        consumer = guard(factory=Consumer, config=config)
        try:
            consumer.assign([TopicPartition(topic, 0)])
            with pytest.raises(errors.TopicAuthorizationFailedError) as caught:
                consumer.poll(30)
        finally:
            consumer.close()
    assert (caught.value.topic, caught.value.partition) == (topic, 0)


def test_an_error_in_a_message_stays_there_and_is_an_event(kafka_cluster):
    """A topic that does not exist is told, and the message is returned as ever."""
    events = []
    config = settings(
        kafka_cluster.bootstrap_servers, **{"allow.auto.create.topics": False}
    )
    consumer = guard(Consumer(config), config=config, on_event=events.append)
    try:
        consumer.subscribe(["no-such-topic"])
        message = None
        for _ in range(50):
            message = consumer.poll(0.5)
            if message is not None:
                break
        assert message.error().code() == 3
        (event,) = events
        assert (
            event.error.code,
            event.topic,
            event.raised,
            event.action,
        ) == (3, "no-such-topic", False, Action.REFRESH)
    finally:
        consumer.close()


def test_listeners_of_the_user_get_the_guarded_consumer(kafka_cluster, kafka_topic):
    """They are called as ever; what they are given is the stand-in."""
    fill(kafka_cluster, kafka_topic, 3, partitions=[0])
    heard = []
    config = settings(kafka_cluster.bootstrap_servers, group=kafka_topic)
    consumer = guard(Consumer(config), config=config)
    try:
        consumer.subscribe(
            [kafka_topic],
            on_assign=lambda who, places: heard.append((who, len(places))),
            on_revoke=lambda who, places: heard.append((who, len(places))),
        )
        read = []
        for _ in range(100):
            message = consumer.poll(0.5)
            if message is not None and message.error() is None:
                read.append(message.value())
            if len(read) == 3:
                break
        assert read == [b"0", b"1", b"2"]
        assert [(consumer, 1)] == heard
    finally:
        consumer.close()
    assert [(consumer, 1), (consumer, 1)] == heard


def test_a_deserializing_consumer_raises_errors_of_both_classes(
    kafka_cluster, kafka_topic
):
    """What its deserializer raises keeps its class and its message."""
    fill(kafka_cluster, kafka_topic, 1, partitions=[0])

    def broken(value, _):
        raise ValueError("no such schema")

    config = settings(kafka_cluster.bootstrap_servers, **{"value.deserializer": broken})
    consumer = guard(DeserializingConsumer(config), config=config)
    try:
        consumer.assign([TopicPartition(kafka_topic, 0)])
        with pytest.raises(errors.KafkaGuardError) as caught:
            consumer.poll(25)
        assert isinstance(caught.value, confluent_kafka.error.ValueDeserializationError)
        assert caught.value.kafka_message.value() == b"0"
    finally:
        consumer.close()


def test_a_deserializing_consumer_raises_what_others_hand_over_and_tells_it(
    kafka_cluster,
):
    """Its client raises the error of a message; it is an event as well, and once."""
    events = []
    config = settings(
        kafka_cluster.bootstrap_servers, **{"allow.auto.create.topics": False}
    )
    consumer = guard(
        factory=DeserializingConsumer, config=config, on_event=events.append
    )
    try:
        consumer.subscribe(["no-such-topic"])
        with pytest.raises(errors.UnknownTopicOrPartitionError) as caught:
            consumer.poll(25)
        assert isinstance(caught.value, confluent_kafka.error.ConsumeError)
        assert consumer.poll(0) is None
    finally:
        consumer.close()
    (event,) = events
    assert (event.error.code, event.topic) == (3, "no-such-topic")


def test_an_error_among_records_loses_none_of_them(kafka_cluster, kafka_topic):
    """`consume` returns what it has; the next call raises."""
    fill(kafka_cluster, kafka_topic, 3, partitions=[0])
    consumer = guard(factory=Consumer, config=settings(kafka_cluster.bootstrap_servers))
    error = errors.TopicAuthorizationFailedError(topic="other")
    try:
        consumer.assign([TopicPartition(kafka_topic, 0)])
        found = consumer.consume(1, 25)
        consumer._shell.fail(None, error)  # as a probe does meanwhile
        with pytest.raises(errors.TopicAuthorizationFailedError):
            consumer.consume(2, 5)
        found += consumer.consume(2, 25)
    finally:
        consumer.close()
    assert [each.value() for each in found] == [b"0", b"1", b"2"]


@pytest.mark.java
def test_a_consumer_may_be_closed_while_another_thread_polls(kafka_cluster):
    """The interpreter lives on, and the thread is told."""
    program = Path(__file__).with_name("close_while_polling_program.py")
    done = subprocess.run(
        [sys.executable, str(program), kafka_cluster.bootstrap_servers],
        capture_output=True,
        text=True,
        timeout=90,
        check=False,
    )
    assert (done.returncode, done.stdout) == (0, "closed 5 times\n"), done.stderr


def test_callbacks_of_the_user_are_chained(kafka_cluster, kafka_topic, kafka_faults):
    """`on_commit` is called as ever, and the guard tells of the same failure."""
    heard, events = [], []
    config = settings(
        kafka_faults.bootstrap_servers,
        group=kafka_topic,
        on_commit=lambda error, places: heard.append((error.code(), len(places))),
    )
    kafka_faults.on("OffsetCommit").fail(22)
    fill(kafka_cluster, kafka_topic, 3, partitions=[0])
    consumer = guard(factory=Consumer, config=config, on_event=events.append)
    try:
        place = TopicPartition(kafka_topic, 0, 3)
        consumer.assign([place])
        consumer.commit(offsets=[place])
        for _ in range(50):
            consumer.poll(0.2)
            if events:
                break
    finally:
        consumer.close()
    assert heard == [(22, 1)]
    (event,) = events
    assert (event.kind, event.error.code) == ("async", 22)


def test_without_settings_it_says_what_is_not_noticed(kafka_cluster, caplog):
    """A consumer keeps its settings to itself: one line says what that costs."""
    consumer = guard(Consumer(settings(kafka_cluster.bootstrap_servers)))
    consumer.close()
    assert caplog.text.count("without config={...} the guard cannot detect") == 1
    assert caplog.text.count("does not compare resets of offsets with the log") == 1


def test_a_consumer_that_the_guard_builds_keeps_nothing_to_itself(
    kafka_cluster, caplog
):
    """No warning is logged for a consumer that guard() has built from a factory."""
    guard(factory=Consumer, config=settings(kafka_cluster.bootstrap_servers)).close()
    assert own_records(caplog) == []


def test_calls_that_the_client_refuses_have_a_verdict(kafka_cluster):
    """Its errors name neither the call nor the partition."""
    with guard(factory=Consumer, config=settings(kafka_cluster.bootstrap_servers)) as k:
        with pytest.raises(errors.KafkaGuardError) as caught:
            k.seek(TopicPartition("t", 3, 0))
        assert isinstance(caught.value, confluent_kafka.KafkaException)
        assert (caught.value.topic, caught.value.partition) == ("t", 3)
        with pytest.raises(errors.KafkaGuardError):
            k.subscribe([])
        with pytest.raises(errors.KafkaGuardError):
            k.incremental_unassign([TopicPartition("t", 3, 0)])
