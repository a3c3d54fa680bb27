"""A record that may be in the topic is never told as not written."""

from __future__ import annotations

import time
from contextlib import suppress

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient

from kafkaguard import Action, TopicFacts, guard
from kafkaguard._retries.events import RecreateEvent, RejectEvent
from kafkaguard.errors import DeliveryFailed
from tests.contracts.producer import COMPACTED, read, until

#: Ways in which a batch is written, and its client does not know it.
LOST = {
    "no replicas": lambda rule: rule.fail(20, times=1, written=True),
    "too late": lambda rule: rule.fail(7, times=1, written=True),
    "connection": lambda rule: rule.close(times=1, written=True),
}
#: Answers to a batch that is sent again: the broker checks these things first.
REFUSALS = (87, 29, 10, 18, 32)


@pytest.fixture
def told():
    """What the delivery callbacks were told: value, error and offset."""
    return []


@pytest.fixture
def make(kafka_faults):
    """Build guarded producers that reach the broker through the proxy."""
    built = []

    def build(*, policy="default", topics=None, on_event=None, **settings):
        config = {
            "bootstrap.servers": kafka_faults.bootstrap_servers,
            "enable.idempotence": True,
            "linger.ms": 0,
            "log_level": 0,
            **settings,
        }
        options = {"policy": policy, "topics": topics, "on_event": on_event}
        built.append(guard(factory=Producer, config=config, **options))
        return built[-1]

    yield build
    for producer in built:
        with suppress(DeliveryFailed):
            producer.close(1)


def hear(told):
    """Return a delivery callback."""
    return lambda error, message: told.append((message.value(), error))


def outcome(producer, told, count=1):
    """Poll until callbacks were called; return the last error."""
    until(lambda: producer.poll(0.05) is not None and len(told) >= count, 30)
    return told[-1][1]


def warm_up(producer, topic):
    """Let the client get a producer id and learn the topic."""
    producer.produce(topic, b"warm", b"k")
    assert producer.flush(30) == 0


@pytest.mark.filterwarnings("ignore::kafkaguard.errors.StackingWarning")
@pytest.mark.parametrize("idempotent", [True, False])
@pytest.mark.parametrize(
    ("how", "code"),
    [*((how, 87) for how in LOST), *(("too late", code) for code in REFUSALS[1:])],
)
def test_a_record_whose_first_answer_was_lost_is_in_doubt_after_a_refusal(
    make, kafka_cluster, kafka_topic, kafka_faults, told, how, code, idempotent
):
    """It is in the topic once, and the guard does not send its batch again."""
    producer = make(
        **{"enable.idempotence": idempotent, "linger.ms": 100, "retries": 5},
        topics={kafka_topic: TopicFacts(compacted=False)},
    )
    warm_up(producer, kafka_topic)
    lost = LOST[how](kafka_faults.on("Produce", nth=1))
    with lost, kafka_faults.on("Produce", nth=2).fail(code):
        for key in (b"a", None):
            producer.produce(kafka_topic, b"v", key, on_delivery=hear(told))
        outcome(producer, told, 2)
    for _, error in told:
        assert error.code() == code
        assert error.verdict.action is Action.IN_DOUBT
        assert error.verdict.written == "maybe"
    there = read(kafka_cluster, kafka_topic)
    assert there == [(b"k", b"warm"), (b"a", b"v"), (None, b"v")]


@pytest.mark.filterwarnings("ignore::kafkaguard.errors.StackingWarning")
@pytest.mark.parametrize("idempotent", [True, False])
def test_a_record_that_is_refused_at_its_first_try_after_a_long_way_is_rejected(
    make, kafka_cluster, kafka_topic, kafka_faults, told, idempotent
):
    """However long the network takes, its letter is written."""
    topic = kafka_cluster.create_topic(config=COMPACTED)
    producer = make(
        **{"enable.idempotence": idempotent},
        policy={"on_reject": "dead_letter", "dead_letter": {"topic": kafka_topic}},
        topics={topic: TopicFacts(compacted=False)},
    )
    with kafka_faults.on("Produce").delay(0.2):
        warm_up(producer, topic)
        producer.produce(topic, b"v", on_delivery=hear(told))
        assert producer.flush(30) == 0
        report = producer.report()
    assert (report.delivered, report.dead_lettered, report.in_doubt) == (1, 1, 0)
    assert told[0][1].verdict.written == "no"
    assert read(kafka_cluster, kafka_topic) == [(None, b"v")]


def end_by_purge(producer, admin, topic):
    """Purge what waits in the queue for its next attempt."""
    producer.purge()


def end_by_deletion(producer, admin, topic):
    """Delete the topic, so that the client drops its partition."""
    admin.delete_topics([topic])[topic].result(10)


def end_by_time(producer, admin, topic):
    """Wait until the client gives the record up."""


@pytest.mark.parametrize("end", [end_by_purge, end_by_deletion, end_by_time])
def test_a_record_whose_answer_was_lost_is_in_doubt_however_it_ends(
    make, kafka_cluster, kafka_topic, kafka_faults, told, end
):
    """Its client calls some of these records "purged in queue"."""
    producer = make(
        **{
            "delivery.timeout.ms": 4000,
            "request.timeout.ms": 2000,
            "retry.backoff.ms": 500,
            "topic.metadata.propagation.max.ms": 200,
            "topic.metadata.refresh.interval.ms": 500,
        }
    )
    warm_up(producer, kafka_topic)
    admin = AdminClient({"bootstrap.servers": kafka_cluster.bootstrap_servers})
    with kafka_faults.on("Produce").close(written=True) as fault:
        producer.produce(kafka_topic, b"v", b"k", on_delivery=hear(told))
        until(lambda: producer.poll(0.01) is not None and fault.fired, 10)
        producer.poll(0.1)
        end(producer, admin, kafka_topic)
        error = outcome(producer, told)
    assert error.verdict.written == "maybe"
    assert error.verdict.action is Action.IN_DOUBT
    if end is end_by_purge:
        assert (b"k", b"v") in read(kafka_cluster, kafka_topic)


def test_closing_leaves_a_record_in_doubt_whose_answer_was_lost(
    make, kafka_topic, kafka_faults
):
    """It is not told as "not sent"."""
    producer = make()
    warm_up(producer, kafka_topic)
    with kafka_faults.on("Produce").close(written=True) as fault:
        producer.produce(kafka_topic, b"v", b"k")
        until(lambda: producer.poll(0.01) is not None and fault.fired, 10)
        with pytest.raises(DeliveryFailed) as caught:
            producer.close(0.5)
    assert caught.value.report.in_doubt == 1


@pytest.mark.parametrize("partition", [-1, 0])
def test_a_purged_record_that_no_broker_was_reached_for_was_not_written(
    make, told, partition
):
    """Also if the application has chosen its partition."""
    servers = {"bootstrap.servers": "127.0.0.1:1"}
    topics = {"t": TopicFacts(compacted=False)}
    producer = make(**servers, topics=topics)
    producer.produce("t", b"v", b"k", partition=partition, on_delivery=hear(told))
    producer.poll(0.3)
    producer.purge()
    error = outcome(producer, told)
    assert error.verdict.written == "no"


def test_a_record_that_no_broker_was_reached_for_has_the_last_connection_error(
    make, told
):
    """The address may be wrong; the client logs it, and says only that time is over."""
    producer = make(
        **{"bootstrap.servers": "127.0.0.1:1", "delivery.timeout.ms": 2_000},
        **{"request.timeout.ms": 500},
        topics={"t": TopicFacts(compacted=False)},
        policy={"max_attempts": 1, "deadline": 10},
    )
    producer.produce("t", b"v", b"k", on_delivery=hear(told))
    error = outcome(producer, told)
    assert "127.0.0.1:1 failed: Connection refused" in str(error)
    assert (error.verdict.action, error.verdict.written) == (Action.RETRY, "no")


@pytest.mark.parametrize("ends", ["flush", "close"])
def test_a_record_for_a_topic_that_does_not_exist_says_so(make, told, ends):
    """CONFIGURE; librdkafka waits for the topic, and then says 3, or drops it."""
    wait = 300 if ends == "flush" else 60_000
    producer = make(**{"topic.metadata.propagation.max.ms": wait})
    producer.produce("no-such-topic", b"v", b"k", on_delivery=hear(told))
    if ends == "close":
        with suppress(DeliveryFailed):
            producer.close(1)
    else:
        producer.flush(30)
    ((_, error),) = told
    assert (error.code(), error.verdict.action) == (3, Action.CONFIGURE)
    assert "the topic does not exist; nothing was sent" in str(error)
    assert "create it" in str(error)


def test_a_purge_is_the_applications_own_word(make, kafka_cluster, kafka_topic, told):
    """No dead letter is written, and no event says that a record was refused."""
    letters, events = kafka_cluster.create_topic(), []
    producer = make(
        policy={"on_reject": "dead_letter", "dead_letter": {"topic": letters}},
        on_event=events.append,
        **{"linger.ms": 60_000},
    )
    producer.list_topics(kafka_topic, timeout=30)
    producer.produce(kafka_topic, b"v", b"k", on_delivery=hear(told))
    producer.purge()
    error = outcome(producer, told)
    assert error.verdict.written == "no"
    assert producer.flush(30) == 0
    assert producer.report().dead_lettered == 0
    assert not [each for each in events if isinstance(each, RejectEvent)]
    assert read(kafka_cluster, letters) == []


@pytest.mark.parametrize("code", [19, 6])
def test_a_record_that_is_missing_is_not_told_as_delivered(
    make, kafka_cluster, kafka_topic, kafka_faults, told, code
):
    """The first batch of a partition is refused, and the next, in flight, accepted."""
    producer = make(**{"batch.num.messages": 1})
    producer.list_topics(kafka_topic, timeout=30)
    warm_up(producer, kafka_cluster.create_topic())  # the client gets its id
    first = kafka_faults.on("Produce", topic=kafka_topic, nth=1)
    with first.fail(code), first.delay(0.3):
        for n in range(3):
            producer.produce(kafka_topic, b"%d" % n, b"k", on_delivery=hear(told))
        outcome(producer, told, 3)
    there = {value for _, value in read(kafka_cluster, kafka_topic)}
    assert {value for value, error in told if error is None} <= there
    for value, error in told:
        assert error is None or error.verdict.action is Action.IN_DOUBT, value


@pytest.mark.parametrize("code", ["hidden", 53, 35, 42, 76, -1])
def test_a_producer_that_gets_no_id_says_so(
    make, kafka_topic, kafka_cluster, kafka_faults, told, code
):
    """Good records are no dead letters, and the guard builds no producer after another.

    The client asks for an id until the record's time is over, or dies at once.
    """
    letters, events = kafka_cluster.create_topic(), []
    rule = kafka_faults.on("InitProducerId")
    with rule.hide() if code == "hidden" else rule.fail(code):
        producer = make(
            policy={"on_reject": "dead_letter", "dead_letter": {"topic": letters}},
            on_event=events.append,
            **{"delivery.timeout.ms": 2000, "request.timeout.ms": 1000},
        )
        producer.produce(kafka_topic, b"v", b"k", on_delivery=hear(told))
        error = outcome(producer, told)
        assert error.verdict.action is Action.CONFIGURE
        assert error.verdict.written == "no"
        assert "enable.idempotence" in str(error)
        assert (code == "hidden") or error.code() == code
        if code in ("hidden", 53):
            with pytest.raises(type(error.error)) as caught:
                producer.produce(kafka_topic, b"v", b"k")
            assert caught.value.verdict.action is Action.CONFIGURE
        assert producer.report().dead_lettered == 0
    assert not [each for each in events if isinstance(each, RecreateEvent)]


def test_lines_of_the_clients_log_are_no_events_of_a_poll(make, kafka_topic, told):
    """A poll goes on until a record is reported, and nothing else is pending."""
    producer = make()
    time.sleep(0.1)  # the client logs that it looks for a producer id
    assert len(producer) == 0
    producer.produce(kafka_topic, b"v", b"k", on_delivery=hear(told))
    assert producer.poll(30) == 1
    assert len(told) == 1
    assert producer.poll(0.1) == 0
