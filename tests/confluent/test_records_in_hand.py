"""What a call of confluent-kafka has returned is handed out, and nothing else counts.

librdkafka stores the offset of a record when a call returns it. So a record that the
guard would collect and keep, or drop because it raises, may be committed and lost.
"""

from __future__ import annotations

import threading
import time
from contextlib import suppress

import confluent_kafka
import pytest
from confluent_kafka import Consumer, KafkaError, KafkaException, TopicPartition

from kafkaguard import errors, guard
from kafkaguard._consuming import events as ev
from tests.confluent.test_confluent_consumer import settings
from tests.contracts.consumer import fill


class LoginsFail(Consumer):
    """A Consumer that reports refused logins of other connections while it reads."""

    def __init__(self, config):
        self.report = config["error_cb"]
        self.failures = 0
        super().__init__(config)

    def poll(self, *args):
        """Poll; with a record, report a failure as librdkafka would."""
        return self._beside(super().poll(*args))

    def consume(self, *args):
        """Consume; with records, report a failure as librdkafka would."""
        return self._beside(super().consume(*args))

    def _beside(self, found):
        if found and self.failures:
            self.failures -= 1
            self.report(KafkaError(KafkaError._AUTHENTICATION, "refused"))
        return found


def read(consumer, call, count):
    """Read some records; return them, and how many errors were raised meanwhile."""
    found, raised = [], 0
    end = time.monotonic() + 30
    while len(found) < count:
        assert time.monotonic() < end, found
        try:
            each = call(consumer)
        except errors.AuthenticationError:
            raised += 1
        else:
            messages = [each] if isinstance(each, confluent_kafka.Message) else each
            found += messages or ()
    return found, raised


@pytest.mark.parametrize(
    "call",
    [lambda c: c.poll(0.5), lambda c: c.consume(2, 0.5), lambda c: c.consume(3)],
    ids=["poll", "consume", "consume-without-timeout"],
)
def test_a_failure_beside_records_is_raised_by_the_next_call(
    kafka_cluster, kafka_topic, call
):
    """Records come first, also the second time, and no failure is dropped."""
    fill(kafka_cluster, kafka_topic, 12, partitions=[0])
    config = settings(kafka_cluster.bootstrap_servers, group=kafka_topic)
    consumer = guard(factory=LoginsFail, config=config)
    try:
        consumer.assign([TopicPartition(kafka_topic, 0, 0)])
        found = []
        for count in (4, 9):
            consumer.client.failures = 1
            more, raised = read(consumer, call, count - len(found))
            found += more
            if not raised:
                with pytest.raises(errors.AuthenticationError):
                    call(consumer)
        found += read(consumer, call, 12 - len(found))[0]
    finally:
        consumer.close()
    assert [b"%d" % n for n in range(12)] == [each.value() for each in found]


def test_the_end_of_a_partition_is_handed_out_beside_a_failure(
    kafka_cluster, kafka_topic
):
    """A message that says only that the end is reached is not replaced by an error."""
    config = settings(kafka_cluster.bootstrap_servers, **{"enable.partition.eof": True})
    consumer = guard(factory=LoginsFail, config=config)
    try:
        for call in (
            lambda: consumer.poll(20),
            lambda: consumer.consume(1, 20)[0],
        ):
            consumer.assign([TopicPartition(kafka_topic, 0, 0)])
            consumer.client.failures = 1
            assert call().error().code() == KafkaError._PARTITION_EOF
            with pytest.raises(errors.AuthenticationError):
                call()
    finally:
        consumer.close()


def test_consume_stores_no_offset_before_it_returns(kafka_cluster, kafka_topic):
    """A process that dies while it collects has lost nothing."""
    fill(kafka_cluster, kafka_topic, 5, partitions=[0])
    servers, place = kafka_cluster.bootstrap_servers, TopicPartition(kafka_topic, 0)
    config = settings(
        servers,
        group=kafka_topic,
        **{"enable.auto.commit": True, "auto.commit.interval.ms": 50},
    )
    consumer = guard(factory=Consumer, config=config)
    observer = Consumer(settings(servers, group=kafka_topic))
    found = []
    collecting = threading.Thread(
        target=lambda: found.extend(consumer.consume(100, 2.0))
    )
    try:
        consumer.assign([place])
        collecting.start()
        committed = []
        while not found and collecting.is_alive():
            (at,) = observer.committed([place], 10)
            if not found:
                committed.append(at.offset)
            time.sleep(0.05)
        collecting.join(30)
        consumer.poll(0.2)
    finally:
        observer.close()
        consumer.close()
    assert {confluent_kafka.OFFSET_INVALID} == set(committed)
    assert len(found) == 5


def test_a_commit_in_on_revoke_commits_only_what_was_returned(kafka_cluster):
    """Twice: a second member comes while `consume` collects, and goes again."""
    topic = kafka_cluster.create_topic(partitions=2)
    fill(kafka_cluster, topic, 5, partitions=[0, 1])
    config = settings(
        kafka_cluster.bootstrap_servers, group=topic, **{"heartbeat.interval.ms": 200}
    )
    handled, committed, revoked = {0: 0, 1: 0}, [], threading.Event()

    def commit(consumer, _):
        with suppress(errors.KafkaGuardError):  # there is nothing to commit
            committed.extend(
                (each.offset, handled[each.partition])
                for each in consumer.commit(asynchronous=False)
                if each.offset >= 0
            )
        revoked.set()

    def work(messages):
        owned = {each.partition for each in first.assignment()}
        for each in messages:
            assert each.partition() in owned
            handled[each.partition()] = each.offset() + 1

    first, second = (guard(factory=Consumer, config=config) for _ in range(2))
    ending = threading.Event()

    def take_part():
        while not ending.is_set():
            second.poll(0.1)
        second.close()

    joining = threading.Thread(target=take_part)
    try:
        first.subscribe([topic], on_revoke=commit)
        while not first.assignment():
            work(first.consume(1, 0.1))
        second.subscribe([topic])
        joining.start()
        end = time.monotonic() + 30
        while not revoked.is_set() and time.monotonic() < end:
            work(first.consume(1000, 2.0))
        assert revoked.is_set()
        work(first.consume(1000, 1.0))
        revoked.clear()
        ending.set()
        while not revoked.is_set() and time.monotonic() < end:
            work(first.consume(1000, 0.5))
    finally:
        ending.set()
        joining.join(30)
        first.close()
    assert committed
    assert [at for at, _ in committed] == [at for _, at in committed]


def test_consume_waits_for_as_many_records_as_asked_for(kafka_cluster, kafka_topic):
    """Records that come one after the other are one list, as without the guard."""
    config = settings(kafka_cluster.bootstrap_servers)
    consumer = guard(factory=Consumer, config=config)
    writing = threading.Thread(
        target=lambda: [
            fill(kafka_cluster, kafka_topic, 1, partitions=[0]) for _ in range(3)
        ]
    )
    try:
        consumer.assign([TopicPartition(kafka_topic, 0, 0)])
        writing.start()
        assert len(consumer.consume(3, 30)) == 3
        assert consumer.consume(0) == []
    finally:
        writing.join(30)
        consumer.close()


@pytest.mark.parametrize("call", [lambda c: c.poll(1), lambda c: c.consume(9, 1)])
def test_an_error_that_the_client_hides_in_a_system_error_keeps_its_code(
    kafka_cluster, call
):
    """As after assign() and subscribe(), if a line of the log is read after the error."""

    def hide(*_):
        try:
            raise KafkaException(KafkaError(KafkaError._CONFLICT, "is assigned"))
        except KafkaException as error:
            raise SystemError("returned a result with an exception set") from error

    kind = type("Hiding", (Consumer,), {"poll": hide, "consume": hide})
    config = settings(kafka_cluster.bootstrap_servers)
    with guard(factory=kind, config=config) as consumer:
        for _ in range(2):
            with pytest.raises(errors.ClientStateError) as caught:
                call(consumer)
            assert caught.value.code == KafkaError._CONFLICT
            assert isinstance(caught.value, KafkaException)


def test_an_error_during_which_the_client_logs_keeps_its_code(kafka_cluster):
    """assign(), then subscribe(): the client logs while its own error is set."""
    topic = kafka_cluster.create_topic(partitions=3)
    fill(kafka_cluster, topic, 3, partitions=[0, 1, 2])
    config = settings(kafka_cluster.bootstrap_servers)
    config["partition.assignment.strategy"] = "cooperative-sticky"
    with guard(factory=Consumer, config=config) as consumer:
        consumer.assign([TopicPartition(topic, n) for n in range(3)])
        assert consumer.consume(1, 10)
        consumer.subscribe([topic])
        with pytest.raises(errors.ClientStateError) as caught:
            consumer.consume(9, 20)
        assert caught.value.code == KafkaError._CONFLICT
        assert isinstance(caught.value, KafkaException)


def test_a_pause_outlasts_an_assignment_without_the_partition_that_waits(
    kafka_cluster, kafka_faults
):
    """The guard resumes nothing that the application has paused, and then it does."""
    topic = kafka_cluster.create_topic(partitions=2)
    fill(kafka_cluster, topic, 3, partitions=[0, 1])
    both = [TopicPartition(topic, n, 0) for n in (0, 1)]
    events, found = [], []
    config = settings(kafka_faults.bootstrap_servers)
    consumer = guard(factory=Consumer, config=config, on_event=events.append)

    def waits(kind, count):
        end = time.monotonic() + 20
        while sum(isinstance(each, kind) for each in events) < count:
            assert time.monotonic() < end, events
            found.extend(consumer.consume(9, 0.2))

    try:
        consumer.assign(both)
        with kafka_faults.on("Fetch", topic=topic, partition=0).fail(6):
            waits(ev.PartitionWaitsEvent, 1)
            consumer.pause(both[:1])
            consumer.assign(both[1:])
            consumer.poll(0.1)
            consumer.assign(both)
            consumer.poll(0.1)
        for _ in range(5):
            found.extend(consumer.consume(9, 0.3))
        assert {1} == {each.partition() for each in found}
        consumer.resume(both[:1])
        while len({each.partition() for each in found}) < 2:
            found.extend(consumer.consume(9, 5))
    finally:
        consumer.close()
